"""The sum of two tensors of bytes; what is more than 255 is 255."""

import halide as hl


def AddSatU8(a, b, sum):
    i = hl.Var("i")
    sum[i] = hl.u8_sat(hl.u16(a[i]) + hl.u16(b[i]))
