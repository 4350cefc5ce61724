"""CMake for packages: configured and built on Linux, where the result runs; for Windows as far as Linux can test it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import succeeds, udogen
from tests.making import ONE_KERNEL, ONE_OP, ROOT, make_well, need_runtime
from udogen.build import tools
from udogen.runtime.built import find_built

SOFTMAX = ROOT / "examples" / "softmax"
EXPORTED = ("InterfaceProvider", "Executions", "Counted", "Refusal")  # the exports of a package, after its name
REG_FUNCTIONS = {
    "SnpeUdo_initRegLibrary",
    "SnpeUdo_terminateRegLibrary",
    "SnpeUdo_getVersion",
    "SnpeUdo_getRegLibraryVersion",
    "SnpeUdo_getRegInfo",
    "SnpeUdo_validateOperation",
}


@pytest.fixture(autouse=True)
def _with_cmake() -> None:
    if not shutil.which("cmake"):
        pytest.skip("cmake is not installed")


def cmake(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run CMake in a package's folder, without the SDKs of this machine."""
    env = {**os.environ, **dict.fromkeys(("QNN_SDK_ROOT", "SNPE_ROOT", "SNPE_UDO_ROOT"), ""), **variables}
    return subprocess.run(["cmake", *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=900)


def build(folder: Path, **variables: str) -> None:
    """Build like a user."""
    for step in (["--preset", "linux"], ["--build", "--preset", "linux"]):
        done = cmake(folder, *step, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning" not in (done.stdout + done.stderr).lower()


def exports(library: Path) -> set[str]:
    """Return the exported C symbols; g++ exports instances of the C++ library regardless of visibility."""
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True)
    return {name for line in done.stdout.splitlines() if not (name := line.split()[-1]).startswith("_Z")}


def generate(out: Path, config: Path, *options: object) -> None:
    succeeds("generate", config, "--gen_cmakelists", "-o", out, *options)


# --- Linux --------------------------------------------------------------------------------------------------


def test_a_package_of_the_layout_qnn_is_built_and_runs(tmp_path: Path) -> None:
    need_runtime("cpu")
    out = tmp_path / "with a blank"
    generate(out, ONE_OP, "--kernels", ONE_KERNEL)
    folder = out / "LeakyReluPackage"
    build(folder)
    library = find_built(folder).library
    assert exports(library) == {f"LeakyReluPackage{name}" for name in EXPORTED}
    np.save(tmp_path / "x.npy", np.array([[-1.0, 2.0]], np.float32))
    given = (
        "--input",
        f"input={tmp_path / 'x.npy'}",
        "--param",
        "alpha=0.5",
        "--output",
        f"output={tmp_path / 'y.npy'}",
    )
    succeeds("run", "op", folder, "LeakyRelu", *given)
    assert np.load(tmp_path / "y.npy").tolist() == [[-0.5, 2.0]]


def test_a_package_of_the_layout_snpe_is_built_and_runs(tmp_path: Path) -> None:
    need_runtime("cpu")
    generate(tmp_path, SOFTMAX / "Softmax_Htp.json", "--kernels", SOFTMAX / "kernels" / "last_axis")
    folder = tmp_path / "SoftmaxUdoPackage"
    build(folder)
    made = folder / "libs" / "x86-64_linux_clang"
    assert exports(made / "libUdoSoftmaxUdoPackageReg.so") == REG_FUNCTIONS
    assert exports(made / "libUdoSoftmaxUdoPackageImplCpu.so") == {f"SoftmaxUdoPackage{name}" for name in EXPORTED}
    assert b"libUdoSoftmaxUdoPackageImplCpu.so\0" in (made / "libUdoSoftmaxUdoPackageReg.so").read_bytes()
    np.save(tmp_path / "x.npy", np.zeros((1, 4), np.float32))
    given = ("--input", f"Placeholder={tmp_path / 'x.npy'}", "--output", f"Output={tmp_path / 'y.npy'}")
    succeeds("run", "op", folder, "Softmax", *given)
    assert np.allclose(np.load(tmp_path / "y.npy"), 0.25)


def test_what_make_builds_lies_at_the_same_place(tmp_path: Path) -> None:
    generate(tmp_path, ONE_OP)
    folder = tmp_path / "LeakyReluPackage"
    build(folder)
    by_cmake = sorted(folder.glob("libs/**/*.so"))
    make_well(folder, "cpu_x86")
    assert sorted(folder.glob("libs/**/*.so")) == by_cmake


def test_user_cmake_is_read_last(tmp_path: Path) -> None:
    generate(tmp_path, ONE_OP)
    folder = tmp_path / "LeakyReluPackage"
    (folder / "user.cmake").write_text("target_sources(LeakyReluPackage PRIVATE more.cpp)\n")
    (folder / "more.cpp").write_text('extern "C" __attribute__((visibility("default"))) int more() { return 1; }\n')
    build(folder)
    assert "more" in exports(find_built(folder).library)


def test_the_sdks_own_headers_are_taken_where_they_are(tmp_path: Path) -> None:
    generate(tmp_path, ONE_OP)
    folder = tmp_path / "LeakyReluPackage"
    header = tmp_path / "sdk" / "include" / "QNN" / "QnnOpPackage.h"
    header.parent.mkdir(parents=True)
    header.write_text("#error the header of the SDK\n")
    assert cmake(folder, "--preset", "linux", QNN_SDK_ROOT=str(tmp_path / "sdk")).returncode == 0
    done = cmake(folder, "--build", "--preset", "linux")
    assert done.returncode != 0 and "the header of the SDK" in done.stdout + done.stderr


# --- generating ---------------------------------------------------------------------------------------------


def test_who_had_it_once_keeps_it(tmp_path: Path) -> None:
    assert udogen("generate", ONE_OP, "-o", tmp_path).returncode == 0
    lists = tmp_path / "LeakyReluPackage" / "CMakeLists.txt"
    assert not lists.exists()
    generate(tmp_path, ONE_OP)
    assert udogen("generate", ONE_OP, "-o", tmp_path).returncode == 0
    assert lists.exists()
    assert udogen("generate", ONE_OP, "-f", "-o", tmp_path).returncode == 0
    assert not lists.exists(), "begun anew"


def test_what_cmake_does_not_build_is_reported(tmp_path: Path) -> None:
    done = succeeds(
        "generate", ROOT / "examples/leaky_relu/LeakyRelu.xml", "--backend", "htp", "--cmake", "-o", tmp_path
    )
    assert "--gen_cmakelists changes nothing in" in done.stderr
    assert not list(tmp_path.glob("*/CMakeLists.txt"))


def test_the_presets_are_those_of_the_documentation(tmp_path: Path) -> None:
    generate(tmp_path, ONE_OP)
    found = json.loads((tmp_path / "LeakyReluPackage" / "CMakePresets.json").read_text("utf-8"))
    needed = found["cmakeMinimumRequired"]
    assert (needed["major"], needed["minor"]) == (3, 21)
    presets = {each["name"]: each for each in found["configurePresets"]}
    assert presets["windows"]["toolset"] == "v143"
    assert (presets["windows-x64"]["architecture"], presets["windows-arm64"]["architecture"]) == ("x64", "ARM64")
    assert {each["name"] for each in found["buildPresets"]} == set(presets) - {"windows"}


# --- Windows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [ONE_OP, SOFTMAX / "Softmax_Htp.json"], ids=["qnn", "snpe"])
def test_windows_libraries_by_zig(config: Path, tmp_path: Path) -> None:
    """Not MSVC, but Windows nevertheless: its headers, its exports, its names of libraries."""
    if not tools.zig():
        pytest.skip("zig is not installed")
    generate(tmp_path, config)
    [folder] = [each.parent for each in tmp_path.glob("*/CMakeLists.txt")]
    compiler = tmp_path / "cxx"
    compiler.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang c++ -target x86_64-windows-gnu "$@"\n')
    compiler.chmod(0o755)
    options = {
        "CMAKE_SYSTEM_NAME": "Windows",
        "CMAKE_SYSTEM_PROCESSOR": "x86_64",
        "CMAKE_CXX_COMPILER": str(compiler),
        "CMAKE_RC_COMPILER": "/bin/true",
    }
    made = folder / "obj" / "windows"
    done = cmake(folder, "-S", ".", "-B", str(made), *(f"-D{name}={value}" for name, value in options.items()))
    assert done.returncode == 0, done.stderr
    done = cmake(folder, "--build", str(made))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout + done.stderr
    libraries = {each.name: each.read_bytes() for each in folder.glob("libs/x86_64-windows-gnu/*.dll")}
    package = folder.name
    if "xml" in config.name:
        assert list(libraries) == [f"{package}.dll"]
        assert f"{package}InterfaceProvider\0".encode() in libraries[f"{package}.dll"]
        return
    assert set(libraries) == {f"Udo{package}ImplCpu.dll", f"Udo{package}Reg.dll"}
    reg = libraries[f"Udo{package}Reg.dll"]
    assert f"Udo{package}ImplCpu.dll\0".encode() in reg
    assert all(f"{name}\0".encode() in reg for name in REG_FUNCTIONS)
