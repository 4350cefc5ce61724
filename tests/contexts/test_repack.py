"""Repack buffers: the layout compared with a slow reference, exact round trips, ranges as ggml sets and gets them."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contexts.conftest import refused
from udogen import UsageError
from udogen.runtime import Buffer
from udogen.runtime.buffers.block_weights import FORMATS, quantize_blocks, repacked_bytes, stride, unrepack_rows
from udogen.runtime.quantization import RepackBuffer

SIZES = {"Q4_0": 18, "Q8_0": 34, "MXFP4": 17}


def blocks_of(kind: str, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Return random blocks: any bytes are valid blocks, NaN scales included."""
    return np.random.default_rng(seed).integers(0, 256, (rows, columns // 32 * SIZES[kind]), dtype=np.uint8)


def layout(kind: str, row: bytes) -> bytes:
    """Return the layout in the docstring of the module, one quant at a time."""
    quants, scales = [], b""
    for first in range(0, len(row), SIZES[kind]):
        block = row[first : first + SIZES[kind]]
        scale = block[:1] if kind == "MXFP4" else block[:2]
        scales += scale
        stored = block[len(scale) :]
        quants += list(stored) if kind == "Q8_0" else [each & 15 for each in stored] + [each >> 4 for each in stored]
    if kind == "Q8_0":
        made = bytes(quants) + bytes(-len(quants) % 128)
    else:
        quants += [8 if kind == "Q4_0" else 0] * (-len(quants) % 256)
        made = b""
        for first in range(0, len(quants), 256):
            made += bytes(quants[first + i] | quants[first + i + 128] << 4 for i in range(128))
    return made + scales + bytes(-len(scales) % 128)


def repacked(blocks: np.ndarray, kind: str) -> np.ndarray:
    buffer = RepackBuffer(kind, (len(blocks), blocks.shape[1] // SIZES[kind] * 32))
    buffer.set(blocks)
    return buffer.data


@pytest.mark.parametrize("kind", FORMATS)
@given(rows=st.integers(1, 4), blocks=st.integers(1, 20), seed=st.integers(0, 99))
def test_repacked_rows_are_as_documented_and_come_back_bit_for_bit(
    kind: str, rows: int, blocks: int, seed: int
) -> None:
    given_blocks = blocks_of(kind, rows, blocks * 32, seed)
    made = repacked(given_blocks, kind)
    assert made.shape == (rows, stride(blocks * 32, kind)) and made.shape[1] % 128 == 0
    assert [row.tobytes() for row in made] == [layout(kind, row.tobytes()) for row in given_blocks]
    np.testing.assert_array_equal(unrepack_rows(made, kind, blocks * 32), given_blocks)


@pytest.mark.parametrize(
    ("kind", "columns", "size"), [("Q4_0", 4096, 2304), ("Q8_0", 4096, 4352), ("MXFP4", 4096, 2176)]
)
def test_long_rows_take_no_more_memory_than_their_blocks(kind: str, columns: int, size: int) -> None:
    assert stride(columns, kind) == size == columns // 32 * SIZES[kind]


@pytest.mark.parametrize("kind", FORMATS)
def test_one_tensor_of_many_pieces(kind: str) -> None:
    """More rows than are processed at once."""
    columns = 96
    blocks = blocks_of(kind, 20000, columns)
    buffer = RepackBuffer(kind, (20, 1000, columns))
    buffer.set(blocks)
    assert buffer.data[-1].tobytes() == layout(kind, blocks[-1].tobytes())
    np.testing.assert_array_equal(buffer.get(), blocks.reshape(-1))


@pytest.mark.parametrize("kind", FORMATS)
@given(data=st.data())
def test_ranges_of_blocks_go_in_and_come_out(kind: str, data: st.DataObject) -> None:
    rows, per_row = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 10))
    total = rows * per_row
    first = data.draw(st.integers(0, total))
    count = data.draw(st.integers(0, total - first))
    start = blocks_of(kind, rows, per_row * 32, 1).reshape(-1)
    buffer = RepackBuffer(kind, (rows, per_row * 32))
    buffer.set(start)
    size = SIZES[kind]
    new = blocks_of(kind, 1, max(count, 1) * 32, 2)[0][: count * size]
    buffer.set(new.tobytes(), first * size)
    expected = start.copy()
    expected[first * size : (first + count) * size] = new
    np.testing.assert_array_equal(buffer.get(), expected)
    np.testing.assert_array_equal(buffer.get(first * size, count * size), new)
    np.testing.assert_array_equal(buffer.data, repacked(expected.reshape(rows, -1), kind))  # including the padding


@pytest.mark.parametrize("kind", FORMATS)
def test_numbers_in_numbers_out(kind: str) -> None:
    values = np.random.default_rng(5).standard_normal((2, 3, 64)).astype(np.float32)
    buffer = RepackBuffer(kind, values.shape)
    buffer.quantize(values)
    assert buffer.dequantize().shape == values.shape
    np.testing.assert_allclose(buffer.dequantize(), values, atol=np.abs(values).max() / 4)
    buffer.quantize(np.zeros((2, 64)), row=3)
    assert not buffer.dequantize(3, 2).any() and buffer.dequantize(5, 1).any()
    np.testing.assert_array_equal(buffer.get(0, SIZES[kind] * 2), quantize_blocks(values[0, 0], kind))


def test_it_is_not_host_memory_and_reports_what_a_session_maps() -> None:
    buffer = RepackBuffer("Q4_0", (10, 64))
    assert buffer.is_host is False
    assert (buffer.nbytes, buffer.tensor_bytes) == (10 * 256, 10 * 36)
    assert buffer.data.ctypes.data % 128 == 0


def test_memory_that_is_given_is_used() -> None:
    room = np.zeros(4096 + 256, np.uint8)
    aligned = room[-room.ctypes.data % 128 :][:4096]
    buffer = RepackBuffer("Q8_0", (4, 128), memory=aligned)
    buffer.quantize(np.ones((4, 128)))
    assert aligned[:1024].any() and np.shares_memory(aligned, buffer.data)
    with refused("the memory of a repack buffer begins 1 bytes behind a multiple of 128", error=UsageError):
        RepackBuffer("Q8_0", (4, 128), memory=aligned[1:])
    with refused("the memory of a repack buffer has 512 bytes, Q8_0 [4, 128] takes 1024", error=UsageError):
        RepackBuffer("Q8_0", (4, 128), memory=aligned[:512])
    with refused("the memory of a repack buffer cannot be written", error=UsageError):
        RepackBuffer("Q8_0", (4, 128), memory=bytes(4096))


def test_shared_memory_for_a_device(tidy: None) -> None:
    with Buffer("memfd", repacked_bytes("MXFP4", (3, 4, 96)), alignment=128) as memory:
        buffer = RepackBuffer("MXFP4", (3, 4, 96), memory=memory)
        assert buffer.nbytes == memory.size
        buffer.quantize(np.full((3, 4, 96), 1.5))
        assert os.pread(memory.descriptor(), memory.size, 0) == buffer.data.tobytes()
        del buffer


@pytest.mark.parametrize(
    ("offset", "size", "message"),
    [
        (0, 17, "bytes 0 to 17 end 17 bytes inside a block of Q4_0"),
        (4, 18, "bytes 4 to 22 begin 4 bytes inside a block of Q4_0"),
        (0, 180, "bytes 0 to 180 are not in this tensor: it has 144"),
        (-18, 18, "bytes -18 to 0 are not in this tensor: it has 144"),
        (144, 18, "bytes 144 to 162 are not in this tensor: it has 144"),
    ],
)
def test_partial_blocks_and_what_lies_outside_are_refused(offset: int, size: int, message: str) -> None:
    buffer = RepackBuffer("Q4_0", (4, 64))
    before = buffer.data.copy()
    for call in (lambda: buffer.set(bytes(size), offset), lambda: buffer.get(offset, size)):
        with refused(message, error=UsageError):
            call()
    np.testing.assert_array_equal(buffer.data, before)


def test_partial_blocks_are_refused_with_a_remedy() -> None:
    with pytest.raises(UsageError) as caught:
        RepackBuffer("MXFP4", (4, 64)).set(bytes(16))
    assert caught.value.hint == "set and get whole blocks (17 bytes for 32 numbers), or whole rows (34 bytes)"


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((), "a repack buffer cannot have the shape []"),
        ((0, 32), "a repack buffer cannot have the shape [0, 32]"),
        ((4, 33), "a row of 33 numbers is not a multiple of a block of Q8_0"),
    ],
)
def test_shapes_that_are_none(shape: tuple[int, ...], message: str) -> None:
    with refused(message, error=UsageError):
        RepackBuffer("Q8_0", shape)


def test_arrays_that_do_not_fit() -> None:
    with refused("an array of shape [4, 32] has no rows of 64 numbers", error=UsageError):
        RepackBuffer("Q8_0", (4, 64)).quantize(np.zeros((4, 32)))
    with refused("rows of 100 bytes are not repacked rows of 64 numbers in Q8_0", error=UsageError):
        unrepack_rows(np.zeros((2, 100), np.uint8), "Q8_0", 64)
