"""Block-quantized weights as ggml stores them: 32 numbers of a row share one scale, which stands before their quants.

    Q4_0    f16 scale, 16 bytes: numbers 0 … 15 in the low nibbles, 16 … 31 in the high; number = (nibble - 8) * scale
    Q8_0    f16 scale, 32 signed bytes; number = byte * scale
    MXFP4   one byte of exponent (E8M0), nibbles as in Q4_0, each an E2M1 number; number = E2M1 * 2 ** (exponent - 127)

Rounding is that of ggml's reference functions, bit for bit, where their C is defined.  Elsewhere: what is not finite,
or too large for an f16 scale, is refused; where 1/scale overflows, all quants are zero (the f16 scale is zero then);
an exponent below zero is 0; one of 255, which ggml calls invalid, is read as the NaN that the MX specification says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from udogen.errors import UsageError

BLOCK = 32
_AT_ONCE = 1 << 15  # blocks: what is worked on stays in the cache of a processor

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Scales = NDArray[Any]


class Format(NamedTuple):
    """One block-quantized type."""

    name: str
    layout: np.dtype[Any]  # of one block: its scale, its quants
    bits: int  # of a quant
    nothing: int  # the quant that stands for 0
    quantize: Callable[[Floats], tuple[Scales, Bytes]]  # 32 numbers in each row -> its scale, 32 quants
    dequantize: Callable[[Scales, Bytes], Floats]

    @property
    def block_bytes(self) -> int:
        """How many bytes 32 numbers take."""
        return int(self.layout.itemsize)

    @property
    def scale_bytes(self) -> int:
        """How many of them are the scale."""
        return int(self.layout["scale"].itemsize)

    def row_bytes(self, columns: int) -> int:
        """How many bytes a row of so many numbers takes."""
        return columns // BLOCK * self.block_bytes


def pack(values: NDArray[Any], kind: str) -> Bytes:
    """Quantize along the last axis, which must be whole blocks: its numbers become bytes, the other axes stay."""
    form, given = format_of(kind), np.ascontiguousarray(values, np.float32)
    columns = given.shape[-1] if given.ndim else 1
    check_columns(form, columns)
    numbers = given.reshape(-1, BLOCK)
    made = np.empty(len(numbers), form.layout)
    for first in range(0, len(numbers), _AT_ONCE):
        part = numbers[first : first + _AT_ONCE]
        if not np.isfinite(part).all():
            _refuse_infinite(form, part, first * BLOCK, columns)
        with np.errstate(over="ignore", divide="ignore", under="ignore", invalid="ignore"):
            scales, quants = form.quantize(part)
        if not np.isfinite(scales).all():
            _refuse_large(form, part, scales, first * BLOCK, columns)
        made[first : first + _AT_ONCE]["scale"] = scales
        made[first : first + _AT_ONCE]["quants"] = _together(quants) if form.bits == 4 else quants
    return made.view(np.uint8).reshape(*given.shape[:-1], form.row_bytes(columns))


def unpack(blocks: NDArray[Any], kind: str) -> Floats:
    """The numbers behind blocks: along the last axis bytes become numbers, the other axes stay."""
    form = format_of(kind)
    given = np.ascontiguousarray(blocks).view(np.uint8)
    if not given.ndim or given.shape[-1] % form.block_bytes:
        raise partial_block(form, given.shape[-1] if given.ndim else 1)
    stored = given.reshape(-1).view(form.layout)
    made = np.empty((len(stored), BLOCK), np.float32)
    for first in range(0, len(stored), _AT_ONCE):
        part = stored[first : first + _AT_ONCE]
        quants = _apart(part["quants"]) if form.bits == 4 else part["quants"]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            made[first : first + _AT_ONCE] = form.dequantize(part["scale"], quants)
    return made.reshape(*given.shape[:-1], given.shape[-1] // form.block_bytes * BLOCK)


def format_of(kind: str) -> Format:
    """A format by its name in ggml."""
    found = FORMATS.get(kind.upper())
    if found is None:
        raise UsageError(f"`{kind}` is no block-quantized type", hint="one of: " + ", ".join(FORMATS))
    return found


def check_columns(form: Format, columns: int) -> None:
    """Refuse rows that are not whole blocks."""
    if columns < 1 or columns % BLOCK:
        raise UsageError(
            f"a row of {columns} numbers is not whole blocks of {form.name}",
            hint=f"its length must be a multiple of {BLOCK}: pad the row, or keep this tensor unquantized",
        )


def partial_block(form: Format, size: int) -> UsageError:
    """The error for bytes that end inside a block."""
    return UsageError(
        f"{size} bytes are not whole blocks of {form.name}: {size % form.block_bytes} are over",
        hint=f"a block of {BLOCK} numbers takes {form.block_bytes} bytes",
    )


def _refuse_infinite(form: Format, part: Floats, before: int, columns: int) -> None:
    at = int(np.flatnonzero(~np.isfinite(part))[0])
    row, column = divmod(before + at, columns)
    raise UsageError(
        f"row {row}, column {column} is {part.ravel()[at]}: {form.name} has finite numbers only",
        hint="look for an overflow in what made these weights",
    )


def _refuse_large(form: Format, part: Floats, scales: Scales, before: int, columns: int) -> None:
    block = int(np.flatnonzero(~np.isfinite(scales))[0])
    row, column = divmod(before + block * BLOCK, columns)
    raise UsageError(
        f"row {row}, columns {column} to {column + BLOCK - 1}: numbers up to {np.abs(part[block]).max():g} "
        f"want a scale that float16 does not have",
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


_E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12], np.float32)  # twice the numbers of E2M1, so that they are whole
_BETWEEN = (_E2M1[:-1] + _E2M1[1:]) / 2
_SIGNED = np.concatenate([_E2M1, -_E2M1[:1] + 0, -_E2M1[1:]])
_NAN_EXPONENT = 255


def _quantize_mxfp4(numbers: Floats) -> tuple[Scales, Bytes]:
    sizes = np.abs(numbers)
    peak = sizes.max(axis=1)
    # ggml takes log2 as a float32, which is rounded up to the next whole number just below it.
    power = np.floor(np.log2(peak, dtype=np.float64, where=peak > 0, out=np.zeros(len(peak))).astype(np.float32))
    exponents = np.where(peak > 0, np.clip(power - 2 + 127, 0, 254), 0).astype(np.uint8)
    half = _half_power(exponents)[:, None]
    quants = np.zeros(numbers.shape, np.uint8)
    for middle, upper in zip(_BETWEEN, _E2M1[1:], strict=True):
        # A number that only an infinite one would be above of stays below; between two, the smaller one is taken.
        limit = np.where(np.isfinite(upper * half), middle * half, np.float32(np.inf))
        quants += sizes > limit
    return exponents, quants | ((numbers < 0) & (quants > 0)).astype(np.uint8) << np.uint8(3)


def _dequantize_mxfp4(exponents: Scales, quants: Bytes) -> Floats:
    half = np.where(exponents == _NAN_EXPONENT, np.float32(np.nan), _half_power(exponents))
    numbers: Floats = _SIGNED[quants] * half[:, None]
    return numbers


def _half_power(exponents: Scales) -> Floats:
    """Half of what E8M0 says, for the numbers of the table are twice theirs; the smallest two are denormal."""
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
        Format("Q4_0", _block("<f2", 16), 4, 8, _quantize_q4_0, _dequantize_q4_0),
        Format("Q8_0", _block("<f2", 32), 8, 0, _quantize_q8_0, _dequantize_q8_0),
        Format("MXFP4", _block("u1", 16), 4, 0, _quantize_mxfp4, _dequantize_mxfp4),
    )
}
