"""Where the largest number of each row is."""

import halide as hl

import udogen
from udogen.kernels import Rows


@udogen.kernel
def ArgMax(x: Rows, y: Rows(shape="... 1", types="INT_32")):
    k, r = hl.Var("k"), hl.RDom([(0, x.size)])
    y[k] = hl.argmax(r, x[r.x])[0]
