"""A product with a matrix whose lines are those of the weights of an output."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import total


def Linear(a: Whole(2), b: Whole(2), y: Whole(2)):
    n, m, r = hl.Var("n"), hl.Var("m"), hl.RDom([(0, a.extent(0))])
    y[n, m] = total(r, a[r.x, m] * b[r.x, n])
