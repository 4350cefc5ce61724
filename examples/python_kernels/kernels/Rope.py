"""Rotary position embedding: pairs of numbers, half a row apart, turned by an angle of their row's position."""

import halide as hl

from udogen.kernels import Whole


def Rope(x: Whole(3), cosines: Whole(2), sines: Whole(2), y: Whole(3)):
    d, s, h = (hl.Var(name) for name in "dsh")
    half = x.extent(0) / 2
    other = hl.select(d < half, -x[hl.min(d + half, x.extent(0) - 1), s, h], x[hl.max(d - half, 0), s, h])
    y[d, s, h] = x[d, s, h] * cosines[d, s] + other * sines[d, s]
