"""Each group of channels of an image in NHWC shifted and scaled to mean 0 and variance 1, times a gain, plus a bias."""

import halide as hl

import udogen
from udogen.kernels import Flat, Whole
from udogen.kernels.math import total


@udogen.kernel
def GroupNorm(x: Whole("n h w c"), gain: Flat("c"), bias: Flat("c"), y: Whole("n h w c"), groups=1, epsilon=1e-5):
    c, w, h, n, mean, scale = *(hl.Var(name) for name in "cwhn"), hl.Func("mean"), hl.Func("scale")
    per = x.extent(0) / groups
    r = hl.RDom([(0, per), (0, x.extent(1)), (0, x.extent(2))])
    pixel, count = (
        x[hl.clamp(c / per * per + r.x, 0, x.extent(0) - 1), r.y, r.z, n],
        hl.f32(per * x.extent(1) * x.extent(2)),
    )
    mean[c, n] = total(r, pixel) / count
    scale[c, n] = 1.0 / hl.sqrt(total(r, (pixel - mean[c, n]) * (pixel - mean[c, n])) / count + epsilon)
    y[c, w, h, n] = (x[c, w, h, n] - mean[c, n]) * scale[c, n] * gain[c] + bias[c]
    y.func.reorder(w, h, c, n)
    mean.compute_at(y.func, c)
    scale.compute_at(y.func, c)
