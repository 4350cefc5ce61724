"""Block-quantized weights: numpy compared with slow references that follow the format's description, and edge cases."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.contexts.conftest import refused
from udogen import UsageError
from udogen.runtime.buffers.block_weights import BLOCK, FORMATS, dequantize_blocks, quantize_blocks

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
SIZES = {"Q4_0": 18, "Q8_0": 34, "MXFP4": 17}


# --- references: one block at a time, every step rounded to float32 as in C -------------------------------------------


def f32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def half(value: float) -> bytes:
    return struct.pack("<e", value)


def inverse(scale: float) -> float:
    made = f32(1 / scale) if scale else 0.0
    return made if math.isfinite(made) else 0.0


def nibbles(quants: list[int]) -> bytes:
    return bytes(low | high << 4 for low, high in zip(quants[:16], quants[16:], strict=True))


def q4_0(block: list[float]) -> bytes:
    peak = 0.0
    for each in block:
        if abs(each) > abs(peak):
            peak = each
    scale = f32(peak / -8)
    return half(scale) + nibbles([min(15, int(f32(f32(each * inverse(scale)) + 8.5))) for each in block])


def q8_0(block: list[float]) -> bytes:
    scale = f32(max(abs(each) for each in block) / 127)
    quants = []
    for each in block:
        scaled = f32(each * inverse(scale))
        quants.append(int(math.copysign(math.floor(abs(scaled) + 0.5), scaled)))
    return half(scale) + struct.pack("32b", *quants)


def mxfp4(block: list[float]) -> bytes:
    peak = max(abs(each) for each in block)
    exponent = min(254, max(0, math.floor(f32(math.log2(peak))) - 2 + 127)) if peak else 0
    quants = []
    for each in block:
        table = [f32(sign * number * 2.0 ** (exponent - 127)) for sign in (1, -1) for number in E2M1]
        distances = [abs(f32(number - each)) for number in table]
        quants.append(distances.index(min(distances)))
    return bytes([exponent]) + nibbles(quants)


REFERENCES = {"Q4_0": q4_0, "Q8_0": q8_0, "MXFP4": mxfp4}


def numbers_of(kind: str, block: bytes) -> list[float]:
    if kind == "MXFP4":
        scale = math.nan if block[0] == 255 else 2.0 ** (block[0] - 127)
        quants = [each & 15 for each in block[1:]] + [each >> 4 for each in block[1:]]
        return [f32((-1 if quant & 8 else 1) * E2M1[quant & 7] * scale) for quant in quants]
    [scale] = struct.unpack("<e", block[:2])
    if kind == "Q8_0":
        return [f32(each * scale) for each in struct.unpack("32b", block[2:])]
    quants = [each & 15 for each in block[2:]] + [each >> 4 for each in block[2:]]
    return [f32((quant - 8) * scale) for quant in quants]


# --- numpy compared with them -----------------------------------------------------------------------------------------

FINITE = st.floats(-60000, 60000, width=32)
CLOSE = st.sampled_from([s * v for v in (0.5, 1, 1.5, 2.5, 3.5, 5, 6, 7, 7.9999995, 8, 63.5, 127) for s in (1, -1)])
ROWS = st.one_of(
    arrays(np.float32, (2, BLOCK), elements=FINITE),
    arrays(np.float32, (2, BLOCK), elements=CLOSE),
    arrays(np.float32, (2, BLOCK), elements=st.floats(-(2.0**-119), 2.0**-119, width=32)),
)


@pytest.mark.parametrize("kind", FORMATS)
@given(values=ROWS)
def test_packing_is_that_of_the_reference(kind: str, values: np.ndarray) -> None:
    expected = [REFERENCES[kind](row.tolist()) for row in values]
    assert [row.tobytes() for row in quantize_blocks(values, kind)] == expected


@pytest.mark.parametrize("kind", FORMATS)
@given(data=st.data())
def test_unpacking_is_that_of_the_reference(kind: str, data: st.DataObject) -> None:
    block = data.draw(st.binary(min_size=SIZES[kind], max_size=SIZES[kind]))
    found = dequantize_blocks(np.frombuffer(block, np.uint8), kind)
    np.testing.assert_array_equal(found, np.array(numbers_of(kind, block), np.float32))


@pytest.mark.parametrize(("kind", "worst"), [("Q4_0", 1 / 8), ("Q8_0", 0.57 / 127), ("MXFP4", 1 / 4)])
def test_what_comes_back_is_near(kind: str, worst: float) -> None:
    values = np.random.default_rng(3).standard_normal((4, 3, 96)).astype(np.float32)
    blocks = quantize_blocks(values, kind)
    assert blocks.shape == (4, 3, 3 * SIZES[kind])
    back = dequantize_blocks(blocks, kind)
    assert back.shape == values.shape
    peak = np.abs(values.reshape(-1, BLOCK)).max(axis=1)
    assert (np.abs(back - values).reshape(-1, BLOCK).max(axis=1) <= peak * worst * 1.01).all()


# --- edge cases -------------------------------------------------------------------------------------------------------


def block(*numbers: float) -> np.ndarray:
    return np.array([*numbers, *[0.0] * (BLOCK - len(numbers))], np.float32)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("Q4_0", "0080" + "88" * 16), ("Q8_0", "0000" + "00" * 32), ("MXFP4", "00" + "00" * 16)],
)
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros(kind: str, expected: str, zero: float) -> None:
    blocks = quantize_blocks(np.full(BLOCK, zero, np.float32), kind)
    assert blocks.tobytes().hex() == expected  # the scale of Q4_0 is -0, as in ggml
    assert not dequantize_blocks(blocks, kind).any()


E2M1_NUMBERS = (6, -6, 4, -4, 3, 2, 1.5, 1, 0.5, -0.5)
BELOW_HALF = np.nextafter(np.float32(0.5), np.float32(0))
EDGES: Sequence[tuple[str, Sequence[float], Sequence[float]]] = (
    # The first of two peaks becomes -8; its opposite would be +8, which does not exist, so it becomes 7.
    ("Q4_0", (8, -8, 4), (8, -7, 4)),
    ("Q4_0", (-8, 8, 4), (-8, 7, 4)),
    ("Q8_0", (127, 0.5, -0.5, 1.5, BELOW_HALF), (127, 1, -1, 2, 0)),  # halves go away from zero
    ("MXFP4", E2M1_NUMBERS, E2M1_NUMBERS),
    ("MXFP4", (6, 5, -5, 3.5, 2.5, 1.75, 0.25, -0.25), (6, 4, -4, 3, 2, 1.5, 0, 0)),  # between two: the smaller
    ("MXFP4", (2.0**-127,), (2.0**-127,)),
    # Scales that are too small for float16.
    *((kind, (tiny, -tiny / 2), (0, 0)) for kind in ("Q4_0", "Q8_0") for tiny in (1e-45, 1e-39, 1e-12)),
)


@pytest.mark.parametrize(("kind", "numbers", "expected"), EDGES)
def test_numbers_at_the_edges_of_a_format(kind: str, numbers: Sequence[float], expected: Sequence[float]) -> None:
    found = dequantize_blocks(quantize_blocks(block(*numbers), kind), kind)
    np.testing.assert_array_equal(found[: len(numbers)], np.array(expected, np.float32))


@pytest.mark.parametrize(("exponent", "one"), [(0, 2.0**-127), (1, 2.0**-126), (127, 1.0), (254, 2.0**127)])
def test_exponents_of_mxfp4(exponent: int, one: float) -> None:
    stored = np.array([exponent, 0x21, *[0] * 15], np.uint8)
    found = dequantize_blocks(stored, "MXFP4")
    assert (found[0], found[16]) == (np.float32(one / 2), np.float32(one))


def test_the_exponent_255_is_not_a_number() -> None:
    assert np.isnan(dequantize_blocks(np.array([255, *[0x11] * 16], np.uint8), "MXFP4")).all()


def test_the_largest_and_the_smallest_numbers_of_mxfp4() -> None:
    largest = float(np.finfo(np.float32).max)
    found = dequantize_blocks(quantize_blocks(block(largest, 1e38), "MXFP4"), "MXFP4")
    assert np.isfinite(found).all() and found[0] == 0.75 * 2.0**128
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    assert quantize_blocks(block(smallest), "MXFP4")[0] == 0


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(kind: str, value: float) -> None:
    values = np.zeros((3, 64), np.float32)
    values[2, 33] = value
    with refused(f"row 2, column 33 is {value}: {kind} has finite numbers only", error=UsageError):
        quantize_blocks(values, kind)


@pytest.mark.parametrize(("kind", "largest"), [("Q4_0", 65504 * 8), ("Q8_0", 65504 * 127)])
def test_a_scale_that_float16_does_not_have_is_refused(kind: str, largest: float) -> None:
    assert np.isfinite(dequantize_blocks(quantize_blocks(block(largest), kind), kind)).all()
    values = np.zeros((2, 64), np.float32)
    values[1, 40] = 1e8
    with refused(
        "row 1, columns 32 to 63: numbers up to 1e+08 need a scale that float16 does not have", error=UsageError
    ):
        quantize_blocks(values, kind)


@pytest.mark.parametrize("columns", [1, 31, 33])
def test_rows_that_are_not_whole_blocks_are_refused(columns: int) -> None:
    with refused(f"a row of {columns} numbers is not a multiple of a block of Q4_0", error=UsageError):
        quantize_blocks(np.zeros((2, columns), np.float32), "Q4_0")


def test_bytes_that_are_not_whole_blocks_are_refused() -> None:
    with refused(
        "35 bytes are not a multiple of a block of Q8_0: 1 are over",
        error=UsageError,
        hint="a block of 32 numbers takes 34 bytes",
    ):
        dequantize_blocks(np.zeros(35, np.uint8), "Q8_0")


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        quantize_blocks(np.zeros(32, np.float32), "Q5_K")
    assert (caught.value.message, caught.value.hint) == (
        "`Q5_K` is not a block-quantized type",
        "one of: Q4_0, Q8_0, MXFP4",
    )


# --- another implementation of MX -----------------------------------------------------------------------------------


def test_every_mxfp4_number_is_that_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="pip install ml_dtypes")
    nibbles = np.arange(16, dtype=np.uint8)
    blocks = np.zeros((256, 17), np.uint8)
    blocks[:, 0] = np.arange(256)
    blocks[:, 1:] = nibbles | nibbles[::-1] << 4
    codes = np.concatenate([nibbles, nibbles[::-1]]).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    scales = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        expected = (codes * scales[:, None]).astype(np.float32)
    np.testing.assert_array_equal(dequantize_blocks(blocks, "MXFP4"), expected)


def test_numbers_are_rounded_to_the_e2m1_of_ml_dtypes() -> None:
    """Except halfway between two: there ggml takes the smaller one, and IEEE's rule the even one."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="pip install ml_dtypes")
    values = np.random.default_rng(4).normal(size=(1000, 32)).astype(np.float32)
    blocks = quantize_blocks(values, "MXFP4")
    scales = blocks[:, 0].view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    scaled = values / scales[:, None]
    nearest = scaled.astype(ml_dtypes.float4_e2m1fn).astype(np.float64)
    np.testing.assert_array_equal(dequantize_blocks(blocks, "MXFP4"), np.clip(nearest, -6, 6) * scales[:, None])
