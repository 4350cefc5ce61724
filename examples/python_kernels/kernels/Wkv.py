"""The time mixing of RWKV 4 in one pass: a sum, its weight and the largest exponent are carried from time to time."""

import halide as hl

import udogen
from udogen.kernels import Flat, Whole
from udogen.kernels.math import exp, larger, scan

F = "FLOAT_32"


@udogen.kernel
def Wkv(w: Flat("c", F), u: Flat("c", F), k: Whole("b t c", F), v: Whole("b t c", F), y: Whole("b t c", F)):
    def joined(before, t, decay, bonus):  # what there is before a time, and the value of this time
        sum, weight, top = before
        new = larger(top + decay, k[c, t, b] + bonus)
        old, now = exp(top + decay - new), exp(k[c, t, b] + bonus - new)
        return old * sum + now * v[c, t, b], old * weight + now, new

    (c, t, b), r = (hl.Var(name) for name in "ctb"), hl.RDom([(0, k.extent(1))])
    state = scan(r, (0.0, 0.0, -1e38), lambda before: joined(before, r.x, w[c], 0.0))
    sum, weight, _ = joined(state[t], t, 0.0, u[c])
    y[c, t, b] = sum / weight
