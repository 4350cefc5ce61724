"""Each row shifted and scaled to mean 0 and variance 1, times a gain, plus a bias."""

import halide as hl

from udogen.kernels import Rows


def LayerNorm(x: Rows, gain, bias, y: Rows, epsilon):
    k = hl.Var("k")
    mean = x.mean()
    variance = x.mean(lambda k: (x[k] - mean) * (x[k] - mean))
    y[k] = (x[k] - mean) / hl.sqrt(variance + epsilon) * gain[k] + bias[k]
