"""A product with a 4-bit matrix, two values in a byte; each block of a row has a scale, and may have a zero point."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import total


def MatMulNBits(A: Whole(2), B: Whole(3), scales: Whole(2), zero_points: Whole(2), Y: Whole(2)):
    def nibble(byte, at):
        return hl.f32(hl.i32(byte) >> (at % 2 * 4) & 15)

    n, m, r = hl.Var("n"), hl.Var("m"), hl.RDom([(0, A.extent(0))])
    size = 2 * B.extent(0)
    block, within = r.x / size, r.x % size
    zero = 8.0 if zero_points is None else nibble(zero_points[block / 2, n], block)
    weight = (nibble(B[within / 2, block, n], within) - zero) * scales[block, n]
    Y[n, m] = total(r, A[r.x, m] * weight)
