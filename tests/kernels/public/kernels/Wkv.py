"""The time mixing of RWKV 4: at each time the mean of all previous values, weighted by keys that decay."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import exp, larger, scan


def Wkv(w, u, k: Whole(3), v: Whole(3), y: Whole(3)):
    def joined(before, t, decay, bonus):  # what there is before a time, and the value of this time
        sum, weight, top = before
        new = larger(top + decay, k[c, t, b] + bonus)
        old, now = exp(top + decay - new), exp(k[c, t, b] + bonus - new)
        return old * sum + now * v[c, t, b], old * weight + now, new

    (c, t, b), r = (hl.Var(name) for name in "ctb"), hl.RDom([(0, k.extent(1))])
    state = scan(r, (0.0, 0.0, -1e38), lambda before: joined(before, r.x, w[c], 0.0))
    sum, weight, _ = joined(state[t], t, 0.0, u[c])
    y[c, t, b] = sum / weight
