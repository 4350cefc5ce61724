"""Wrong numbers and names for buffers, parts, pools, shapes and quantizations: each is an error with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from udogen import UdogenError, UsageError
from udogen.qnn.quantization import BlockwiseExpansion, Quantization, VectorEncoding
from udogen.qnn.tensors import APP_WRITE, QnnTensor
from udogen.runtime import Buffer, Constants, ContextOptions, OpConfig, Scalar, Tensor
from udogen.runtime.contexts.arrays import dequantize, quantize
from udogen.runtime.quantization import (
    AxisScaleOffset,
    BlockEncoding,
    BwAxisScaleOffset,
    BwScaleOffset,
    ScaleOffset,
    grid_of,
)

NAN, INF = float("nan"), float("inf")
NO_SIZE: Sequence[Any] = (-64, 0, 1.5, NAN, INF, True, None, "64", [64], 2**70)
NO_SCALE: Sequence[Any] = (0.0, -0.05, NAN, INF, 1e-40, 1e39, 10**400, True, "1", None, 1j)
NO_INDEX: Sequence[Any] = (1.5, NAN, True, "1", None, 2**40)
NO_TEXT: Sequence[Any] = ("a\0b", "\udc80", None, 1, b"x")
PAIR = ScaleOffset(0.05, -128)


def shaped(quant: Any) -> QnnTensor:
    """Return a tensor of 2 x 3 elements with this encoding."""
    return QnnTensor("x", dtype="UFIXED_POINT_8", shape=(2, 3), role=APP_WRITE, quant=quant)


RIGHT_QUANTS: Sequence[Quantization] = (
    None,
    PAIR,
    ScaleOffset(np.float32(0.5), np.int32(3)),
    ScaleOffset(2.0**-126, -(2**31)),
    AxisScaleOffset(0, (PAIR, PAIR)),
    AxisScaleOffset(1, (PAIR,) * 3),
    BwScaleOffset(4, 0.5, 0),
    BwAxisScaleOffset(4, 1, (0.5, 0.25, 1.0), ()),
    BwAxisScaleOffset(4, 0, (0.5, 0.25), (0, 1)),
    BlockEncoding((1, 2), (PAIR,) * 4),
    BlockwiseExpansion(0, (PAIR, PAIR), 3, 4, (1,) * 6),
    VectorEncoding(BwAxisScaleOffset(4, 0, (0.5,), ()), 1, 1, 4, 1, 4),
)
WRONG_QUANTS: Sequence[Any] = (
    *(ScaleOffset(scale) for scale in NO_SCALE),
    *(ScaleOffset(0.5, offset) for offset in NO_INDEX),
    *(BwScaleOffset(4, scale) for scale in NO_SCALE),
    *(BwScaleOffset(bits, 0.5) for bits in (0, -1, 9, 1.5, True)),
    *(AxisScaleOffset(0, (PAIR, ScaleOffset(scale))) for scale in NO_SCALE),
    *(AxisScaleOffset(axis, (PAIR, PAIR)) for axis in (-1, 1, 2, 2**40, 0.5, None)),
    *(AxisScaleOffset(0, pairs) for pairs in ((), (PAIR,), (PAIR,) * 3, PAIR, (0.5, 0.5), "ab", None)),
    *(BwAxisScaleOffset(4, 0, (0.5, scale)) for scale in NO_SCALE),
    *(BwAxisScaleOffset(4, 0, (0.5, 0.5), offsets) for offsets in ((0,), (0, 0, 0), (0, 0.5), 1)),
    *(BwAxisScaleOffset(4, axis, (0.5, 0.5)) for axis in (-1, 1, 2)),
    *(BlockEncoding(block, (PAIR,) * 4) for block in ((1,), (1, 2, 1), (0, 2), (1, 1), (-1, 2), 2)),
    BlockEncoding((1, 2), (PAIR,) * 3),
    BlockwiseExpansion(2, (PAIR, PAIR), 3, 4, (1,) * 6),
    BlockwiseExpansion(0, (PAIR,), 3, 4, (1,) * 6),
    BlockwiseExpansion(0, (PAIR, PAIR), 3, 4, (1,) * 5),
    BlockwiseExpansion(0, (PAIR, PAIR), 3, 4, (-1,) * 6),
    BlockwiseExpansion(0, (PAIR, PAIR), 3, 4, (1,) * 6, 12),
    VectorEncoding(PAIR, 1, 1, 4, 1, 4),  # type: ignore[arg-type]
    VectorEncoding(BwAxisScaleOffset(4, 0, (NAN,), ()), 1, 1, 4, 1, 4),
    0.05,
    "q",
    ScaleOffset,
)


def calls() -> Iterator[tuple[str, Callable[[], object]]]:
    """Return each wrong call with a description."""
    buffer = Buffer("client", 256, name="b")
    pool = Buffer("ashmem", 256)
    constants = Constants(pool)
    for size in NO_SIZE:
        yield f"Buffer({size!r})", lambda size=size: Buffer("memfd", size)
        yield f"Buffer({size!r})", lambda size=size: Buffer("ashmem", size)
        yield f"take({size!r})", lambda size=size: pool.take(size)
        if size is not None:
            yield f"part(0, {size!r})", lambda size=size: buffer.part(0, size)
            yield f"alignment {size!r}", lambda size=size: Buffer("client", 64, alignment=size)
            yield f"take, alignment {size!r}", lambda size=size: pool.take(1, alignment=size)
    for offset in (*NO_INDEX, -1, 256, INF):
        yield f"part({offset!r})", lambda offset=offset: buffer.part(offset)
        yield (
            f"refer({offset!r})",
            lambda offset=offset: constants.refer("c", dtype="UINT_8", shape=(1,), offset=offset),
        )
        if offset not in (256, 2**40):
            yield f"threshold {offset!r}", lambda offset=offset: Constants(pool, threshold=offset)
    yield "part beyond its end", lambda: buffer.part(128, 129)
    yield "no kind", lambda: buffer.part(0, 1, how="raw")
    for text in NO_TEXT:
        yield f"buffer {text!r}", lambda text=text: Buffer("memfd", 64, name=text)
        yield f"pool {text!r}", lambda text=text: Buffer("ashmem", 64, name=text)
        yield f"tensor {text!r}", lambda text=text: QnnTensor(text, dtype="INT_8", shape=(1,), role=APP_WRITE)
        yield f"node {text!r}", lambda text=text: OpConfig(text, package="p", op_type="o")
        yield f"package {text!r}", lambda text=text: OpConfig("n", package=text, op_type="o")
        yield f"op {text!r}", lambda text=text: OpConfig("n", package="p", op_type=text)
        yield (
            f"param {text!r}",
            lambda text=text: OpConfig("n", package="p", op_type="o", params=[Scalar(text, "INT_32", 1)]),
        )
    for shape in (8, "8", None, (-1,), (1.5,), (NAN,), (True,), ("8",), (2**32,), (None,)):
        made = {"dtype": "INT_8", "shape": shape, "role": APP_WRITE}
        yield f"shape {shape!r}", lambda made=made: QnnTensor("x", **made)
    for quant in WRONG_QUANTS:
        yield f"tensor with {quant!r}"[:200], lambda quant=quant: shaped(quant)
        if isinstance(quant, (ScaleOffset, AxisScaleOffset)):
            yield f"quantize {quant!r}", lambda quant=quant: quantize(np.ones((2, 3)), quant, "u1")
            yield f"dequantize {quant!r}", lambda quant=quant: dequantize(np.ones((2, 3), np.uint8), quant)
    for low, high in (
        (1, -1),
        (NAN, 1),
        (0, NAN),
        (-INF, 1),
        (0, INF),
        (0, 1e-45),
        (0, 1e-40),
        (0, 1e300),
        (-1e308, 1e308),
    ):
        yield f"grid_of({low}, {high})", lambda low=low, high=high: grid_of(low, high, "UFIXED_POINT_8")


def test_wrong_arguments_are_usage_errors() -> None:
    accepted, strange = [], []
    for what, call in calls():
        try:
            call()
        except UsageError as error:
            if not error.hint:
                strange.append(f"{what}: no hint: {error}")
        except UdogenError as error:
            if "refer" not in what and str(2**70) not in what:  # out of memory, out of the pool
                strange.append(f"{what}: {type(error).__name__} {error}")
        except Exception as error:
            strange.append(f"{what}: {type(error).__name__} {error}")
        else:
            accepted.append(what)
    assert not accepted
    assert not strange, "\n".join(strange)


WRONG_TYPES: Mapping[str, Callable[[], object]] = {
    "kind": lambda: Buffer(5),  # type: ignore[arg-type]
    "size": lambda: Buffer("client", "x"),  # type: ignore[arg-type]
    "type": lambda: Tensor("x", 5, (1,)),  # type: ignore[arg-type]
    "shape": lambda: Tensor("x", "FLOAT_32", 8),  # type: ignore[arg-type]
    "option": lambda: ContextOptions(htp={"SHARE_RESOURCES": [1]}).configs(),
    "fields": lambda: ContextOptions(htp={"REGISTER_CONCURRENT_RESOURCE_SHARING": True}).configs(),
    "depth": lambda: ContextOptions(queue_depth="x"),  # type: ignore[arg-type]
}
WRONG_VALUES: Mapping[str, Callable[[], object]] = {
    "kind": lambda: Buffer("ion", 64),
    "size": lambda: Buffer("client", 0),
    "type": lambda: Tensor("x", "FLOAT_99", (1,)),
    "shape": lambda: Tensor("x", "FLOAT_32", (-1,)),
    "role": lambda: Tensor("x", "FLOAT_32", (1,), role="INPUT"),
    "option": lambda: ContextOptions(htp={"SHARED": 1}),
}


@pytest.mark.parametrize("what", WRONG_TYPES)
def test_a_wrong_type_is_a_type_error_too(what: str) -> None:
    with pytest.raises(UsageError) as refused:
        WRONG_TYPES[what]()
    assert isinstance(refused.value, TypeError) and refused.value.hint


@pytest.mark.parametrize("what", WRONG_VALUES)
def test_a_wrong_value_is_a_value_error_too(what: str) -> None:
    with pytest.raises(UsageError) as refused:
        WRONG_VALUES[what]()
    assert isinstance(refused.value, ValueError) and not isinstance(refused.value, TypeError) and refused.value.hint


def test_right_encodings_are_accepted() -> None:
    for quant in RIGHT_QUANTS:
        shaped(quant)
    for low, high, dtype in product((-1, 0, 1), (1, 2), ("UFIXED_POINT_8", "SFIXED_POINT_16")):
        grid = grid_of(low, high, dtype)
        assert np.float32(grid.scale) == grid.scale > 0
    assert grid_of(0, 0, "UFIXED_POINT_8").scale == 1.0


def test_a_tensor_of_a_retrieved_graph_has_the_encoding_of_the_runtime() -> None:
    QnnTensor("x", dtype="UFIXED_POINT_8", shape=(2,), role=APP_WRITE, quant=ScaleOffset(0.0, 0), id=7)


def test_a_long_name_is_shortened() -> None:
    Buffer("memfd", 64, name="ü" * 300).close()
