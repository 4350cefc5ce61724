"""An image in NHWC at the places of a grid, from -1 to 1, interpolated between pixels; outside it is zero."""

import halide as hl

import udogen
from udogen.kernels import Whole
from udogen.kernels.math import total


@udogen.kernel
def GridSample(x: Whole("n h w c", "FLOAT_32"), grid: Whole("n p q 2", "FLOAT_32"), y: Whole("n p q c", "FLOAT_32")):
    def near(axis, side):  # a pixel beside the place, and its share
        length = x.extent(axis + 1)
        place = ((grid[axis, q, p, n] + 1.0) * hl.f32(length) - 1.0) / 2.0
        at = hl.i32(hl.floor(place)) + side
        share = hl.select((at >= 0) & (at < length), 1.0 - hl.abs(place - hl.f32(at)), 0.0)
        return hl.clamp(at, 0, length - 1), share

    (c, q, p, n), r = (hl.Var(name) for name in "cqpn"), hl.RDom([(0, 2), (0, 2)])
    (column, across), (line, down) = near(0, r.x), near(1, r.y)
    y[c, q, p, n] = total(r, x[c, column, line, n] * across * down)
