"""A convolution of an image in NHWC, without padding; each group of channels has filters of its own."""

import halide as hl

import udogen
from udogen.kernels import Whole
from udogen.kernels.math import total


@udogen.kernel
def GroupedConv(x: Whole("n h w c"), weights: Whole("t s c/groups o"), y: Whole("n h-t+1 w-s+1 o"), groups=2):
    o, w, h, n = (hl.Var(name) for name in "owhn")
    r = hl.RDom([(0, weights.extent(axis)) for axis in (1, 2, 3)])
    first = o / (weights.extent(0) / groups) * weights.extent(1)
    pixel = x[hl.clamp(first + r.x, 0, x.extent(0) - 1), w + r.y, h + r.z, n]
    y[o, w, h, n] = total(r, pixel * weights[o, r.x, r.y, r.z])
