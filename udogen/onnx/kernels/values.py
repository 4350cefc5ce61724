"""Tensors of known shapes in kernels in Python.

A `Value` is calculated where it is needed.  Only what is folded over a domain (a sum, a mean, a convolution) is stored,
for as few elements as the loops over the output allow.  Elements are floats or integers of 32 bits, or booleans.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import halide as hl

from udogen.kernels.algorithm import as_expr
from udogen.kernels.fixed import Fixed, NotFixedError

Index = tuple[Any, ...]  # an expression for each axis, in ONNX's order
ANY = -1  # the length of a tensor that is taken as one row, regardless of its shape
LANES = 32  # partial results of a row
INTEGER_RANGES = {
    "UINT8": (0, 255),
    "INT8": (-128, 127),
    "UINT16": (0, 65535),
    "INT16": (-32768, 32767),
    "INT32": (-(2**31), 2**31 - 1),
}


@dataclass(eq=False)
class Value:
    """A tensor: its shape, and how its elements are calculated."""

    shape: tuple[int, ...]
    get: Callable[[Index], Any]

    def at(self, *index: Any) -> Any:
        """The element at an index."""
        key = (id(self), *(id(each) for each in index))
        store = stores[-1]
        if key not in store.elements:
            around, store.used = store.used, set()
            element = self.get(index)
            store.elements[key] = _Element(element, frozenset(store.used), self, index)
            store.used = around
        store.used |= store.elements[key].folds
        return store.elements[key].value

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)


@dataclass(eq=False)
class Fold:
    """A Halide function that folds a domain, for one output."""

    op: str
    func: hl.Func
    names: list[str]  # of its variables
    shape: tuple[int, ...]
    vector: bool = False  # its last axis is one vector
    calls: list[list[str]] = field(default_factory=list)  # the indices of each call, as text
    folds: frozenset[int] = frozenset()  # those whose elements it takes


@dataclass(frozen=True, eq=False)
class _Element:
    """An element of a tensor, with the folds that it uses; `of` and `index` stay alive, as keys have their ids."""

    value: Any
    folds: frozenset[int]
    of: Value
    index: Index


@dataclass
class Store:
    """What is created while one output is written."""

    elements: dict[tuple[int, ...], _Element] = field(default_factory=dict)
    folds: dict[int, Fold] = field(default_factory=dict)  # folds that others use come first
    used: set[int] = field(default_factory=set)  # the folds of the element that is being made


stores = [Store()]  # the last one belongs to the output that is being written
numbers = itertools.count()
ZERO = hl.Expr(0)


def tensor(source: Any, *shape: int) -> Value:
    """An input of the op, taken as `Whole`, with its shape in the model."""
    return Value(shape, lambda index: _loaded(source[tuple(reversed(_of_rank(index, len(shape))))]))


def flat(source: Any) -> Value:
    """An input for elementwise calculation; the kernel takes it without an annotation."""
    return Value((ANY,), lambda index: _loaded(source[index[0]]))


def _of_rank(index: Index, rank: int) -> Index:
    return index if rank else (ZERO,)


def _loaded(element: Any) -> Any:
    if isinstance(element, Fixed):
        raise NotFixedError("ONNX's ops are calculated in floats")
    return element if element.type().is_float() else hl.cast(hl.Int(32), element)


# --- elements at an index ---------------------------------------------------------------------------------------------

Number = Value | float | int | bool


def constant(number: Any, *shape: int) -> Value:
    """A tensor of one number, which may be a scalar parameter of the op."""
    found = hl.f32(number) if isinstance(number, float) else as_expr(number)
    return Value(shape, lambda _: found)


def as_value(each: Number) -> Value:
    return each if isinstance(each, Value) else constant(each)


def kind_of(element: Any) -> str:
    if element.type().is_float():
        return "float"
    return "bool" if element.type().bits() == 1 else "int"


def as_float(element: Any) -> Any:
    return element if kind_of(element) == "float" else hl.cast(hl.Float(32), element)


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which several tensors are broadcast."""
    rank = max(map(len, shapes))
    full = [(1,) * (rank - len(each)) + tuple(each) for each in shapes]
    return tuple(next((n for n in extents if n != 1), 1) for extents in zip(*full, strict=True))


def spread(value: Value, index: Index) -> Any:
    """The element of a broadcast tensor at an index."""
    own = index[len(index) - value.rank :]
    return value.at(*(ZERO if extent == 1 else each for each, extent in zip(own, value.shape, strict=True)))


def elementwise(function: Callable[..., Any], *given: Number) -> Value:
    """A function applied to the elements at the same index."""
    values = [as_value(each) for each in given]
    shape = broadcast_shape(*(each.shape for each in values))
    return Value(shape, lambda index: function(*(spread(each, index) for each in values)))


def axes_of(value: Value, axes: Sequence[int] | None) -> list[int]:
    return sorted(axis % value.rank for axis in axes) if axes else list(range(value.rank))


def is_int(x: Value) -> bool:
    return kind_of(_sample(x)) == "int"


def _sample(x: Value) -> Any:
    """An element, needed only for its type."""
    stores.append(Store())
    try:
        return x.at(*([ZERO] * x.rank))
    finally:
        stores.pop()


def zero_of(x: Value) -> Any:
    return {"int": hl.Expr(0), "bool": hl.Expr(False), "float": hl.f32(0.0)}[kind_of(_sample(x))]


Axes = Sequence[int] | None
