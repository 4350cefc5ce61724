"""x where x is positive, and alpha * x elsewhere."""

import halide as hl

from udogen.kernels.math import select


def LeakyRelu(x, y, alpha):
    i = hl.Var("i")
    y[i] = select(x[i] > 0.0, x[i], alpha * x[i])
