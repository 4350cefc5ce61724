"""Each channel of an image in NHWC with a filter of its own, without padding."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import total


def DepthwiseConv(x: Whole(4), weights: Whole(3), y: Whole(4)):
    c, w, h, n = (hl.Var(name) for name in "cwhn")
    r = hl.RDom([(0, weights.extent(1)), (0, weights.extent(2))])
    y[c, w, h, n] = total(r, x[c, w + r.x, h + r.y, n] * weights[c, r.x, r.y])
