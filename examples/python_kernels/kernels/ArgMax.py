"""Where the largest number of each row is."""

import halide as hl

from udogen.kernels import Rows


def ArgMax(x: Rows, y: Rows):
    k, r = hl.Var("k"), hl.RDom([(0, x.size)])
    y[k] = hl.argmax(r, x[r.x])[0]
