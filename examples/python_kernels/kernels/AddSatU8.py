"""The sum of two tensors of bytes; what is more than 255 is 255."""

import halide as hl

import udogen
from udogen.kernels import Flat


@udogen.kernel
def AddSatU8(a: Flat(types="UINT_8"), b: Flat(types="UINT_8"), sum: Flat(types="UINT_8")):
    i = hl.Var("i")
    sum[i] = hl.u8_sat(hl.u16(a[i]) + hl.u16(b[i]))
