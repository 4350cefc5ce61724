"""Running sums in memory that is released in the order in which it was allocated."""

import halide as hl

from udogen.kernels import Flat
from udogen.kernels.math import scan, scratch


def Kept(a: Flat, b: Flat, y: Flat, z: Flat):
    i, ra, rb = hl.Var("i"), hl.RDom([(0, a.size)]), hl.RDom([(0, b.size)])
    before = scan(rb, hl.i32(0), lambda sum: sum + b[rb.x])
    bytes = scratch()
    bytes[i] = hl.u8(before[i] & 255)
    after = scan(rb, hl.i32(0), lambda sum: sum + b[rb.x])
    words = scratch()
    words[i] = hl.u16(after[i + 1] & 1023)
    y[i] = hl.i32(bytes[i]) + hl.i32(words[i]) * a[i]
    sums = scan(ra, hl.i32(0), lambda sum: sum + a[ra.x])
    z[i] = sums[i + 1]
