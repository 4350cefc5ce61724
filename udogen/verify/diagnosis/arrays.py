"""Real numbers as tensors store them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from udogen.verify.test_files.values import saturated

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array


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
