"""The usual approximation of x times the cumulative normal distribution at x."""

import halide as hl

import udogen
from udogen.kernels.math import tanh


@udogen.kernel
def Gelu(x, y):
    i = hl.Var("i")
    y[i] = 0.5 * x[i] * (1.0 + tanh(0.7978845608 * (x[i] + 0.044715 * x[i] * x[i] * x[i])))
