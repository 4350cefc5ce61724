"""Rows of a table, by their numbers."""

import halide as hl

from udogen.kernels import Whole


def GatherRows(table: Whole(2), ids, y: Whole(2)):
    d, n = hl.Var("d"), hl.Var("n")
    y[d, n] = table[d, hl.clamp(ids[n], 0, table.extent(1) - 1)]
