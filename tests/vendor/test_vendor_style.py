"""Kernels in the style of Qualcomm's generators: recognized by their text, kept on regeneration, and run.

With UDOGEN_TEST_GENUINE, a private folder with third-party sources and a program `table.py` that runs them, the table
in docs/vendor-sources.md must equal the output of that program.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.making import ROOT, compiler, cpu_package, gpu_package, htp_package, make, make_packages
from udogen import UsageError
from udogen.backends import vendor

EXAMPLE = ROOT / "examples" / "vendor_style"
CONFIG = EXAMPLE / "ScaleClamp.xml"

# The part of a kernel that a page of documentation prints: only the functions.
BLOCK = """Qnn_ErrorHandle_t execute(CustomOp* operation) {
  const float* in = (const float*)operation->getInput(0)->data;
  float* out = (float*)operation->getOutput(0)->data;
  for (uint32_t i = 0; i < numTensorSize(operation->getInput(0)); i++) {
    out[i] = in[i] + (float)operation->getParam("limit")->scalarParam;
  }
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t finalize(const CustomOp* operation) {
  QNN_CUSTOM_BE_ENSURE_EQ(operation->numInput(), 2, QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE)
  return QNN_SUCCESS;
}

Qnn_ErrorHandle_t free(CustomOp& operation) {
    return QNN_SUCCESS;
}
"""


def kernels_of(folder: Path, text: str) -> Path:
    """Write a kernel; returns its folder."""
    folder.mkdir()
    (folder / "ScaleClamp.cpp").write_text(text)
    return folder


def test_the_style_is_known_by_the_text() -> None:
    for backend in vendor.BACKENDS:
        own = (EXAMPLE / "kernels" / backend / "ScaleClamp.cpp").read_bytes()
        assert vendor.style(backend, own) == "vendor"
        assert not vendor.style(backend, (EXAMPLE / "kernels" / "args" / "ScaleClamp.cpp").read_bytes())
        assert not vendor.style(backend, b"// REGISTER_OP(X, f) QnnGpu_Kernel_t\n/* UdoDspShared */ int x;")
    assert not vendor.style("htp", b"int x;\n" * 50_000), "in time that grows with the size, not with its square"


def test_generating_again_keeps_the_style(tmp_path: Path) -> None:
    first = udogen("generate", CONFIG, "--backend", "cpu", "--kernels", EXAMPLE / "kernels", "-o", tmp_path)
    assert "kernels for cpu in the style of Qualcomm's generators: ScaleClamp" in first.stderr
    again = json.loads(udogen("generate", CONFIG, "--backend", "cpu", "-o", tmp_path, "--json").stdout)
    [package] = again["packages"]
    assert package["vendor_style"] == {"cpu": ["ScaleClamp"]}
    assert {file["action"] for file in package["files"]} == {"unchanged", "kept"}
    folder = tmp_path / "ScaleClampPackage"
    assert (folder / "include" / "CustomOpPackage.hpp").exists()
    shutil.copyfile(EXAMPLE / "kernels" / "args" / "ScaleClamp.cpp", folder / "src" / "ops" / "ScaleClamp.cpp")
    assert udogen("generate", CONFIG, "--backend", "cpu", "-o", tmp_path).returncode == 0
    assert not (folder / "include" / "CustomOpPackage.hpp").exists(), "a kernel that was ported needs nothing of it"


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_a_kernel_in_another_style_replaces_an_edited_one(tmp_path: Path, backend: str) -> None:
    call = ("generate", CONFIG, "--backend", backend, "-o", tmp_path, "--kernels")
    assert udogen(*call, EXAMPLE / "kernels").returncode == 0
    [kernel] = tmp_path.rglob("src/ops/ScaleClamp.cpp")
    old = kernel.with_name("ScaleClamp.cpp.udogen-old")
    edited = kernel.read_bytes() + b"// edited\n"
    kernel.write_bytes(edited)
    for number in range(2):  # the second time nothing is replaced
        done = udogen(*call, EXAMPLE / "kernels" / "args")
        assert ("has another style; your old one is src/ops/ScaleClamp.cpp.udogen-old" in done.stdout) == (number == 0)
    assert kernel.read_bytes() == (EXAMPLE / "kernels" / "args" / "ScaleClamp.cpp").read_bytes()
    assert old.read_bytes() == edited
    built = make(kernel.parents[2], f"{backend}_x86")
    assert built.returncode == 0, built.stderr


def test_kernels_copied_into_a_package_need_only_another_generation(tmp_path: Path) -> None:
    """Like SNPE's tutorial, which copies its sample kernels: make prints the reason, regenerating adapts to them."""
    call = ("generate", CONFIG, "--layout", "snpe", "--backend", "cpu", "--backend", "htp", "-o", tmp_path)
    assert udogen(*call).returncode == 0
    [cpu] = tmp_path.rglob("jni/src/CPU/src/ops/ScaleClamp.cpp")
    [htp] = tmp_path.rglob("jni/src/DSP_V68/src/ops/ScaleClamp.cpp")
    shutil.copyfile(EXAMPLE / "kernels/cpu/ScaleClamp.cpp", cpu)
    package = cpu.parents[5]
    refused = make(package, "cpu_x86")
    assert "ScaleClamp.cpp:1: error: this kernel is in the style of Qualcomm's generators" in refused.stdout
    htp.write_text("BEGIN_PKG_OP_DEFINITION(PKG_ScaleClamp)\n")
    again = udogen(*call)
    assert again.returncode == 0, again.stderr
    assert "kernels for cpu in the style" in again.stderr and "(--htp-api core)" in again.stderr
    built = make(package, "cpu_x86")
    assert built.returncode == 0, built.stderr


def test_kernels_that_register_themselves_choose_the_interface_of_htp(tmp_path: Path) -> None:
    kernels_of(tmp_path / "HTP", "BEGIN_PKG_OP_DEFINITION(PKG_ScaleClamp);\nEND_PKG_OP_DEFINITION(PKG_ScaleClamp);\n")
    arguments = ("generate", CONFIG, "--backend", "htp", "--kernels", tmp_path, "-o", tmp_path / "out")
    done = udogen(*arguments)
    assert "kernels for htp in the style of Qualcomm's generators: ScaleClamp (--htp-api core)" in done.stderr
    assert (tmp_path / "out" / "ScaleClampPackage" / "makefiles" / "htp_core.mk").is_file()
    assert udogen("generate", CONFIG, "--backend", "htp", "-o", tmp_path / "out").returncode == 0


def test_headers_of_the_hexagon_sdk_that_a_kernel_includes_are_there(tmp_path: Path) -> None:
    for header in ("hvx_internal.h", "HAP_farf.h", "qhmath_hvx.h"):
        arguments = ("generate", CONFIG, "--backend", "htp", "-o", tmp_path / f"out-{header}")
        udogen(*arguments, "--kernels", kernels_of(tmp_path / header, f"#include <{header}>\n"))
        udogen(*arguments)
        found = (tmp_path / f"out-{header}" / "ScaleClampPackage" / "makefiles" / "hexagon" / "include").iterdir()
        assert [each.name for each in found] == [header]


REGISTERS = 'extern "C" void register_scaleclamp_ops() {'
TEXT = "TEXT(THIS_PKG_NAME)"


# Names as the documentation and newer headers have them, and what sources use of HTP/core/intrinsics.h on Hexagon.
NEWER = {
    "QHPI_Float32": "QHPI_FLOAT32",
    "QHPI_Layout_Flat4": "QHPI_LAYOUT_FLAT_4",
    "QHPI_Storage_Direct": "QHPI_STORAGE_DIRECT",
    "QHPI_MemLoc_DDR_Only": "QHPI_MEM_LOC_DDR_ONLY",
    "QHPI_Success": "QHPI_SUCCESS",
}
INTRINSICS = """
static_assert(QHPI_ELEMENT_TYPE_ANY == 240 && QHPI_FLOAT16 == 8);
static_assert(QHPI_ERROR_FATAL == 2 && QHPI_MEM_LOC_DDR_OR_TCM == 2);
#if defined(__hexagon__)
using namespace hnnx;
[[maybe_unused]] static void fill(float* to, const float* from) {
  vmemu(to) = Q6_V_vor_VV(vmemu(from), q6op_V_vsplat_float32(0.0f));
}
#endif
"""


@pytest.mark.parametrize(
    ("backend", "function"),
    [
        ("htp", REGISTERS),
        ("htp", "void register_scale_clamp_op(void)\n{"),
        pytest.param("hexagon", 'extern "C" {\nint unused() { return 0; }\n}\nvoid register_all() {', id="hexagon"),
    ],
)
def test_an_htp_kernel_that_registers_itself_runs(tmp_path: Path, backend: str, function: str) -> None:
    kernel = (EXAMPLE / "kernels" / "htp" / "ScaleClamp.cpp").read_text()
    assert REGISTERS in kernel
    kernel = kernel.replace(REGISTERS, function).replace(TEXT, "THIS_PKG_NAME_STR")
    kernel = '#include "HTP/core/log.h"\n#include "HTP/core/intrinsics.h"\n' + kernel
    for name, newer in NEWER.items() if function != REGISTERS else ():
        assert name in kernel
        kernel = kernel.replace(name, newer)
    kernel += (
        INTRINSICS + "static_assert(sizeof(QHPI_OutputDef_Invalid) > 0 && sizeof(qhpi_op_reference(nullptr, 0)) > 0);\n"
    )
    kernel += (
        '[[maybe_unused]] static void say(int x) { debuglog("%d", x); errlog("%d of %s", x, "some"); errlog("all"); }\n'
    )
    built = htp_package(CONFIG, tmp_path / "out", kernels_of(tmp_path / "kernels", kernel))
    np.save(tmp_path / "x.npy", np.array([[1, 2, -3, 4]], np.float32))
    call = ("ScaleClamp", "--input", f"x={tmp_path / 'x.npy'}", "--param", "limit=1.5", "--param", "gain=[1, 2, 3, 4]")
    built_in = built.library if backend == "htp" else tmp_path / "out"
    done = udogen("run", "op", built_in, *call, "--backend", backend, "--output", f"y={tmp_path / 'y.npy'}")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), [[1, 1.5, -9, 1.5]])


def test_halves_on_a_pc_and_a_symbol_that_nothing_has(tmp_path: Path) -> None:
    """Clang 14 converts them with functions that its own library has, and libgcc has not, or in another convention."""
    compiler("clang++")
    kernel = (EXAMPLE / "kernels" / "htp" / "ScaleClamp.cpp").read_text()
    product = "std::min(x[i] * gain[i % channels], limit)"
    assert product in kernel
    halves = f"static_cast<__fp16>(static_cast<double>({product})) + static_cast<__fp16>({product})"
    kernels = kernels_of(tmp_path / "kernels", kernel.replace(product, halves))
    [made] = make_packages([CONFIG], tmp_path / "out", chosen=["htp"], kernels=kernels, layout="qnn")
    done = udogen("build", "htp_x86", "-C", made.folder)
    assert (done.returncode, "usable with SDK 2.47 and later" in done.stderr) == (0, True), done.stderr
    np.save(tmp_path / "x.npy", np.array([[1, 2, -3, 4]], np.float32))
    call = ("ScaleClamp", "--input", f"x={tmp_path / 'x.npy'}", "--param", "limit=1.5", "--param", "gain=[1, 2, 3, 4]")
    done = udogen("run", "op", made.folder, *call, "--backend", "htp", "--output", f"y={tmp_path / 'y.npy'}")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), [[2, 3, -18, 3]])
    done = udogen("build", "htp_x86", "--sanitize", "address", "-C", made.folder)
    assert (done.returncode, "undefined symbol" in done.stderr) == (0, False), "its preloaded runtime has them"
    (made.folder / "user.mk").write_text("EXTRA_SOURCES := more.cpp\n")
    (made.folder / "more.cpp").write_text('extern "C" int absent(); int more() { return absent(); }\n')
    done = udogen("build", "htp_x86", "-C", made.folder)
    assert (done.returncode, "usable with" in done.stderr) == (0, False), done.stderr
    assert "libQnnScaleClampPackage.so: the op package has an undefined symbol" in done.stderr
    assert "undefined symbol: absent" in done.stderr
    half = 'extern "C" unsigned short __gnu_f2h_ieee(float); int more() { return __gnu_f2h_ieee(1); }\n'
    (made.folder / "more.cpp").write_text(half)
    (made.folder / "src" / "ops" / "ScaleClamp.cpp").write_text(kernel)
    done = udogen("build", "htp_x86", "-C", made.folder, env={"X86_CXX": compiler("g++")})
    assert "install Clang's own library (Debian: libclang-rt-14-dev) and build again" in done.stderr


@pytest.mark.parametrize("in_place", [False, True])
def test_functions_alone_are_completed(tmp_path: Path, in_place: bool) -> None:
    if in_place:
        [made] = make_packages([CONFIG], tmp_path / "out", chosen=["cpu"], layout="qnn")
        (made.folder / "src" / "ops" / "ScaleClamp.cpp").write_text(BLOCK)
    built = cpu_package(
        CONFIG, tmp_path / "out", None if in_place else kernels_of(tmp_path / "kernels", BLOCK), layout="qnn"
    )
    assert [path.read_text() for path in (tmp_path / "out").rglob("*.udogen-old")] == [BLOCK] * in_place
    [written] = (tmp_path / "out").rglob("src/ops/ScaleClamp.cpp")
    assert BLOCK in written.read_text()
    np.save(tmp_path / "x.npy", np.array([[1, 2]], np.float32))
    call = ("ScaleClamp", "--input", f"x={tmp_path / 'x.npy'}", "--param", "limit=3", "--param", "gain=[1, 1]")
    done = udogen("run", "op", built.library, *call, "--output", f"y={tmp_path / 'y.npy'}")
    assert done.returncode == 0, done.stderr  # although its finalize refuses every node
    y = np.load(tmp_path / "y.npy")
    np.testing.assert_array_equal(y, [[4, 5]])


STUB = BLOCK.replace("out[i] = ", "(void)out; (void)i; // ")
ARGS = """#include "ops/ScaleClamp.hpp"
namespace ops::ScaleClampPackage::ScaleClamp {
udo::Status execute(const Args& args) { return args.x.size() != 0 ? udo::ok : udo::error("empty"); }
}
"""


@pytest.mark.parametrize(
    ("backend", "kernel", "more"),
    [("cpu", STUB, ()), ("cpu", ARGS, ("--loops", "3")), ("htp", ARGS, ()), ("htp", ARGS, ("--loops", "3"))],
)
def test_an_output_that_no_kernel_wrote_is_an_error(
    backend: str, kernel: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    kernels = kernels_of(tmp_path / "kernels", kernel)
    built = (cpu_package if backend == "cpu" else htp_package)(CONFIG, tmp_path / "out", kernels)
    call = ("ScaleClamp", "--input", "x=1x4", "--param", "limit=3", "--param", "gain=[1, 1]", "--backend", backend)
    done = udogen("run", "op", built.library, *call, *more)
    assert done.returncode == 5
    assert "op `ScaleClamp` returned no error and wrote nothing to its output `y`" in done.stderr


def test_one_package_of_the_gpu_has_one_style(tmp_path: Path) -> None:
    text = CONFIG.read_text()
    [op] = re.findall(r"    <OpDef>.*?</OpDef>\n", text, re.DOTALL)
    config = tmp_path / "two.xml"
    text = text.replace(op, op + op.replace("<Name>ScaleClamp<", "<Name>Other<"))
    config.write_text(text.replace("BACKEND_SPECIFIC", "FLOAT_32"))
    kernels = Path(shutil.copytree(EXAMPLE / "kernels" / "gpu", tmp_path / "kernels" / "gpu")).parent
    (kernels / "gpu" / "Other.cpp").write_text('#include "ops/Other.hpp"\n')
    with pytest.raises(UsageError, match="a package for gpu has kernels of one style"):
        make_packages([config], tmp_path / "out", chosen=["gpu"], kernels=kernels)


def test_groups_that_do_not_divide_the_work_are_explained(tmp_path: Path) -> None:
    kernel = (EXAMPLE / "kernels" / "gpu" / "ScaleClamp.cpp").read_text().replace('"-cl-std=CL2.0"', '""')
    folder = tmp_path / "kernels" / "gpu"
    folder.mkdir(parents=True)
    (folder / "ScaleClamp.cpp").write_text(kernel)
    built = gpu_package(CONFIG, tmp_path / "out", folder.parent, layout="qnn")
    call = ("ScaleClamp", "--input", "x=1x3x4x8", "--param", "limit=3", "--param", "gain=[1, 1, 1, 1, 1, 1, 1, 1]")
    done = udogen("run", "op", built.library, *call, "--backend", "gpu")
    assert done.returncode == 5
    assert "local size 64 does not divide global size 96 in dimension 0, which OpenCL takes only with" in done.stderr


# --- genuine sources ----------------------------------------------------------------------------------------------

GENUINE = os.environ.get("UDOGEN_TEST_GENUINE", "")


@pytest.mark.skipif(
    not GENUINE, reason="UDOGEN_TEST_GENUINE names no folder with sources and a table.py that runs them"
)
def test_the_table_of_genuine_sources_is_what_ran() -> None:
    """`table.py`, which is private like the sources, prints the rows of docs/vendor-sources.md."""
    page = (ROOT / "docs" / "vendor-sources.md").read_text("utf-8")
    rows = page.split("<!-- genuine -->\n")[1].split("<!-- /genuine -->\n")[0]
    command = [sys.executable, Path(GENUINE).absolute() / "table.py"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == rows
