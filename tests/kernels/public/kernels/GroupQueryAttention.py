"""Causal attention: several query heads share a head of keys and values, which are cached."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import exp, maximum, scratch, select, total


def GroupQueryAttention(query: Whole(4), key: Whole(4), value: Whole(4), seqlens_k, output: Whole(4), scale):
    d, s, n, b, t = (hl.Var(name) for name in "dsnbt")
    e, r = hl.RDom([(0, query.extent(0))]), hl.RDom([(0, key.extent(1))])
    head = n / (query.extent(2) / key.extent(2))
    scores, top, shares, sum = scratch("scores"), scratch("top"), scratch("shares"), scratch("sum")
    product = total(e, query[e.x, s, n, b] * key[e.x, t, head, b])
    scores[t, s, n, b] = select(t <= seqlens_k[b] - query.extent(1) + 1 + s, scale * product, -1e30)
    top[s, n, b] = maximum(r, scores[r.x, s, n, b])
    shares[t, s, n, b] = exp(scores[t, s, n, b] - top[s, n, b])
    sum[s, n, b] = total(r, shares[r.x, s, n, b])
    output[d, s, n, b] = total(r, shares[r.x, s, n, b] * value[d, r.x, head, b]) / sum[s, n, b]
