"""A product with a matrix in blocks of Q4_0: a half float, then 32 numbers of 4 bits, the second 16 in upper bits."""

import halide as hl

import udogen
from udogen.kernels import Whole
from udogen.kernels.math import total


@udogen.kernel
def MatMulQ4(x: Whole("m k", "FLOAT_32"), blocks: Whole("n k/32*18", "UINT_8"), y: Whole("m n", "FLOAT_32")):
    n, m, r = hl.Var("n"), hl.Var("m"), hl.RDom([(0, x.extent(0))])
    start, at = r.x / 32 * 18, r.x % 32
    bits = hl.u32(blocks[start, n]) | hl.u32(blocks[start + 1, n]) << 8
    scale = hl.reinterpret(hl.Float(32), (bits & 0x7FFF) << 13 | (bits & 0x8000) << 16) * 2.0**112
    number = (hl.i32(blocks[start + 2 + at % 16, n]) >> at / 16 * 4 & 15) - 8
    y[n, m] = total(r, x[r.x, m] * scale * hl.f32(number))
