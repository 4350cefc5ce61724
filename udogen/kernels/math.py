"""Functions of real numbers that every machine has vectors for; Halide's own take single numbers on HVX."""

from __future__ import annotations

import halide as hl

_ROUNDER = 12582912.0  # 1.5 * 2 ** 23


def exp(x: hl.Expr) -> hl.Expr:
    """e to the power of x, within two units of the last place; below -87.3 it is zero."""
    cut = hl.clamp(x, hl.f32(-87.3), hl.f32(88.7))
    shifted = cut * hl.f32(1.44269504) + hl.f32(_ROUNDER)
    power = hl.reinterpret(hl.Int(32), shifted) - hl.reinterpret(hl.Int(32), hl.f32(_ROUNDER))
    whole = shifted - hl.f32(_ROUNDER)
    rest = (cut - whole * hl.f32(0.693359375)) + whole * hl.f32(2.12194440e-4)
    poly = hl.f32(1.9875691500e-4)
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        poly = poly * rest + hl.f32(factor)
    found = poly * rest * rest + rest + hl.f32(1.0)
    # 2 ** 128 is no float: the power is put on in two steps.
    half = power >> 1
    for each in (half, power - half):
        found = found * hl.reinterpret(hl.Float(32), (each + 127) << 23)
    found = hl.select(x < hl.f32(-87.3), hl.f32(0.0), found)
    return hl.select(x > hl.f32(88.7228), hl.f32(float("inf")), found)


def sigmoid(x: hl.Expr) -> hl.Expr:
    """1 / (1 + exp(-x))"""
    return hl.f32(1.0) / (hl.f32(1.0) + exp(-x))


def tanh(x: hl.Expr) -> hl.Expr:
    """The hyperbolic tangent."""
    return hl.f32(1.0) - hl.f32(2.0) / (hl.f32(1.0) + exp(x * hl.f32(2.0)))
