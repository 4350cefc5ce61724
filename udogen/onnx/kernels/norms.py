"""ONNX's norms and softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from udogen.onnx.kernels.elementwise import Add, Cast, Div, Equal, Exp, Log, Mul, Sqrt, Sub, Where
from udogen.onnx.kernels.reductions import ArgMax, ReduceL1, ReduceL2, ReduceMax, ReduceMean, ReduceSum
from udogen.onnx.kernels.shapes import Flatten, Reshape, Unsqueeze
from udogen.onnx.kernels.values import Number, Value, as_value, spread


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
    gain, shift, middle, spread = (by_channel(each, value.rank) for each in (scale, bias, mean, variance))
    return Add(Mul(Div(Sub(value, middle), Sqrt(Add(spread, epsilon))), gain), shift)


def InstanceNormalization(x: Number, scale: Number, bias: Number, *, epsilon: float = 1e-5) -> Value:
    value = as_value(x)
    found = _normalized(value, range(2, value.rank), epsilon)
    return Add(Mul(found, by_channel(scale, value.rank)), by_channel(bias, value.rank))


def GroupNormalization(
    x: Number, scale: Number, bias: Number, *, num_groups: int, epsilon: float = 1e-5, by_group: bool = False
) -> Value:
    """Before opset 21 (`by_group`), scale and bias are per group."""
    value = as_value(x)
    n, channels, *rest = value.shape
    grouped = Reshape(value, shape=(n, num_groups, channels // num_groups, *rest))
    found = _normalized(grouped, range(2, grouped.rank), epsilon)
    if by_group:
        found = Add(Mul(found, by_channel(scale, found.rank)), by_channel(bias, found.rank))
        return Reshape(found, shape=value.shape)
    found = Reshape(found, shape=value.shape)
    return Add(Mul(found, by_channel(scale, value.rank)), by_channel(bias, value.rank))


def LayerNormalization(
    x: Number, scale: Number, bias: Number | None = None, *, axis: int = -1, epsilon: float = 1e-5
) -> Value:
    value = as_value(x)
    found = Mul(_normalized(value, range(axis % value.rank, value.rank), epsilon), scale)
    return found if bias is None else Add(found, bias)


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
