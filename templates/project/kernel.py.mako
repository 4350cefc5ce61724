"""${op} for CPU, HTP and DSP: x[i] is an element of an input, y[i] = … defines each element of an output."""

import halide as hl

import udogen
% for line in imports:
${line}
% endfor


@udogen.kernel
def ${op}(${arguments}):
    i = hl.Var("i")
    raise NotImplementedError("write in kernels/${op}.py what ${op} computes: ${output}[i] = …")
