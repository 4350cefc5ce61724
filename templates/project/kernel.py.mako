"""${op} for CPU, HTP and DSP: x[i] is an element of an input, y[i] = … defines each element of an output."""

import halide as hl


def ${op}(${tensors}):
    i = hl.Var("i")
    raise NotImplementedError("write in kernels/${op}.py what ${op} computes: ${output}[i] = …")
