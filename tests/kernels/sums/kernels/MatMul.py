"""A product of two matrices."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import total


def MatMul(a: Whole(2), b: Whole(2), y: Whole(2)):
    n, m, r = hl.Var("n"), hl.Var("m"), hl.RDom([(0, a.extent(0))])
    y[n, m] = total(r, a[r.x, m] * b[n, r.x])
