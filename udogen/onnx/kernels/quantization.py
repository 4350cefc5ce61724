"""ONNX's QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from typing import Any

import halide as hl

from udogen.onnx.kernels.shapes import Unsqueeze
from udogen.onnx.kernels.values import INTEGER_RANGES, Number, Value, as_float, as_value, elementwise


def _along(value: Number, rank: int, axis: int) -> Number:
    """Numbers along one axis, for broadcasting."""
    if not isinstance(value, Value) or value.rank != 1:
        return value
    return Unsqueeze(value, axes=[each for each in range(rank) if each != axis % rank])


def QuantizeLinear(x: Number, scale: Number, zero: Number = 0, *, axis: int = 1, to: str = "UINT8") -> Value:
    value = as_value(x)
    low, high = INTEGER_RANGES[to]
    grid = (_along(scale, value.rank, axis), _along(zero, value.rank, axis))

    def quantized(a: Any, scale: Any, zero: Any) -> Any:
        steps = hl.round(a / scale) + as_float(zero)
        return hl.cast(hl.Int(32), hl.clamp(steps, hl.f32(low), hl.f32(high)))

    return elementwise(quantized, value, *grid)


def DequantizeLinear(x: Number, scale: Number, zero: Number = 0, *, axis: int = 1) -> Value:
    value = as_value(x)
    grid = (_along(scale, value.rank, axis), _along(zero, value.rank, axis))
    return elementwise(lambda a, scale, zero: as_float(a - zero) * scale, value, *grid)
