"""ONNX's reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import halide as hl

from udogen.onnx.kernels.elementwise import Abs, Add, Cast, Div, Equal, Exp, Log, Mul, Sqrt, Sub, Where
from udogen.onnx.kernels.shapes import Flatten, Reshape, Squeeze, Unsqueeze
from udogen.onnx.kernels.values import (
    LANES,
    Axes,
    Index,
    Number,
    Value,
    as_value,
    axes_of,
    elementwise,
    fold_over,
    is_int,
    spread,
    zero_of,
)


def _with_axes(value: Value, axes: Sequence[int], keepdims: int) -> Value:
    """A reduced tensor, with or without its axes of one element."""
    return value if keepdims else Squeeze(value, axes=axes)


def _reduced(op: str, x: Value, axes: Axes, start: Any, both: Callable[[Any, Any], Any], keepdims: int = 1) -> Value:
    """A tensor folded along axes, which then have one element."""
    chosen = axes_of(x, axes)
    if not chosen:
        return x

    shape = [1 if axis in chosen else extent for axis, extent in enumerate(x.shape)]

    def folded(length: int, first: int) -> Value:
        """The fold of a part of the last reduced axis."""

        def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
            full = list(index)
            for axis, position in zip(chosen, place, strict=True):
                full[axis] = position + first if first and axis == chosen[-1] else position
            return [both(so_far[0], x.at(*full))]

        return fold_over(op, shape, [*(x.shape[axis] for axis in chosen[:-1]), length], [start], step)

    whole, left = divmod(x.shape[-1], LANES)
    if chosen[-1] != x.rank - 1 or whole < 2:
        return _with_axes(folded(x.shape[chosen[-1]], 0), chosen, keepdims)

    def partial_step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        full = list(index[:-1])
        for axis, position in zip(chosen, place, strict=True):
            full[axis] = position
        full[-1] = full[-1] * LANES + index[-1]
        return [both(so_far[0], x.at(*full))]

    over = [*(x.shape[axis] for axis in chosen[:-1]), whole]
    partial = fold_over(f"{op}_lanes", [*shape, LANES], over, [start], partial_step, vector=True)
    total = fold_over(
        op, shape, [LANES], [start], lambda so_far, index, place: [both(so_far[0], partial.at(*index, *place))]
    )
    if left:
        total = elementwise(both, total, folded(left, whole * LANES))
    return _with_axes(total, chosen, keepdims)


def _start(of_ints: int, of_floats: float) -> Callable[[Value], Any]:
    return lambda x: hl.Expr(of_ints) if is_int(x) else hl.f32(of_floats)


def _reduction(op: str, start: Callable[[Value], Any], both: Callable[[Any, Any], Any]) -> Callable[..., Value]:
    """The function of an op that folds a tensor along axes."""

    def reduce(x: Number, *, axes: Axes = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
        value = as_value(x)
        return value if not axes and noop_with_empty_axes else _reduced(op, value, axes, start(value), both, keepdims)

    return reduce


ReduceSum = _reduction("ReduceSum", zero_of, lambda a, b: a + b)
ReduceMax = _reduction("ReduceMax", _start(-(2**31), float("-inf")), hl.max)
ReduceMin = _reduction("ReduceMin", _start(2**31 - 1, float("inf")), hl.min)
ReduceProd = _reduction("ReduceProd", _start(1, 1.0), lambda a, b: a * b)


def ReduceMean(x: Number, *, axes: Axes = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
    value = as_value(x)
    if not axes and noop_with_empty_axes:
        return value
    chosen = axes_of(value, axes)
    total, count = ReduceSum(value, axes=chosen, keepdims=keepdims), math.prod(value.shape[axis] for axis in chosen)
    return Div(total, count) if is_int(value) else Mul(total, 1.0 / count)


def ReduceL1(x: Number, **options: Any) -> Value:
    return ReduceSum(Abs(x), **options)


def ReduceL2(x: Number, **options: Any) -> Value:
    return Sqrt(ReduceSumSquare(x, **options))


def ReduceSumSquare(x: Number, **options: Any) -> Value:
    return ReduceSum(Mul(x, x), **options)


def ReduceLogSum(x: Number, **options: Any) -> Value:
    return Log(ReduceSum(x, **options))


def ReduceLogSumExp(x: Number, *, axes: Axes = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
    value, chosen = as_value(x), axes_of(as_value(x), axes)
    if not axes and noop_with_empty_axes:
        return value
    top = ReduceMax(value, axes=chosen)
    total = Add(top, Log(ReduceSum(Exp(Sub(value, top)), axes=chosen)))
    return _with_axes(total, chosen, keepdims)


def _arg(
    op: str, x: Value, axis: int, keepdims: int, last: int, better: Callable[[Any, Any], Any], start: Any
) -> Value:
    axis %= x.rank

    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        value = x.at(*index[:axis], place[0], *index[axis + 1 :])
        wins = better(value, so_far[1]) | (hl.Expr(bool(last)) & (value == so_far[1]))
        wins = wins | (place[0] == 0)
        return [hl.select(wins, place[0], so_far[0]), hl.select(wins, value, so_far[1])]

    shape = [1 if n == axis else extent for n, extent in enumerate(x.shape)]
    return _with_axes(fold_over(op, shape, [x.shape[axis]], [hl.Expr(0), start], step), [axis], keepdims)


def ArgMax(x: Number, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    value = as_value(x)
    return _arg("ArgMax", value, axis, keepdims, select_last_index, lambda a, b: a > b, zero_of(value))


def ArgMin(x: Number, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    value = as_value(x)
    return _arg("ArgMin", value, axis, keepdims, select_last_index, lambda a, b: a < b, zero_of(value))


def CumSum(x: Number, *, axis: int, exclusive: int = 0, reverse: int = 0) -> Value:
    """Each sum is calculated separately: the time grows with the square of the axis."""
    value = as_value(x)
    axis %= value.rank
    none = zero_of(value)

    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        here, there = (place[0], index[axis]) if not reverse else (index[axis], place[0])
        counts = here < there if exclusive else here <= there
        return [so_far[0] + hl.select(counts, value.at(*index[:axis], place[0], *index[axis + 1 :]), none)]

    return fold_over("CumSum", value.shape, [value.shape[axis]], [none], step)


def _rows(x: Number, axis: int, flat: bool, function: Callable[[Value, int], Value]) -> Value:
    """Apply a function along an axis; before opset 13 (`flat`), along all axes from it on."""
    value = as_value(x)
    axis %= value.rank
    if not flat:
        return function(value, axis)
    return Reshape(function(Flatten(value, axis=axis), 1), shape=value.shape)


def Softmax(x: Number, *, axis: int = -1, flat: bool = False) -> Value:
    def softmax(value: Value, axis: int) -> Value:
        powers = Exp(Sub(value, ReduceMax(value, axes=(axis,))))
        return Div(powers, ReduceSum(powers, axes=(axis,)))

    return _rows(x, axis, flat, softmax)


def LogSoftmax(x: Number, *, axis: int = -1, flat: bool = False) -> Value:
    def log_softmax(value: Value, axis: int) -> Value:
        shifted = Sub(value, ReduceMax(value, axes=(axis,)))
        return Sub(shifted, Log(ReduceSum(Exp(shifted), axes=(axis,))))

    return _rows(x, axis, flat, log_softmax)


def Hardmax(x: Number, *, axis: int = -1, flat: bool = False) -> Value:
    def hardmax(value: Value, axis: int) -> Value:
        first = ArgMax(value, axis=axis)
        hot = Value(value.shape, lambda index: index[axis] == spread(first, index))
        return Cast(hot, to="FLOAT")

    return _rows(x, axis, flat, hardmax)


def by_channel(value: Number, rank: int) -> Value:
    """A tensor with one number for each channel, along axis 1."""
    return Unsqueeze(value, axes=[axis for axis in range(rank) if axis != 1])


def _normalized(x: Value, axes: Sequence[int], epsilon: float) -> Value:
    centred = Sub(x, ReduceMean(x, axes=axes))
    return Div(centred, Sqrt(Add(ReduceMean(Mul(centred, centred), axes=axes), epsilon)))


def BatchNormalization(
    x: Number, scale: Number, bias: Number, mean: Number, variance: Number, *, epsilon: float = 1e-5
) -> Value:
    value = as_value(x)
    gain, shift, middle, spread = (by_channel(tensor, value.rank) for tensor in (scale, bias, mean, variance))
    return Add(Mul(Div(Sub(value, middle), Sqrt(Add(spread, epsilon))), gain), shift)


def InstanceNormalization(x: Number, scale: Number, bias: Number, *, epsilon: float = 1e-5) -> Value:
    value = as_value(x)
    normal = _normalized(value, range(2, value.rank), epsilon)
    return Add(Mul(normal, by_channel(scale, value.rank)), by_channel(bias, value.rank))


def GroupNormalization(
    x: Number, scale: Number, bias: Number, *, num_groups: int, epsilon: float = 1e-5, by_group: bool = False
) -> Value:
    """Before opset 21 (`by_group`), scale and bias are per group."""
    value = as_value(x)
    n, channels, *rest = value.shape
    grouped = Reshape(value, shape=(n, num_groups, channels // num_groups, *rest))
    normal = _normalized(grouped, range(2, grouped.rank), epsilon)
    if by_group:
        normal = Add(Mul(normal, by_channel(scale, normal.rank)), by_channel(bias, normal.rank))
        return Reshape(normal, shape=value.shape)
    normal = Reshape(normal, shape=value.shape)
    return Add(Mul(normal, by_channel(scale, value.rank)), by_channel(bias, value.rank))


def LayerNormalization(
    x: Number, scale: Number, bias: Number | None = None, *, axis: int = -1, epsilon: float = 1e-5
) -> Value:
    value = as_value(x)
    normal = Mul(_normalized(value, range(axis % value.rank, value.rank), epsilon), scale)
    return normal if bias is None else Add(normal, bias)


def RMSNormalization(x: Number, scale: Number, *, axis: int = -1, epsilon: float = 1e-5) -> Value:
    value = as_value(x)
    squares = ReduceMean(Mul(value, value), axes=range(axis % value.rank, value.rank))
    return Mul(Div(value, Sqrt(Add(squares, epsilon))), scale)


def LpNormalization(x: Number, *, axis: int = -1, p: int = 2) -> Value:
    size = ReduceL1(x, axes=(axis,)) if p == 1 else ReduceL2(x, axes=(axis,))
    return Where(Equal(size, 0.0), 0.0, Div(x, size))


def MeanVarianceNormalization(x: Number, *, axes: Sequence[int] = (0, 2, 3)) -> Value:
    value = as_value(x)
    centred = Sub(value, ReduceMean(value, axes=axes))
    return Div(centred, Add(Sqrt(ReduceMean(Mul(centred, centred), axes=axes)), 1e-9))
