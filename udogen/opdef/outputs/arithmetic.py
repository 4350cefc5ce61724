"""What rules calculate with in Python: as Python does it, within the limits that C++ has."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

STEPS = 1_000_000  # loops of a rule, and items of a list
EXACT = 1 << 53  # whole numbers up to here are numbers of C++'s double, too

# What a rule can fail over: one sentence in Python and in C++.
INDEX = "an index is outside of its list"
ZERO = "a division by zero"
LARGE = "a number is too large"
ENDLESS = "it does not come to an end"
UNPACKED = "a list has not as many items as are taken from it"
EMPTY = "a list is empty, and has neither a least nor a greatest item"
STEP = "the step of a slice or a range is zero"
ABSENT = "something that is not there is used: "
UNREADABLE = "its data are not known, or of a type that rules cannot read: "


class Fault(Exception):
    """A sentence of those above, or of the rule's own."""


class Steps:
    """How many steps a rule has taken."""

    def __init__(self) -> None:
        self.taken = 0

    def each(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, counted."""
        for item in items:
            self.taken += 1
            if self.taken > STEPS:
                raise Fault(ENDLESS)
            yield item


def checked(value: Any) -> Any:
    """A whole number that has 64 bits, a list that is no flood; anything else as it is."""
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        raise Fault(LARGE)
    if type(value) is list and len(value) > STEPS:
        raise Fault(ENDLESS)
    return value


def _operate(sign: str, left: Any, right: Any) -> Any:
    if sign == "Mult" and list in (type(left), type(right)):
        items, times = (left, right) if type(left) is list else (right, left)
        if len(items) * max(times, 0) > STEPS:
            raise Fault(ENDLESS)
    return checked(_OPERATORS[sign](left, right))


def _append(items: list[Any], item: Any) -> None:
    if len(items) >= STEPS:
        raise Fault(ENDLESS)
    items.append(item)


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
}


def _real(value: int) -> float:
    if not -EXACT <= value <= EXACT:
        raise Fault(LARGE)
    return float(value)


def _rounded(function: Callable[[float], int]) -> Callable[[float], int]:
    def rounded(value: float) -> int:
        if not math.isfinite(value):
            raise Fault(LARGE)
        found: int = checked(function(value))
        return found

    return rounded


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    def extreme(*values: Any) -> Any:
        if len(values) == 1 and not values[0]:
            raise Fault(EMPTY)
        return function(*values)

    return extreme


def _sum(values: Iterable[int]) -> int:
    total = 0
    for each in values:
        total = checked(total + each)
    return total


def _prod(values: Iterable[int]) -> int:
    total = 1
    for each in values:
        total = checked(total * each)
    return total


def words(steps: Steps) -> dict[str, Any]:
    """What rewritten rules can call; names with a blank cannot stand in a file."""
    return {
        "the each": steps.each,
        "the operate": _operate,
        "the append": _append,
        "the real": _real,
        "the checked": checked,
        "the fault": Fault,
        "abs": lambda value: checked(abs(value)),
        "enumerate": enumerate,
        "float": float,
        "int": _rounded(int),
        "len": len,
        "list": list,
        "max": _extreme(max),
        "min": _extreme(min),
        "range": range,
        "sum": _sum,
        "zip": zip,
        "math.ceil": _rounded(math.ceil),
        "math.floor": _rounded(math.floor),
        "math.prod": _prod,
    }
