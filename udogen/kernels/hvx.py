"""Operators of Halide for HVX: what Halide 21 compiles wrongly in vectors is written in another way."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import halide as hl

from udogen.kernels.fixed import as_expr
from udogen.kernels.math import inverse

_VECTOR = 1024  # bits
_MOST = 1 << 30  # elements of a tensor: more do not fit in memory
_MOST_SHIFTS = {"word": 15, "rounded": 15, "short": 7}  # of instructions that narrow, too: they take 3 or 4 bits
_KINDS = (hl.Expr, hl.FuncRef, hl.FuncTupleElementRef, hl.Param)
_CASTS = ("cast", "i16", "i32", "i64", "u16", "u32", "u64")
_SATURATING = ("saturating_cast", "i8_sat", "i16_sat", "i32_sat")
_NUMBER = re.compile(r"(?:<.*: (?:\(u?int\d+\))?)?(\d+)>?")
_CALL = re.compile(r"(\w+?)(?:\$\d+)?(?:_im(?:\$\d+)?)?\(")  # without what Halide appends to the names of tensors
_OPERATION = re.compile(r"\((u?int\d+)x(\d+)\)(widening_\w+|saturating_cast)\((?=(?:\(?(u?int\d+)x)?)")
_NARROWED = re.compile(
    r"(?:\(u?int\d+x(\d+)\)saturating_cast|\bint16x(\d+))\(\(u?int(\d+)x\d+\)(?:rounding_)?shift_right\("
    r"|\(uint16x(\d+)\)saturating_cast\(\(?(?=uint(32))|\bu?int8x(\d+)\(\(int(32)x\d+\)shift_right\("
)
_SHIFTED = re.compile(
    r"(?:\bu?int(?:8|16)x\d+\)?(?:saturating_cast)?\(\(int(?P<word>32)|\(uint8x\d+\)saturating_cast\(\(int(?P<short>16))"
    r"x\d+\)shift_right\(|\(uint16x\d+\)saturating_cast\(\(u?int(?P<rounded>32)x\d+\)rounding_shift_right\("
)
_LEFT = re.compile(r"\((?=u|int8)u?int(8|16)x(\d+)\)shift_left\(")
_AMOUNT = re.compile(r", x\d+\((?:\(u?int\d+\))?(\d+)\)$")


def compiled_wrongly(loops: str) -> str:
    """What is compiled wrongly in these loops, as Halide prints them; empty if nothing is known to be.

    Widened numbers come as even and odd ones, in two vectors.  Halide puts them in order after an operation, also after
    one that changes their width; of a product that fills no vector, and where it narrows one vector, it loses the odd
    ones.
    """
    for operation in _OPERATION.findall(loops):
        if reason := _operation_compiled_wrongly(*operation):
            return reason
    for groups in _NARROWED.findall(loops):
        lanes, bits = (int(number) for number in groups if number)
        if lanes * bits % (2 * _VECTOR):
            return "a narrowing shift"
    if any(int(bits) * int(lanes) < _VECTOR for bits, lanes in _LEFT.findall(loops)):
        return "a shift of half a vector"
    if any(_amount(loops, shift.end()) > _MOST_SHIFTS[str(shift.lastgroup)] for shift in _SHIFTED.finditer(loops)):
        return "a narrowing shift by many bits"
    return ""


def _amount(loops: str, start: int) -> int:
    """The constant by which the number at the start of these arguments is shifted; 0 if nothing narrows the result."""
    depth, end = 1, start
    while depth:
        depth += {"(": 1, ")": -1}.get(loops[end], 0)
        end += 1
    match = _AMOUNT.search(loops, start, end - 1)
    return int(match[1]) if match and loops[end : end + 1] == ")" else 0


def _operation_compiled_wrongly(result: str, lanes: str, name: str, operand: str) -> str:
    """Why an operation that widens or saturates is compiled wrongly, by its types; empty if it is not."""
    bits, operand_bits = (int(lanes) * int(dtype.strip("uint") or 0) for dtype in (result, operand))
    if name == "widening_shift_right" and result.endswith("32") and bits > _VECTOR:  # what has 8 bits is in order
        return "a shift of widened numbers"
    if name == "saturating_cast" and result[0] == "i" and operand[:1] == "u" and operand_bits > _VECTOR:
        return "a saturating cast of widened numbers"
    if name == "widening_mul" and result == "uint16" and bits < _VECTOR:
        return "a product of bytes"
    return ""


@dataclass
class _Operators:
    """The operators of expressions in a kernel for HVX; each has the usual result, and what to return instead."""

    lanes: int
    length: Any  # of a tensor; None: Halide may know the ranges of numbers
    in_floats: bool
    data: Collection[str]  # functions whose elements are numbers and not indices
    is_inside: bool = False  # the operators inside of one of these are the usual ones

    def rows(self) -> list[tuple[Any, str, Any]]:
        """The rows of `replaced`."""
        ways = {"add": self.total, "radd": self.total, "mul": self.product, "rmul": self.product,
                "truediv": self.quotient, "rtruediv": self.quotient, "floordiv": self.quotient,
                "rshift": self.shifted, "lshift": self.wrapped, "mod": self.remainder}  # fmt: skip
        return [(kind, "__neg__", self.negative(kind.__neg__)) for kind in _KINDS] + [
            (
                kind,
                f"__{name}__",
                self.operator(getattr(kind, f"__{name}__"), way, swapped=name in ("rmul", "rtruediv")),
            )
            for kind in _KINDS
            for name, way in ways.items()
        ]

    def operator(
        self, method: Callable[[Any, Any], Any], way: Callable[[Any, Any, Any], Any], *, swapped: bool
    ) -> Callable[[Any, Any], Any]:
        """A method that calls the usual one, and then `way`."""

        def both(a: Any, b: Any) -> Any:
            usual = method(a, b)
            if self.is_inside or usual is NotImplemented:
                return usual
            self.is_inside = True
            try:
                return way(usual, b, a) if swapped else way(usual, a, b)
            finally:
                self.is_inside = False

        return both

    def unknown(self, number: hl.Expr) -> hl.Expr:
        """The same number, of which Halide does not know the range."""
        return hl.select(self.length > _MOST, hl.cast(number.type(), self.length), number)

    def is_data(self, usual: Any, a: Any) -> bool:
        """Whether an operand of 32 bits is a number and not an index."""
        if self.length is None or usual.type().is_float() or usual.type().bits() != 32:
            return False
        return bool(set(_CALL.findall(str(as_expr(a)))) & set(self.data))

    def negative(self, method: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Unary minus, which changes the sign bit of a float: HVX would subtract it, and convert the result."""

        def of(a: Any) -> Any:
            usual = method(a)
            if not self.in_floats or usual.type() != hl.Float(32):
                return usual
            return hl.reinterpret(hl.Float(32), hl.reinterpret(hl.Int(32), as_expr(a)) ^ -(1 << 31))

        return of

    def quotient(self, usual: Any, a: Any, b: Any) -> Any:
        if usual.type() == hl.Float(32):
            if not self.in_floats:
                return usual
            is_number = isinstance(b, int | float) and b != 0
            factor = hl.f32(1.0 / b) if is_number else inverse(hl.cast(hl.Float(32), b))
            return hl.cast(hl.Float(32), a) * factor
        number = _number(b)
        if number & (number - 1) == 0 < number:
            return self.shifted(usual, a, number.bit_length() - 1)
        return self.in_16_bits(usual, a, b, lambda a, b: a / b)

    def remainder(self, usual: Any, a: Any, b: Any) -> Any:
        return self.in_16_bits(usual, a, b, lambda a, b: hl.select(b == 0, hl.i16(0), a - a / b * b))

    def in_16_bits(self, usual: Any, a: Any, b: Any, do: Callable[[Any, Any], Any]) -> Any:
        """Halide divides bytes by multiplying them."""
        of = usual.type()
        if of.bits() != 8 or not self.is_half(of):
            return usual
        return hl.cast(of, do(hl.cast(hl.Int(16), a), hl.cast(hl.Int(16), b)))

    def shifted(self, usual: Any, a: Any, amount: Any) -> Any:
        if self.length is None:
            return usual
        number = _number(amount)
        if usual.type().bits() == 16 and number > _MOST_SHIFTS["short"]:
            return usual + self.unknown(hl.cast(usual.type(), 0))
        if number < 1 or not self.is_data(usual, a):
            return usual
        shift = as_expr(a) >> self.unknown(hl.u32(number))
        if 32 * self.lanes > _VECTOR and number <= _MOST_SHIFTS["word"]:
            return shift
        return shift + self.unknown(hl.cast(usual.type(), 0))  # not to be narrowed with it

    def wrapped(self, usual: Any, a: Any, amount: Any) -> Any:
        """Halide shifts the widened number where this one is widened, and what has left its bits comes back."""
        of = usual.type()
        if self.is_half(of):
            return hl.cast(of, hl.cast(hl.Int(16), a) << hl.cast(hl.Int(16), amount))
        return ~(~usual) if of.bits() < 32 else usual

    def total(self, usual: Any, a: Any, b: Any) -> Any:
        of = usual.type()  # a sum of equal numbers becomes a shift
        return hl.cast(of, hl.cast(hl.Int(16), a) + hl.cast(hl.Int(16), b)) if self.is_half(of) else usual

    def is_half(self, of: hl.Type) -> bool:
        """Whether numbers of this type fill no vector, and HVX has no instruction to multiply or shift them."""
        return of in (hl.UInt(8), hl.Int(8), hl.UInt(16)) and of.bits() * self.lanes < _VECTOR

    def product(self, usual: Any, a: Any, b: Any) -> Any:
        of = usual.type()
        is_half = self.is_half(of)
        if is_half and self.length is None:
            return hl.cast(of, hl.cast(hl.Int(16), a) * hl.cast(hl.Int(16), b))
        if is_half or (32 * self.lanes <= _VECTOR and (self.is_data(usual, a) or self.is_data(usual, b))):
            wide = hl.Int(32) if of.bits() < 32 else of
            return hl.cast(of, (hl.cast(wide, a) + self.unknown(hl.cast(wide, 0))) * hl.cast(wide, b))
        return usual


@contextmanager
def operators(
    file: str, lanes: int, length: Any = None, *, in_floats: bool, data: Collection[str] = ()
) -> Iterator[None]:
    """Replace operators of expressions while the function of a kernel's file runs.

    Quotients of floats become products with inverses: HVX has no division, and LLVM divides single numbers.  Products
    of 8 and 16 bits that fill no vector become those of INT_16, for which HVX has an instruction.  Saturating casts of
    unsigned to signed numbers become selections.  With the `length` of a tensor, Halide does not know the ranges of
    numbers, and narrows none; `data` are the functions whose elements are numbers and not indices.
    """
    rows = _Operators(lanes, length, in_floats, data).rows()
    rows += [(hl, name, partial(_saturated, getattr(hl, name))) for name in _SATURATING]
    with replaced(rows, file):
        yield


def casts() -> list[tuple[Any, str, Any]]:
    """The rows of `replaced` for casts of floats to integers: Halide makes one cast of `u16(i32(x))`, out of range."""
    return [(hl, name, partial(_of_float, getattr(hl, name))) for name in _CASTS]


@contextmanager
def replaced(rows: Sequence[tuple[Any, str, Any]], file: str) -> Iterator[None]:
    """Replace attributes of Halide for a while; the rows are (owner, name, new value).

    A kernel's file, and modules beside it, may have imported functions of Halide by name: these are replaced, too.
    """
    new = {id(getattr(hl, name)): value for owner, name, value in rows if owner is hl}
    folder = Path(file).parent
    modules = [
        module for module in sys.modules.values() if Path(getattr(module, "__file__", "") or "").parent == folder
    ]
    rows = [
        *rows,
        *((user, name, new[id(value)]) for user in modules for name, value in vars(user).items() if id(value) in new),
    ]
    usual = [(owner, name, getattr(owner, name)) for owner, name, _ in rows]
    for owner, name, value in rows:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in usual:
            setattr(owner, name, value)


def _saturated(cast: Callable[..., hl.Expr], *given: Any) -> hl.Expr:
    """A saturating cast; that of an unsigned number selects, because Halide makes the same cast of a minimum."""
    narrowed, value = cast(*given), as_expr(given[-1])
    of, unsigned = narrowed.type(), value.type()
    if not of.is_int() or not unsigned.is_uint() or of.bits() > unsigned.bits():
        return narrowed
    most = hl.cast(unsigned, (1 << of.bits() - 1) - 1)
    return hl.select(value > most, hl.cast(of, most), hl.cast(of, value))


def _of_float(cast: Callable[..., hl.Expr], *given: Any) -> hl.Expr:
    """A cast, which does not become part of the next one."""
    result = cast(*given)
    if result.type().is_float() or not as_expr(given[-1]).type().is_float():
        return result
    return ~(~result)


def _number(value: Any) -> int:
    """A constant; 0 if it is none, or not positive."""
    match = _NUMBER.fullmatch(str(value))
    return int(match[1]) if match else 0
