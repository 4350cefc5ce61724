"""Exponentials along one axis, scaled so that they sum to one."""

import halide as hl

import udogen
from udogen.kernels import Rows
from udogen.kernels.math import exp


@udogen.kernel
def Softmax(x: Rows("axis"), y: Rows("axis"), axis=-1):
    k = hl.Var("k")
    top = x.max()
    total = x.sum(lambda k: exp(x[k] - top))
    y[k] = exp(x[k] - top) / total
