"""The defaults of inputs reach the kernel, and a core that supports only the default refuses other values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hexagon.running import need_tools, on_hexagon
from tests.making import ROOT, make_packages, make_well, need_opencl, need_runtime, op_session, refused
from udogen import RunFailed
from udogen.backends import htp_files
from udogen.configs.load import load
from udogen.opdef import datatypes
from udogen.runtime import Scalar, Tensor
from udogen.runtime.built import Built, find_built, find_source
from udogen.runtime.op.calls import CallParam, param_of
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpCall

CONFIG = ROOT / "tests/configs/Defaults.xml"
SUM = """
  double sum = 0.0;
  for (std::size_t i = 0; i < args.weights.size(); ++i) sum += double(args.weights.data()[i]);
  for (std::size_t i = 0; i < args.table.size(); ++i) sum += double(args.table.data()[i]);
  if (args.bias.shape().rank() != %s || args.weights.shape().rank() != %s) return udo::error("a rank is wrong");
  if (args.weights.shape()[%s] != 2 || args.weights.shape()[%s] != 3) return udo::error("a shape is wrong");
  if (args.mode != mode_enum::near) sum = -sum;
"""
LOOP = """
  for (std::size_t i = 0; i < args.x.size(); ++i) {
    args.y.data()[i] = args.x.data()[i] * args.k + args.bias.data()[i % args.bias.size()] + float(sum);
  }
  return udo::ok;"""
FOUR = SUM.replace("args.bias.shape().rank() != %s || ", "args.bias.shape().rank() < 2 || ") % (4, 2, 3)
TWO = SUM % (2, 2, 0, 1)
KERNELS = {
    "cpu": f"udo::Status execute(const Args& args) {{{TWO}{LOOP}\n}}",
    "htp": f"udo::Status execute(const Args& args) {{{FOUR}{LOOP}\n}}",
    "dsp": "udo::Status execute(const Args& args) {"
    f"{FOUR.replace('rank() != 4', 'rank() < 2').replace('shape()[2]', 'shape()[args.weights.shape().rank() - 2]')}"
    f"{LOOP}\n}}".replace("shape()[3]", "shape()[args.weights.shape().rank() - 1]"),
    # Defaults are not GPU memory: their numbers are passed by value.
    "gpu": """
udo::Status ShiftOperation(const Args& args, udo::Operation& operation) {
  if (!args.weights.isDefault()) return udo::error("other weights are not supported");
  return setKernelInfo(args, operation.kernel(args.bias.isDefault() ? "Shift_one" : "Shift_each"));
}
udo::Status setKernelInfo(const Args& args, udo::Kernel& kernel) {
  float sum = 0.0f;
  for (std::size_t i = 0; i < args.weights.size(); ++i) sum += args.weights.data<float>()[i];
  for (std::size_t i = 0; i < args.table.size(); ++i) sum += float(args.table.data<std::int32_t>()[i]);
  kernel.globalSize(args.x.size()).read(args.x).write(args.y).value(args.k).value(sum);
  if (args.bias.isDefault()) return kernel.value(args.bias.data<float>()[0]), udo::ok;
  return kernel.read(args.bias), udo::ok;
}""",
}
CL = """
__kernel void Shift_one(INPUT(x), OUTPUT(y), const float k, const float sum, const float bias) {
  const uint i = get_global_id(0);
  STORE(y, i, LOAD(x, i) * k + bias + sum);
}
#if HAS(bias)
__kernel void Shift_each(INPUT(x), OUTPUT(y), const float k, const float sum, INPUT(bias)) {
  const uint i = get_global_id(0);
  STORE(y, i, LOAD(x, i) * k + LOAD(bias, i) + sum);
}
#endif
"""
X = np.arange(6, dtype="f4").reshape(2, 3)
WEIGHTS = np.array([[1, 2, 3], [4, 5, 6]], "f4")
WANTED = X * np.float32(0.1) + 5 + 21
BIAS = np.linspace(-1, 1, 6, dtype="f4").reshape(2, 3)


def generated(backend: str, out: Path) -> Path:
    ready = out / "kernels" / backend
    ready.mkdir(parents=True)
    body = f'#include "ops/Shift.hpp"\nnamespace ops::DefaultsPackage::Shift {{\n{KERNELS[backend]}\n}}\n'
    (ready / "Shift.cpp").write_text(body)
    if backend == "gpu":
        (ready / "Shift.cl").write_text(CL)
    [made] = make_packages([CONFIG], out / "made", chosen=[backend], kernels=ready.parent)
    return made.folder


def compiled(backend: str, out: Path) -> Built:
    folder = generated(backend, out)
    make_well(folder, f"{backend}_x86")
    return find_built(folder, backend=backend)


@pytest.fixture(scope="module")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Built:
    need_runtime("cpu")
    return compiled("cpu", tmp_path_factory.mktemp("cpu"))


def run(built: Built, backend: str, inputs: dict[str, Any], **params: object) -> Any:
    call = make_call(built.op("Shift", backend), built, "Shift", CallOptions(inputs, params))
    return op_session(built, backend).run(call).outputs["y"]


def by_hand(built: Built, inputs: dict[str, Any], params: tuple[CallParam, ...], **more: Any) -> Any:
    """Run without the checks of `run op`, like another client."""
    given = [
        Tensor(name, "FLOAT_32", a.shape, data=a, role="STATIC" if name in more else "NATIVE")
        for name, a in inputs.items()
    ]
    call = OpCall("Shift", "DefaultsPackage", tuple(given), (Tensor("y", "FLOAT_32", X.shape),), params)
    return op_session(built).run(call).outputs["y"]


def test_an_input_that_is_left_out_is_its_default_on_the_cpu(cpu: Built) -> None:
    np.testing.assert_allclose(run(cpu, "cpu", {"x": X}), WANTED, rtol=1e-6)
    np.testing.assert_allclose(run(cpu, "cpu", {"x": X, "bias": BIAS}), X * np.float32(0.1) + BIAS + 21, rtol=1e-6)
    np.testing.assert_allclose(by_hand(cpu, {"x": X}, ()), WANTED, rtol=1e-6)


def test_on_the_gpu(tmp_path: Path) -> None:
    need_opencl()
    built = compiled("gpu", tmp_path)
    np.testing.assert_allclose(run(built, "gpu", {"x": X}), WANTED, rtol=1e-5)
    np.testing.assert_allclose(run(built, "gpu", {"x": X, "bias": BIAS}), X * np.float32(0.1) + BIAS + 21, rtol=1e-5)


def test_on_htp_udogen_gives_it(tmp_path: Path) -> None:
    """HTP cannot omit an input: the client passes the default."""
    need_runtime("htp")
    built = compiled("htp", tmp_path)
    np.testing.assert_allclose(run(built, "htp", {"x": X}), WANTED, rtol=1e-6)
    _, problems = load([CONFIG])
    made = make_packages([CONFIG], tmp_path / "again", chosen=["htp"])
    assert made and not problems.errors


def test_on_the_dsp(tmp_path: Path) -> None:
    need_tools()
    built = find_source(generated("dsp", tmp_path), backend="dsp")
    op = built.op("Shift", "dsp")
    found = on_hexagon(built, make_call(op, built, "Shift", CallOptions({"x": X})))
    np.testing.assert_allclose(found.outputs["y"].reshape(X.shape), WANTED, rtol=1e-5)
    given = on_hexagon(built, make_call(op, built, "Shift", CallOptions({"x": X}, {"k": 0.1, "table": [7, -7]})))
    np.testing.assert_allclose(given.outputs["y"].reshape(X.shape), WANTED, rtol=1e-5)
    whole = make_call(op, built, "Shift", CallOptions({"x": X}))
    for param, dtype in (
        (param_of("k", 0.2, "FLOAT_32"), "k"),
        (param_of("table", np.array([7, 7], "i4"), "INT_32"), "table"),
    ):
        other = OpCall("Shift", whole.package, whole.inputs, whole.outputs, (param,))
        with refused(f"parameter `{dtype}` is not its default, and no other value is supported"):
            on_hexagon(built, other)


DEFAULTS = (
    param_of("k", 0.1, "FLOAT_32"),
    param_of("mode", 1, "UINT_32"),
    param_of("table", np.array([7, -7], "i4"), "INT_32"),
)


def test_the_default_itself_may_be_given(cpu: Built) -> None:
    np.testing.assert_allclose(by_hand(cpu, {"x": X}, DEFAULTS), WANTED, rtol=1e-6)
    inputs = {"x": X, "bias": BIAS, "weights": WEIGHTS}
    np.testing.assert_allclose(by_hand(cpu, inputs, DEFAULTS, weights=True), X * np.float32(0.1) + BIAS + 21, rtol=1e-6)
    np.testing.assert_allclose(run(cpu, "cpu", {"x": X}, k=0.1, mode="near", table=[7, -7]), WANTED, rtol=1e-6)


@pytest.mark.parametrize(
    "param",
    [
        param_of("k", 0.2, "FLOAT_32"),
        param_of("k", float("nan"), "FLOAT_32"),
        param_of("mode", 0, "UINT_32"),
        param_of("table", np.array([7, -6], "i4"), "INT_32"),
        param_of("table", np.array([7], "i4"), "INT_32"),
    ],
    ids=lambda param: f"{param.name} {param.value if isinstance(param, Scalar) else param.data}",
)
def test_any_other_value_is_refused_with_a_sentence(cpu: Built, param: CallParam) -> None:
    with refused(f"parameter `{param.name}` is not its default, and no other value is supported; leave it out"):
        by_hand(cpu, {"x": X}, (param,))


@pytest.mark.parametrize("static", [True, False])
def test_of_an_input_too(cpu: Built, static: bool) -> None:
    """Data that is given at execution time cannot be known to be the default."""
    weights = WEIGHTS if not static else WEIGHTS + 1
    with refused("input 2 `weights` is not its default, and no other value is supported; leave it out"):
        by_hand(cpu, {"x": X, "bias": BIAS, "weights": weights}, (), **({"weights": True} if static else {}))


@pytest.mark.parametrize("params", [{"k": 0.2}, {"mode": "far"}, {"table": [7, 8]}, {"table": [7]}])
def test_run_op_reports_it_before(cpu: Built, params: dict[str, object]) -> None:
    [name] = params
    with pytest.raises(
        RunFailed, match=f"parameter `{name}` of op `Shift` must be its default, .*no other value"
    ) as caught:
        run(cpu, "cpu", {"x": X}, **params)
    assert caught.value.hint == "leave it out"
    with pytest.raises(RunFailed, match="input `weights` of op `Shift` must be its default"):
        run(cpu, "cpu", {"x": X, "weights": WEIGHTS + 1})


@pytest.mark.parametrize("datatype", [row for row in datatypes.BY_NAME.values() if row.numpy and row.kind != "string"])
def test_a_default_on_htp_is_stored_as_the_runtime_stores_numbers(datatype: datatypes.DataType) -> None:
    """HTP has unsigned elements of 8 and 16 bits alone: those of signed types are shifted."""
    kind = np.dtype(datatype.numpy).kind
    shifted = kind == "i" and datatype.bits in (8, 16)
    assert htp_files._shift(datatype) == (-int(np.iinfo(datatype.numpy).min) if shifted else 0)
