"""The largest number of each window of an image in NHWC, without padding."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import maximum


def MaxPool(x: Whole(4), y: Whole(4), size, stride):
    c, w, h, n = (hl.Var(name) for name in "cwhn")
    r = hl.RDom([(0, size), (0, size)])
    y[c, w, h, n] = maximum(r, x[c, w * stride + r.x, h * stride + r.y, n])
