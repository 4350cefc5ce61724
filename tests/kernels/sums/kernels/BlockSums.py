"""Products of bytes are added in blocks of 32, and these sums with factors; a word has four bytes of a column."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import total


def BlockSums(x: Whole(2), words: Whole(2), factors: Whole(2), y: Whole(2)):
    n, m = hl.Var("n"), hl.Var("m")
    q, r = hl.RDom([(0, 4), (0, 8)]), hl.RDom([(0, factors.extent(1))])
    weight, number = hl.i8(words[4 * n + q.x, 8 * r.x + q.y]), hl.i8(x[32 * r.x + 4 * q.y + q.x, m])
    y[n, m] = total(r, factors[n, r.x] * total(q, hl.i32(weight) * hl.i32(number)))
