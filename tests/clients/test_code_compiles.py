"""The code that `udogen register` prints, compiled with stand-ins for the clients' own classes.

The stand-ins follow the documents and headers that `Client.source` names, as far as the code uses them.
They check names, numbers and types of arguments against those sources, and show that no path breaks a literal.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.laying import AWKWARD, AWKWARD_FOLDER, lay
from udogen import resources
from udogen.clients import programs
from udogen.clients.client import register
from udogen.clients.package import PackageOptions, find_packages

DEVICE = PackageOptions("v75", "android")
TFLITE = """
    struct TfLiteDelegate;
    struct TfLiteQnnDelegateOpPackageOpMap { const char* custom_op_name; const char* qnn_op_type_name; };
    struct TfLiteQnnDelegateOpPackageInfo {
      const char* op_package_name; const char* op_package_path; const char* interface_provider; const char* target;
      int num_ops_map; TfLiteQnnDelegateOpPackageOpMap* ops_map;
    };
    enum TfLiteQnnDelegateBackendType { kUndefinedBackend, kGpuBackend, kHtpBackend, kDspBackend };
    struct TfLiteQnnDelegateOptions {
      TfLiteQnnDelegateBackendType backend_type;
      struct { int num_op_package_infos; TfLiteQnnDelegateOpPackageInfo* op_package_infos; } op_package_options;
    };
    TfLiteQnnDelegateOptions TfLiteQnnDelegateOptionsDefault();
    TfLiteDelegate* TfLiteQnnDelegateCreate(const TfLiteQnnDelegateOptions*);
    TfLiteDelegate* made() { %s return delegate; }
"""
LITERT = """
    #include <string>
    namespace litert::qualcomm {
      struct QualcommOptions {
        struct CustomOpPackage {
          std::string name, interface_provider, compile_package_path, dispatch_package_path, target;
        };
        void SetCustomOpPackage(const CustomOpPackage&);
      };
    }
    void made(litert::qualcomm::QualcommOptions& options) { %s }
"""
ORT = """
    #include <string>
    #include <unordered_map>
    #include <vector>
    namespace Ort {
      struct Env {};
      struct ConstEpDevice {};
      struct SessionOptions {
        SessionOptions& AddConfigEntry(const char*, const char*);
        SessionOptions& AppendExecutionProvider_V2(
            Env&, const std::vector<ConstEpDevice>&, const std::unordered_map<std::string, std::string>&);
      };
    }
    void made(Ort::Env& env, Ort::ConstEpDevice device) { %s }
"""
# The SDK has a name for the function's type; udogen's headers declare it in the table itself.
CPP = """
    #include <QnnInterface.h>
    using QnnBackend_RegisterOpPackageFn_t = decltype(QnnInterface_ImplementationV2_t::backendRegisterOpPackage);
    %s
"""
JAVA = {
    "Context": "class Context { ApplicationInfo getApplicationInfo() { return null; } }",
    "Application": "class Application extends Context {}",
    "ApplicationInfo": "class ApplicationInfo { String nativeLibraryDir; }",
    "SNPE": "class SNPE { static boolean addOpPackage(final Application application, String path) { return true; } }",
    "QnnDelegate": """
        import java.util.HashMap;
        class QnnDelegate {
          QnnDelegate(Options options) {}
          static final class OpPackageInfo {
            OpPackageInfo(String name, String path, String provider, String target, HashMap<String, String> ops) {}
          }
          static final class Options {
            enum BackendType { HTP_BACKEND }
            void setBackendType(BackendType type) {}
            void setSkelLibraryDir(String folder) {}
            void setOpPackageOptions(OpPackageInfo[] infos) {}
          }
        }
    """,
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return both layouts, in a folder whose name has a quote, a blank and a backslash."""
    base = tmp_path_factory.mktemp("packages")
    udo = lay(AWKWARD, base / f"{AWKWARD_FOLDER} udo", layout="snpe", chosen=("cpu", "htp"))
    return {"qnn": lay(AWKWARD, base / AWKWARD_FOLDER), "snpe": udo}


def code(client: str, folder: Path, options: PackageOptions, *, only: str) -> str:
    setup = register(programs.ALL[client], find_packages([folder], options), only=only)
    return setup.as_text(only=True)


@pytest.mark.parametrize(
    ("client", "around", "layout", "options"),
    [
        ("tflite", TFLITE, "qnn", PackageOptions()),
        ("tflite", TFLITE, "qnn", DEVICE),
        ("litert", LITERT, "qnn", PackageOptions()),
        ("litert", LITERT, "qnn", DEVICE),
        ("ort", ORT, "qnn", PackageOptions()),
        ("ort", ORT, "qnn", DEVICE),
        ("cpp", CPP, "qnn", PackageOptions()),
        ("cpp", CPP, "qnn", DEVICE),
        ("cpp", "%s", "snpe", PackageOptions("cpu")),
        ("snpe-net-run", "%s", "snpe", PackageOptions("cpu")),
    ],
)
def test_a_compiler_takes_it(
    packages: dict[str, Path], client: str, around: str, layout: str, options: PackageOptions, tmp_path: Path
) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    (tmp_path / "SNPE").mkdir()
    (tmp_path / "SNPE" / "SNPEFactory.hpp").write_text(
        "namespace zdl::SNPE { struct SNPEFactory { static bool addOpPackage(const char*); }; }\n"
    )
    (tmp_path / "SNPE" / "SNPEUtil.h").write_text("int Snpe_Util_AddOpPackage(const char*);\n")
    (tmp_path / "DlSystem").mkdir()
    (tmp_path / "DlSystem" / "DlError.h").write_text("enum { SNPE_SUCCESS = 0 };\n")
    language, standard = ("c", "c99") if client == "snpe-net-run" else ("cpp", "c++17")
    text = code(client, packages[layout], options, only=language)
    source = tmp_path / f"x.{language}"
    source.write_text(around.replace("%s", f"\n{text}\n"), "utf-8")
    argv = ["g++" if language == "cpp" else "gcc", f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    argv += [f"-I{tmp_path}", f"-I{resources.qnn_headers()}", source]
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("layout", ["qnn", "snpe"])
def test_javac_takes_it(packages: dict[str, Path], layout: str, tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("javac is not installed: apt-get install default-jdk-headless")
    for name, text in JAVA.items():
        (tmp_path / f"{name}.java").write_text(text)
    body = code("java", packages[layout], DEVICE, only="java")
    (tmp_path / "Made.java").write_text(
        "import java.util.HashMap;\n"
        f"class Made {{\nvoid make(Context context, Application application) {{\n{body}\n}}\n}}\n"
    )
    argv = ["javac", "-Xlint:all", "-d", tmp_path / "classes", *tmp_path.glob("*.java")]
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
