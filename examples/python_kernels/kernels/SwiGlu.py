"""gate * sigmoid(gate) * up"""

import halide as hl

from udogen.kernels.math import sigmoid


def SwiGlu(gate, up, y):
    i = hl.Var("i")
    y[i] = gate[i] * sigmoid(gate[i]) * up[i]
