"""Elements of two tensors of one shape."""

import halide as hl


def Add(a, b, y):
    i = hl.Var("i")
    y[i] = a[i] + b[i]
