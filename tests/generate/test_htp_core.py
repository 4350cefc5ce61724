"""HTP packages in the C++ style of the SDK's headers (`--htp-api core`).

Without an SDK they are compiled with stand-in headers (tests/generate/core_sdk), which record what is
registered.  With UDOGEN_TEST_SDK, the folder of a QNN SDK, the examples are compiled with its headers; with
UDOGEN_TEST_HTP, the libQnnHtp.so of the same release, they are executed and compared with numpy as well.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import succeeds, udogen
from tests.making import CONFIGS, CORPUS, ONE_OP, ROOT, make, make_packages, make_well
from tests.opdef.texts import collection, op, param, tensor
from udogen import GenerateOptions, RunFailed, TestOptions, ToolMissing, UsageError, resources
from udogen.build import tools
from udogen.configs.load import load
from udogen.generate.pipeline import generate
from udogen.runtime import find_runtime
from udogen.runtime.built import find_built
from udogen.runtime.library import sdk_build_id
from udogen.runtime.ops import OpSession
from udogen.verify.runner import run_cases
from udogen.verify.test_files.expand import load_examples

HERE = Path(__file__).parent
KERNELS = HERE / "kernels" / "both"
NO_SDK = {name.upper(): "" for name in tools.Environment.__dataclass_fields__}
BUILD_ID = "v2.99.0.260101000000_1"  # of the stand-in
FLOAT_32, FLOAT_16, QUINT8, INT_32 = 0, 1, 2, 6  # DType of the stand-in
UNSUPPORTED, FATAL = 7, -1


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stand-in for an SDK: udogen's own headers of the C API, and a stand-in for those in C++."""
    root = tmp_path_factory.mktemp("sdk")
    headers = Path(shutil.copytree(resources.qnn_headers(), root / "include" / "QNN"))
    shutil.copytree(HERE / "core_sdk", headers, dirs_exist_ok=True)
    return root


def built_with(sdk: Path, out: Path, config: Path, kernels: Path | None = None) -> Path:
    """Build the library of a package of this config, by plain make, with every warning an error."""
    [made] = make_packages([config], out, chosen=["htp"], kernels=kernels, htp_api="core", layout="qnn")
    assert not (made.folder / "include" / "QNN").exists(), "only the SDK's headers"
    make_well(made.folder, "htp_x86", cxx="g++", flags="-O0 -Wpedantic -Wshadow -Wconversion", QNN_SDK_ROOT=str(sdk))
    return made.folder / "build" / "x86_64-linux-clang" / f"libQnn{made.plan.package}.so"


@pytest.fixture(scope="module")
def both(sdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_with(sdk, tmp_path_factory.mktemp("both"), CONFIGS / "both.xml", KERNELS)


@pytest.fixture(scope="module")
def leaky(sdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    example = ROOT / "examples" / "leaky_relu"
    return built_with(sdk, tmp_path_factory.mktemp("leaky"), example / "LeakyRelu.xml", example / "kernels")


class Standing:
    """A library built with the stand-in: its registrations, and its functions to call."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.recorded.restype = ctypes.c_char_p
        self._library.tensor.restype = ctypes.c_void_p
        self._alive: list[np.ndarray] = []

    def lines(self, begin: str) -> list[str]:
        return [line for line in self._library.recorded().decode().splitlines() if line.startswith(begin)]

    def tensor(self, dtype: int, array: np.ndarray, scale: float = 1.0, offset: int = 0) -> int:
        self._alive.append(array)
        dims = (ctypes.c_size_t * array.ndim)(*array.shape)
        data = array.ctypes.data_as(ctypes.c_void_p)
        made: int = self._library.tensor(dtype, ctypes.c_float(scale), offset, dims, array.ndim, data)
        return made

    def call(self, op: str, nth: int, *tensors: int) -> int:
        given = (ctypes.c_void_p * len(tensors))(*tensors)
        result: int = self._library.execute(op.encode(), nth, given, len(tensors))
        return result

    def initialize(self, provider: str) -> int:
        """Return the result of registering the package."""
        interface = (ctypes.c_uint64 * 11)()
        assert getattr(self._library, provider)(interface) == 0
        result: int = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(interface[2])(None)
        return result


def scalar(value: float | int) -> np.ndarray:
    return np.full((1, 1, 1, 1), value, np.float32 if isinstance(value, float) else np.int32)


# --- registrations ----------------------------------------------------------------------------------------------


def test_every_combination_of_types_is_registered_and_any_type_at_last(leaky: Path, both: Path) -> None:
    found = Standing(leaky).lines("kernel LeakyRelu")
    assert len(found) == 4 * 4 + 1
    assert found[0] == "kernel LeakyRelu &PlainFloatTensor PlainFloatTensor Tensor cost 1000 flags 2"
    assert "kernel LeakyRelu &QuantUint16Tensor PlainFloat16Tensor Tensor cost 1000 flags 2" in found
    assert found[-1] == "kernel LeakyRelu &Tensor Tensor Tensor cost - flags 2"
    mix = Standing(both).lines("kernel Mix")
    assert len(mix) == 3 * 3 + 1
    assert mix[0] == "kernel Mix &PlainFloatTensor PlainFloatTensor cost 1 flags 2 1", "cost and flags of the kernel"


def test_the_order_of_the_parameters_and_their_defaults(leaky: Path, both: Path) -> None:
    assert Standing(leaky).lines("params") == ["params LeakyRelu alpha alpha=0.01"]
    [order] = Standing(both).lines("params")
    assert order == "params ScaleShift weights weights=[1.5 2.5] mode mode=1 flag flag=1 shift -"


def test_a_parameter_without_default_may_be_left_out(both: Path) -> None:
    counts = [line.split(" cost")[0].count("Tensor") for line in Standing(both).lines("kernel ScaleShift")]
    assert counts == [8, 7, 8, 7]


def test_tensors_are_asked_for_flat_and_in_main_memory_once_per_op(both: Path) -> None:
    found = Standing(both).lines("properties")
    assert len(found) == 2, "with two for one op libQnnHtp 2.48 finalizes nothing"
    assert found[1] == "properties Op(Mix in0) Outputs(out0) Flat(out0 in0) MainMemory(out0 in0)"


@pytest.mark.parametrize("nth", [0, 16], ids=["typed", "any"])
def test_a_registered_function_computes(leaky: Path, nth: int) -> None:
    package = Standing(leaky)
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(1, 2, 2, 3)
    y = np.zeros_like(x)
    tensors = (package.tensor(FLOAT_32, y), package.tensor(FLOAT_32, x), package.tensor(FLOAT_32, scalar(0.5)))
    assert package.call("LeakyRelu", nth, *tensors) == 0
    np.testing.assert_array_equal(y, np.where(x > 0, x, np.float32(0.5) * x))


def test_fixed_point_is_rounded_and_saturated(leaky: Path) -> None:
    package = Standing(leaky)
    x, y = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16), np.zeros((1, 1, 16, 16), np.uint8)
    tensors = (package.tensor(QUINT8, y, 0.04, 32), package.tensor(QUINT8, x, 0.05, 128))
    assert package.call("LeakyRelu", 10, *tensors, package.tensor(FLOAT_32, scalar(0.25))) == 0
    real = np.float32(0.05) * (x.astype(np.float32) - 128)
    expected = np.clip(np.rint(np.where(real > 0, real, real * 0.25) / np.float32(0.04)) + 32, 0, 255)
    assert np.abs(y.astype(int) - expected).max() <= 1


def test_a_type_that_the_config_does_not_allow(leaky: Path) -> None:
    package = Standing(leaky)
    x = np.ones((1, 1, 1, 4), np.int32)
    tensors = (package.tensor(INT_32, x), package.tensor(INT_32, x), package.tensor(FLOAT_32, scalar(0.5)))
    assert package.call("LeakyRelu", 16, *tensors) == UNSUPPORTED


@pytest.mark.parametrize("shift", [None, -3])
def test_a_kernel_sees_its_parameters(both: Path, shift: int | None) -> None:
    package = Standing(both)
    a, b = np.ones((1, 2, 2, 2), np.float32), np.array([7, 8, 9], np.int32).reshape(1, 1, 1, 3)
    total, seen = np.zeros_like(a), np.zeros((1, 1, 1, 7), np.float32)
    tensors = [package.tensor(FLOAT_32, each) for each in (total, seen, a)] + [package.tensor(INT_32, b)]
    tensors.append(package.tensor(FLOAT_32, np.array([4, 5, 6], np.float32).reshape(1, 1, 1, 3)))
    # HTP passes a BOOL_8 as Float32 of which only the first byte is defined.
    tensors += [package.tensor(INT_32, scalar(0)), package.tensor(FLOAT_32, scalar(0x7BE37800 + (shift is None)))]
    tensors += [package.tensor(INT_32, scalar(shift))] if shift is not None else []
    assert package.call("ScaleShift", int(shift is None), *tensors) == 0
    np.testing.assert_array_equal(total, a + 7)
    assert seen.ravel().tolist() == [4, 6, 0, shift is None, shift is not None, shift or 0, 3]


def test_an_unwritten_kernel_is_reported(sdk: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    package = Standing(built_with(sdk, tmp_path, CONFIGS / "both.xml"))
    x = np.ones((1, 1, 1, 1), np.float32)
    assert package.call("Mix", 0, package.tensor(FLOAT_32, x), package.tensor(FLOAT_32, x)) == FATAL
    assert "op Mix: Mix is not implemented: write the kernel in src/ops/Mix.cpp" in capfd.readouterr().err
    assert package.initialize("BothPackageInterfaceProvider") == 0


def test_a_kernel_that_registers_nothing_is_reported(
    sdk: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kernels = Path(shutil.copytree(KERNELS / "htp_core", tmp_path / "kernels"))
    source = kernels / "Mix.cpp"
    source.write_text(source.read_text("utf-8").replace('#include "ops/Mix.registration.hpp"', ""))
    package = Standing(built_with(sdk, tmp_path / "out", CONFIGS / "both.xml", kernels))
    assert package.initialize("BothPackageInterfaceProvider") != 0
    output = capfd.readouterr().err
    assert 'Mix registers nothing: src/ops/Mix.cpp must end with #include "ops/Mix.registration.hpp"' in output


THE_VENDORS_WAY = """
#include "HTP/core/constraints.h"
#include "HTP/core/op_package_feature_support.h"
#include "HTP/core/op_register_ext.h"
#include "HTP/core/optimize.h"
#include "HTP/core/simple_reg.h"
BEGIN_PKG_OP_DEFINITION(PKG_Mix);
template <typename TensorType>
GraphStatus mixImpl(TensorType& out_0, const TensorType& in_0);
DEF_PACKAGE_OP((mixImpl<Tensor>), "Mix")
template <typename TensorType>
GraphStatus mixImpl(TensorType&, const TensorType&) { return GraphStatus::Success; }
END_PKG_OP_DEFINITION(PKG_Mix);
"""


def test_a_source_of_the_vendors_generator_takes_the_place_of_a_kernel(sdk: Path, tmp_path: Path) -> None:
    kernels = Path(shutil.copytree(KERNELS / "htp_core", tmp_path / "kernels"))
    (kernels / "Mix.cpp").write_text(THE_VENDORS_WAY)
    package = Standing(built_with(sdk, tmp_path / "out", CONFIGS / "both.xml", kernels))
    assert package.lines("kernel Mix") == ["kernel Mix &Tensor Tensor cost - flags 2"]
    assert package.initialize("BothPackageInterfaceProvider") == 0


WORDS = (
    tensor("Input", "params", rank="5D")
    + tensor("Output", "output", "FLOAT_16", rank="4D")
    + tensor("Output", "Output", "UINT_32")
    + param("QNN", "FLOAT_16", rank="1D", default="[1.5, 65504]").replace("false", "true")
    + param("phase", "UINT_32", default="1", more="<Enumeration><Enum>EARLY</Enum><Enum>LATE</Enum></Enumeration>")
)


def test_words_that_the_sdk_has_as_macros(sdk: Path, tmp_path: Path) -> None:
    config = tmp_path / "text.xml"
    config.write_text(collection(op(WORDS, "Words", "HTP")))
    package = Standing(built_with(sdk, tmp_path, config))
    assert package.lines("kernel")[0].startswith("kernel Words &PlainFloat16Tensor &Int32Tensor Tensor Tensor Tensor ")
    config.write_text(collection(op(WORDS, "QNN", "HTP")))
    with pytest.raises(UsageError, match="an op cannot be called `QNN`"):
        make_packages([config], tmp_path / "other", htp_api="core")


def test_an_op_of_too_many_combinations_is_registered_for_those_of_one_type(sdk: Path, tmp_path: Path) -> None:
    types = "FLOAT_32 FLOAT_16 UFIXED_POINT_8 INT_32"
    text = "".join(tensor("Input", f"x{i}", types, rank="4D") for i in range(5))
    text += "".join(tensor("Output", f"y{i}", types, rank="4D") for i in range(3))
    (tmp_path / "many.xml").write_text(collection(op(text, "Many", "HTP")))
    found = Standing(built_with(sdk, tmp_path, tmp_path / "many.xml")).lines("kernel")
    assert len(found) == 4 + 1


@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not beside this checkout")
@pytest.mark.parametrize(
    "path", sorted(p for p in CORPUS.glob("*") if p.suffix in (".xml", ".json")), ids=lambda p: p.name
)
def test_the_corpus_compiles(path: Path, sdk: Path, tmp_path: Path) -> None:
    Standing(built_with(sdk, tmp_path, path))


# --- generating ---------------------------------------------------------------------------------------------------


def test_the_two_interfaces_never_share_a_folder(tmp_path: Path) -> None:
    config = CONFIGS / "both.xml"
    [made] = make_packages([config], tmp_path, chosen=["htp"], htp_api="core")
    manifest = json.loads((made.folder / ".udogen" / "manifest.json").read_text())
    assert manifest["parts"][0]["api"] == made.plan.parts[0].api == "core"
    before = {path: path.read_bytes() for path in made.folder.rglob("*") if path.is_file()}
    done = udogen("generate", config, "--backend", "htp", "--htp-api", "qhpi", "-o", tmp_path)
    assert done.returncode == 2
    assert "is generated for HTP's interface `core`, not `qhpi`" in done.stderr and "--htp-api core" in done.stderr
    assert before == {path: path.read_bytes() for path in made.folder.rglob("*") if path.is_file()}
    [again] = make_packages([config], tmp_path, chosen=["htp"])  # a package keeps its interface
    assert {change.action for change in again.changes} == {"unchanged"}


def test_a_folder_of_an_older_udogen_is_of_qhpi(tmp_path: Path) -> None:
    [made] = make_packages([CONFIGS / "both.xml"], tmp_path, chosen=["htp"])
    path = made.folder / ".udogen" / "manifest.json"
    written = json.loads(path.read_text())
    [part] = written.pop("parts")
    flat = {key: part[key] for key in ("backend", "library", "provider", "ops", "targets")}
    path.write_text(json.dumps({**written, **flat}))
    make_packages([CONFIGS / "both.xml"], tmp_path, chosen=["htp"])
    with pytest.raises(UsageError, match="interface `qhpi`, not `core`"):
        make_packages([CONFIGS / "both.xml"], tmp_path, chosen=["htp"], htp_api="core")


def test_a_backend_that_is_not_generated_beside_one_that_is_is_warned_of(tmp_path: Path) -> None:
    config = tmp_path / "both.xml"
    text = (CONFIGS / "both.xml").read_text("utf-8")
    backend = "<SupportedBackend>CPU</SupportedBackend>"
    assert backend in text
    config.write_text(text.replace(backend, backend + backend.replace("CPU", "LPAI")))
    packages, problems = load([config])
    generate(packages, GenerateOptions(tmp_path / "out"), problems)
    assert any(
        "is also for LPAI, which udogen does not generate yet" in warning.message for warning in problems.warnings
    )


def test_a_config_that_asks_for_qhpi_is_warned_of(tmp_path: Path) -> None:
    config = tmp_path / "qhpi.xml"
    text = (CONFIGS / "both.xml").read_text("utf-8")
    config.write_text(text.replace('Version="1.0"', 'Version="1.0" UseQHPI="true"'))
    packages, problems = load([config])
    generate(packages, GenerateOptions(tmp_path / "qhpi", backends=("htp",)), problems)
    assert not any("UseQHPI" in warning.message for warning in problems.warnings)
    generate(packages, GenerateOptions(tmp_path / "core", backends=("htp",), htp_api="core"), problems)
    assert any("UseQHPI" in warning.message for warning in problems.warnings)


def test_an_interface_that_does_not_exist(tmp_path: Path) -> None:
    done = udogen("generate", CONFIGS / "both.xml", "--htp-api", "C++", "-o", tmp_path)
    assert (
        done.returncode == 2
        and "does not know the interface of HTP `C++`" in done.stderr
        and "qhpi, core" in done.stderr
    )


# --- building -----------------------------------------------------------------------------------------------------


def test_what_is_missing_is_reported_before_anything_is_compiled(sdk: Path, tmp_path: Path) -> None:
    [made] = make_packages([CONFIGS / "both.xml"], tmp_path / "out", chosen=["htp"], htp_api="core")

    def refused(**env: str) -> str:
        done = udogen("build", "htp_x86", "-C", made.folder, env={**NO_SDK, **env})
        assert done.returncode == 3, done.stderr
        assert not (made.folder / "obj").exists()
        return done.stderr

    assert "needs the headers of the QNN SDK, and QNN_SDK_ROOT is not set" in refused()
    plain = Path(shutil.copytree(resources.qnn_headers(), tmp_path / "plain" / "include" / "QNN")).parents[1]
    assert "which has no include/QNN/HTP/core/op_register_ext.h" in refused(QNN_SDK_ROOT=str(plain))
    if shutil.which("g++"):
        assert "with libc++" in refused(QNN_SDK_ROOT=str(sdk), X86_CXX="g++")
    done = make(made.folder, "htp_x86", QNN_SDK_ROOT="")
    assert done.returncode != 0 and "set QNN_SDK_ROOT to its folder" in done.stderr
    make_well(made.folder, "clean")


def test_udogen_builds_with_a_compiler_that_has_libcxx(sdk: Path, tmp_path: Path) -> None:
    if not tools.zig():
        pytest.skip("zig is not installed")
    [made] = make_packages([CONFIGS / "both.xml"], tmp_path, chosen=["htp"], htp_api="core", kernels=KERNELS)
    succeeds("build", "htp_x86", "-C", made.folder, "--json", env={**NO_SDK, "QNN_SDK_ROOT": str(sdk)})
    assert sdk_build_id(find_built(made.folder, backend="htp").library) == BUILD_ID


def test_an_interface_of_htp_without_a_package_for_htp_is_noted(tmp_path: Path) -> None:
    done = succeeds("generate", ONE_OP, "-o", tmp_path, "--htp-api", "core")
    assert "--htp-api core changes nothing: there is no package for HTP here" in done.stderr


# --- running ------------------------------------------------------------------------------------------------------


def test_the_release_is_in_the_library(both: Path, tmp_path: Path) -> None:
    assert sdk_build_id(both) == BUILD_ID
    (tmp_path / "no.so").write_bytes(b"no library")
    assert sdk_build_id(tmp_path / "no.so") == sdk_build_id(tmp_path) == ""


def test_the_runtime_of_another_release_is_refused(both: Path, tmp_path: Path) -> None:
    try:
        find_runtime("htp")
    except ToolMissing as missing:
        pytest.skip(missing.message)
    np.save(tmp_path / "x.npy", np.ones((1, 1, 1, 4), np.float32))
    call = ["run", "op", both, "Mix", "--backend", "htp", "--input", f"x={tmp_path / 'x.npy'}", "--dtype", "y=FLOAT_32"]
    done = udogen(*call)
    assert done.returncode == 5
    assert f"is built with the C++ headers of SDK 2.99.0 ({BUILD_ID})" in done.stderr
    assert "the runtime is of SDK 2.47.0 (v2.47.0." in done.stderr and "--force" in done.stderr
    forced = udogen(*call, "--force", "--json")
    assert forced.returncode == 5, "the runtime has its say, whatever that is"
    error = json.loads(forced.stdout)["error"]
    assert "--force: the op package is built with the C++ headers of SDK 2.99.0" in error["details"]
    assert "that interface changes with every release" not in error["message"]
    built = find_built(both)
    with pytest.raises(RunFailed, match=r"is built with the C\+\+ headers of SDK 2\.99\.0"):
        OpSession(built.library, built.provider, backend="htp").__enter__()


# --- with a real SDK ----------------------------------------------------------------------------------------------

REAL_SDK, REAL_HTP = os.environ.get("UDOGEN_TEST_SDK", ""), os.environ.get("UDOGEN_TEST_HTP", "")


@pytest.mark.skipif(not REAL_SDK, reason="UDOGEN_TEST_SDK does not name a QNN SDK")
@pytest.mark.parametrize("example", ["leaky_relu", "softmax"])
def test_the_examples_with_the_headers_of_a_real_sdk(example: str, tmp_path: Path) -> None:
    for number, each in enumerate(load_examples(ROOT / "examples" / example)):
        out = tmp_path / str(number)
        make_packages([each.config], out, chosen=["htp"], kernels=each.kernels, htp_api="core")
        env = {**NO_SDK, "QNN_SDK_ROOT": REAL_SDK, "EXTRA_CXXFLAGS": "-Werror"}
        succeeds("build", "htp_x86", "-C", out, env=env)
        if not REAL_HTP:
            continue
        cases = [case for case in each.cases if case.backend == "htp"]
        options = TestOptions(qnn_lib=Path(REAL_HTP), loops=1)
        outcomes = run_cases(find_built(out, backend="htp"), cases, backend="htp", options=options)
        assert cases and all(outcome.passed for outcome in outcomes), outcomes
