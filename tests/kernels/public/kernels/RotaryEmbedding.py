"""Rotary position embedding: pairs of numbers, adjacent or half a row apart, rotated by the angle of a position."""

import halide as hl

from udogen.kernels import Whole


def RotaryEmbedding(
    input: Whole(4), position_ids: Whole(2), cos_cache: Whole(2), sin_cache: Whole(2), output: Whole(4), interleaved
):
    d, s, n, b = (hl.Var(name) for name in "dsnb")
    half, pairs = cos_cache.extent(0), interleaved != 0
    first = hl.select(pairs, d % 2 == 0, d < half)
    partner = d + hl.select(first, 1, -1) * hl.select(pairs, 1, half)
    angle = hl.clamp(hl.select(pairs, d / 2, d % half), 0, half - 1)
    place = hl.clamp(position_ids[s, b], 0, cos_cache.extent(1) - 1)
    other = hl.select(first, -1.0, 1.0) * input[hl.clamp(partner, 0, 2 * half - 1), s, n, b]
    turned = input[d, s, n, b] * cos_cache[angle, place] + other * sin_cache[angle, place]
    output[d, s, n, b] = hl.select(d < 2 * half, turned, input[d, s, n, b])
