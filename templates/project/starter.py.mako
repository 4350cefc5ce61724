"""${op} for CPU, HTP and DSP: x[i] is an element of the input, y[i] = … defines each element of the output."""

import halide as hl


def ${op}(x, y, factor):
    i = hl.Var("i")
    y[i] = factor * x[i]
