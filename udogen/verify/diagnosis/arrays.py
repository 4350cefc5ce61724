"""Arrays: the difference of two, and real numbers as tensors store them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from udogen.verify.test_files.values import saturated
from udogen.verify.tolerances import differences

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array


@dataclass(frozen=True)
class Measures:
    """Measures of the difference of two arrays of the same shape.

    Errors are in units of the arrays: steps for fixed point, which is compared as it is stored.  Measures that are not
    defined (the angle between arrays of zeros, ulps of integers) are None.
    """

    mean_abs: float  # of the elements that are finite in both
    max_relative: float
    max_ulp: int | None
    max_real: float | None  # the largest error of fixed point as a real number
    cosine: float | None
    snr: float | None  # decibels; infinite where both are equal
    not_finite: int  # elements where one is NaN or infinite, and the other is not the same


def measure(found: Array, expected: Array, *, quant: tuple[float, int] | None = None) -> Measures:
    """Compare two nonempty arrays of the same shape."""
    error = differences(found, expected)
    finite = error[np.isfinite(error)]
    stored = quant is not None and found.dtype.kind in "biu"
    return Measures(
        mean_abs=float(finite.mean(dtype=np.longdouble)) if finite.size else 0.0,
        max_relative=_relative(error, expected),
        max_ulp=ulps(found, expected),
        max_real=float(error.max()) * quant[0] if quant is not None and stored else None,
        cosine=_cosine(found, expected),
        snr=_snr(error, expected),
        not_finite=int(np.isinf(error).sum()),
    )


def ulps(found: Array, expected: Array) -> int | None:
    """The largest distance in representable numbers; None if no element is finite in both."""
    bits = np.dtype(f"i{found.dtype.itemsize}")
    if bits.itemsize > 8 or found.dtype.kind != "f":
        return None
    with np.errstate(over="ignore"):
        rounded = expected.astype(found.dtype)
    both = np.isfinite(found) & np.isfinite(rounded)
    if not both.any():
        return None
    lowest = int(np.iinfo(bits).min)
    a, b = (np.ascontiguousarray(each[both]).view(bits).astype(object) for each in (found, rounded))
    # Map the bits to ordered integers, with -0 and +0 equal; Python integers, because 64 bits overflow.
    a, b = (np.where(each < 0, lowest - each, each) for each in (a, b))
    return int(np.abs(a - b).max())


def _relative(error: Array, expected: Array) -> float:
    size = np.abs(expected.astype(np.float64))
    known = np.isfinite(size) & (size > 0)
    with np.errstate(over="ignore"):  # a denormal was expected
        return float((error[known] / size[known]).max()) if known.any() else 0.0


def _finite_pairs(found: Array, expected: Array) -> tuple[Array, Array]:
    a, b = found.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    both = np.isfinite(a) & np.isfinite(b)
    return a[both], b[both]


def _cosine(found: Array, expected: Array) -> float | None:
    a, b = _finite_pairs(found, expected)
    if not a.size or not a.any() or not b.any():
        return None
    a, b = a / np.abs(a).max(), b / np.abs(b).max()  # squares of large values overflow
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def _snr(error: Array, expected: Array) -> float | None:
    signal = expected.astype(np.float64)
    both = np.isfinite(signal) & np.isfinite(error)
    if not both.any() or not signal[both].any():
        return None
    if not error[both].any():
        return float("inf")
    largest = max(np.abs(signal[both]).max(), error[both].max())
    power, noise = (float(np.square(each[both] / largest).sum()) for each in (signal, error))
    if power == 0 or noise == 0:  # so much smaller than the other that its square underflows
        return float("-inf") if power == 0 else float("inf")
    return float(10 * np.log10(power / noise))


# --- real numbers, stored ---------------------------------------------------------------------------------------------


Rounding = Callable[["Array"], "Array"]


def half_away(x: Array) -> Array:
    """Round to the nearest integer; ties away from zero, like C's `round`."""
    return np.asarray(np.trunc(x + np.copysign(0.5, x)))


def half_up(x: Array) -> Array:
    """Round to the nearest integer; ties up, like adding a half and rounding down."""
    return np.floor(x + 0.5)


ROUNDINGS: dict[str, Rounding] = {
    "toward zero": np.trunc,
    "down": np.floor,
    "up": np.ceil,
    "half away from zero": half_away,
    "half up": half_up,
}


def store(
    real: Array,
    dtype: np.dtype[np.generic],
    quant: tuple[float, int] | None,
    *,
    rounding: Rounding = np.rint,
    wrap: bool = False,
) -> Array:
    """Real numbers as a tensor of this type stores them: rounded, and clipped or wrapped if they do not fit."""
    real = np.asarray(real)
    if dtype.kind not in "iu":
        with np.errstate(all="ignore"):
            return real.astype(dtype)
    if real.dtype.kind in "iub" and quant is None:
        return fit(real, dtype, wrap=wrap)
    scale, offset = quant or (1.0, 0)
    with np.errstate(all="ignore"):
        return fit(rounding(np.asarray(real, np.float64) / scale) - offset, dtype, wrap=wrap)


def fit(numbers: Array, dtype: np.dtype[np.generic], *, wrap: bool = False) -> Array:
    """Convert integers to a type with fewer bits: clipped, or wrapped."""
    limits = np.iinfo(dtype.name)
    if not wrap:
        return saturated(numbers, int(limits.min), int(limits.max), dtype)
    clipped = np.clip(np.nan_to_num(numbers, nan=0.0), -(2.0**62), 2.0**62).astype(np.int64)
    return np.asarray(clipped.astype(dtype))  # numpy keeps the low bits


def halves(real: Array, *, rounding: str) -> Array:
    """Convert float32 to half precision or bfloat16 and back."""
    x = np.asarray(real, np.float32)
    with np.errstate(all="ignore"):
        if rounding == "half":
            return x.astype(np.float16).astype(np.float32)
        bits = np.ascontiguousarray(x).view(np.uint32)
        if rounding == "bfloat16":
            bits = bits + 0x7FFF + ((bits >> 16) & 1)
        return np.asarray(bits & np.uint32(0xFFFF0000)).view(np.float32).reshape(x.shape)


def half_toward_zero(real: Array) -> Array:
    """Convert to half precision, truncated instead of rounded."""
    x = np.asarray(real, np.float64)
    with np.errstate(all="ignore"):
        near = x.astype(np.float16)
        too_far = np.isfinite(x) & (np.abs(near.astype(np.float64)) > np.abs(x))
        return np.where(too_far, np.nextafter(near, np.float16(0)), near)
