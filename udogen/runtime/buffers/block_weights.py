"""Block-quantized weights, as ggml stores them and repacked for vector code.

In a ggml block, 32 numbers of a row share one scale, which is stored before their quants:

    Q4_0    f16 scale, 16 bytes: numbers 0 … 15 in the low nibbles, 16 … 31 in the high; number = (nibble - 8) * scale
    Q8_0    f16 scale, 32 signed bytes; number = byte * scale
    MXFP4   one byte of exponent (E8M0), nibbles as in Q4_0, each an E2M1 number; number = E2M1 * 2 ** (exponent - 127)

Rounding matches ggml's reference functions bit for bit where the behaviour of their C code is defined.  Elsewhere:
numbers that are not finite, or too large for an f16 scale, are an error; if 1/scale overflows, all quants and the f16
scale are zero; an exponent below zero becomes 0; 255, which ggml calls invalid, is read as NaN, as in the MX
specification.

A repacked row of `columns` numbers has two parts, each padded to a multiple of 128 bytes (one HVX vector):

    Q8_0          all quants in order, one byte each; padding is 0
    Q4_0, MXFP4   256 quants in each 128 bytes: byte i has quant i in its low nibble and quant i + 128 in its high one,
                  so an `and` and a shift give two vectors of consecutive quants; padding is the quant of 0
    then          all scales in order (f16, little-endian, or the byte of E8M0); padding is 0

Rows are `stride` bytes apart.  The idea comes from ggml-hexagon's x4x2 rows (quants of a row first, then its scales);
those have no padding between the parts, so their bytes differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from udogen.errors import UsageError, kind_of
from udogen.runtime.buffers.buffer import Buffer
from udogen.runtime.buffers.memory import align_up

BLOCK = 32
_AT_ONCE = 1 << 15  # blocks per pass: the working set stays in the processor's cache

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Scales = NDArray[Any]


class BlockFormat(NamedTuple):
    """One block-quantized type."""

    name: str
    layout: np.dtype[Any]  # of one block: its scale, its quants
    bits: int  # of a quant
    nothing: int  # the quant of the number 0
    quantize: Callable[[Floats], tuple[Scales, Bytes]]  # 32 numbers in each row -> its scale, 32 quants
    dequantize: Callable[[Scales, Bytes], Floats]

    @property
    def block_bytes(self) -> int:
        """The size of a block of 32 numbers, in bytes."""
        return int(self.layout.itemsize)

    @property
    def scale_bytes(self) -> int:
        """The size of the scale in a block, in bytes."""
        return int(self.layout["scale"].itemsize)

    def row_bytes(self, columns: int) -> int:
        """The size of a row of `columns` numbers, in bytes."""
        return columns // BLOCK * self.block_bytes


def quantize_blocks(values: NDArray[Any], kind: str) -> Bytes:
    """Quantize along the last axis into blocks of Q4_0, Q8_0 or MXFP4: `blocks = quantize_blocks(w, "Q8_0")`."""
    form, given = format_of(kind), np.ascontiguousarray(values, np.float32)
    columns = given.shape[-1] if given.ndim else 1
    check_columns(form, columns)
    numbers = given.reshape(-1, BLOCK)
    quantized = np.empty(len(numbers), form.layout)
    for first in range(0, len(numbers), _AT_ONCE):
        part = numbers[first : first + _AT_ONCE]
        if not np.isfinite(part).all():
            _refuse_infinite(form, part, first * BLOCK, columns)
        with np.errstate(over="ignore", divide="ignore", under="ignore", invalid="ignore"):
            scales, quants = form.quantize(part)
        if not np.isfinite(scales).all():
            _refuse_large(form, part, scales, first * BLOCK, columns)
        quantized[first : first + _AT_ONCE]["scale"] = scales
        quantized[first : first + _AT_ONCE]["quants"] = _together(quants) if form.bits == 4 else quants
    return quantized.view(np.uint8).reshape(*given.shape[:-1], form.row_bytes(columns))


def dequantize_blocks(blocks: NDArray[Any], kind: str) -> Floats:
    """Dequantize blocks along the last axis: `w = dequantize_blocks(blocks, "Q8_0")`."""
    form = format_of(kind)
    given = np.ascontiguousarray(blocks).view(np.uint8)
    if not given.ndim or given.shape[-1] % form.block_bytes:
        raise partial_block(form, given.shape[-1] if given.ndim else 1)
    stored = given.reshape(-1).view(form.layout)
    numbers = np.empty((len(stored), BLOCK), np.float32)
    for first in range(0, len(stored), _AT_ONCE):
        part = stored[first : first + _AT_ONCE]
        quants = _apart(part["quants"]) if form.bits == 4 else part["quants"]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            numbers[first : first + _AT_ONCE] = form.dequantize(part["scale"], quants)
    return numbers.reshape(*given.shape[:-1], given.shape[-1] // form.block_bytes * BLOCK)


def format_of(kind: str) -> BlockFormat:
    """The format with this ggml name; raises if there is none."""
    form = FORMATS.get(kind.upper())
    if form is None:
        raise UsageError(f"`{kind}` is not a block-quantized type", hint="one of: " + ", ".join(FORMATS))
    return form


def check_columns(form: BlockFormat, columns: int) -> None:
    """Refuse rows that are not whole blocks."""
    if columns < 1 or columns % BLOCK:
        raise UsageError(
            f"a row of {columns} numbers is not a multiple of a block of {form.name}",
            hint=f"its length must be a multiple of {BLOCK}: pad the row, or keep this tensor unquantized",
        )


def partial_block(form: BlockFormat, size: int) -> UsageError:
    """The error for bytes that end inside a block."""
    return UsageError(
        f"{size} bytes are not a multiple of a block of {form.name}: {size % form.block_bytes} are over",
        hint=f"a block of {BLOCK} numbers takes {form.block_bytes} bytes",
    )


def _refuse_infinite(form: BlockFormat, part: Floats, before: int, columns: int) -> None:
    at = int(np.flatnonzero(~np.isfinite(part))[0])
    row, column = divmod(before + at, columns)
    raise UsageError(
        f"row {row}, column {column} is {part.ravel()[at]}: {form.name} has finite numbers only",
        hint="look for an overflow in what made these weights",
    )


def _refuse_large(form: BlockFormat, part: Floats, scales: Scales, before: int, columns: int) -> None:
    block = int(np.flatnonzero(~np.isfinite(scales))[0])
    row, column = divmod(before + block * BLOCK, columns)
    raise UsageError(
        f"row {row}, columns {column} to {column + BLOCK - 1}: numbers up to {np.abs(part[block]).max():g} "
        f"need a scale that float16 does not have",
        hint=f"scale the tensor down before it becomes {form.name}, or keep it unquantized",
    )


# --- the three formats ---------------------------------------------------------------------------------------


def _quantize_q4_0(numbers: Floats) -> tuple[Scales, Bytes]:
    peak = np.take_along_axis(numbers, np.abs(numbers).argmax(axis=1)[:, None], axis=1)
    scale = (peak + np.float32(0)) / np.float32(-8)  # + 0: a block of -0 has the peak +0, as in ggml
    quants = np.minimum((numbers * _inverse(scale) + np.float32(8.5)).astype(np.uint8), 15)
    return scale[:, 0].astype(np.float16), quants


def _dequantize_q4_0(scales: Scales, quants: Bytes) -> Floats:
    numbers: Floats = (quants.view(np.int8) - np.int8(8)).astype(np.float32) * scales.astype(np.float32)[:, None]
    return numbers


def _quantize_q8_0(numbers: Floats) -> tuple[Scales, Bytes]:
    scale = np.abs(numbers).max(axis=1, keepdims=True) / np.float32(127)
    scaled = numbers * _inverse(scale)
    # Halves go away from zero; adding 0.5 itself would round up the number just below 0.5.
    nearest = np.trunc(scaled + np.copysign(np.nextafter(np.float32(0.5), np.float32(0)), scaled))
    return scale[:, 0].astype(np.float16), nearest.astype(np.int8).view(np.uint8)


def _dequantize_q8_0(scales: Scales, quants: Bytes) -> Floats:
    return quants.view(np.int8).astype(np.float32) * scales.astype(np.float32)[:, None]


_E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12], np.float32)  # the E2M1 numbers doubled, so that they are integers
_BETWEEN = (_E2M1[:-1] + _E2M1[1:]) / 2
_SIGNED = np.concatenate([_E2M1, -_E2M1[:1] + 0, -_E2M1[1:]])
_NAN_EXPONENT = 255


def _quantize_mxfp4(numbers: Floats) -> tuple[Scales, Bytes]:
    sizes = np.abs(numbers)
    peak = sizes.max(axis=1)
    # ggml computes log2 as a float32, which rounds results just below an integer up to that integer.
    power = np.floor(np.log2(peak, dtype=np.float64, where=peak > 0, out=np.zeros(len(peak))).astype(np.float32))
    exponents = np.where(peak > 0, np.clip(power - 2 + 127, 0, 254), 0).astype(np.uint8)
    half = _half_power(exponents)[:, None]
    quants = np.zeros(numbers.shape, np.uint8)
    for middle, upper in zip(_BETWEEN, _E2M1[1:], strict=True):
        # A number whose upper neighbour would be infinite is rounded down; so is one halfway between two neighbours.
        limit = np.where(np.isfinite(upper * half), middle * half, np.float32(np.inf))
        quants += sizes > limit
    return exponents, quants | ((numbers < 0) & (quants > 0)).astype(np.uint8) << np.uint8(3)


def _dequantize_mxfp4(exponents: Scales, quants: Bytes) -> Floats:
    half = np.where(exponents == _NAN_EXPONENT, np.float32(np.nan), _half_power(exponents))
    numbers: Floats = _SIGNED[quants] * half[:, None]
    return numbers


def _half_power(exponents: Scales) -> Floats:
    """Half the E8M0 scale, because the table holds doubled numbers; the two smallest results are denormal."""
    power: Floats = np.ldexp(np.float32(1), exponents.astype(np.int32) - 128)
    return power


def _inverse(scale: Floats) -> Floats:
    inverse: Floats = np.float32(1) / scale
    return np.where(np.isfinite(inverse), inverse, np.float32(0))


def _together(quants: Bytes) -> Bytes:
    half = BLOCK // 2
    nibbles: Bytes = quants[:, :half] | quants[:, half:] << np.uint8(4)
    return nibbles


def _apart(nibbles: Bytes) -> Bytes:
    return np.concatenate([nibbles & np.uint8(15), nibbles >> np.uint8(4)], axis=1)


def _block(scale: str, quants: int) -> np.dtype[Any]:
    return np.dtype([("scale", scale), ("quants", np.uint8, (quants,))])


FORMATS = {
    row.name: row
    for row in (
        BlockFormat("Q4_0", _block("<f2", 16), 4, 8, _quantize_q4_0, _dequantize_q4_0),
        BlockFormat("Q8_0", _block("<f2", 32), 8, 0, _quantize_q8_0, _dequantize_q8_0),
        BlockFormat("MXFP4", _block("u1", 16), 4, 0, _quantize_mxfp4, _dequantize_mxfp4),
    )
}


VECTOR = 128  # bytes of an HVX vector, to which everything is padded and aligned
_AT_ONCE_BYTES = 1 << 22  # bytes per pass


def unrepack_rows(rows: NDArray[Any], kind: str, columns: int) -> Bytes:
    """Convert repacked rows back to blocks, bit for bit: `blocks = unrepack_rows(rows, "Q4_0", 256)`."""
    form, given = format_of(kind), _rows(rows)
    check_columns(form, columns)
    if given.shape[1] != stride(columns, kind):
        raise UsageError(
            f"rows of {given.shape[1]} bytes are not repacked rows of {columns} numbers in {form.name}",
            hint=f"those have {stride(columns, kind)} bytes",
        )
    unpacked = np.empty((len(given), columns // BLOCK), form.layout)
    for part in _slices(len(given), given.shape[1]):
        _unrepack(form, given[part], unpacked[part])
    return unpacked.view(np.uint8).reshape(len(given), form.row_bytes(columns))


def stride(columns: int, kind: str) -> int:
    """The size of a repacked row in bytes, padding included."""
    form = format_of(kind)
    check_columns(form, columns)
    return _quant_bytes(form, columns) + align_up(columns // BLOCK * form.scale_bytes, VECTOR)


def repacked_bytes(kind: str, shape: Sequence[int]) -> int:
    """The size of a repacked tensor, in bytes."""
    return prod(shape[:-1]) * stride(shape[-1], kind)


class RepackBuffer:
    """Block-quantized weights in the layout that vector code reads: `RepackBuffer("Q4_0", (16, 256)).quantize(array)`.

    Its bytes are not in the layout of the tensor's type, so only kernels for the repacked layout may read them.  The
    last number of `shape` is the length of a row, as in numpy.
    """

    is_host = False

    def __init__(self, kind: str, shape: Sequence[int], *, memory: Any = None) -> None:
        """`memory` is a `Buffer` (of shared memory for a device) or any writable bytes; by default it is allocated."""
        self.format, self.shape = format_of(kind), tuple(shape)
        if not self.shape or any(extent < 1 for extent in self.shape):
            raise UsageError(f"a repack buffer cannot have the shape {list(self.shape)}", hint="give rows and columns")
        self.columns, self.rows = self.shape[-1], prod(self.shape[:-1])
        check_columns(self.format, self.columns)
        self.stride = stride(self.columns, kind)
        self.nbytes = repacked_bytes(kind, shape)  # what a session maps
        self.tensor_bytes = self.rows * self.format.row_bytes(self.columns)  # in blocks, as `set` and `get` address it
        self.data = self._place(memory)  # the repacked rows, for kernels; shape (rows, stride)

    def set(self, blocks: Any, offset: int = 0) -> None:
        """Store blocks at a byte offset in the ggml layout of the tensor; whole rows are not read first."""
        try:
            view = memoryview(blocks)
        except TypeError as fault:
            raise UsageError(f"the blocks are {kind_of(blocks)}", hint="give bytes, or an array of them") from fault
        given = np.frombuffer(blocks if view.contiguous else view.tobytes(), np.uint8)
        rows, before = self._range(offset, len(given))
        if not len(given):
            return
        row_bytes = self.format.row_bytes(self.columns)
        if before or len(given) % row_bytes:  # partial rows: their other bytes are kept
            whole = self.get(rows.start * row_bytes, (rows.stop - rows.start) * row_bytes).copy()
            whole[before : before + len(given)] = given
            given = whole
        filled = given.reshape(-1, row_bytes)
        for part in _slices(len(filled), self.stride):
            _repack(self.format, filled[part].view(self.format.layout), self.data[rows][part])

    def get(self, offset: int = 0, size: int | None = None) -> Bytes:
        """The blocks at a byte offset in the ggml layout of the tensor, bit for bit as they were stored."""
        wanted = self.tensor_bytes - offset if size is None else size
        rows, before = self._range(offset, wanted)
        return unrepack_rows(self.data[rows], self.format.name, self.columns).reshape(-1)[before : before + wanted]

    def quantize(self, values: NDArray[Any], row: int = 0) -> None:
        """Quantize numbers as ggml does, and store them as rows from `row` on."""
        given = np.asarray(values, np.float32)
        if given.ndim < 1 or given.shape[-1] != self.columns:
            raise UsageError(
                f"an array of shape {list(given.shape)} has no rows of {self.columns} numbers",
                hint=f"the tensor has the shape {list(self.shape)}",
            )
        self.set(quantize_blocks(given, self.format.name).reshape(-1), row * self.format.row_bytes(self.columns))

    def dequantize(self, row: int = 0, rows: int | None = None) -> Floats:
        """The dequantized numbers of some rows; without arguments, those of the whole tensor in its shape."""
        row_bytes = self.format.row_bytes(self.columns)
        size = None if rows is None else rows * row_bytes
        numbers = dequantize_blocks(self.get(row * row_bytes, size), self.format.name).reshape(-1, self.columns)
        return numbers.reshape(self.shape) if row == 0 and rows is None else numbers

    def _place(self, memory: Any) -> Bytes:
        if memory is None:
            spare = np.zeros(self.nbytes + VECTOR, np.uint8)
            memory = spare[-spare.ctypes.data % VECTOR :]
        try:
            given = np.frombuffer(memory.view if isinstance(memory, Buffer) else memory, np.uint8)
        except (TypeError, ValueError) as fault:
            what = f"the memory of a repack buffer is {kind_of(memory)}"
            raise UsageError(what, hint="give a Buffer, or an array of bytes that can be written") from fault
        if not given.flags.writeable:
            raise UsageError("the memory of a repack buffer cannot be written", hint="map it for reading and writing")
        if given.size < self.nbytes:
            raise UsageError(
                f"the memory of a repack buffer has {given.size} bytes, {self.format.name} {list(self.shape)} "
                f"takes {self.nbytes}",
                hint=f"{self.rows} rows of {self.stride} bytes each, filled up to whole vectors",
            )
        if over := given.ctypes.data % VECTOR:
            raise UsageError(
                f"the memory of a repack buffer begins {over} bytes behind a multiple of {VECTOR}",
                hint="vectors are loaded from multiples of their size: align it",
            )
        return given[: self.nbytes].reshape(self.rows, self.stride)

    def _range(self, offset: int, size: int) -> tuple[slice, int]:
        """The rows that a range of bytes touches, and the offset at which it begins in the first of them."""
        block, row_bytes = self.format.block_bytes, self.format.row_bytes(self.columns)
        if offset < 0 or size < 0 or offset + size > self.tensor_bytes:
            raise UsageError(
                f"bytes {offset} to {offset + size} are not in this tensor: it has {self.tensor_bytes}",
                hint=f"{self.rows} rows of {row_bytes} bytes",
            )
        if offset % block or size % block:
            where = f"begin {offset % block} bytes inside" if offset % block else f"end {size % block} bytes inside"
            raise UsageError(
                f"bytes {offset} to {offset + size} {where} a block of {self.format.name}",
                hint=f"set and get whole blocks ({block} bytes for {BLOCK} numbers), or whole rows ({row_bytes} bytes)",
            )
        first = offset // row_bytes
        return slice(first, max(first, -(-(offset + size) // row_bytes))), offset - first * row_bytes


def _repack(form: BlockFormat, blocks: NDArray[Any], out: Bytes) -> None:
    quants = blocks["quants"]
    rows, count = quants.shape[:2]
    width = _quant_bytes(form, count * BLOCK)
    if form.bits == 8:
        out[:, : count * BLOCK] = quants.reshape(rows, -1)
        out[:, count * BLOCK : width] = form.nothing
    else:
        apart = np.full((rows, width * 2), form.nothing, np.uint8)
        halves = apart[:, : count * BLOCK].reshape(rows, count, 2, BLOCK // 2)
        halves[:, :, 0], halves[:, :, 1] = quants & np.uint8(15), quants >> np.uint8(4)
        vectors = apart.reshape(rows, -1, 2, VECTOR)
        np.bitwise_or(vectors[:, :, 0], vectors[:, :, 1] << np.uint8(4), out=out[:, :width].reshape(rows, -1, VECTOR))
    scales = np.ascontiguousarray(blocks["scale"]).view(np.uint8).reshape(rows, -1)
    out[:, width : width + scales.shape[1]] = scales
    out[:, width + scales.shape[1] :] = 0


def _unrepack(form: BlockFormat, rows: Bytes, out: NDArray[Any]) -> None:
    count = out.shape[1]
    width = _quant_bytes(form, count * BLOCK)
    if form.bits == 8:
        out["quants"] = rows[:, : count * BLOCK].reshape(len(rows), count, BLOCK)
    else:
        vectors = rows[:, :width].reshape(len(rows), -1, VECTOR)
        apart = np.stack([vectors & np.uint8(15), vectors >> np.uint8(4)], axis=2).reshape(len(rows), -1)
        halves = apart[:, : count * BLOCK].reshape(len(rows), count, 2, BLOCK // 2)
        out["quants"] = halves[:, :, 0] | halves[:, :, 1] << np.uint8(4)
    scales = np.ascontiguousarray(rows[:, width : width + count * form.scale_bytes])
    out["scale"] = scales.view(form.layout["scale"])


def _quant_bytes(form: BlockFormat, columns: int) -> int:
    return align_up(columns * form.bits // 8, VECTOR)


def _rows(given: NDArray[Any]) -> Bytes:
    rows = np.ascontiguousarray(given).view(np.uint8)
    return rows.reshape(-1, rows.shape[-1]) if rows.ndim != 1 else rows.reshape(1, -1)


def _slices(rows: int, row_bytes: int) -> list[slice]:
    step = max(1, _AT_ONCE_BYTES // max(row_bytes, 1))
    return [slice(first, min(first + step, rows)) for first in range(0, rows, step)]
