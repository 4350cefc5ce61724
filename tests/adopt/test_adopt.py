"""`udogen new --from-package`: folders that Qualcomm's generators made become udogen projects."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.making import ROOT, cpu_package, make_well
from udogen.adopt import project
from udogen.adopt.sources import AdoptedKernel
from udogen.backends import vendor
from udogen.build.package import open_packages
from udogen.configs.load import load
from udogen.generate.kernel_files import kernel_sources, kernels_not_used

EXAMPLE = ROOT / "examples" / "vendor_style"
CORE = """#include "HTP/core/constraints.h"
#include "HTP/core/simple_reg.h"
#include "QnnOpPackage.h"
#include <cmath>

BEGIN_PKG_OP_DEFINITION(PKG_ScaleClamp);

template <typename TensorType>
GraphStatus scaleclampImpl(TensorType& y, const TensorType& x, const Tensor& limit, const Tensor& gain);

DEF_PACKAGE_OP((scaleclampImpl<Tensor>), "ScaleClamp")
DEF_PACKAGE_OPTIMIZATION(
    EARLY,
    Op("ScaleClamp", "x"),
    OK,
    Op("ScaleClamp", "x"))
DEF_PACKAGE_PARAM_ORDER("ScaleClamp", "limit", true, nullptr, "gain", true, nullptr)

/* x.dims() in a comment stays as it is */
template <typename TensorType>
GraphStatus scaleclampImpl(TensorType& y, const TensorType& x, const Tensor& limit, const Tensor& gain) {
  y.set_dims(x);
  const float* in = (const float*)x.raw_data_const();
  for (int i = 0; i < x.dim(3); i++) use(in[i] * x.get_interface_scale());
  return GraphStatus::Success;
}

END_PKG_OP_DEFINITION(PKG_ScaleClamp);
"""


def old_package(root: Path, *, config: bool = True) -> Path:
    """Return a CPU package with the layout of qnn-op-package-generator."""
    folder = root / "Old"
    (folder / "src" / "ops").mkdir(parents=True)
    (folder / "makefiles").mkdir()
    shutil.copyfile(EXAMPLE / "kernels" / "cpu" / "ScaleClamp.cpp", folder / "src" / "ops" / "ScaleClamp.cpp")
    (folder / "src" / "CpuCustomOpPackage.cpp").write_text("// support\n")
    (folder / "src" / "ScaleClampPackageInterface.cpp").write_text(
        "Qnn_ErrorHandle_t ScaleClampPackageInterfaceProvider(QnnOpPackage_Interface_t* interface) { return 0; }\n"
    )
    (folder / "src" / "factors.hpp").write_text("#pragma once\n")
    (folder / "makefiles" / "Makefile.linux-x86_64").write_text(
        'CXXFLAGS += -std=c++11 -fPIC -DQNN_API="" -DWITH_FACTORS=2 -ffast-math $(shell touch evil)\n'
    )
    if config:
        (folder / "config").mkdir()
        shutil.copyfile(EXAMPLE / "ScaleClamp.xml", folder / "config" / "ScaleClamp.xml")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_package_of_the_generator_becomes_a_project(tmp_path: Path) -> None:
    old, out = old_package(tmp_path), tmp_path / "new"
    before = contents(old)
    done = udogen("new", out, "--from-package", old)
    assert done.returncode == 0, done.stderr
    assert contents(old) == before, "nothing of the original is touched"
    kernel = (old / "src" / "ops" / "ScaleClamp.cpp").read_bytes()
    assert (out / "kernels" / "cpu" / "ScaleClamp.cpp").read_bytes() == kernel
    assert (out / "ScaleClampPackage" / "src" / "ops" / "ScaleClamp.cpp").read_bytes() == kernel
    assert (out / "ScaleClamp.xml").read_bytes() == (EXAMPLE / "ScaleClamp.xml").read_bytes()
    assert (out / "op_tests.toml").is_file()
    assert "--kernels kernels --backend cpu -o ." in (out / "Makefile").read_text()
    assert "| `kernels/cpu/ScaleClamp.cpp` | the kernel for CPU |" in (out / "README.md").read_text()
    assert "CustomOp kernels for CPU: ScaleClamp (src/ops/ScaleClamp.cpp)" in done.stdout
    assert "2 support files" in done.stdout
    flags = (out / "ScaleClampPackage" / "user.mk").read_text()
    assert "EXTRA_CXXFLAGS := -DWITH_FACTORS=2 -ffast-math -Iextra/src" in flags
    assert "evil" not in flags, "only flags of a plain form are taken"
    assert (out / "ScaleClampPackage" / "extra" / "src" / "factors.hpp").is_file()


STUBS = {
    "cpu": "Qnn_ErrorHandle_t execute(CustomOp* operation) {\n  /** add code { here **/\n  @return QNN_SUCCESS;\n}\n",
    "gpu": "QnnGpu_Kernel_t S::setKernelInfo(const Node* node, Qnn_ErrorHandle_t* status) {\n"
    "  QnnGpu_Kernel_t gpuKernel = QNN_GPU_KERNEL_INIT; // add code\n  @KERNEL_RETURN(QNN_SUCCESS)\n}\n",
    "dsp": "Udo_ErrorType_t s_executeOp(Infra infra, Udo_Operation_t operation) {\n  @return UDO_NO_ERROR;\n}\n",
    "htp": "static uint32_t s_run(QHPI_RuntimeHandle* handle, uint32_t count, QHPI_Tensor** outputs) {\n"
    "  (void)handle;\n  { @return QHPI_Success; };\n}\n",
    "core": "template <class T>\nGraphStatus sImpl(T& y, const T& x) {\n  @return GraphStatus::Success;\n}\n",
}


@pytest.mark.parametrize("style", STUBS)
def test_a_function_that_only_returns_is_a_stub(style: str) -> None:
    assert vendor.has_no_code(style, STUBS[style].replace("@", "").encode())
    assert not vendor.has_no_code(style, STUBS[style].replace("@", "if (y) { y[0] = x[0]; } ").encode())


def test_stubs_are_marked(tmp_path: Path) -> None:
    old = old_package(tmp_path)
    kernel = old / "src" / "ops" / "ScaleClamp.cpp"
    text = kernel.read_text()
    body = text.index("auto x = operation"), text.index("return QNN_SUCCESS;")
    kernel.write_text(text[: body[0]] + "// add code here\n  " + text[body[1] :])
    done = udogen("new", tmp_path / "new", "--from-package", old)
    assert "CustomOp kernels for CPU: ScaleClamp (src/ops/ScaleClamp.cpp: no code in execute)" in done.stdout


def test_without_a_config_the_sources_say_what_an_op_has(tmp_path: Path) -> None:
    old, out = old_package(tmp_path, config=False), tmp_path / "new"
    answer = json.loads(udogen("new", out, "--from-package", old, "--json").stdout)
    [package], _ = load([Path(answer["config"])])
    [op] = package.ops
    assert (package.name, op.name) == ("ScaleClampPackage", "ScaleClamp")
    assert [len(op.inputs), len(op.outputs)] == [1, 1]
    assert {param.name: param.is_scalar for param in op.params} == {"limit": True, "gain": False}
    assert any("assumed" in line for line in answer["decide"])


def test_arguments_of_an_htp_kernel_are_its_inputs_and_outputs(tmp_path: Path) -> None:
    old, out = tmp_path / "core", tmp_path / "new"
    old.mkdir()
    text = CORE.replace(
        "(TensorType& y, const TensorType& x,", "(TensorType& y, Tensor& z, const TensorType& x, const Tensor& w,"
    )
    (old / "ScaleClamp.cpp").write_text(text)
    answer = json.loads(udogen("new", out, "--from-package", old, "--json").stdout)
    [op] = load([Path(answer["config"])])[0][0].ops
    assert [len(op.inputs), len(op.outputs), len(op.params)] == [2, 2, 2]


def test_types_of_a_replaced_header_are_named(tmp_path: Path) -> None:
    old = old_package(tmp_path)
    kernel = old / "src" / "ops" / "ScaleClamp.cpp"
    kernel.write_text(kernel.read_text() + "static Factors_t factors;\n")
    (old / "src" / "CustomOpPackage.hpp").write_text("typedef struct { float x; } Factors_t;\ntypedef int CustomOp;\n")
    done = udogen("new", tmp_path / "new", "--from-package", old)
    assert "src/CustomOpPackage.hpp is replaced and declared Factors_t: copy that into the kernel" in done.stdout


def test_an_interface_written_by_hand_is_not_adopted(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "package.cpp").write_text(
        "Qnn_ErrorHandle_t My_interfaceProvider(QnnOpPackage_Interface_t* interface) { return 0; }\n"
    )
    done = udogen("new", tmp_path / "new", "--from-package", old)
    assert done.returncode == 2
    assert "package.cpp implements the interface of QNN by hand" in done.stderr


def test_what_was_adopted_runs(tmp_path: Path) -> None:
    out = tmp_path / "new"
    assert udogen("new", out, "--from-package", old_package(tmp_path)).returncode == 0
    built = cpu_package(out / "ScaleClamp.xml", tmp_path / "built", out / "kernels")
    np.save(tmp_path / "x.npy", np.array([[1, 2, -3, 4]], np.float32))
    call = ("ScaleClamp", "--input", f"x={tmp_path / 'x.npy'}", "--param", "limit=1.5", "--param", "gain=[1, 2, 3, 4]")
    done = udogen("run", "op", built.library, *call, "--output", f"y={tmp_path / 'y.npy'}")
    assert done.returncode == 0, done.stderr
    y = np.load(tmp_path / "y.npy")
    np.testing.assert_allclose(y, [[1, 1.5, -9, 1.5]])


def test_htp_kernels_and_members_that_releases_lack(tmp_path: Path) -> None:
    old, out = tmp_path / "core", tmp_path / "new"
    old.mkdir()
    (old / "ScaleClamp.cpp").write_text(CORE)
    shutil.copyfile(EXAMPLE / "ScaleClamp.xml", old / "ScaleClamp.xml")
    done = udogen("new", out, "--from-package", old)
    assert done.returncode == 0, done.stderr
    assert (out / "kernels" / "htp_core" / "ScaleClamp.cpp").read_text() == CORE
    assert "`get_interface_scale` is not in SDK 2.43: interface_scale()" in done.stdout


@pytest.mark.parametrize("name", ['"::ScaleClamp"', '"::" "ScaleClamp"'])  # the second: as generators write it
def test_kernels_that_register_themselves_with_qhpi_stay_as_they_are(tmp_path: Path, name: str) -> None:
    old, out = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    text = (EXAMPLE / "kernels" / "htp" / "ScaleClamp.cpp").read_text()
    (old / "any_name.cpp").write_text(text.replace('"::ScaleClamp"', name))
    shutil.copyfile(EXAMPLE / "ScaleClamp.xml", old / "ScaleClamp.xml")
    done = udogen("new", out, "--from-package", old)
    assert "HTP kernels that register themselves with QHPI: ScaleClamp (any_name.cpp)" in done.stdout, done.stderr
    package = out / "ScaleClampPackage"
    assert (package / "src" / "ops" / "ScaleClamp.cpp").read_bytes() == (old / "any_name.cpp").read_bytes()
    assert (package / "include" / "HTP" / "core" / "qhpi.h").is_file()


RECORD = """QHPI_OpInfo_v1 lowerOpInfo = {
    .name = THIS_PKG_NAME_STR "::" "Lower",
    .num_kernels = 1,
    .kernels = lowerKernels,
};
"""


def test_records_of_a_sibling_and_ops_that_a_config_lacks(tmp_path: Path) -> None:
    """One source registers the record of another, in which a function registers it alone; the config knows one op."""
    old, out = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    text = (EXAMPLE / "kernels" / "htp" / "ScaleClamp.cpp").read_text()
    head, register = text.split('extern "C" void register_scaleclamp_ops() {')
    lower = head.replace("scaleclamp", "lower").replace("x[i] * gain[i % channels]", "x[i]").replace(
        "const float* gain = static_cast<const float*>(qhpi_tensor_raw_data(inputs[2]));", ""
    ).replace("min_inputs = 3", "min_inputs = 2")  # fmt: skip
    lower += "static QHPI_Kernel_v1 lowerKernels[] = {kernel()};\n" + RECORD
    lower += 'extern "C" void register_lower_ops() { qhpi_register_ops_v1(1, &lowerOpInfo, THIS_PKG_NAME_STR); }\n'
    (old / "Lower.cpp").write_text(lower)
    both = register.replace(
        "qhpi_register_ops_v1(1, &op,", "QHPI_OpInfo_v1 ops[] = {op, lowerOpInfo};\n  qhpi_register_ops_v1(2, ops,"
    )
    (old / "any_name.cpp").write_text(
        head + 'extern QHPI_OpInfo_v1 lowerOpInfo;\nextern "C" void register_scaleclamp_ops() {' + both
    )
    shutil.copyfile(EXAMPLE / "ScaleClamp.xml", old / "ScaleClamp.xml")
    done = udogen("new", out, "--from-package", old)
    assert done.returncode == 0, done.stderr
    assert "HTP kernels that register themselves with QHPI: Lower (Lower.cpp), ScaleClamp (any_name.cpp)" in done.stdout
    assert "ScaleClamp.xml lacks Lower: see ScaleClamp_more_ops.xml" in done.stdout
    assert (out / "ScaleClamp.xml").read_bytes() == (EXAMPLE / "ScaleClamp.xml").read_bytes()
    assert "TODO: check this op: Lower was derived from Lower.cpp" in (out / "ScaleClamp_more_ops.xml").read_text()
    assert "generate ScaleClamp.xml ScaleClamp_more_ops.xml --kernels kernels" in (out / "Makefile").read_text()
    interface = (out / "ScaleClampPackage" / "src" / "ScaleClampPackageInterface.cpp").read_text()
    assert "register_scaleclamp_ops();" in interface and "register_lower_ops" not in interface
    make_well(out / "ScaleClampPackage", "htp_x86")
    done = udogen("inspect", out)
    assert done.returncode == 0, done.stdout


def test_a_function_that_only_the_sdk_has(tmp_path: Path) -> None:
    old, out = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    text = (EXAMPLE / "kernels" / "htp" / "ScaleClamp.cpp").read_text()
    call = '#include "HTP/core/intrinsics.h"\nfloat half() { return hnnx::rounded_half(1.0f); }\n'
    (old / "ScaleClamp.cpp").write_text(text + call)
    shutil.copyfile(EXAMPLE / "ScaleClamp.xml", old / "ScaleClamp.xml")
    assert udogen("new", out, "--from-package", old).returncode == 0
    done = udogen("build", "-C", out / "ScaleClampPackage", "htp_x86")
    assert done.returncode == 4
    assert "functions of hnnx are only in headers of the QNN SDK: add `EXTRA_CXXFLAGS += -idirafter" in done.stderr


def test_a_config_without_ops_is_not_used(tmp_path: Path) -> None:
    old, out = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    shutil.copyfile(EXAMPLE / "kernels" / "htp" / "ScaleClamp.cpp", old / "ScaleClamp.cpp")
    (old / "Empty.xml").write_text(
        '<OpDefCollection PackageName="Empty" Domain="a" Version="1.0"><OpDefList>\n</OpDefList></OpDefCollection>\n'
    )
    done = udogen("new", out, "--from-package", old)
    assert done.returncode == 0, done.stderr
    assert "Empty.xml has no op, and is not used" in done.stdout
    assert "ScaleClamp was derived from ScaleClamp.cpp" in done.stdout


def test_all_ops_of_a_source_for_qhpi(tmp_path: Path) -> None:
    old, out = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    text = (EXAMPLE / "kernels" / "htp" / "ScaleClamp.cpp").read_text().split('extern "C" void register')[0]
    text += """static QHPI_Kernel_v1 kernels[] = {kernel()};
    static QHPI_OpInfo_v1 sg_ops[] = {{THIS_PKG_NAME_STR "::One", 1, kernels}, {THIS_PKG_NAME_STR "::Two", 1, kernels}};
    void register_them_all(void) { qhpi_register_ops_v1(2, sg_ops, THIS_PKG_NAME_STR); }
    """
    (old / "both.cpp").write_text(text)
    done = udogen("new", out, "--from-package", old)
    assert "HTP kernels that register themselves with QHPI: One (both.cpp), Two (both.cpp)" in done.stdout, done.stderr
    [package], _ = load([out / "old.xml"])
    assert [(op.name, len(op.inputs)) for op in package.ops] == [("One", 3), ("Two", 3)], "as the records say"
    assert (out / "kernels" / "htp" / "Two.cpp").read_text().startswith("// The kernel of Two is in One.cpp.\n")
    assert "register_them_all();" in (out / "old" / "src" / "oldInterface.cpp").read_text()


SNPE_1 = """#include "SnpeUdo/UdoImplDsp.h"
char ScaleClampOpType[] = "ScaleClamp";
UdoDspShared* new_ScaleClamp(SnpeUdo_HexNNv2GlobalInfra_t* infra) { return 0; }
"""


def test_sources_for_snpe_1_are_named(tmp_path: Path) -> None:
    """They look like kernels for V65 and V66; sources of other cores are not compiled into the DSP's library."""
    old = tmp_path / "old"
    (old / "src" / "DSP").mkdir(parents=True)
    (old / "src" / "DSP" / "ScaleClamp.c").write_text(SNPE_1)
    done = udogen("new", tmp_path / "new", "--from-package", old)
    assert done.returncode == 2
    assert "is for the UDO interface of SNPE 1.x (SnpeUdo_…)" in done.stderr and "src/DSP/ScaleClamp.c" in done.stderr
    kernels = tmp_path / "kernels" / "dsp"
    kernels.mkdir(parents=True)
    (kernels / "ScaleClamp.cpp").write_text(SNPE_1)
    call = ("generate", EXAMPLE / "ScaleClamp.xml", "--backend", "dsp", "--kernels", kernels.parent)
    done = udogen(*call, "-o", tmp_path / "out")
    assert done.returncode == 2 and "the kernels for dsp of ScaleClamp use the UDO interface of SNPE 1.x" in done.stderr
    shutil.copyfile(EXAMPLE / "kernels" / "dsp" / "ScaleClamp.cpp", old / "src" / "DSP" / "ScaleClamp.cpp")
    for core in ("CPU", "GPU", "reg"):
        (old / "src" / core).mkdir()
        (old / "src" / core / "helper.cpp").write_text("int helper() { return 1; }\n")
    done = udogen("new", tmp_path / "new", "--from-package", old)
    assert "src/DSP/ScaleClamp.c uses the UDO interface of SNPE 1.x" in done.stdout, done.stderr
    [makefile] = (tmp_path / "new").rglob("user.mk")
    assert "helper" not in makefile.read_text() and "ScaleClamp.c" not in makefile.read_text()


def test_sources_of_programs_are_not_compiled(tmp_path: Path) -> None:
    old, out = old_package(tmp_path), tmp_path / "new"
    for name, text in (
        ("src/ops/try.cpp", "int main() { return 0; }\n"),
        ("app/main.cpp", "int main(int argc, char** argv) { return 0; }\n"),
        ("app/part.cpp", "int part() { return 1; }\n"),
        ("src/ops/helper.cpp", "int helper() { return 1; }\n"),
    ):
        (old / name).parent.mkdir(exist_ok=True)
        (old / name).write_text(text)
    done = udogen("new", out, "--from-package", old)
    named = "app/main.cpp, app/part.cpp, src/ops/try.cpp"
    assert f"sources of programs are not compiled (EXTRA_SOURCES in user.mk adds them): {named}" in done.stdout
    flags = (out / "ScaleClampPackage" / "user.mk").read_text()
    assert "EXTRA_SOURCES += extra/src/ops/helper.cpp\n" in flags


def test_a_build_without_the_sdk_of_one_backend_builds_the_others(tmp_path: Path) -> None:
    old, out = tmp_path / "old", tmp_path / "new"
    for backend, text in (("cpu", (EXAMPLE / "kernels" / "cpu" / "ScaleClamp.cpp").read_text()), ("htp", CORE)):
        (old / backend).mkdir(parents=True)
        (old / backend / "ScaleClamp.cpp").write_text(text)
    shutil.copyfile(EXAMPLE / "ScaleClamp.xml", old / "ScaleClamp.xml")
    assert udogen("new", out, "--from-package", old).returncode == 0
    done = udogen("build", "-C", out, env={"QNN_SDK_ROOT": ""})
    assert done.returncode == 0, done.stderr
    assert "ScaleClampPackageHtp is not built: htp_x86 of a package generated with --htp-api core" in done.stderr
    assert "libScaleClampPackage.so" in done.stdout
    assert udogen("build", "htp_x86", "-C", out, env={"QNN_SDK_ROOT": ""}).returncode == 3, "it was named"
    assert udogen("build", "-C", out / "ScaleClampPackageHtp", env={"QNN_SDK_ROOT": ""}).returncode == 3


def test_every_member_of_the_table_is_found() -> None:
    for member in project.members():
        kernel = AdoptedKernel("htp", "Op", Path("Op.cpp"), f"x.{member.name}();".encode())
        assert any(member.remedy in line for line in project.lacking_members([kernel]))


@pytest.mark.parametrize(
    ("arrange", "message"),
    [
        (lambda _folder: None, "contains no kernel that udogen recognizes"),
        (lambda folder: (folder / "a.cpp").write_text("int main() { return 0; }"), "contains no kernel"),
        (lambda folder: folder.rmdir(), "is not a folder"),
    ],
)
def test_what_cannot_be_adopted(tmp_path: Path, arrange: object, message: str) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    arrange(folder)  # type: ignore[operator]
    done = udogen("new", tmp_path / "new", "--from-package", folder)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("inside", [True, False])
def test_no_folder_is_written_over(tmp_path: Path, inside: bool) -> None:
    old = old_package(tmp_path)
    out = old / "new" if inside else tmp_path
    before = contents(tmp_path)
    assert udogen("new", out, "--from-package", old).returncode == 2
    assert contents(tmp_path) == before


def test_kernels_of_one_name_for_several_backends_are_not_old_copies_of_each_other(tmp_path: Path) -> None:
    old, out = tmp_path / "Old", tmp_path / "new"
    for backend, folder in (("cpu", "CPU"), ("dsp", "DSP_V65"), ("gpu", "GPU")):
        ops = old / "jni" / "src" / folder / "src" / "ops"
        ops.mkdir(parents=True)
        shutil.copyfile(EXAMPLE / "kernels" / backend / "ScaleClamp.cpp", ops / "ScaleClamp.cpp")
    shutil.copyfile(EXAMPLE / "ScaleClamp.xml", old / "ScaleClamp.xml")
    helpers = {"GPU/src/gpu_helper.cpp": "GPU", "DSP_V66/src/dsp_helper.cpp": "DSP_V65"}
    for name in helpers:
        (old / "jni" / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (old / "jni" / "src" / name).write_text("int helper() { return 1; }\n")
    done = udogen("new", out, "--from-package", old)
    assert done.returncode == 0, done.stderr
    sources = out / "ScaleClampPackage" / "jni" / "src"
    made = {path.parent.name: path.read_text() for path in sources.glob("*/user.mk")}
    for name, core in helpers.items():
        assert [each for each, text in made.items() if name in text] == [core]
    packages = [each for each in open_packages(out) if each.backend in ("cpu", "dsp", "gpu")]
    assert len(packages) == 3
    for package in packages:
        assert [path.parent.name for path in kernel_sources(package).values()] == [package.backend]
        assert kernels_not_used(package) == []
