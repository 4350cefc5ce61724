"""An output that is computed from others, which the config lists after it; one is written twice."""

import halide as hl

from udogen.kernels import Whole


def Chain(x: Whole(2), a: Whole(2), b: Whole(2), c: Whole(2)):
    i, n = hl.Var("i"), hl.Var("n")
    r = hl.RDom([(1, a.extent(1) - 1)])
    a[i, n] = x[i, n]
    a[i, r] = a[i, r - 1] + x[i, r]
    b[i, n] = a[i, n] * 2.0
    c[i, n] = b[i, n] - x[i, n]
