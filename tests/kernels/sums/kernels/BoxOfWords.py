"""The sum of each window of 3 by 3 numbers of 16 bits, which does not fit in 16 bits."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import total


def BoxOfWords(x: Whole(2), y: Whole(2)):
    m, n, r = hl.Var("m"), hl.Var("n"), hl.RDom([(0, 3), (0, 3)])
    y[n, m] = total(r, hl.i32(x[n + r.x, m + r.y]))
