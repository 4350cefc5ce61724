"""Causal attention: several query heads share a head of keys and values, which are cached."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import exp, maximum, total


def GroupQueryAttention(query: Whole(4), key: Whole(4), value: Whole(4), seqlens_k, output: Whole(4), scale):
    def score(t):
        product = total(e, query[e.x, s, n, b] * key[e.x, t, head, b])
        return hl.select(t <= seqlens_k[b] - query.extent(1) + 1 + s, scale * product, -1e30)

    d, s, n, b = (hl.Var(name) for name in "dsnb")
    e, t = hl.RDom([(0, query.extent(0))]), hl.RDom([(0, key.extent(1))])
    head = n / (query.extent(2) / key.extent(2))
    top, sum = hl.Func("top"), hl.Func("sum")
    top[s, n, b] = maximum(t, score(t.x))
    sum[s, n, b] = total(t, exp(score(t.x) - top[s, n, b]))
    output[d, s, n, b] = total(t, exp(score(t.x) - top[s, n, b]) * value[d, t.x, head, b]) / sum[s, n, b]
    for each in (top, sum):
        each.compute_at(output.func, s)
