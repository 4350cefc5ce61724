"""Rows of a table, by their numbers."""

import halide as hl

import udogen
from udogen.kernels import Flat, Whole


@udogen.kernel
def GatherRows(table: Whole("m d"), ids: Flat("n", "INT_32"), y: Whole("n d")):
    d, n = hl.Var("d"), hl.Var("n")
    y[d, n] = table[d, hl.clamp(ids[n], 0, table.extent(1) - 1)]
