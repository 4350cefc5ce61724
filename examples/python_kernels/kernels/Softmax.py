"""Exponentials along one axis, scaled so that they sum to one."""

import halide as hl

import udogen
from udogen.kernels import Rows
from udogen.kernels.math import exp, scratch


@udogen.kernel
def Softmax(x: Rows("axis"), y: Rows("axis"), axis=-1):
    k, top, powers = hl.Var("k"), x.max(), scratch()
    powers[k] = exp(x[k] - top)
    y[k] = powers[k] / x.sum(lambda k: powers[k])
