"""Real numbers as integers times a scale, for machines whose vectors hold no floats.

A `Fixed` is `scale * (stored + zero)`: an integer of 32 bits for each element, and a float that all elements share.
When two are added or multiplied, their integers take 30 bits; products keep their upper half, for which HVX has an
instruction.
"""

from __future__ import annotations

from typing import Any

import halide as hl

_BITS = 30  # of an integer that is multiplied
_MOST = (1 << _BITS) - 1
_TINY = 1e-37  # the smallest scale


class NotFixedError(Exception):
    """An expression that is not supported in fixed point; floats are used instead."""


class Fixed(hl.Expr):  # type: ignore[misc]  # Halide has no types
    """An element as a kernel's function sees it.

    For Halide's own functions it is an undefined variable: expressions that they make of it are refused.
    """

    stored: hl.Expr  # an integer of at most 32 bits
    zero: Any  # an integer that is added to it and that all elements share, or None
    scale: hl.Expr  # positive, shared by all elements
    bound: int  # the maximum of the absolute integer
    at_most_zero: bool

    def __init__(
        self, stored: hl.Expr, scale: hl.Expr, bound: int, zero: Any = None, *, at_most_zero: bool = False
    ) -> None:
        integer = hl.cast(hl.Int(32), stored)
        self.stored, self.zero, self.scale, self.bound, self.at_most_zero = stored, zero, scale, bound, at_most_zero
        self.integer = integer if zero is None else integer + zero
        super().__init__(hl.Var("an element in fixed point"))

    @property
    def real(self) -> hl.Expr:
        """The same number as a float; only for numbers that all elements share."""
        return self.scale * hl.cast(hl.Float(32), self.integer)

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def __neg__(self) -> Fixed:
        return Fixed(-self.integer, self.scale, self.bound)

    def __add__(self, other: Any) -> Fixed:
        if not isinstance(other, Fixed) and _is_number(other) and other == 0:
            return self
        other = of_shared(other)
        if self.scale is other.scale and self.bound + other.bound < 1 << _BITS:
            return Fixed(self.integer + other.integer, self.scale, self.bound + other.bound)
        a, b = self.widened(_BITS - 1), other.widened(_BITS - 1)
        scale = hl.max(a.scale, b.scale)
        both = [_upper_half(each.integer, _to_q31(each.scale / scale)) for each in (a, b)]
        return Fixed(both[0] + both[1], scale, _MOST)

    def __sub__(self, other: Any) -> Fixed:
        if isinstance(other, Fixed) and self.scale is other.scale and self.zero is other.zero is not None:
            integers = [hl.cast(hl.Int(32), each.stored) for each in (self, other)]
            return Fixed(integers[0] - integers[1], self.scale, self.bound, at_most_zero=isinstance(other, Largest))
        return Fixed.__add__(self, -other)

    def __mul__(self, other: Any) -> Fixed:
        if isinstance(other, Fixed):
            if self.bound * other.bound < 1 << _BITS:
                return Fixed(self.integer * other.integer, self.scale * other.scale, self.bound * other.bound)
            a, b = self.widened(), other.widened()
            return Fixed(_upper_half(a.integer, b.integer), a.scale * b.scale * hl.f32(2.0**31), _MOST >> 1)
        if _is_number(other):
            integer = self.integer if other >= 0 else -self.integer
            return Fixed(integer, hl.max(self.scale * hl.f32(abs(other)), hl.f32(_TINY)), self.bound)
        factor = hl.cast(hl.Float(32), other)
        scale = hl.max(self.scale * hl.abs(factor), hl.f32(_TINY))
        return Fixed(self.integer * hl.select(factor < hl.f32(0.0), hl.i32(-1), hl.i32(1)), scale, self.bound)

    def __truediv__(self, other: Any) -> Fixed:
        if isinstance(other, Fixed) and not isinstance(other, OfRow):
            raise NotFixedError("elements are divided by elements")
        other = other.real if isinstance(other, OfRow) else other
        return Fixed.__mul__(self, 1.0 / other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Fixed:
        return Fixed.__add__(-self, other)

    def __rtruediv__(self, other: Any) -> Fixed:
        raise NotFixedError("something is divided by elements")

    def __lt__(self, other: Any) -> hl.Expr:
        return (self - other).integer < 0

    def __le__(self, other: Any) -> hl.Expr:
        return (self - other).integer <= 0

    def __gt__(self, other: Any) -> hl.Expr:
        return (self - other).integer > 0

    def __ge__(self, other: Any) -> hl.Expr:
        return (self - other).integer >= 0

    # --- integers -------------------------------------------------------------------------------------------------

    def widened(self, bits: int = _BITS) -> Fixed:
        """The same number with integers of this many bits."""
        more = bits - self.bound.bit_length()
        if more >= 0:
            scale = self.scale * hl.f32(2.0**-more)
            return Fixed(self.integer << more if more else self.integer, scale, self.bound << more)
        return Fixed(hl.rounding_shift_right(self.integer, -more), self.scale * hl.f32(2.0**-more), (1 << bits) - 1)

    def in_steps(self, step: Any) -> hl.Expr:
        """The number divided by a positive float that all elements share, rounded; saturates beyond about 2 ** 22."""
        wide = self.widened()
        ratio = hl.reinterpret(hl.Int(32), hl.clamp(wide.scale / step, hl.f32(1e-30), hl.f32(1e30)))
        exponent = (ratio >> 23) - 126  # ratio = factor * 2 ** (exponent - 31)
        factor = hl.select(exponent < -_BITS, 0, ((ratio & 0x7FFFFF) | 0x800000) << 7)
        product = _upper_half(wide.integer, factor)
        right, left = hl.clamp(-exponent, 0, _BITS), hl.clamp(exponent, 0, 23)
        rounded = (product + ((hl.i32(1) << right) >> 1)) >> right
        most = hl.i32(1 << _BITS) >> left
        return hl.clamp(rounded, -most, most) << left


class OfRow(Fixed):
    """The largest or smallest of a row."""


class Largest(OfRow):
    """The largest of a row, which no element exceeds."""


def of_shared(value: Any) -> Fixed:
    """A float that all elements share, in fixed point."""
    if isinstance(value, Fixed):
        return value
    number = hl.f32(float(value)) if _is_number(value) else hl.cast(hl.Float(32), value)
    scale = hl.max(hl.abs(number), hl.f32(_TINY)) * hl.f32(2.0 ** (1 - _BITS))
    most = hl.i32(1 << _BITS - 1)
    return Fixed(hl.select(number < hl.f32(0.0), -most, most), scale, _MOST >> 1)


def like(a: Any, b: Any) -> tuple[Fixed, Fixed]:
    """Two numbers with the same scale, for functions that return one of them."""
    if isinstance(a, Fixed) and isinstance(b, Fixed) and a.scale is b.scale and a.zero is b.zero:
        return a, b
    if _is_number(b) and b == 0:
        return a, Fixed(hl.i32(0), a.scale, a.bound)
    if _is_number(a) and a == 0:
        return Fixed(hl.i32(0), b.scale, b.bound), b
    a, b = of_shared(a).widened(_BITS), of_shared(b).widened(_BITS)
    scale = hl.max(a.scale, b.scale)
    integers = [_upper_half(each.integer, _to_q31(each.scale / scale)) for each in (a, b)]
    return Fixed(integers[0], scale, _MOST), Fixed(integers[1], scale, _MOST)


def one_of(a: Any, b: Any, take: Any) -> Fixed:
    """One of two numbers, chosen by a function of their integers: `select`, `max`, `min`."""
    a, b = like(a, b)
    bound = max(a.bound, b.bound)
    if a.zero is b.zero and a.zero is not None and a.stored.type() == b.stored.type():
        return Fixed(take(a.stored, b.stored), a.scale, bound, a.zero)
    return Fixed(take(a.integer, b.integer), a.scale, bound)


def reduced(x: Fixed, take: Any) -> Fixed:
    """The number that a reduction of the integers chooses: the largest, the smallest."""
    if x.zero is None:
        return Fixed(take(x.integer), x.scale, x.bound)
    return Fixed(take(x.stored), x.scale, x.bound, x.zero)


def total(over: hl.RDom, x: Fixed) -> Fixed:
    """The sum over a domain, with as many bits as its length leaves."""
    count = hl.i32(1)
    for axis in range(over.dimensions()):
        count = count * over[axis].extent()
    short = x if x.bound.bit_length() <= _BITS - 8 else x.widened(_BITS - 8)
    shift = hl.max(short.bound.bit_length() + 32 - hl.cast(hl.Int(32), hl.count_leading_zeros(count)) - _BITS, 0)
    scale = short.scale * hl.cast(hl.Float(32), hl.i32(1) << shift)
    return Fixed(hl.sum(over, short.integer >> shift), scale, _MOST)


def exp(x: Fixed) -> Fixed:
    """e to the power of a number that is not positive, in 30 bits."""
    if not x.at_most_zero:
        raise NotFixedError("exp() of what may be positive")
    power = hl.clamp(-x.in_steps(hl.f32(0.6931471805599453 / (1 << 20))), 0, (31 << 20) - 1)  # the exponent of 1 / 2
    whole, rest = power >> 20, (power & 0xFFFFF) << 11
    # 2 ** -rest between 1 / 2 and 1, in Q30
    poly = hl.i32(0)
    for factor in (-0.00095265, 0.00922489, -0.05531363, 0.24018562, -0.6931443):
        poly = _upper_half(poly, rest) + hl.i32(round(factor * (1 << _BITS)))
    found = _upper_half(poly, rest) + hl.i32(1 << _BITS)
    return Fixed(found >> whole, hl.f32(2.0**-_BITS), _MOST)


def sigmoid(x: Fixed) -> Fixed:
    """1 / (1 + exp(-x)), in 30 bits."""
    power = exp(Fixed(-hl.abs(x.integer), x.scale, x.bound, at_most_zero=True)).integer >> 1  # Q29
    whole = power + hl.i32(1 << 29)  # 1 to 2, in Q29
    # Newton's method for 1 / whole, in Q30
    found = hl.i32(round(24 / 17 * (1 << 30))) - _upper_half(whole, hl.i32(round(8 / 17 * (1 << 31)))) * 2
    for _ in range(3):
        error = hl.i32(1 << 28) - _upper_half(found, whole)  # 1 - found * whole, in Q28
        found = found + (_upper_half(found, error) << 3)
    small = _upper_half(power, found) << 2
    return Fixed(hl.select(x.integer >= 0, found, small), hl.f32(2.0**-_BITS), _MOST)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _upper_half(a: hl.Expr, b: hl.Expr) -> hl.Expr:
    """a * b / 2 ** 31: two instructions of HVX."""
    return hl.rounding_mul_shift_right(a, b, 31)


def _to_q31(ratio: hl.Expr) -> hl.Expr:
    """A float of at most one, as an integer of 31 bits."""
    return hl.cast(hl.Int(32), hl.min(ratio * hl.f32(2.0**31), hl.f32(2147483520.0)))
