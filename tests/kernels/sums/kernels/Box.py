"""The rounded mean of each window of 3 by 3 bytes."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import total


def Box(x: Whole(2), y: Whole(2)):
    m, n, r = hl.Var("m"), hl.Var("n"), hl.RDom([(0, 3), (0, 3)])
    y[n, m] = hl.u8((total(r, hl.u16(x[n + r.x, m + r.y])) + 4) / 9)
