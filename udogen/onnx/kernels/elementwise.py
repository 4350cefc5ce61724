"""ONNX's ops on single elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import halide as hl

from udogen.kernels.math import absolute, larger, select
from udogen.kernels.math import exp as exp_of
from udogen.kernels.math import sigmoid as sigmoid_of
from udogen.kernels.math import tanh as tanh_of
from udogen.onnx.kernels.shapes import Unsqueeze
from udogen.onnx.kernels.values import INTEGER_RANGES, Number, Value, as_float, as_value, elementwise, kind_of


def _chain(function: Callable[[Any, Any], Any], given: Sequence[Number]) -> Value:
    result = as_value(given[0])
    for operand in given[1:]:
        result = elementwise(function, result, operand)
    return result


def _unary(function: Callable[[Any], Any]) -> Callable[[Number], Value]:
    return lambda x: elementwise(function, x)


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[Number, Number], Value]:
    return lambda a, b: elementwise(function, a, b)


def Identity(x: Number) -> Value:
    return as_value(x)


Dropout = Identity  # as in inference


Abs = _unary(lambda a: absolute(a) if kind_of(a) == "float" else hl.cast(hl.Int(32), hl.abs(a)))
Neg = _unary(lambda a: -a)


def Relu(x: Number) -> Value:
    def positive(a: Any) -> Any:
        zero = hl.Expr(0) if kind_of(a) == "int" else hl.f32(0.0)
        return select(a < zero, zero, a)  # keeps NaN

    return elementwise(positive, x)


def LeakyRelu(x: Number, *, alpha: float = 0.01) -> Value:
    return elementwise(lambda a: select(a >= 0.0, a, a * alpha), x)


def PRelu(x: Number, slope: Number) -> Value:
    return elementwise(lambda a, b: select(a >= 0.0, a, a * b), x, slope)


def ThresholdedRelu(x: Number, *, alpha: float = 1.0) -> Value:
    return elementwise(lambda a: select(a > alpha, a, hl.f32(0.0)), x)


def Elu(x: Number, *, alpha: float = 1.0) -> Value:
    return elementwise(lambda a: select(a >= 0.0, a, (exp(a) - 1.0) * alpha), x)


def Selu(x: Number, *, alpha: float = 1.6732632, gamma: float = 1.050701) -> Value:
    return elementwise(lambda a: select(a > 0.0, a, exp(a) * alpha - alpha) * gamma, x)


def Celu(x: Number, *, alpha: float = 1.0) -> Value:
    return elementwise(lambda a: select(a >= 0.0, a, (exp(a / alpha) - 1.0) * alpha), x)


def exp(a: Any) -> Any:
    return select(a != a, a, exp_of(a))  # keeps NaN


def sigmoid(a: Any) -> Any:
    return select(a != a, a, sigmoid_of(a))


def log(a: Any) -> Any:
    return select((a != a) | (a == hl.f32(float("inf"))), a, hl.log(a))  # keeps both


def erf(a: Any) -> Any:
    return select(a != a, a, hl.erf(hl.clamp(a, hl.f32(-9.0), hl.f32(9.0))))  # beyond, Halide's result is not 1


Exp = _unary(exp)
Log = _unary(log)
Sqrt = _unary(hl.sqrt)
Reciprocal = _unary(lambda a: 1.0 / a)
Sigmoid = _unary(sigmoid)


def Tanh(x: Number) -> Value:
    def near_zero(a: Any) -> Any:  # where 1 - 2 / (1 + exp(2 a)) loses digits
        square = a * a
        return a * (1.0 + square * (-0.33333334 + square * (0.13333334 - square * 0.053968254)))

    return elementwise(lambda a: select(absolute(a) < 0.2, near_zero(a), select(a != a, a, tanh_of(a))), x)


def HardSigmoid(x: Number, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    return Clip(elementwise(lambda a: a * alpha + beta, x), min=0.0, max=1.0)


def HardSwish(x: Number) -> Value:
    return Mul(x, HardSigmoid(x, alpha=1.0 / 6.0, beta=0.5))


def Swish(x: Number, *, alpha: float = 1.0) -> Value:
    return elementwise(lambda a: a * sigmoid(a * alpha), x)


Softplus = _unary(lambda a: larger(a, hl.f32(0.0)) + log(1.0 + exp(-absolute(a))))
Softsign = _unary(lambda a: a / (1.0 + absolute(a)))


def Mish(x: Number) -> Value:
    return Mul(x, Tanh(Softplus(x)))


Erf = _unary(erf)


def Gelu(x: Number, *, approximate: str = "none") -> Value:
    if approximate == "tanh":
        return elementwise(lambda a: 0.5 * a * (1.0 + tanh_of(0.7978845608 * (a + 0.044715 * a * a * a))), x)
    return elementwise(lambda a: 0.5 * a * (1.0 + erf(a * 0.70710678)), x)


def Shrink(x: Number, *, bias: float = 0.0, lambd: float = 0.5) -> Value:
    return elementwise(lambda a: select(a < -lambd, a + bias, select(a > lambd, a - bias, hl.f32(0.0))), x)


Floor = _unary(hl.floor)
Ceil = _unary(hl.ceil)


def Round(x: Number) -> Value:
    """Halves are rounded to even numbers."""
    return elementwise(hl.round, x)


def Sign(x: Number) -> Value:
    def sign(a: Any) -> Any:
        number = hl.cast(hl.Int(32), a > 0) - hl.cast(hl.Int(32), a < 0)
        return select(a != a, a, hl.cast(a.type(), number)) if kind_of(a) == "float" else hl.cast(a.type(), number)

    return elementwise(sign, x)


Sin = _unary(hl.sin)
Cos = _unary(hl.cos)
Tan = _unary(hl.tan)
Asin = _unary(hl.asin)
Acos = _unary(hl.acos)
Atan = _unary(hl.atan)
Sinh = _unary(hl.sinh)
Cosh = _unary(hl.cosh)
Asinh = _unary(hl.asinh)
Acosh = _unary(hl.acosh)
Atanh = _unary(hl.atanh)
IsNaN = _unary(lambda a: a != a)


def IsInf(x: Number, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    limit = hl.f32(float("inf"))
    return elementwise(
        lambda a: (hl.Expr(bool(detect_positive)) & (a == limit)) | (hl.Expr(bool(detect_negative)) & (a == -limit)), x
    )


Not = _unary(lambda a: ~_as_bool(a))
BitwiseNot = _unary(lambda a: ~a)


def Clip(x: Number, *, min: float | int | Value | None = None, max: float | int | Value | None = None) -> Value:
    result = as_value(x)
    if min is not None:
        result = elementwise(lambda a, low: hl.select(a < low, low, a), result, min)
    return result if max is None else elementwise(lambda a, high: hl.select(a > high, high, a), result, max)


def _as_bool(a: Any) -> Any:
    return a if kind_of(a) == "bool" else a != 0


def Cast(x: Number, *, to: str) -> Value:
    """Cast to an ONNX type, by name; integers are kept in 32 bits, with the values that they have in fewer bits."""

    def cast(a: Any) -> Any:
        if to in ("FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16"):
            return hl.cast(hl.Float(32), a)
        if to == "BOOL":
            return _as_bool(a)
        whole = hl.cast(hl.Int(32), a)
        if to in ("UINT8", "UINT16"):
            return whole & INTEGER_RANGES[to][1]
        if to in ("INT8", "INT16"):
            return hl.cast(hl.Int(32), hl.cast(hl.Int(int(to[3:])), whole))
        return whole

    return elementwise(cast, x)


def CastLike(x: Number, *, to: str) -> Value:
    return Cast(x, to=to)


Add = _binary(lambda a, b: a + b)
Sub = _binary(lambda a, b: a - b)
Mul = _binary(lambda a, b: a * b)


def Div(a: Number, b: Number) -> Value:
    """Integers are rounded towards zero."""

    def divided(a: Any, b: Any) -> Any:
        if kind_of(a) == "float":
            return a / b
        whole = hl.abs(a) / hl.abs(b)
        return hl.select((a < 0) == (b < 0), hl.cast(hl.Int(32), whole), -hl.cast(hl.Int(32), whole))

    return elementwise(divided, a, b)


def Pow(a: Number, b: Number) -> Value:
    """The power has the type of the base."""
    if not isinstance(b, Value) and b in (2, 3, 0.5):
        return Sqrt(a) if b == 0.5 else Mul(a, a) if b == 2 else Mul(Mul(a, a), a)

    def power(a: Any, b: Any) -> Any:
        x, n = as_float(a), as_float(b)
        size = exp(n * log(absolute(x))) if kind_of(b) == "float" else hl.pow(absolute(x), n)
        odd = hl.cast(hl.Int(32), n) % 2 == 1
        whole = hl.floor(n) == n
        # Powers of integers are integers, as far as floats represent all integers.
        exact = whole & (n > 0.0) & (hl.floor(x) == x) & (size < 1e6)
        size = hl.select(exact, hl.round(size), size)
        is_negative = hl.reinterpret(hl.Int(32), x) < 0  # also -0
        result = hl.select((x < 0.0) & ~whole, hl.f32(float("nan")), size)
        result = hl.select(is_negative & whole & odd, -size, result)
        result = hl.select(n == 0.0, hl.f32(1.0), hl.select((x == 0.0) & (n > 0.0), hl.f32(0.0), result))
        return result if kind_of(a) == "float" else hl.cast(hl.Int(32), hl.round(result))

    return elementwise(power, a, b)


def Mod(a: Number, b: Number, *, fmod: int = 0) -> Value:
    def modulo(a: Any, b: Any) -> Any:
        if kind_of(a) == "float":
            return a - b * hl.trunc(a / b)
        rest = hl.cast(hl.Int(32), hl.abs(a) % hl.abs(b))
        rest = hl.select(a < 0, -rest, rest)
        return rest if fmod else hl.select((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)

    return elementwise(modulo, a, b)


def Max(*x: Number) -> Value:
    return _chain(lambda a, b: select((a > b) | (a != a), a, b), x)  # keeps NaN


def Min(*x: Number) -> Value:
    return _chain(lambda a, b: select((a < b) | (a != a), a, b), x)


def Sum(*x: Number) -> Value:
    return _chain(lambda a, b: a + b, x)


def Mean(*x: Number) -> Value:
    return Mul(Sum(*x), 1.0 / len(x))


And = _binary(lambda a, b: _as_bool(a) & _as_bool(b))
Or = _binary(lambda a, b: _as_bool(a) | _as_bool(b))
Xor = _binary(lambda a, b: _as_bool(a) != _as_bool(b))


def _compared(compare: Callable[[Any, Any], Any]) -> Callable[[Number, Number], Value]:
    def both(a: Any, b: Any) -> Any:
        if "bool" in (kind_of(a), kind_of(b)):
            a, b = hl.cast(hl.Int(32), a), hl.cast(hl.Int(32), b)
        return compare(a, b)

    return _binary(both)


Equal = _compared(lambda a, b: a == b)
Greater = _compared(lambda a, b: a > b)
GreaterOrEqual = _compared(lambda a, b: (a > b) | (a == b))  # Halide's `>=` is true for NaN
Less = _compared(lambda a, b: a < b)
LessOrEqual = _compared(lambda a, b: (a < b) | (a == b))


def Where(condition: Number, a: Number, b: Number) -> Value:
    return elementwise(lambda c, a, b: hl.select(_as_bool(c), a, b), condition, a, b)


BitwiseAnd = _binary(lambda a, b: a & b)
BitwiseOr = _binary(lambda a, b: a | b)
BitwiseXor = _binary(lambda a, b: a ^ b)


def _along(value: Number, rank: int, axis: int) -> Number:
    """Numbers along one axis, for broadcasting."""
    if not isinstance(value, Value) or value.rank != 1:
        return value
    return Unsqueeze(value, axes=[n for n in range(rank) if n != axis % rank])


def QuantizeLinear(x: Number, scale: Number, zero: Number = 0, *, axis: int = 1, to: str = "UINT8") -> Value:
    value = as_value(x)
    low, high = INTEGER_RANGES[to]
    grid = (_along(scale, value.rank, axis), _along(zero, value.rank, axis))

    def quantized(a: Any, scale: Any, zero: Any) -> Any:
        steps = hl.round(a / scale) + as_float(zero)
        return hl.cast(hl.Int(32), hl.clamp(steps, hl.f32(low), hl.f32(high)))

    return elementwise(quantized, value, *grid)


def DequantizeLinear(x: Number, scale: Number, zero: Number = 0, *, axis: int = 1) -> Value:
    value = as_value(x)
    grid = (_along(scale, value.rank, axis), _along(zero, value.rank, axis))
    return elementwise(lambda a, scale, zero: as_float(a - zero) * scale, value, *grid)
