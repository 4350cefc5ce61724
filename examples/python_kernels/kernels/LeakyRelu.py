"""x where x is positive, and alpha * x elsewhere."""

import halide as hl

import udogen
from udogen.kernels.math import select


@udogen.kernel
def LeakyRelu(x, y, alpha=0.01):
    i = hl.Var("i")
    y[i] = select(x[i] > 0.0, x[i], alpha * x[i])
