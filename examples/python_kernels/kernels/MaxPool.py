"""The largest number of each window of an image in NHWC, without padding."""

import halide as hl

import udogen
from udogen.kernels import Whole
from udogen.kernels.math import maximum


@udogen.kernel
def MaxPool(x: Whole("n h w c"), y: Whole("n (h-size)//stride+1 (w-size)//stride+1 c"), size=2, stride=2):
    c, w, h, n = (hl.Var(name) for name in "cwhn")
    r = hl.RDom([(0, size), (0, size)])
    y[c, w, h, n] = maximum(r, x[c, w * stride + r.x, h * stride + r.y, n])
