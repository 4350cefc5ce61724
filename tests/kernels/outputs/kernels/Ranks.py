"""Outputs of two ranks: threads that share the rows of one may have no work for the other."""

import halide as hl

from udogen.kernels import Whole


def Ranks(x: Whole(3), y: Whole(3), sums: Whole(1)):
    c, w, h = (hl.Var(name) for name in "cwh")
    r = hl.RDom([(0, x.extent(1)), (0, x.extent(2))])
    y[c, w, h] = x[c, w, h] * 2.0
    sums[c] = hl.sum(r, x[c, r.x, r.y])
