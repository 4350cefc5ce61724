"""Rotary position embedding: pairs of numbers, half a row apart, turned by an angle of their row's position."""

import halide as hl

import udogen
from udogen.kernels import Whole


@udogen.kernel
def Rope(x: Whole("h s d"), cosines: Whole("s d"), sines: Whole("s d"), y: Whole("h s d")):
    d, s, h = (hl.Var(name) for name in "dsh")
    half = x.extent(0) / 2
    other = hl.select(d < half, -x[hl.min(d + half, x.extent(0) - 1), s, h], x[hl.max(d - half, 0), s, h])
    y[d, s, h] = x[d, s, h] * cosines[d, s] + other * sines[d, s]
