"""Products of queries and keys, times values, plus the largest of a row; variables have names that Halide uses."""

import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import maximum, scratch, total


def Scores(query: Whole(3), key: Whole(3), value: Whole(3), y: Whole(3)):
    e, t, h, s = (hl.Var(name) for name in ("loop_max", "loop_min", "__outermost", "s"))
    i, r, scores = hl.RDom([(0, query.extent(0))]), hl.RDom([(0, key.extent(1))]), scratch()
    scores[s, t, h] = total(i, query[i.x, t, h] * key[i.x, s, h])
    y[e, t, h] = total(r, scores[r.x, t, h] * value[e, r.x, h]) + maximum(r, scores[r.x, t, h])
