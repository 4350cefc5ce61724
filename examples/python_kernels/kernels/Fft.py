"""Fourier transforms of rows of complex numbers in radix 2; `steps` has the rows after each step."""

import math

import halide as hl

import udogen
from udogen.kernels import Whole


@udogen.kernel
def Fft(x: Whole("n m 2", "FLOAT_32"), steps: Whole("m.bit_length() n m 2", "FLOAT_32"), y: Whole("n m 2", "FLOAT_32")):
    (c, i, n, s), size = (hl.Var(name) for name in "cins"), x.extent(1)
    steps[c, i, n, s] = x[c, i, n]
    r = hl.RDom([(0, 2), (0, size), (1, steps.extent(3) - 1)])
    width = hl.i32(1) << (r.z - 1)  # of the transforms that this step joins: numbers that are `many` apart
    many = size / (2 * width)
    turn = r.y / many
    first = turn % width * 2 * many + r.y % many
    both = (hl.clamp(at, 0, size - 1) for at in (first, first + many))
    (a, b), (p, q) = ([steps[part, at, n, r.z - 1] for part in (0, 1)] for at in both)
    angle = hl.f32(-math.pi) * hl.f32(turn) / hl.f32(width)
    real, imaginary = a + p * hl.cos(angle) - q * hl.sin(angle), b + p * hl.sin(angle) + q * hl.cos(angle)
    steps[r.x, r.y, n, r.z] = hl.select(r.x == 0, real, imaginary)
    y[c, i, n] = steps[c, i, n, steps.extent(3) - 1]
