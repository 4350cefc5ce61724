"""a * sigmoid(a) * b for bytes with zero point 128; their scales are parameters."""

import halide as hl

from udogen.kernels.math import sigmoid


def LLaMASuperSiLU(a, b, o, a_scale, b_scale, o_scale):
    i = hl.Var("i")
    gate, up = (hl.f32(hl.i32(x[i]) - 128) * scale for x, scale in ((a, a_scale), (b, b_scale)))
    o[i] = hl.u8_sat(hl.i32(hl.round(gate * sigmoid(gate) * up / o_scale)) + 128)
