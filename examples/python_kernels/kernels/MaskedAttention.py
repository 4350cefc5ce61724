"""softmax(scale * query x key + mask) x value for each head; a mask has a number for each query and key."""

import halide as hl

import udogen
from udogen.kernels import Whole
from udogen.kernels.math import exp, maximum, scratch, total


@udogen.kernel
def MaskedAttention(
    query: Whole("h s d"), key: Whole("h t d"), value: Whole("h t e"), mask: Whole("s t"), y: Whole("h s e"), scale=1.0
):
    e, s, h, t = (hl.Var(name) for name in "esht")
    i, r = hl.RDom([(0, query.extent(0))]), hl.RDom([(0, key.extent(1))])
    scores, top, shares, sum = scratch("scores"), scratch("top"), scratch("shares"), scratch("sum")
    scores[t, s, h] = scale * total(i, query[i.x, s, h] * key[i.x, t, h]) + mask[t, s]
    top[s, h] = maximum(r, scores[r.x, s, h])
    shares[t, s, h] = exp(scores[t, s, h] - top[s, h])
    sum[s, h] = total(r, shares[r.x, s, h])
    y[e, s, h] = total(r, shares[r.x, s, h] * value[e, r.x, h]) / sum[s, h]
