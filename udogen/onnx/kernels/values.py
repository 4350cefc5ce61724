"""Tensors of known shapes in kernels in Python.

A `Value` is calculated where it is needed.  Only what is folded over a domain (a sum, a mean, a convolution) is stored,
for as few elements as the loops over the output allow.  Elements are floats or integers of 32 bits, or booleans.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import halide as hl

from udogen.errors import UsageError
from udogen.kernels.fixed import Fixed, NotFixedError, as_expr

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
        key = (id(self), *(id(position) for position in index))
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
    value = hl.f32(number) if isinstance(number, float) else as_expr(number)
    return Value(shape, lambda _: value)


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
    full = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(next((n for n in extents if n != 1), 1) for extents in zip(*full, strict=True))


def spread(value: Value, index: Index) -> Any:
    """The element of a broadcast tensor at an index."""
    own = index[len(index) - value.rank :]
    return value.at(*(ZERO if extent == 1 else position for position, extent in zip(own, value.shape, strict=True)))


def elementwise(function: Callable[..., Any], *given: Number) -> Value:
    """A function applied to the elements at the same index."""
    values = [as_value(operand) for operand in given]
    shape = broadcast_shape(*(value.shape for value in values))
    return Value(shape, lambda index: function(*(spread(value, index) for value in values)))


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


# Halide's Python API cannot visit an expression; the loops that an index depends on are those that its text names.
_INNER = re.compile(r"\b[fr]\d+")
_LOOPS = re.compile(r"\b[dfr]\d+")  # loops in the text of an index: of outputs (d), of folds (f), over domains (r)
STACK_BYTES = 16384  # memory that results of folds may take at once: kernels have no heap
_Row = tuple[frozenset[int], bool]  # what an index depends on: axes of the output; whether also loops of other folds


@dataclass(eq=False)
class _Needs:
    """What the indices of folds depend on: loops of the output, with these names, and loops of other folds."""

    names: list[str]
    folds: list[Fold]
    known: dict[tuple[int, int, bool], _Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.owners = {name: (fold, axis) for fold in self.folds for axis, name in enumerate(fold.names)}

    def rows(self, fold: Fold) -> list[_Row]:
        """What each index of a fold depends on; whole axes only if memory suffices for them."""
        axes = range(len(fold.shape))
        rows = [self.row(fold, axis, True) for axis in axes]
        fits = _elements(fold, rows, len(self.names)) * 4 <= STACK_BYTES
        return rows if fits else [self.row(fold, axis, False) for axis in axes]

    def row(self, fold: Fold, axis: int, whole: bool) -> _Row:
        """What one index depends on.

        `whole`: all elements are needed where Halide cannot determine which: if an index divides the index in a vector,
        and if one element of the output has several indices.
        """
        key = (id(fold), axis, whole)
        if key not in self.known:
            texts = {call[axis] for call in fold.calls}
            if whole and self._is_unclear(texts):
                self.known[key] = frozenset(), True
            else:
                self.known[key] = self._of_names([name for text in texts for name in _LOOPS.findall(text)], whole)
        return self.known[key]

    def _is_unclear(self, texts: set[str]) -> bool:
        several = len([text for text in texts if not _INNER.search(text)]) > 1
        return several or any(re.search(r"[/%]", text) and self.names[-1] in _LOOPS.findall(text) for text in texts)

    def _of_names(self, found: list[str], whole: bool) -> _Row:
        axes: set[int] = set()
        looped = False
        for name in found:
            if name in self.names:
                axes.add(self.names.index(name))
            elif name in self.owners:
                more, inner = self.row(*self.owners[name], whole)
                axes |= more
                looped |= inner
            else:
                looped |= name.startswith("r")
        return frozenset(axes), looped


def _place_folds(output: hl.Func, names: list[str], shape: tuple[int, ...], index: Index, *, vectors: bool) -> None:
    """Compute each fold inside the outer loops of the output on which it depends without a gap, if it fits there."""
    needs = _Needs(names, list(stores[-1].folds.values()))
    most: dict[int, int] = {}  # a fold is calculated outside of those that use it
    for key, fold in reversed(stores[-1].folds.items()):
        rows = needs.rows(fold)
        level = _level(fold, rows, shape, most.get(key, len(shape)))
        if level is None:
            continue  # Halide calculates it together with the element, in the same vector
        most.update({each: min(level, most.get(each, level)) for each in fold.folds})
        # Halide does not infer the sizes of all functions, so the known ones are given.
        for (taken, looped), name, extent in zip(rows, fold.names, fold.shape, strict=True):
            if (looped or taken) and not any(depth < level for depth in taken):
                fold.func.bound(hl.Var(name), 0, extent)
        fold.func.store_in(hl.MemoryType.Stack)
        if fold.vector and vectors:
            for stage in (fold.func, fold.func.update(0)):
                stage.vectorize(hl.Var(fold.names[-1]), LANES)
        if level == 0:
            fold.func.compute_root()
        else:
            fold.func.compute_at(output, index[level - 1])


def _level(fold: Fold, rows: list[_Row], shape: tuple[int, ...], deepest: int) -> int | None:
    """The number of output loops inside which a fold is calculated; None: where each element is calculated."""
    used = frozenset().union(*(axes for axes, _ in rows))
    level = 0
    while level < deepest and (level in used or shape[level] == 1):
        level += 1
    if level == len(shape) and not any(_INNER.search(text) for call in fold.calls for text in call):
        return None
    while level < deepest and _elements(fold, rows, level) * 4 > STACK_BYTES:
        level += 1
    if _elements(fold, rows, level) * 4 > STACK_BYTES:
        raise UsageError(
            f"{fold.op} needs memory for {_elements(fold, rows, level)} numbers at once, and a kernel has no heap",
            hint="fuse fewer nodes: end the op before this one, or begin it there",
        )
    return level


def _elements(fold: Fold, rows: list[_Row], level: int) -> int:
    """The number of results of a fold that are needed at once inside this many loops; windows count as whole axes."""
    inside = frozenset(range(level))
    return math.prod(
        1 if axes <= inside and not looped else extent for (axes, looped), extent in zip(rows, fold.shape, strict=True)
    )


def fold_over(
    op: str,
    shape: Sequence[int],
    over: Sequence[int],
    starts: Sequence[Any],
    step: Callable[[list[Any], Index, Index], list[Any]],
    *,
    vector: bool = False,
) -> Value:
    """A tensor whose elements are folded: `step(so far, index, place in the domain)` returns it first."""
    key = next(numbers)

    def get(index: Index) -> Any:
        store = stores[-1]
        folds = store.folds
        if key not in folds:
            around, store.used = store.used, set()
            fold = Fold(op, hl.Func(f"{op}_{key}"), [f"f{next(numbers)}" for _ in shape], tuple(shape), vector)
            variables = tuple(hl.Var(name) for name in fold.names)
            at = tuple(reversed(variables))
            domain = hl.RDom([(0, extent) for extent in over], f"r{next(numbers)}")
            place = tuple(as_expr(domain[number]) for number in range(len(over)))
            for names_place in (False, True):
                fold.func = hl.Func(f"{op}_{key}")
                fold.func[at] = _one_or_tuple([as_expr(start) for start in starts])
                now = fold.func[at]
                so_far = [hl.Expr(now)] if len(starts) == 1 else [hl.Expr(now[n]) for n in range(len(starts))]
                values = step(so_far, variables, place)
                if names_place:
                    values[0] = hl.select(place[0] >= 0, values[0], so_far[0])
                fold.func[at] = _one_or_tuple(values)
                if fold.func.rvars(0) or not place:  # otherwise Halide would fold only one element, as all are equal
                    break
            fold.folds = frozenset(store.used)
            store.used = around
            folds[key] = fold
        store.used.add(key)
        fold = folds[key]
        fold.calls.append([str(as_expr(position)) for position in index])
        value = fold.func[tuple(reversed(index))]
        return hl.Expr(value) if len(starts) == 1 else hl.Expr(value[0])

    return Value(tuple(shape), get)


def _one_or_tuple(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else hl.Tuple(values)


def store(output: Any, value: Value) -> None:
    """Write an output of the op."""
    stores[-1] = Store()
    if value.shape == (ANY,):
        i = hl.Var("i")
        output[i] = value.at(i)
        return
    rank = max(len(value.shape), 1)
    names = [f"d{next(numbers)}" for _ in range(rank)]
    index = tuple(hl.Var(name) for name in names)
    element = value.at(*index[: value.rank])
    output[tuple(reversed(index))] = hl.cast(hl.Int(32), element) if kind_of(element) == "bool" else element
    for number, extent in enumerate(value.shape):
        output.func.output_buffer().dim(rank - 1 - number).set_extent(extent)
    _place_folds(output.func, names, value.shape or (1,), index, vectors=output.lanes > 1)
