"""The time mixing of RWKV 4 in one pass; `state` has the sum, its weight and the largest exponent before each time."""

import halide as hl

import udogen
from udogen.kernels import Flat, Whole
from udogen.kernels.math import exp, larger, select

F = "FLOAT_32"


@udogen.kernel
def Wkv(
    w: Flat("c", F), u: Flat("c", F), k: Whole("b t c", F), v: Whole("b t c", F),
    state: Whole("b t+1 3 c", F), y: Whole("b t c", F),
):  # fmt: skip
    def joined(t, decay, bonus):  # the state before a time, and the value of this time
        sum, weight, top = (state[c, part, t, b] for part in range(3))
        new = larger(top + decay, k[c, t, b] + bonus)
        old, now = exp(top + decay - new), exp(k[c, t, b] + bonus - new)
        return old * sum + now * v[c, t, b], old * weight + now, new

    (c, i, t, b), r = (hl.Var(name) for name in "citb"), hl.RDom([(0, 3), (0, k.extent(1))])
    state[c, i, t, b] = select(i == 2, hl.f32(-1e38), 0.0)
    sum, weight, top = joined(r.y, w[c], 0.0)
    state[c, r.x, r.y + 1, b] = select(r.x == 0, sum, select(r.x == 1, weight, top))
    sum, weight, _ = joined(t, 0.0, u[c])
    y[c, t, b] = sum / weight
