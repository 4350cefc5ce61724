"""Each row shifted and scaled to mean 0 and variance 1, times a gain, plus a bias."""

import halide as hl

import udogen
from udogen.kernels import Flat, Rows


@udogen.kernel
def LayerNorm(x: Rows(shape="... k"), gain: Flat("k"), bias: Flat("k"), y: Rows(shape="... k"), epsilon=1e-5):
    k = hl.Var("k")
    mean = x.mean()
    variance = x.mean(lambda k: (x[k] - mean) * (x[k] - mean))
    y[k] = (x[k] - mean) / hl.sqrt(variance + epsilon) * gain[k] + bias[k]
