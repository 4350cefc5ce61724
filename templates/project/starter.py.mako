"""${op} for CPU, HTP and DSP: x[i] is an element of the input, y[i] = … says what each element of the output is."""

import halide as hl


def ${op}(x, y, factor):
    i = hl.Var("i")
    y[i] = factor * x[i]
