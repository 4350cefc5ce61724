"""The time mixing of RWKV 4: at each time the mean of all previous values, weighted by keys that decay."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import exp, maximum, total


def Wkv(w, u, k: Whole(3), v: Whole(3), y: Whole(3)):
    c, t, b, r = hl.Var("c"), hl.Var("t"), hl.Var("b"), hl.RDom([(0, k.extent(1))])
    bonus = hl.select(r.x < t, w[c] * hl.f32(t - 1 - r.x), u[c])
    weight = hl.select(r.x <= t, k[c, r.x, b] + bonus, -1e30)
    share = exp(weight - maximum(r, weight))
    y[c, t, b] = total(r, share * v[c, r.x, b]) / total(r, share)
