"""Tensors and parameters arrive under qemu-hexagon as in Qualcomm's HTP emulator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hexagon.running import called, on_hexagon, on_x86
from udogen import RunFailed, backends
from udogen.runtime import Tensor
from udogen.runtime.built import Built
from udogen.runtime.hexagon.wire import ELEMENTS
from udogen.runtime.op.calls import param_of
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpCall


def test_the_table_of_elements_is_what_htp_delivers() -> None:
    assert set(ELEMENTS) == set(backends.ALL["htp"].delivers)


TYPES = [
    ("FLOAT_32", "f4", None), ("FLOAT_16", "f2", None), ("INT_32", "i4", None), ("UINT_32", "u4", None),
    ("UFIXED_POINT_8", "u1", (0.1, -3)), ("SFIXED_POINT_8", "i1", (0.1, -3)), ("UINT_8", "u1", None),
    ("INT_8", "i1", None), ("BOOL_8", "?", None), ("UFIXED_POINT_16", "u2", (0.1, -3)),
    ("SFIXED_POINT_16", "i2", (0.1, -5)), ("UINT_16", "u2", None), ("INT_16", "i2", None),
]  # fmt: skip
SCALARS = [
    ("FLOAT_32", 0.1), ("INT_32", -2), ("UINT_32", 2**32 - 1), ("BOOL_8", True), ("BOOL_8", False),
    ("UINT_8", 9), ("INT_8", -9), ("UINT_16", 9), ("INT_16", -9),
]  # fmt: skip


def same_everywhere(built: Built, call: OpCall, *, but: slice = slice(0)) -> None:
    own, theirs = on_hexagon(built, call).outputs["y"], on_x86(built, call).outputs["y"]
    own[but] = theirs[but]
    np.testing.assert_array_equal(own, theirs)


@pytest.mark.parametrize(("dtype", "numpy", "quant"), TYPES)
def test_a_tensor_of_each_type_and_rank(dtype: str, numpy: str, quant: tuple[float, int] | None, raw: Built) -> None:
    shape = [(1, 2, 3, 2), (3,), (2, 3), (2, 3, 2), (1, 2, 3, 2, 1)][len(dtype) % 5]
    values = (np.arange(np.prod(shape)) - 2).reshape(shape).astype(numpy)
    table = values.reshape(-1)[:3]
    call = OpCall(
        "Seen",
        "Raw",
        (Tensor("x", dtype, shape, data=values, quant=quant),),
        (Tensor("y", "INT_32", (128,)),),
        (param_of("p", 1, "INT_32"), param_of("t", table, dtype, quant)),
    )
    same_everywhere(raw, call)


@pytest.mark.parametrize(("dtype", "value"), SCALARS)
def test_a_scalar_parameter_of_each_type(dtype: str, value: float, raw: Built) -> None:
    x = np.float32([[1, 2]])
    table = np.int32([1, 2])
    params = (param_of("p", value, dtype), param_of("t", table, "INT_32"))
    call = OpCall("Seen", "Raw", (Tensor("x", "FLOAT_32", x.shape, data=x),), (Tensor("y", "INT_32", (99,)),), params)
    # HTP sets only the first byte of a BOOL_8, the 37th byte of the op's output; the other three are undefined.
    same_everywhere(raw, call, but=slice(37, 40) if dtype == "BOOL_8" else slice(0))


@pytest.mark.parametrize("dtype", ["FLOAT_16", "STRING"])
def test_a_parameter_that_htp_does_not_take(dtype: str, raw: Built) -> None:
    x = np.float32([[1, 2]])
    call = called(
        raw, "Prepared", x.astype(np.int32), params=(param_of("k", "x" if dtype == "STRING" else 1.0, dtype),)
    )
    with pytest.raises(RunFailed, match=f"`k`: .* cannot be passed as {dtype}"):
        on_hexagon(raw, call)


@pytest.mark.parametrize("params", [{}, {"mode": "FLOOR", "weights": "[4, 5, 6]", "flag": "0", "shift": "-3"}])
def test_a_generated_package_sees_the_same_parameters(params: dict[str, object], both: Built) -> None:
    a, b = np.ones((1, 2, 2, 2), np.float32), np.array([7, 8, 9], np.int32)
    options = CallOptions({"in[0]": a, "in[1]": b}, params=params, shapes={"out[1]": (7,)})
    call = make_call(both.op("ScaleShift", "htp"), both, "ScaleShift", options)
    own, theirs = on_hexagon(both, call).outputs, on_x86(both, call).outputs
    assert own["out[1]"].tolist() == theirs["out[1]"].tolist()
    np.testing.assert_array_equal(own["out[0]"], a + 7)


def test_signed_fixed_point_comes_back_as_it_was(both: Built) -> None:
    values = np.arange(-128, 128).astype(np.int8).reshape(2, 128)
    call = make_call(
        both.op("Mix", "htp"), both, "Mix", CallOptions({"x": values}, quants={"x": (0.5, 3)}, dtypes={"y": "FLOAT_32"})
    )
    np.testing.assert_array_equal(on_hexagon(both, call).outputs["y"], (values.astype(np.float32) + 3) / 2)
