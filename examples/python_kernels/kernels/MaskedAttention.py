"""softmax(scale * query x key + mask) x value for each head; a mask has a number for each query and key."""

import halide as hl

import udogen
from udogen.kernels import Whole
from udogen.kernels.math import exp, maximum, total


@udogen.kernel
def MaskedAttention(
    query: Whole("h s d"), key: Whole("h t d"), value: Whole("h t e"), mask: Whole("s t"), y: Whole("h s e"), scale=1.0
):
    def score(t):
        return scale * total(i, query[i.x, s, h] * key[i.x, t, h]) + mask[t, s]

    e, s, h, top, sum = *(hl.Var(name) for name in "esh"), hl.Func("top"), hl.Func("sum")
    i, t = hl.RDom([(0, query.extent(0))]), hl.RDom([(0, key.extent(1))])
    top[s, h] = maximum(t, score(t.x))
    sum[s, h] = total(t, exp(score(t.x) - top[s, h]))
    y[e, s, h] = total(t, exp(score(t.x) - top[s, h]) * value[e, t.x, h]) / sum[s, h]
    top.compute_at(y.func, s)
    sum.compute_at(y.func, s)
