"""gate * sigmoid(gate) * up"""

import halide as hl

import udogen
from udogen.kernels.math import sigmoid


@udogen.kernel
def SwiGlu(gate, up, y):
    i = hl.Var("i")
    y[i] = gate[i] * sigmoid(gate[i]) * up[i]
