"""Each row divided by its root mean square, times a gain."""

import halide as hl

import udogen
from udogen.kernels import Flat, Rows


@udogen.kernel
def RmsNorm(x: Rows(shape="... k"), gain: Flat("k"), y: Rows(shape="... k"), epsilon=1e-6):
    k = hl.Var("k")
    squares = x.mean(lambda k: x[k] * x[k])
    y[k] = x[k] / hl.sqrt(squares + epsilon) * gain[k]
