"""The k largest numbers of each row and where they are, the largest first; of equal ones the first."""

import halide as hl

import udogen
from udogen.kernels import Whole


@udogen.kernel
def TopK(x: Whole("n m"), indices: Whole("n k", "INT_32"), values: Whole("n k"), k=3):
    j, n, r, last = hl.Var("j"), hl.Var("n"), hl.RDom([(0, x.extent(0)), (0, indices.extent(0))]), x.extent(0) - 1
    indices[j, n] = -1
    before, best, number = indices[hl.max(r.y - 1, 0), n], indices[r.y, n], x[r.x, n]
    least = x[hl.clamp(before, 0, last), n]
    is_left = (r.y == 0) | (number < least) | ((number == least) & (r.x > before))
    is_better = (best < 0) | (number > x[hl.clamp(best, 0, last), n])
    indices[r.y, n] = hl.select(is_left & is_better, r.x, best)
    values[j, n] = x[hl.clamp(indices[j, n], 0, last), n]
