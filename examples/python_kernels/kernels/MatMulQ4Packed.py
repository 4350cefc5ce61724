"""A product with a matrix of numbers of 4 bits; each row of x becomes bytes, with a step for each 32 of them."""

import halide as hl

import udogen
from udogen.kernels import Whole
from udogen.kernels.math import maximum, scratch, total


@udogen.kernel
def MatMulQ4Packed(x: Whole("m k"), pairs: Whole("k/8 n*4", "UINT_8"), scales: Whole("k/32 n"), y: Whole("m n")):
    n, m, k, b = (hl.Var(name) for name in "nmkb")
    r, i, q = hl.RDom([(0, scales.extent(1))]), hl.RDom([(0, 32)]), hl.RDom([(0, 4), (0, 2), (0, 4)])
    step, whole, sums = scratch("step"), scratch("whole"), scratch("sums")
    step[b, m] = hl.max(maximum(i, hl.abs(x[32 * b + i.x, m])), 1e-30) / 127.0
    whole[k, m] = hl.i8(hl.round(x[k, m] / step[k / 32, m]))
    sums[b, m] = total(i, hl.i32(whole[32 * b + i.x, m]))
    pair = pairs[4 * n + q.x, 4 * r.x + q.z]  # of numbers that are four apart, from 0 to 15
    number = hl.select(q.y == 0, pair & 15, pair >> 4)
    dot = total(q, hl.i32(number) * hl.i32(whole[32 * r.x + 8 * q.z + 4 * q.y + q.x, m]))
    y[n, m] = total(r, step[r.x, m] * scales[n, r.x] * hl.f32(dot - 8 * sums[r.x, m]))
