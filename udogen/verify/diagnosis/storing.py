"""Real numbers as a tensor stores them, and the ways in which kernels get that wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

Rounding = Callable[["Array"], "Array"]


def half_away(x: Array) -> Array:
    """The nearest whole number; of two the one further from zero, as C's `round` does."""
    return np.asarray(np.trunc(x + np.copysign(0.5, x)))


def half_up(x: Array) -> Array:
    """The nearest whole number; of two the larger, as adding a half and rounding down does."""
    return np.floor(x + 0.5)


ROUNDINGS: dict[str, Rounding] = {
    "to nearest even": np.rint,
    "toward zero": np.trunc,
    "down": np.floor,
    "up": np.ceil,
    "half away from zero": half_away,
    "half up": half_up,
}


def levels(real: Array, quant: tuple[float, int] | None) -> Array:
    """Real numbers in units of what is stored, neither rounded nor limited."""
    scale, offset = quant or (1.0, 0)
    with np.errstate(all="ignore"):
        return np.asarray(real, np.float64) / scale - offset


def store(
    real: Array,
    dtype: np.dtype[np.generic],
    quant: tuple[float, int] | None,
    *,
    rounding: Rounding = np.rint,
    wrap: bool = False,
) -> Array:
    """Real numbers as a tensor of this type holds them: rounded, and limited or wrapped around where it has to be."""
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
    """Whole numbers in a type of fewer bits."""
    limits = np.iinfo(dtype.name)
    if not wrap:
        return np.asarray(np.clip(np.nan_to_num(numbers, nan=0.0), limits.min, limits.max).astype(dtype))
    held = np.clip(np.nan_to_num(numbers, nan=0.0), -(2.0**62), 2.0**62).astype(np.int64)
    return np.asarray(held.astype(dtype))  # numpy keeps the low bits


def halves(real: Array, *, rounding: str) -> Array:
    """Floats as the low 16 bits of nothing: through half precision or bfloat16 and back, as 32 bits."""
    x = np.asarray(real, np.float32)
    with np.errstate(all="ignore"):
        if rounding == "half":
            return x.astype(np.float16).astype(np.float32)
        bits = np.ascontiguousarray(x).view(np.uint32)
        if rounding == "bfloat16":
            bits = bits + 0x7FFF + ((bits >> 16) & 1)
        return np.asarray(bits & np.uint32(0xFFFF0000)).view(np.float32).reshape(x.shape)


def half_toward_zero(real: Array) -> Array:
    """Half precision, cut off instead of rounded."""
    x = np.asarray(real, np.float64)
    with np.errstate(all="ignore"):
        near = x.astype(np.float16)
        too_far = np.isfinite(x) & (np.abs(near.astype(np.float64)) > np.abs(x))
        return np.where(too_far, np.nextafter(near, np.float16(0)), near)
