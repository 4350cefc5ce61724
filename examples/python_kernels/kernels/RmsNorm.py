"""Each row divided by its root mean square, times a gain."""

import halide as hl

from udogen.kernels import Flat, Rows


def RmsNorm(x: Rows, gain: Flat, y: Rows, epsilon):
    k = hl.Var("k")
    squares = x.mean(lambda k: x[k] * x[k])
    y[k] = x[k] / hl.sqrt(squares + epsilon) * gain[k]
