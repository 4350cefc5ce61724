"""Buffers in which block-quantized weights lie as vector code reads them: vectors of quants, then vectors of scales.

A row of `columns` numbers becomes, each part filled up to a multiple of 128 bytes (one HVX vector):

    Q8_0          all quants in order, one byte each; padding is 0
    Q4_0, MXFP4   256 quants in each 128 bytes: byte i has quant i in its low nibble and quant i + 128 in its high one,
                  so that an `and` and a shift give two vectors of neighbours; padding is the quant that stands for 0
    then          all scales in order (f16, little-endian, or the byte of E8M0); padding is 0

Each row begins `stride` bytes after the one before it.  The layout is ours, made after the same idea as ggml-hexagon's
x4x2 rows (quants of a row first, its scales behind); those have no padding between the two and are not the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from udogen.errors import UsageError
from udogen.runtime.buffers.buffer import Buffer
from udogen.runtime.sessions.blocks import BLOCK, Bytes, Floats, Format, check_columns, format_of, pack, unpack

VECTOR = 128  # bytes of an HVX vector, to which everything is filled up and aligned
_AT_ONCE = 1 << 22  # bytes worked on at once


def repack(blocks: NDArray[Any], kind: str) -> Bytes:
    """Rows of blocks as vector code reads them: shape (rows, bytes of blocks) becomes (rows, stride)."""
    form, given = format_of(kind), _rows(blocks)
    columns = _columns(form, given.shape[1])
    made = np.empty((len(given), stride(columns, kind)), np.uint8)
    for rows in _slices(len(given), made.shape[1]):
        _repack(form, given[rows].view(form.layout), made[rows])
    return made


def unrepack(rows: NDArray[Any], kind: str, columns: int) -> Bytes:
    """The blocks again, bit for bit: shape (rows, stride) becomes (rows, bytes of blocks)."""
    form, given = format_of(kind), _rows(rows)
    check_columns(form, columns)
    if given.shape[1] != stride(columns, kind):
        raise UsageError(
            f"rows of {given.shape[1]} bytes are no repacked rows of {columns} numbers in {form.name}",
            hint=f"those have {stride(columns, kind)} bytes",
        )
    made = np.empty((len(given), columns // BLOCK), form.layout)
    for part in _slices(len(given), given.shape[1]):
        _unrepack(form, given[part], made[part])
    return made.view(np.uint8).reshape(len(given), form.row_bytes(columns))


def stride(columns: int, kind: str) -> int:
    """How many bytes a repacked row takes, padding included."""
    form = format_of(kind)
    check_columns(form, columns)
    return _quant_bytes(form, columns) + _filled(columns // BLOCK * form.scale_bytes)


def repacked_bytes(kind: str, shape: Sequence[int]) -> int:
    """How many bytes a tensor takes when it is repacked."""
    return prod(shape[:-1]) * stride(shape[-1], kind)


class RepackBuffer:
    """A tensor of block-quantized weights in repacked form; blocks go in and come out, as with ggml's set and get.

    It is memory like any other, but not `host`: what lies in it is not what the tensor's type says, so nobody may read
    it but the kernels it was repacked for.  The last number of `shape` is the length of a row, as numpy counts.
    """

    is_host = False

    def __init__(self, kind: str, shape: Sequence[int], *, memory: Any = None) -> None:
        """`memory` is a `Buffer`, of shared memory for a device, or any writable bytes; without it they are our own."""
        self.format, self.shape = format_of(kind), tuple(shape)
        if not self.shape or any(each < 1 for each in self.shape):
            raise UsageError(f"a repack buffer cannot have the shape {list(self.shape)}", hint="give rows and columns")
        self.columns, self.rows = self.shape[-1], prod(self.shape[:-1])
        check_columns(self.format, self.columns)
        self.stride = stride(self.columns, kind)
        self.nbytes = repacked_bytes(kind, shape)  # what a session maps
        self.tensor_bytes = self.rows * self.format.row_bytes(self.columns)  # what `set` and `get` count
        self._stored = self._place(memory)

    @property
    def data(self) -> Bytes:
        """The repacked rows themselves, for kernels: shape (rows, stride)."""
        return self._stored

    def set(self, blocks: Any, offset: int = 0) -> None:
        """Store blocks at a byte offset of the tensor as ggml has it; whole rows go in without being read before."""
        given = np.frombuffer(memoryview(blocks).tobytes() if not memoryview(blocks).contiguous else blocks, np.uint8)
        rows, before = self._range(offset, len(given))
        if not len(given):
            return
        row_bytes = self.format.row_bytes(self.columns)
        if before or len(given) % row_bytes:  # parts of rows: the rest of them stays
            whole = self.get(rows.start * row_bytes, (rows.stop - rows.start) * row_bytes).copy()
            whole[before : before + len(given)] = given
            given = whole
        filled = given.reshape(-1, row_bytes)
        for part in _slices(len(filled), self.stride):
            _repack(self.format, filled[part].view(self.format.layout), self._stored[rows][part])

    def get(self, offset: int = 0, size: int | None = None) -> Bytes:
        """The blocks at a byte offset of the tensor, bit for bit as they were stored."""
        wanted = self.tensor_bytes - offset if size is None else size
        rows, before = self._range(offset, wanted)
        return unrepack(self._stored[rows], self.format.name, self.columns).reshape(-1)[before : before + wanted]

    def quantize(self, values: NDArray[Any], row: int = 0) -> None:
        """Store numbers as rows from `row` on, quantized as ggml does it."""
        given = np.asarray(values, np.float32)
        if given.ndim < 1 or given.shape[-1] != self.columns:
            raise UsageError(
                f"an array of shape {list(given.shape)} has no rows of {self.columns} numbers",
                hint=f"the tensor has the shape {list(self.shape)}",
            )
        self.set(pack(given, self.format.name).reshape(-1), row * self.format.row_bytes(self.columns))

    def dequantize(self, row: int = 0, rows: int | None = None) -> Floats:
        """The numbers of some rows; without arguments the whole tensor in its shape."""
        row_bytes = self.format.row_bytes(self.columns)
        size = None if rows is None else rows * row_bytes
        found = unpack(self.get(row * row_bytes, size), self.format.name).reshape(-1, self.columns)
        return found.reshape(self.shape) if row == 0 and rows is None else found

    def _place(self, memory: Any) -> Bytes:
        if memory is None:
            room = np.zeros(self.nbytes + VECTOR, np.uint8)
            memory = room[-room.ctypes.data % VECTOR :]
        given = np.frombuffer(memory.view if isinstance(memory, Buffer) else memory, np.uint8)
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
        """The rows that a range of bytes touches, and how far into the first of them it begins."""
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


def _repack(form: Format, blocks: NDArray[Any], out: Bytes) -> None:
    quants = blocks["quants"]
    rows, count = quants.shape[:2]
    room = _quant_bytes(form, count * BLOCK)
    if form.bits == 8:
        out[:, : count * BLOCK] = quants.reshape(rows, -1)
        out[:, count * BLOCK : room] = form.nothing
    else:
        apart = np.full((rows, room * 2), form.nothing, np.uint8)
        halves = apart[:, : count * BLOCK].reshape(rows, count, 2, BLOCK // 2)
        halves[:, :, 0], halves[:, :, 1] = quants & np.uint8(15), quants >> np.uint8(4)
        vectors = apart.reshape(rows, -1, 2, VECTOR)
        np.bitwise_or(vectors[:, :, 0], vectors[:, :, 1] << np.uint8(4), out=out[:, :room].reshape(rows, -1, VECTOR))
    scales = np.ascontiguousarray(blocks["scale"]).view(np.uint8).reshape(rows, -1)
    out[:, room : room + scales.shape[1]] = scales
    out[:, room + scales.shape[1] :] = 0


def _unrepack(form: Format, rows: Bytes, out: NDArray[Any]) -> None:
    count = out.shape[1]
    room = _quant_bytes(form, count * BLOCK)
    if form.bits == 8:
        out["quants"] = rows[:, : count * BLOCK].reshape(len(rows), count, BLOCK)
    else:
        vectors = rows[:, :room].reshape(len(rows), -1, VECTOR)
        apart = np.stack([vectors & np.uint8(15), vectors >> np.uint8(4)], axis=2).reshape(len(rows), -1)
        halves = apart[:, : count * BLOCK].reshape(len(rows), count, 2, BLOCK // 2)
        out["quants"] = halves[:, :, 0] | halves[:, :, 1] << np.uint8(4)
    scales = np.ascontiguousarray(rows[:, room : room + count * form.scale_bytes])
    out["scale"] = scales.view(form.layout["scale"])


def _quant_bytes(form: Format, columns: int) -> int:
    return _filled(columns * form.bits // 8)


def _filled(size: int) -> int:
    return -(-size // VECTOR) * VECTOR


def _columns(form: Format, row_bytes: int) -> int:
    columns, over = divmod(row_bytes, form.block_bytes)
    if over or not columns:
        raise UsageError(
            f"rows of {row_bytes} bytes are not whole blocks of {form.name}",
            hint=f"a block of {BLOCK} numbers takes {form.block_bytes} bytes",
        )
    return columns * BLOCK


def _rows(given: NDArray[Any]) -> Bytes:
    found = np.ascontiguousarray(given).view(np.uint8)
    return found.reshape(-1, found.shape[-1]) if found.ndim != 1 else found.reshape(1, -1)


def _slices(rows: int, row_bytes: int) -> list[slice]:
    step = max(1, _AT_ONCE // max(row_bytes, 1))
    return [slice(first, min(first + step, rows)) for first in range(0, rows, step)]
