"""Real numbers as integers times a scale, for machines whose vectors hold no floats.

A `Fixed` is `scale * (stored + zero)`: an integer of 32 bits for each element, and a float that all elements share.
When two are added or multiplied, their integers take 30 bits; products keep their upper half, for which HVX has an
instruction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import halide as hl

_BITS = 30  # of an integer that is multiplied
_MOST = (1 << _BITS) - 1
_TINY = 1e-37  # the smallest scale
_MOST_TERMS = 3  # of a sum that is rounded as a whole
_MOST_SHIFT = 15  # of HVX's instruction that shifts and narrows: it takes four bits
_SHORT = 1 << 10  # no integer of a factor, so that products have 20 bits
_LOW = 14  # bits of the lower part of a factor
MOST_BYTES = 128  # of a window, whose sum has 15 bits
_CONSTANT = re.compile(r": (\d+)>$")
_TABLES: dict[int, tuple[Any, Any, Any]] = {}  # of exponentials, for each scale


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
        self.stored, self.zero, self.scale, self.bound, self.at_most_zero = stored, zero, scale, bound, at_most_zero
        self.most: Any = hl.f32(float(bound))
        if zero is not None:
            self.most = hl.cast(hl.Float(32), hl.max(hl.abs(zero + _lowest(stored)), hl.abs(zero + _highest(stored))))
        if zero is not None and stored.type().bits() == 8:
            self.integer = hl.cast(hl.Int(32), hl.cast(hl.Int(16), stored) + hl.cast(hl.Int(16), zero))
        else:
            self.integer = hl.cast(hl.Int(32), stored) + (0 if zero is None else zero)
        self.terms: tuple[Term, ...] = (Term(self, scale),)
        self.factors: tuple[Fixed, Fixed] | None = None  # of which it is the product
        self.below: hl.Expr | None = None  # the byte of which this is the negative
        super().__init__(hl.Var("an element in fixed point"))

    def of_terms(self, *terms: Term) -> Fixed:
        """The same number, which is also the sum of these."""
        self.terms = terms
        return self

    @property
    def real(self) -> hl.Expr:
        """The same number as a float; only for numbers that all elements share."""
        return self.scale * hl.cast(hl.Float(32), self.integer)

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def __neg__(self) -> Fixed:
        terms = (Term(term.number, -term.factor) for term in self.terms)
        return Fixed(-self.integer, self.scale, self.bound).of_terms(*terms)

    def __add__(self, other: Any) -> Fixed:
        if not isinstance(other, Fixed) and _is_number(other) and other == 0:
            return self
        other = of_shared(other)
        if self.scale is other.scale and self.bound + other.bound < 1 << _BITS:
            return Fixed(self.integer + other.integer, self.scale, self.bound + other.bound)
        a, b = self.widened(), other.widened()
        scale = hl.max(a.scale, b.scale) * hl.f32(2.0)  # the sum of two integers of 29 bits has 30
        both = [upper_half(number.integer, _to_q31(number.scale / scale)) for number in (a, b)]
        terms = (*self.terms, *other.terms)
        if len(terms) == 2 and terms[0].number is self and self.has_bytes and terms[1].number is None:
            terms = self._moved(terms[1].factor)
        return Fixed(both[0] + both[1], scale, _MOST).of_terms(*terms)

    def _moved(self, by: hl.Expr) -> tuple[Term, Term]:
        """The terms of a byte plus a number that all elements share, most of which moves the zero point."""
        most = -_lowest(self.stored)
        wanted = hl.clamp(by / self.scale, hl.f32(-512.0), hl.f32(512.0))
        rounded = hl.cast(hl.Int(32), wanted + hl.select(wanted < hl.f32(0.0), hl.f32(-0.5), hl.f32(0.5)))
        zero = hl.clamp(self.zero + rounded, most - 255, most)
        rest = by - self.scale * hl.cast(hl.Float(32), zero - self.zero)
        return Term(Fixed(self.stored, self.scale, 255, zero), self.scale), Term(None, rest)

    def __sub__(self, other: Any) -> Fixed:
        if isinstance(other, Fixed) and self.scale is other.scale and self.zero is other.zero is not None:
            integers = [hl.cast(hl.Int(32), number.stored) for number in (self, other)]
            found = Fixed(integers[0] - integers[1], self.scale, self.bound, at_most_zero=isinstance(other, Largest))
            if found.at_most_zero and self.stored.type().bits() == 8:
                found.below = hl.reinterpret(hl.UInt(8), other.stored) - hl.reinterpret(hl.UInt(8), self.stored)
            return found
        return Fixed.__add__(self, -other)

    def __mul__(self, other: Any) -> Fixed:
        if isinstance(other, Fixed):
            if self.bound * other.bound < 1 << _BITS:
                product = Fixed(self.integer * other.integer, self.scale * other.scale, self.bound * other.bound)
                product.most, product.factors = self.most * other.most, (self, other)
                return product.of_terms(*_products(self, other, product))
            a, b = self.widened(), other.widened()
            product = Fixed(upper_half(a.integer, b.integer), a.scale * b.scale * hl.f32(2.0**31), _MOST >> 1)
            product.most = a.most * b.most * hl.f32(2.0**-31)
            return product.of_terms(*_products(self, other, product))
        if _is_number(other):
            integer, factor = self.integer if other >= 0 else -self.integer, hl.f32(other)
        else:
            factor = hl.cast(hl.Float(32), other)
            integer = self.integer * hl.select(factor < hl.f32(0.0), hl.i32(-1), hl.i32(1))
        terms = (Term(term.number, term.factor * factor) for term in self.terms)
        scale = hl.max(self.scale * hl.abs(factor), hl.f32(_TINY))
        return Fixed(integer, scale, self.bound).of_terms(*terms)

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
        scale = self.scale * hl.f32(2.0**-more)
        if more >= 0:
            wide = Fixed(self.integer << more if more else self.integer, scale, self.bound << more)
        else:
            wide = Fixed(hl.rounding_shift_right(self.integer, -more), scale, (1 << bits) - 1)
        wide.most = self.most * hl.f32(2.0**more)
        return wide

    def factor_of(self, step: Any, most: int) -> tuple[hl.Expr, hl.Expr, hl.Expr]:
        """The scale in steps: a factor of 31 bits, and by how much to shift its product right, or left at most."""
        ratio = hl.reinterpret(hl.Int(32), hl.clamp(self.scale / step, hl.f32(1e-30), hl.f32(1e30)))
        exponent = (ratio >> 23) - 126  # ratio = factor * 2 ** (exponent - 31)
        factor = hl.select(exponent < -_BITS, 0, ((ratio & 0x7FFFFF) | 0x800000) << 7)
        return factor, hl.clamp(-exponent, 0, _BITS), hl.clamp(exponent, 0, most)

    def too_many_bits(self, count: hl.Expr) -> hl.Expr:
        """The bits by which a sum of so many numbers may exceed an integer."""
        return hl.clamp(self._bits_of_sum(count) - _BITS, 0, _BITS)

    def _bits_of_sum(self, count: hl.Expr) -> hl.Expr:
        most = hl.reinterpret(hl.Int(32), self.most * hl.cast(hl.Float(32), count))
        return (most >> 23) - 126

    def summed(self, integer: hl.Expr, count: hl.Expr, fits: list[Any]) -> Fixed:
        """The sum of so many of these numbers, which must fit in an integer."""
        fits.append(self.too_many_bits(count) == 0)
        return self.of_sum(integer, self.scale, count)

    def of_sum(self, integer: hl.Expr, scale: hl.Expr, count: hl.Expr) -> Fixed:
        """The sum of so many of these numbers in all bits of an integer: what is added to it may be finer."""
        spare = hl.clamp(_BITS - self._bits_of_sum(count), 0, _BITS)
        return Fixed(integer << spare, scale * hl.reinterpret(hl.Float(32), (127 - spare) << 23), _MOST)

    @property
    def has_bytes(self) -> bool:
        return self.zero is not None and bool(self.stored.type().bits() == 8)

    def of_window(self, stored: hl.Expr, count: int) -> Fixed:
        """The sum of so many bytes, given that of the stored ones in 16 bits."""
        found = Fixed(hl.cast(hl.Int(16), stored), self.scale, self.bound * count, self.zero * count)
        found.most = self.most * hl.f32(float(count))
        return found

    def in_steps(self, step: Any) -> hl.Expr:
        """The number divided by a positive float that all elements share, rounded; saturates beyond about 2 ** 22."""
        wide = self.widened()
        factor, right, left = wide.factor_of(step, 23)
        product = upper_half(wide.integer, factor)
        rounded = (product + ((hl.i32(1) << right) >> 1)) >> right
        most = hl.i32(1 << _BITS) >> left
        return hl.clamp(rounded, -most, most) << left


@dataclass(frozen=True)
class Term:
    """A part of a sum: a factor that all elements share times the integer of a number, or times one."""

    number: Fixed | None
    factor: Any

    def widened(self) -> Term:
        """The same part with an integer of 16 bits at least: its factor needs no more bits than those of products."""
        if self.number is None or self.number.bound >= 1 << 15:
            return self
        return Term(self.number.widened(16), self.factor * hl.f32(2.0 ** (self.number.bound.bit_length() - 16)))

    @property
    def has_words(self) -> bool:
        """Whether the number is one of 16 bits, and a zero point."""
        return self.number is not None and self.number.zero is not None and self.number.stored.type().bits() <= 16

    @property
    def is_narrow(self) -> bool:
        """Whether the number fits in 16 bits with its sign: a byte, or the sum of a few."""
        return self.has_words and self.number is not None and self.number.bound < 1 << 15


def _products(a: Fixed, b: Fixed, product: Fixed) -> Sequence[Term]:
    """The terms of a product: those of one factor times those of the other, if these are sums of short integers."""
    pairs = [(one, other) for one in a.terms for other in b.terms]
    found: dict[tuple[int, ...], Term] = {}
    for one, other in pairs if len(pairs) > 1 else ():
        numbers = [term.number for term in (one, other) if term.number is not None]
        if any(number.bound >= _SHORT for number in numbers):
            return product.terms
        key, factor = tuple(sorted(map(id, numbers))), one.factor * other.factor
        if key in found:
            found[key] = Term(found[key].number, found[key].factor + factor)
            continue
        number = numbers[0] if numbers else None
        if len(numbers) > 1:
            number = Fixed(numbers[0].integer * numbers[1].integer, hl.f32(1.0), numbers[0].bound * numbers[1].bound)
            number.most = numbers[0].most * numbers[1].most
        found[key] = Term(number, factor)
    return tuple(found.values()) or product.terms


def stored_as(number: Fixed, of: hl.Type, step: Any, zero: Any) -> hl.Expr:
    """The number divided by a step that all elements share, plus a zero point, rounded to an integer type.

    Sums of short integers are multiplied by integers of 15 to 28 bits and shifted, in as narrow vectors as possible.
    """
    terms = [term for term in number.terms if term.number is not None]
    if len(terms) <= _MOST_TERMS and all(term.has_words and not term.is_narrow for term in terms):
        return _of_words(number.terms, of, step, zero)
    if (
        of.bits() == 8
        and len(terms) <= _MOST_TERMS
        and all(term.number is not None and term.number.bound < _SHORT**2 for term in terms)
    ):
        return _of_short(number.terms, of, step, zero)
    if of.bits() == 8:
        return _of_long(number.widened(), of, step, zero)
    return hl.saturating_cast(of, number.in_steps(step) + zero)


def _of_short(terms: Sequence[Term], of: hl.Type, step: Any, zero: Any) -> hl.Expr:
    """`stored_as` for bytes and other integers of up to 20 bits: products with 15 bits."""
    are_narrow = all(term.is_narrow or term.number is None for term in terms)
    terms = terms if are_narrow else [term.widened() for term in terms]
    room = (2.0**31 - 2.0**25) / len(terms)
    limits = [hl.f32(room) if term.number is None else hl.min(32767.0, room / term.number.most) for term in terms]
    spare = hl.clamp(hl.cast(hl.Int(32), hl.count_leading_zeros(hl.abs(zero) + 256)) - 17, 0, 7)
    shift, factors = _factors(terms, limits, step, most=_MOST_SHIFT + spare if are_narrow else 24)
    found = (hl.i32(1) << shift) >> 1
    for term, factor in zip(terms, factors, strict=True):
        if term.number is None:
            found = found + factor
        elif term.is_narrow:
            found = found + (term.number.zero * factor + _product(hl.cast(hl.Int(16), term.number.stored), factor))
        else:
            found = found + term.number.integer * _short(factor)
    last = hl.max(shift - _MOST_SHIFT, 0)
    if not are_narrow:
        found, last = found >> hl.cast(hl.UInt(32), last), hl.i32(0)
    whole = hl.i16_sat(found >> hl.cast(hl.UInt(32), hl.min(shift, _MOST_SHIFT)))
    whole = hl.saturating_add(whole, hl.cast(hl.Int(16), zero << last))
    return hl.saturating_cast(of, whole >> hl.cast(hl.Int(16), last) if are_narrow else whole)


def _of_long(number: Fixed, of: hl.Type, step: Any, zero: Any) -> hl.Expr:
    """`stored_as` for one integer of up to 30 bits, to bytes: the upper half of a product."""
    factor, right, left = number.factor_of(step, 15)
    narrow = hl.min(right, _MOST_SHIFT)
    wide = upper_half(number.integer, factor >> (right - narrow))
    whole = hl.i16_sat(hl.rounding_shift_right(wide, hl.cast(hl.UInt(32), narrow)))
    most = hl.cast(hl.Int(16), hl.i32(32767) >> left)
    whole = hl.clamp(whole, -most, most) << hl.cast(hl.UInt(16), left)
    return hl.saturating_cast(of, hl.saturating_add(whole, hl.cast(hl.Int(16), zero)))


def _of_words(terms: Sequence[Term], of: hl.Type, step: Any, zero: Any) -> hl.Expr:
    """`stored_as` for integers of 16 bits: products with 28 bits in two parts, of which the lower one is shifted."""
    limit = (2.0**28 - 2.0**16) / len(terms)
    limits = [hl.f32(2.0 ** (29 + _LOW) if term.number is None else limit) for term in terms]
    shift, factors = _factors(terms, limits, step, most=_LOW + 14, low=_LOW)
    shift = hl.max(shift - _LOW, 0)
    low, high = hl.i32(0), (hl.i32(1) << shift) >> 1
    for term, factor in zip(terms, factors, strict=True):
        if term.number is None:
            high = high + factor
            continue
        upper, lower = factor >> _LOW, factor & (1 << _LOW) - 1
        stored, middle = _signed(term.number.stored)
        start = term.number.zero + middle
        high = high + (start * upper + (start * lower >> _LOW)) + _product(stored, upper)
        low = low + _product(stored, lower)
    unsigned = of == hl.UInt(16)
    if of.bits() == 16:
        high = high + ((zero - (1 << 15) * unsigned) << shift)
    whole = hl.i16_sat((high + (low >> _LOW)) >> hl.cast(hl.UInt(32), shift))
    if of.bits() == 16:
        return hl.reinterpret(of, whole) ^ hl.u16(1 << 15) if unsigned else whole
    return hl.saturating_cast(of, hl.saturating_add(whole, hl.cast(hl.Int(16), zero)))


def _factors(
    terms: Sequence[Term], limits: Sequence[hl.Expr], step: Any, *, most: Any, low: int = 0
) -> tuple[hl.Expr, list[Any]]:
    """The factors of terms in steps, times a power of two of at most `most`, as integers up to their limits.

    What is added to products has `low` bits fewer.
    """
    ratios, room = [term.factor / step for term in terms], hl.reinterpret(hl.Float(32), (hl.i32(127) + most) << 23)
    for ratio, limit in zip(ratios, limits, strict=True):
        room = hl.min(room, limit / hl.max(hl.abs(ratio), hl.f32(_TINY)))
    shift = (hl.reinterpret(hl.Int(32), hl.max(room, hl.f32(1.0))) >> 23) - 127
    factors = []
    for term, ratio, limit in zip(terms, ratios, limits, strict=True):
        steps = hl.max(shift - low, 0) if term.number is None and low else shift
        wide = hl.clamp(ratio * hl.reinterpret(hl.Float(32), (steps + 127) << 23), -limit, limit)
        factors.append(hl.cast(hl.Int(32), wide + hl.select(wide < hl.f32(0.0), hl.f32(-0.5), hl.f32(0.5))))
    return shift, factors


def _product(stored: hl.Expr, factor: hl.Expr) -> hl.Expr:
    """A product of an integer of 16 bits, and of one that all elements share."""
    return hl.cast(hl.Int(32), stored) * _short(factor)


def _short(factor: hl.Expr) -> hl.Expr:
    return hl.cast(hl.Int(32), hl.cast(hl.Int(16), factor))


def _signed(stored: hl.Expr) -> tuple[hl.Expr, int]:
    """An integer of 16 bits less the middle of its range, and the middle."""
    if stored.type().is_int():
        return stored, 0
    return hl.reinterpret(hl.Int(16), stored ^ hl.u16(1 << 15)), 1 << 15


def _lowest(stored: hl.Expr) -> int:
    return -(1 << int(stored.type().bits()) - 1) if stored.type().is_int() else 0


def _highest(stored: hl.Expr) -> int:
    return _lowest(stored) + (1 << int(stored.type().bits())) - 1


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
    return Fixed(hl.select(number < hl.f32(0.0), -most, most), scale, _MOST >> 1).of_terms(Term(None, number))


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
    integers = [upper_half(number.integer, _to_q31(number.scale / scale)) for number in (a, b)]
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


def count_of(over: hl.RDom) -> hl.Expr:
    """The number of elements of a domain."""
    return reduce(lambda a, b: a * b, (over[axis].extent() for axis in range(over.dimensions())), hl.i32(1))


def size_of(over: hl.RDom) -> int:
    """The number of elements of a domain, if the kernel's file has it; otherwise 0."""
    found = [_CONSTANT.search(str(over[axis].extent())) for axis in range(over.dimensions())]
    return prod(int(match[1]) if match else 0 for match in found)


def wide_byte(stored: hl.Expr) -> hl.Expr:
    """A byte in 16 bits, in which a few are added."""
    return hl.cast(hl.Int(16) if stored.type().is_int() else hl.UInt(16), stored)


def total(over: hl.RDom, x: Fixed) -> Fixed:
    """The sum over a domain, with as many bits as its length leaves."""
    if x.has_bytes and 0 < size_of(over) <= MOST_BYTES:
        return x.of_window(hl.sum(over, wide_byte(x.stored)), size_of(over))
    count = count_of(over)
    shift = x.too_many_bits(count)
    step = hl.i32(1) << shift
    integer = hl.sum(over, (x.integer + (step >> 1)) >> shift)
    return x.of_sum(integer, x.scale * hl.cast(hl.Float(32), step), count)


def exp(x: Fixed) -> Fixed:
    """e to the power of a number that is not positive, in 30 bits."""
    if not x.at_most_zero:
        raise NotFixedError("exp() of values that may be positive")
    if x.below is not None:
        return _exp_of_byte(x.below, x.scale)
    found, whole = _power_of(x)
    return Fixed(found >> whole, hl.f32(2.0**-_BITS), _MOST)


def _power_of(x: Fixed) -> tuple[hl.Expr, hl.Expr]:
    """e to the power of a number that is not positive: between 1 / 2 and 1 in 30 bits, and by how much to shift it."""
    power = hl.clamp(-x.in_steps(hl.f32(0.6931471805599453 / (1 << 20))), 0, (31 << 20) - 1)  # the exponent of 1 / 2
    whole, rest = power >> 20, (power & 0xFFFFF) << 11
    # 2 ** -rest between 1 / 2 and 1, in Q30
    poly = hl.i32(0)
    for factor in (-0.00095265, 0.00922489, -0.05531363, 0.24018562, -0.6931443):
        poly = upper_half(poly, rest) + hl.i32(round(factor * (1 << _BITS)))
    return upper_half(poly, rest) + hl.i32(1 << _BITS), whole


def _exp_of_byte(x: hl.Expr, scale: hl.Expr) -> Fixed:
    """e to the power of minus a byte times a scale: HVX looks up a number for each half of the byte."""
    factors, shifts = _tables(scale)
    halves = [hl.cast(hl.Int(32), x >> 4), hl.cast(hl.Int(32), (x & 15) + 16)]
    product = reduce(lambda a, b: a * b, (hl.cast(hl.UInt(32), factors[half]) for half in halves))
    shift = hl.min(shifts[halves[0]] + shifts[halves[1]], _BITS - 1) + 2
    return Fixed(hl.cast(hl.Int(32), product >> hl.cast(hl.UInt(32), shift)), hl.f32(2.0**-_BITS), _MOST)


def _tables(scale: hl.Expr) -> tuple[Any, Any]:
    """e to the power of minus n * 16 and of minus n, times a scale: factors of 16 bits, and by how much to shift."""
    known = _TABLES.get(id(scale))
    if known and known[0] is scale:
        return known[1:]
    i, factors, shifts = hl.Var("i"), hl.Func("factors"), hl.Func("shifts")
    found, whole = _power_of(Fixed(-hl.select(i < 16, i << 4, i - 16), scale, 255))
    factors[i] = hl.cast(hl.UInt(16), hl.min(found >> _LOW, 65535))
    shifts[i] = hl.cast(hl.UInt(8), hl.min(whole, _BITS - 1))
    for table in (factors, shifts):
        table.compute_root().store_in(hl.MemoryType.Stack).bound(i, 0, 32).vectorize(i, 32)
    _TABLES[id(scale)] = scale, factors, shifts
    return factors, shifts


def sigmoid(x: Fixed) -> Fixed:
    """1 / (1 + exp(-x)), in 30 bits."""
    power = exp(Fixed(-hl.abs(x.integer), x.scale, x.bound, at_most_zero=True)).integer >> 1  # Q29
    whole = power + hl.i32(1 << 29)  # 1 to 2, in Q29
    # Newton's method for 1 / whole, in Q30
    inverse = hl.i32(round(24 / 17 * (1 << 30))) - upper_half(whole, hl.i32(round(8 / 17 * (1 << 31)))) * 2
    for _ in range(3):
        error = hl.i32(1 << 28) - upper_half(inverse, whole)  # 1 - found * whole, in Q28
        inverse = inverse + (upper_half(inverse, error) << 3)
    small = upper_half(power, inverse) << 2
    return Fixed(hl.select(x.integer >= 0, inverse, small), hl.f32(2.0**-_BITS), _MOST)


def as_expr(value: Any) -> hl.Expr:
    """A parameter, a number or the value of a function as an expression, which `Fixed` accepts."""
    return value if isinstance(value, hl.Expr) else hl.Expr(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def upper_half(a: hl.Expr, b: hl.Expr) -> hl.Expr:
    """a * b / 2 ** 31, rounded: two instructions of HVX.

    Halide repeats the arguments of its own function for it, in code without vectors: 3 ** n times for n nested ones.
    """
    wide = hl.cast(hl.Int(64), a) * hl.cast(hl.Int(64), b)
    return hl.i32_sat((wide + (1 << 30)) >> 31)


def _to_q31(ratio: hl.Expr) -> hl.Expr:
    """A float of at most one, as an integer of 31 bits."""
    return hl.cast(hl.Int(32), hl.min(ratio * hl.f32(2.0**31), hl.f32(2147483520.0)))
