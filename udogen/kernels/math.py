"""Functions of real numbers that use vectors on every machine.

On HVX, Halide's own functions take single numbers, or floats where vectors of floats do not exist.
"""

from __future__ import annotations

from typing import Any

import halide as hl

from udogen.kernels import fixed
from udogen.kernels.fixed import Fixed
from udogen.kernels.scratch import places, scan, scratch
from udogen.kernels.sums import Domain

__all__ = [
    "absolute", "exp", "inverse", "larger", "maximum", "minimum", "scan", "scratch", "select", "sigmoid", "smaller",
    "tanh", "total",
]  # fmt: skip

_ROUNDER = 12582912.0  # 1.5 * 2 ** 23
_LOG2_E = 1549082005  # in Q30
_INFINITE = 0x7F800000  # its bits


def select(condition: hl.Expr, a: Any, b: Any) -> hl.Expr:
    """One of two numbers."""
    if _is_fixed(a, b):
        return fixed.one_of(a, b, lambda a, b: hl.select(condition, a, b))
    return hl.select(condition, a, b)


def larger(a: Any, b: Any) -> hl.Expr:
    """The larger of two numbers."""
    return fixed.one_of(a, b, hl.max) if _is_fixed(a, b) else hl.max(a, b)


def smaller(a: Any, b: Any) -> hl.Expr:
    """The smaller of two numbers."""
    return fixed.one_of(a, b, hl.min) if _is_fixed(a, b) else hl.min(a, b)


def maximum(over: hl.RDom, of: Any) -> hl.Expr:
    """The largest number over a domain."""
    if isinstance(over, Domain):
        return over.reduced(of, hl.max, of.type().min() if isinstance(of, hl.Expr) else None)
    return fixed.reduced(of, lambda stored: hl.maximum(over, stored)) if _is_fixed(of) else hl.maximum(over, of)


def minimum(over: hl.RDom, of: Any) -> hl.Expr:
    """The smallest number over a domain."""
    if isinstance(over, Domain):
        return over.reduced(of, hl.min, of.type().max() if isinstance(of, hl.Expr) else None)
    return fixed.reduced(of, lambda stored: hl.minimum(over, stored)) if _is_fixed(of) else hl.minimum(over, of)


def total(over: hl.RDom, of: Any) -> hl.Expr:
    """The sum over a domain."""
    if isinstance(over, Domain):
        return over.total(of)
    return fixed.total(over, of) if _is_fixed(of) else hl.sum(over, of)


def absolute(x: Any) -> hl.Expr:
    """A number without its sign."""
    return Fixed(hl.abs(x.integer), x.scale, x.bound) if _is_fixed(x) else hl.abs(x)


def exp(x: Any) -> hl.Expr:
    """e to the power of x, within two units of the last place; below -87.3 it is zero."""
    if _is_fixed(x):
        return fixed.exp(x)
    machine = places[-1].machine if places else None
    if machine and machine.aligned and not machine.half_vectors:  # zig compiles the C++ of its products badly
        return _exp_of_bits(x)
    cut = hl.clamp(x, hl.f32(-87.3), hl.f32(88.7228))
    shifted = cut * hl.f32(1.44269504) + hl.f32(_ROUNDER)
    whole = shifted - hl.f32(_ROUNDER)
    rest = (cut - whole * hl.f32(0.693359375)) + whole * hl.f32(2.12194440e-4)
    poly = hl.f32(1.9875691500e-4)
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        poly = poly * rest + hl.f32(factor)
    result = poly * rest * rest + rest + hl.f32(1.0)
    # The low bits of the shifted number are the power, which is added to the exponent.
    bits = hl.reinterpret(hl.UInt(32), result) + (hl.reinterpret(hl.UInt(32), shifted) << 23)
    result = hl.select(x < hl.f32(-87.3), hl.f32(0.0), hl.reinterpret(hl.Float(32), bits))
    return hl.select(x > hl.f32(88.7228), hl.f32(float("inf")), result)


def _exp_of_bits(x: hl.Expr) -> hl.Expr:
    """The same in integers: on HVX, each operation of floats has a conversion after it.

    With t = x * log2(e) and its fraction f, the exponent and the mantissa are the bits of t + (2 ** f - 1 - f).
    """
    bits = hl.reinterpret(hl.Int(32), x)
    size, is_negative = bits & 0x7FFFFFFF, bits < 0
    mantissa = _left(bits & 0x7FFFFF, 7) | 0x40000000
    whole = mantissa >> hl.min(133 - (size >> 23), 31)  # in Q24
    # Products of Halide itself: with `upper_half`, loops of SwiGlu have 41 packets in place of 40.
    power = hl.rounding_mul_shift_right(whole, hl.select(is_negative, hl.i32(-_LOG2_E), hl.i32(_LOG2_E)), 31)  # in Q23
    fraction, poly = _left(power, 8) & 0x7FFFFFFF, hl.i32(0)
    for factor in (2.1612915e-4, 1.24678464e-3, 9.67545157e-3, 5.548528062e-2, 2.4022930555e-1, -3.0685295556e-1):
        poly = hl.rounding_mul_shift_right(poly, fraction, 31) + hl.i32(round(factor * (1 << 31)))
    found = power + (127 << 23) + (hl.rounding_mul_shift_right(poly, fraction, 31) + 128 >> 8)
    beyond = hl.select(size > _INFINITE, hl.i32(0x7FC00000), hl.select(is_negative, hl.i32(0), hl.i32(_INFINITE)))
    most = hl.select(is_negative, hl.reinterpret(hl.Int(32), hl.f32(87.3)), hl.reinterpret(hl.Int(32), hl.f32(88.7228)))
    return hl.reinterpret(hl.Float(32), hl.select(size > most, beyond, found))


def _left(x: hl.Expr, count: int) -> hl.Expr:
    """An integer shifted left by an amount that Halide does not know: it would multiply."""
    return x << hl.reinterpret(hl.UInt(32), hl.f32(count * 2.0**-149))


def inverse(x: Any) -> hl.Expr:
    """1 / x by multiplications, within two units of the last place; subnormal results become zeros."""
    bits = hl.reinterpret(hl.Int(32), x)
    result = hl.reinterpret(hl.Float(32), hl.i32(0x7EF311C3) - bits)  # the exponent negated, the mantissa approximate
    for _ in range(3):  # Newton's method
        result = result * (hl.f32(2.0) - x * result)
    infinite = hl.reinterpret(hl.Float(32), bits & hl.i32(-(1 << 31)) | hl.i32(0x7F800000))
    result = hl.select(hl.abs(x) < hl.f32(2.0**-126), infinite, result)
    return hl.select(hl.abs(x) > hl.f32(2.0**126), hl.f32(0.0), result)


def sigmoid(x: Any) -> hl.Expr:
    """1 / (1 + exp(-x))"""
    return fixed.sigmoid(x) if _is_fixed(x) else hl.f32(1.0) / (hl.f32(1.0) + exp(-x))


def tanh(x: Any) -> hl.Expr:
    """The hyperbolic tangent."""
    if _is_fixed(x):
        return fixed.sigmoid(x * 2.0) * 2.0 - 1.0
    square, series = x * x, hl.f32(0.0)  # near zero, the difference below would lose all digits
    for factor in (-1382 / 155925, 62 / 2835, -17 / 315, 2 / 15, -1 / 3, 1.0):
        series = series * square + hl.f32(factor)
    far = hl.f32(1.0) - hl.f32(2.0) / (hl.f32(1.0) + exp(x * hl.f32(2.0)))
    return hl.select(square < hl.f32(0.1), x * series, far)


def _is_fixed(*numbers: Any) -> bool:
    return any(isinstance(number, Fixed) for number in numbers)
