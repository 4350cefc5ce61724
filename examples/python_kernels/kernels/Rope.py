"""Rotary position embedding: pairs of numbers, half a row apart, turned by an angle of their row's position."""

import halide as hl

import udogen
from udogen.kernels import Whole


@udogen.kernel
def Rope(x: Whole("h s d"), cosines: Whole("s d/2"), sines: Whole("s d/2"), y: Whole("h s d")):
    d, s, h = (hl.Var(name) for name in "dsh")
    half, is_low = x.extent(0) / 2, d < x.extent(0) / 2
    pair = hl.unsafe_promise_clamped(hl.select(is_low, hl.likely(d), d - half), 0, half - 1)
    low, high, cosine, sine = x[pair, s, h], x[pair + half, s, h], cosines[pair, s], sines[pair, s]
    y[d, s, h] = hl.select(is_low, hl.likely(low * cosine - high * sine), high * cosine + low * sine)


def schedule(machine, x, y):
    d, s, h = y.indices
    side, pair, lane, half = hl.Var("side"), hl.Var("pair"), hl.Var("lane"), x.extent(0) / 2
    if not machine.gpu:  # both numbers of a pair in the same loop
        y.func.bound(d, 0, 2 * half).specialize(half < y.lanes)
        y.func.split(d, side, pair, half).split(pair, pair, lane, y.lanes, hl.TailStrategy.ShiftInwards)
        y.func.reorder(lane, side, pair, s, h).vectorize(lane).unroll(side, 2)
        y.func.unroll(pair, 2, hl.TailStrategy.GuardWithIf)
    return not machine.gpu
