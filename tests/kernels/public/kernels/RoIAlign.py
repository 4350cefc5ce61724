"""The mean of some samples in each bin of a region of an NCHW image, each sample interpolated between four pixels."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import total


def RoIAlign(input: Whole(4), rois: Whole(2), output: Whole(4), spatial_scale, sampling_ratio, aligned):
    x, y, c, n = (hl.Var(name) for name in "xycn")
    r = hl.RDom([(0, sampling_ratio), (0, sampling_ratio), (0, 2), (0, 2)])  # samples, and pixels around each

    def pixel(axis, bin, sample, tap):  # the index of the pixel, and its weight
        low, high = (rois[at + axis, n] * spatial_scale - 0.5 * hl.f32(aligned) for at in (1, 3))
        length = hl.select(aligned != 0, high - low, hl.max(high - low, 1.0)) / hl.f32(output.extent(axis))
        place = low + (hl.f32(bin) + (hl.f32(sample) + 0.5) / hl.f32(sampling_ratio)) * length
        last = input.extent(axis) - 1
        near = hl.clamp(place, 0.0, hl.f32(last))
        at = hl.i32(hl.floor(near)) + tap
        outside = (place < -1.0) | (place > hl.f32(last + 1))
        return hl.clamp(at, 0, last), hl.select(outside, 0.0, 1.0 - hl.abs(near - hl.f32(at)))

    column, across = pixel(0, x, r[0], r[2])
    line, down = pixel(1, y, r[1], r[3])
    image = hl.clamp(hl.i32(rois[0, n]), 0, input.extent(3) - 1)
    samples = hl.f32(sampling_ratio * sampling_ratio)
    output[x, y, c, n] = total(r, across * down * input[column, line, c, image]) / samples
