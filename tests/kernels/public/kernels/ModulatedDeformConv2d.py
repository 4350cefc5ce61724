"""A convolution in NCHW whose samples are shifted by offsets, interpolated between pixels, and scaled by a mask."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import total


def ModulatedDeformConv2d(
    input: Whole, offset: Whole, mask: Whole, weight: Whole, bias, output: Whole, stride, padding, dilation
):
    x, y, o, n = (hl.Var(name) for name in "xyon")
    wide, high, channels = (weight.extent(axis) for axis in range(3))
    r = hl.RDom([(0, wide), (0, high), (0, channels), (0, 2), (0, 2)])
    tap = r[1] * wide + r[0]

    def pixel(axis, at, step, side):  # the index of the pixel, and its weight
        place = hl.f32(at * stride - padding + step * dilation) + offset[x, y, 2 * tap + 1 - axis, n]
        near = hl.i32(hl.floor(place)) + side
        inside = (near >= 0) & (near < input.extent(axis))
        return hl.clamp(near, 0, input.extent(axis) - 1), hl.select(inside, 1.0 - hl.abs(place - hl.f32(near)), 0.0)

    column, across = pixel(0, x, r[0], r[3])
    line, down = pixel(1, y, r[1], r[4])
    sample = input[column, line, r[2], n] * across * down * mask[x, y, tap, n]
    product = total(r, sample * weight[r[0], r[1], r[2], o])
    output[x, y, o, n] = product if bias is None else product + bias[o]
