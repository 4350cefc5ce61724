"""A product of two matrices of bytes, without the first of each line: what is left is not a multiple of four bytes."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import total


def PartOfLines(a: Whole(2), b: Whole(2), y: Whole(2)):
    n, m, r = hl.Var("n"), hl.Var("m"), hl.RDom([(1, a.extent(0) - 1)])
    y[n, m] = total(r, hl.i32(a[r.x, m]) * hl.i32(b[n, r.x]))
