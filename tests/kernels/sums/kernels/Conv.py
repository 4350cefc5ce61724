"""A convolution of an image in NHWC, without padding."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import total


def Conv(x: Whole(4), weights: Whole(4), y: Whole(4)):
    c, w, h, n = (hl.Var(name) for name in "cwhn")
    r = hl.RDom([(0, x.extent(0)), (0, weights.extent(2)), (0, weights.extent(3))])
    y[c, w, h, n] = total(r, x[r.x, w + r.y, h + r.z, n] * weights[c, r.x, r.y, r.z])
