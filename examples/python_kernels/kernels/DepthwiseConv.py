"""Each channel of an image in NHWC with a filter of its own, without padding."""

import halide as hl

import udogen
from udogen.kernels import Whole
from udogen.kernels.math import total


@udogen.kernel
def DepthwiseConv(x: Whole("n h w c"), weights: Whole("s t c"), y: Whole("n h-s+1 w-t+1 c")):
    c, w, h, n = (hl.Var(name) for name in "cwhn")
    r = hl.RDom([(0, weights.extent(1)), (0, weights.extent(2))])
    y[c, w, h, n] = total(r, x[c, w + r.x, h + r.y, n] * weights[c, r.x, r.y])
