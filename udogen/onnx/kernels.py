"""ONNX's ops on tensors of known shapes, for kernels in Python; `udogen onnx fuse` writes kernels that use them.

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
from udogen.kernels.algorithm import as_expr
from udogen.kernels.fixed import Fixed, NotFixedError
from udogen.kernels.math import absolute, larger, select
from udogen.kernels.math import exp as exp_of
from udogen.kernels.math import sigmoid as sigmoid_of
from udogen.kernels.math import tanh as tanh_of

Index = tuple[Any, ...]  # an expression for each axis, in ONNX's order
ANY = -1  # the length of a tensor that is taken as one row, regardless of its shape
_LANES = 32  # partial results of a row
STACK_BYTES = 16384  # memory that results of folds may take at once: kernels have no heap
_INTEGER_RANGES = {
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
        store = _stores[-1]
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
class _Fold:
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
class _Store:
    """What is created while one output is written."""

    elements: dict[tuple[int, ...], _Element] = field(default_factory=dict)
    folds: dict[int, _Fold] = field(default_factory=dict)  # folds that others use come first
    used: set[int] = field(default_factory=set)  # the folds of the element that is being made


_stores = [_Store()]  # the last one belongs to the output that is being written
_numbers = itertools.count()
ZERO = hl.Expr(0)
_LOOPS = re.compile(r"\b[dfr]\d+")  # loops in the text of an index: of outputs (d), of folds (f), over domains (r)
_INNER = re.compile(r"\b[fr]\d+")


def tensor(source: Any, *shape: int) -> Value:
    """An input of the op, taken as `Whole`, with its shape in the model."""
    return Value(shape, lambda index: _loaded(source[tuple(reversed(_of_rank(index, len(shape))))]))


def flat(source: Any) -> Value:
    """An input for elementwise calculation; the kernel takes it without an annotation."""
    return Value((ANY,), lambda index: _loaded(source[index[0]]))


def store(output: Any, value: Value) -> None:
    """Write an output of the op."""
    _stores[-1] = _Store()
    if value.shape == (ANY,):
        i = hl.Var("i")
        output[i] = value.at(i)
        return
    rank = max(len(value.shape), 1)
    names = [f"d{next(_numbers)}" for _ in range(rank)]
    index = tuple(hl.Var(name) for name in names)
    element = value.at(*index[: value.rank])
    output[tuple(reversed(index))] = hl.cast(hl.Int(32), element) if _kind(element) == "bool" else element
    for number, extent in enumerate(value.shape):
        output.func.output_buffer().dim(rank - 1 - number).set_extent(extent)
    _place_folds(output.func, names, value.shape or (1,), index, vectors=output.lanes > 1)


def _of_rank(index: Index, rank: int) -> Index:
    return index if rank else (ZERO,)


def _loaded(element: Any) -> Any:
    if isinstance(element, Fixed):
        raise NotFixedError("ONNX's ops are calculated in floats")
    return element if element.type().is_float() else hl.cast(hl.Int(32), element)


# --- where folds are calculated ---------------------------------------------------------------------------------------


_Row = tuple[frozenset[int], bool]  # what an index depends on: axes of the output; whether also loops of other folds


@dataclass(eq=False)
class _Needs:
    """What the indices of folds depend on: loops of the output, with these names, and loops of other folds."""

    names: list[str]
    folds: list[_Fold]
    known: dict[tuple[int, int, bool], _Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.owners = {name: (fold, axis) for fold in self.folds for axis, name in enumerate(fold.names)}

    def rows(self, fold: _Fold) -> list[_Row]:
        """What each index of a fold depends on; whole axes only if memory suffices for them."""
        axes = range(len(fold.shape))
        rows = [self.row(fold, axis, True) for axis in axes]
        fits = _elements(fold, rows, len(self.names)) * 4 <= STACK_BYTES
        return rows if fits else [self.row(fold, axis, False) for axis in axes]

    def row(self, fold: _Fold, axis: int, whole: bool) -> _Row:
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
                self.known[key] = self._of_names([each for text in texts for each in _LOOPS.findall(text)], whole)
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
    needs = _Needs(names, list(_stores[-1].folds.values()))
    most: dict[int, int] = {}  # a fold is calculated outside of those that use it
    for key, fold in reversed(_stores[-1].folds.items()):
        rows = needs.rows(fold)
        level = _level(fold, rows, shape, most.get(key, len(shape)))
        if level is None:
            continue  # Halide calculates it together with the element, in the same vector
        most.update({each: min(level, most.get(each, level)) for each in fold.folds})
        # Halide does not infer the sizes of all functions, so the known ones are given.
        for (taken, looped), name, extent in zip(rows, fold.names, fold.shape, strict=True):
            if (looped or taken) and not any(each < level for each in taken):
                fold.func.bound(hl.Var(name), 0, extent)
        fold.func.store_in(hl.MemoryType.Stack)
        if fold.vector and vectors:
            for stage in (fold.func, fold.func.update(0)):
                stage.vectorize(hl.Var(fold.names[-1]), _LANES)
        if level == 0:
            fold.func.compute_root()
        else:
            fold.func.compute_at(output, index[level - 1])


def _level(fold: _Fold, rows: list[_Row], shape: tuple[int, ...], deepest: int) -> int | None:
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


def _elements(fold: _Fold, rows: list[_Row], level: int) -> int:
    """The number of results of a fold that are needed at once inside this many loops; windows count as whole axes."""
    inside = frozenset(range(level))
    return math.prod(
        1 if axes <= inside and not looped else extent for (axes, looped), extent in zip(rows, fold.shape, strict=True)
    )


def _fold(
    op: str,
    shape: Sequence[int],
    over: Sequence[int],
    starts: Sequence[Any],
    step: Callable[[list[Any], Index, Index], list[Any]],
    *,
    vector: bool = False,
) -> Value:
    """A tensor whose elements are folded: `step(so far, index, place in the domain)` returns it first."""
    key = next(_numbers)

    def get(index: Index) -> Any:
        store = _stores[-1]
        folds = store.folds
        if key not in folds:
            around, store.used = store.used, set()
            fold = _Fold(op, hl.Func(f"{op}_{key}"), [f"f{next(_numbers)}" for _ in shape], tuple(shape), vector)
            variables = tuple(hl.Var(name) for name in fold.names)
            at = tuple(reversed(variables))
            domain = hl.RDom([(0, each) for each in over], f"r{next(_numbers)}")
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
        fold.calls.append([str(as_expr(each)) for each in index])
        found = fold.func[tuple(reversed(index))]
        return hl.Expr(found) if len(starts) == 1 else hl.Expr(found[0])

    return Value(tuple(shape), get)


def _one_or_tuple(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else hl.Tuple(values)


# --- element by element -----------------------------------------------------------------------------------------------

Number = Value | float | int | bool


def constant(number: Any, *shape: int) -> Value:
    """A tensor of one number, which may be a scalar parameter of the op."""
    found = hl.f32(number) if isinstance(number, float) else as_expr(number)
    return Value(shape, lambda _: found)


def _value(each: Number) -> Value:
    return each if isinstance(each, Value) else constant(each)


def _kind(element: Any) -> str:
    if element.type().is_float():
        return "float"
    return "bool" if element.type().bits() == 1 else "int"


def _as_float(element: Any) -> Any:
    return element if _kind(element) == "float" else hl.cast(hl.Float(32), element)


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which several tensors are broadcast."""
    rank = max(map(len, shapes))
    full = [(1,) * (rank - len(each)) + tuple(each) for each in shapes]
    return tuple(next((n for n in extents if n != 1), 1) for extents in zip(*full, strict=True))


def _spread(value: Value, index: Index) -> Any:
    """The element of a broadcast tensor at an index."""
    own = index[len(index) - value.rank :]
    return value.at(*(ZERO if extent == 1 else each for each, extent in zip(own, value.shape, strict=True)))


def _each(function: Callable[..., Any], *given: Number) -> Value:
    """A function applied to the elements at the same index."""
    values = [_value(each) for each in given]
    shape = broadcast_shape(*(each.shape for each in values))
    return Value(shape, lambda index: function(*(_spread(each, index) for each in values)))


def _of_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *elements: function(*map(_as_float, elements))


def _chain(function: Callable[[Any, Any], Any], given: Sequence[Number]) -> Value:
    found = _value(given[0])
    for each in given[1:]:
        found = _each(function, found, each)
    return found


def Identity(x: Number) -> Value:
    return _value(x)


def Dropout(x: Number) -> Value:
    """As in inference, where the input is unchanged."""
    return _value(x)


def Abs(x: Number) -> Value:
    return _each(lambda a: absolute(a) if _kind(a) == "float" else hl.cast(hl.Int(32), hl.abs(a)), x)


def Neg(x: Number) -> Value:
    return _each(lambda a: -a, x)


def Relu(x: Number) -> Value:
    def positive(a: Any) -> Any:
        zero = hl.Expr(0) if _kind(a) == "int" else hl.f32(0.0)
        return select(a < zero, zero, a)  # keeps NaN

    return _each(positive, x)


def LeakyRelu(x: Number, *, alpha: float = 0.01) -> Value:
    return _each(lambda a: select(a >= 0.0, a, a * alpha), x)


def PRelu(x: Number, slope: Number) -> Value:
    return _each(lambda a, b: select(a >= 0.0, a, a * b), x, slope)


def ThresholdedRelu(x: Number, *, alpha: float = 1.0) -> Value:
    return _each(lambda a: select(a > alpha, a, hl.f32(0.0)), x)


def Elu(x: Number, *, alpha: float = 1.0) -> Value:
    return _each(lambda a: select(a >= 0.0, a, (exp(a) - 1.0) * alpha), x)


def Selu(x: Number, *, alpha: float = 1.6732632, gamma: float = 1.050701) -> Value:
    return _each(lambda a: select(a > 0.0, a, exp(a) * alpha - alpha) * gamma, x)


def Celu(x: Number, *, alpha: float = 1.0) -> Value:
    return _each(lambda a: select(a >= 0.0, a, (exp(a / alpha) - 1.0) * alpha), x)


def exp(a: Any) -> Any:
    return select(a != a, a, exp_of(a))  # keeps NaN


def sigmoid(a: Any) -> Any:
    return select(a != a, a, sigmoid_of(a))


def log(a: Any) -> Any:
    return select((a != a) | (a == hl.f32(float("inf"))), a, hl.log(a))  # keeps both


def erf(a: Any) -> Any:
    return select(a != a, a, hl.erf(hl.clamp(a, hl.f32(-9.0), hl.f32(9.0))))  # beyond, Halide's result is not 1


def Exp(x: Number) -> Value:
    return _each(exp, x)


def Log(x: Number) -> Value:
    return _each(log, x)


def Sqrt(x: Number) -> Value:
    return _each(hl.sqrt, x)


def Reciprocal(x: Number) -> Value:
    return _each(lambda a: 1.0 / a, x)


def Sigmoid(x: Number) -> Value:
    return _each(sigmoid, x)


def Tanh(x: Number) -> Value:
    def near_zero(a: Any) -> Any:  # where 1 - 2 / (1 + exp(2 a)) loses digits
        square = a * a
        return a * (1.0 + square * (-0.33333334 + square * (0.13333334 - square * 0.053968254)))

    return _each(lambda a: select(absolute(a) < 0.2, near_zero(a), select(a != a, a, tanh_of(a))), x)


def HardSigmoid(x: Number, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    return Clip(_each(lambda a: a * alpha + beta, x), min=0.0, max=1.0)


def HardSwish(x: Number) -> Value:
    return Mul(x, HardSigmoid(x, alpha=1.0 / 6.0, beta=0.5))


def Swish(x: Number, *, alpha: float = 1.0) -> Value:
    return _each(lambda a: a * sigmoid(a * alpha), x)


def Softplus(x: Number) -> Value:
    return _each(lambda a: larger(a, hl.f32(0.0)) + log(1.0 + exp(-absolute(a))), x)


def Softsign(x: Number) -> Value:
    return _each(lambda a: a / (1.0 + absolute(a)), x)


def Mish(x: Number) -> Value:
    return Mul(x, Tanh(Softplus(x)))


def Erf(x: Number) -> Value:
    return _each(erf, x)


def Gelu(x: Number, *, approximate: str = "none") -> Value:
    if approximate == "tanh":
        return _each(lambda a: 0.5 * a * (1.0 + tanh_of(0.7978845608 * (a + 0.044715 * a * a * a))), x)
    return _each(lambda a: 0.5 * a * (1.0 + erf(a * 0.70710678)), x)


def Shrink(x: Number, *, bias: float = 0.0, lambd: float = 0.5) -> Value:
    return _each(lambda a: select(a < -lambd, a + bias, select(a > lambd, a - bias, hl.f32(0.0))), x)


def Floor(x: Number) -> Value:
    return _each(hl.floor, x)


def Ceil(x: Number) -> Value:
    return _each(hl.ceil, x)


def Round(x: Number) -> Value:
    """Halves are rounded to even numbers."""
    return _each(hl.round, x)


def Sign(x: Number) -> Value:
    def sign(a: Any) -> Any:
        number = hl.cast(hl.Int(32), a > 0) - hl.cast(hl.Int(32), a < 0)
        return select(a != a, a, hl.cast(a.type(), number)) if _kind(a) == "float" else hl.cast(a.type(), number)

    return _each(sign, x)


def Sin(x: Number) -> Value:
    return _each(hl.sin, x)


def Cos(x: Number) -> Value:
    return _each(hl.cos, x)


def Tan(x: Number) -> Value:
    return _each(hl.tan, x)


def Asin(x: Number) -> Value:
    return _each(hl.asin, x)


def Acos(x: Number) -> Value:
    return _each(hl.acos, x)


def Atan(x: Number) -> Value:
    return _each(hl.atan, x)


def Sinh(x: Number) -> Value:
    return _each(hl.sinh, x)


def Cosh(x: Number) -> Value:
    return _each(hl.cosh, x)


def Asinh(x: Number) -> Value:
    return _each(hl.asinh, x)


def Acosh(x: Number) -> Value:
    return _each(hl.acosh, x)


def Atanh(x: Number) -> Value:
    return _each(hl.atanh, x)


def IsNaN(x: Number) -> Value:
    return _each(lambda a: a != a, x)


def IsInf(x: Number, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    limit = hl.f32(float("inf"))
    return _each(
        lambda a: (hl.Expr(bool(detect_positive)) & (a == limit)) | (hl.Expr(bool(detect_negative)) & (a == -limit)), x
    )


def Not(x: Number) -> Value:
    return _each(lambda a: ~_as_bool(a), x)


def BitwiseNot(x: Number) -> Value:
    return _each(lambda a: ~a, x)


def Clip(x: Number, *, min: float | int | Value | None = None, max: float | int | Value | None = None) -> Value:
    found = _value(x)
    if min is not None:
        found = _each(lambda a, low: hl.select(a < low, low, a), found, min)
    return found if max is None else _each(lambda a, high: hl.select(a > high, high, a), found, max)


def _as_bool(a: Any) -> Any:
    return a if _kind(a) == "bool" else a != 0


def Cast(x: Number, *, to: str) -> Value:
    """Cast to an ONNX type, by name; integers are kept in 32 bits, with the values that they have in fewer bits."""

    def cast(a: Any) -> Any:
        if to in ("FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16"):
            return hl.cast(hl.Float(32), a)
        if to == "BOOL":
            return _as_bool(a)
        whole = hl.cast(hl.Int(32), a)
        if to in ("UINT8", "UINT16"):
            return whole & _INTEGER_RANGES[to][1]
        if to in ("INT8", "INT16"):
            return hl.cast(hl.Int(32), hl.cast(hl.Int(int(to[3:])), whole))
        return whole

    return _each(cast, x)


def CastLike(x: Number, *, to: str) -> Value:
    return Cast(x, to=to)


def Add(a: Number, b: Number) -> Value:
    return _each(lambda a, b: a + b, a, b)


def Sub(a: Number, b: Number) -> Value:
    return _each(lambda a, b: a - b, a, b)


def Mul(a: Number, b: Number) -> Value:
    return _each(lambda a, b: a * b, a, b)


def Div(a: Number, b: Number) -> Value:
    """Integers are rounded towards zero."""

    def divided(a: Any, b: Any) -> Any:
        if _kind(a) == "float":
            return a / b
        whole = hl.abs(a) / hl.abs(b)
        return hl.select((a < 0) == (b < 0), hl.cast(hl.Int(32), whole), -hl.cast(hl.Int(32), whole))

    return _each(divided, a, b)


def Pow(a: Number, b: Number) -> Value:
    """The power has the type of the base."""
    if not isinstance(b, Value) and b in (2, 3, 0.5):
        return Sqrt(a) if b == 0.5 else Mul(a, a) if b == 2 else Mul(Mul(a, a), a)

    def power(a: Any, b: Any) -> Any:
        x, n = _as_float(a), _as_float(b)
        size = exp(n * log(absolute(x))) if _kind(b) == "float" else hl.pow(absolute(x), n)
        odd = hl.cast(hl.Int(32), n) % 2 == 1
        whole = hl.floor(n) == n
        # Powers of integers are integers, as far as floats represent all integers.
        exact = whole & (n > 0.0) & (hl.floor(x) == x) & (size < 1e6)
        size = hl.select(exact, hl.round(size), size)
        is_negative = hl.reinterpret(hl.Int(32), x) < 0  # also -0
        found = hl.select((x < 0.0) & ~whole, hl.f32(float("nan")), size)
        found = hl.select(is_negative & whole & odd, -size, found)
        found = hl.select(n == 0.0, hl.f32(1.0), hl.select((x == 0.0) & (n > 0.0), hl.f32(0.0), found))
        return found if _kind(a) == "float" else hl.cast(hl.Int(32), hl.round(found))

    return _each(power, a, b)


def Mod(a: Number, b: Number, *, fmod: int = 0) -> Value:
    def modulo(a: Any, b: Any) -> Any:
        if _kind(a) == "float":
            return a - b * hl.trunc(a / b)
        rest = hl.cast(hl.Int(32), hl.abs(a) % hl.abs(b))
        rest = hl.select(a < 0, -rest, rest)
        return rest if fmod else hl.select((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)

    return _each(modulo, a, b)


def Max(*x: Number) -> Value:
    return _chain(lambda a, b: select((a > b) | (a != a), a, b), x)  # keeps NaN


def Min(*x: Number) -> Value:
    return _chain(lambda a, b: select((a < b) | (a != a), a, b), x)


def Sum(*x: Number) -> Value:
    return _chain(lambda a, b: a + b, x)


def Mean(*x: Number) -> Value:
    return Mul(Sum(*x), 1.0 / len(x))


def And(a: Number, b: Number) -> Value:
    return _each(lambda a, b: _as_bool(a) & _as_bool(b), a, b)


def Or(a: Number, b: Number) -> Value:
    return _each(lambda a, b: _as_bool(a) | _as_bool(b), a, b)


def Xor(a: Number, b: Number) -> Value:
    return _each(lambda a, b: _as_bool(a) != _as_bool(b), a, b)


def _compared(a: Number, b: Number, compare: Callable[[Any, Any], Any]) -> Value:
    def both(a: Any, b: Any) -> Any:
        if "bool" in (_kind(a), _kind(b)):
            a, b = hl.cast(hl.Int(32), a), hl.cast(hl.Int(32), b)
        return compare(a, b)

    return _each(both, a, b)


def Equal(a: Number, b: Number) -> Value:
    return _compared(a, b, lambda a, b: a == b)


def Greater(a: Number, b: Number) -> Value:
    return _compared(a, b, lambda a, b: a > b)


def GreaterOrEqual(a: Number, b: Number) -> Value:
    return _compared(a, b, lambda a, b: (a > b) | (a == b))  # Halide's `>=` is true for NaN


def Less(a: Number, b: Number) -> Value:
    return _compared(a, b, lambda a, b: a < b)


def LessOrEqual(a: Number, b: Number) -> Value:
    return _compared(a, b, lambda a, b: (a < b) | (a == b))


def Where(condition: Number, a: Number, b: Number) -> Value:
    return _each(lambda c, a, b: hl.select(_as_bool(c), a, b), condition, a, b)


def BitwiseAnd(a: Number, b: Number) -> Value:
    return _each(lambda a, b: a & b, a, b)


def BitwiseOr(a: Number, b: Number) -> Value:
    return _each(lambda a, b: a | b, a, b)


def BitwiseXor(a: Number, b: Number) -> Value:
    return _each(lambda a, b: a ^ b, a, b)


# --- reductions -------------------------------------------------------------------------------------------------------


def _axes(value: Value, axes: Sequence[int] | None) -> list[int]:
    return sorted(axis % value.rank for axis in axes) if axes else list(range(value.rank))


def _with_axes(value: Value, axes: Sequence[int], keepdims: int) -> Value:
    """A reduced tensor, with or without its axes of one element."""
    return value if keepdims else Squeeze(value, axes=axes)


def _reduced(
    op: str, x: Value, axes: Sequence[int], start: Any, both: Callable[[Any, Any], Any], keepdims: int = 1
) -> Value:
    """A tensor folded along axes, which then have one element."""
    chosen = _axes(x, axes)
    if not chosen:
        return x

    shape = [1 if axis in chosen else extent for axis, extent in enumerate(x.shape)]

    def folded(length: int, first: int) -> Value:
        """The fold of a part of the last reduced axis."""

        def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
            full = list(index)
            for axis, each in zip(chosen, place, strict=True):
                full[axis] = each + first if first and axis == chosen[-1] else each
            return [both(so_far[0], x.at(*full))]

        return _fold(op, shape, [*(x.shape[axis] for axis in chosen[:-1]), length], [start], step)

    whole, left = divmod(x.shape[-1], _LANES)
    if chosen[-1] != x.rank - 1 or whole < 2:
        return _with_axes(folded(x.shape[chosen[-1]], 0), chosen, keepdims)

    def partial_step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        full = list(index[:-1])
        for axis, each in zip(chosen, place, strict=True):
            full[axis] = each
        full[-1] = full[-1] * _LANES + index[-1]
        return [both(so_far[0], x.at(*full))]

    over = [*(x.shape[axis] for axis in chosen[:-1]), whole]
    partial = _fold(f"{op}_lanes", [*shape, _LANES], over, [start], partial_step, vector=True)
    total = _fold(
        op, shape, [_LANES], [start], lambda so_far, index, place: [both(so_far[0], partial.at(*index, *place))]
    )
    if left:
        total = _each(both, total, folded(left, whole * _LANES))
    return _with_axes(total, chosen, keepdims)


def _is_int(x: Value) -> bool:
    return _kind(_sample(x)) == "int"


def _sample(x: Value) -> Any:
    """An element, needed only for its type."""
    _stores.append(_Store())
    try:
        return x.at(*([ZERO] * x.rank))
    finally:
        _stores.pop()


def _zero(x: Value) -> Any:
    return {"int": hl.Expr(0), "bool": hl.Expr(False), "float": hl.f32(0.0)}[_kind(_sample(x))]


Axes = Sequence[int] | None


def _every(x: Number, axes: Axes, noop: int) -> tuple[Value, Sequence[int] | None]:
    """The tensor and its axes; None where nothing is reduced."""
    value = _value(x)
    return value, None if not axes and noop else _axes(value, axes)


def ReduceSum(x: Number, *, axes: Axes = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
    value, chosen = _every(x, axes, noop_with_empty_axes)
    if chosen is None:
        return value
    return _reduced("ReduceSum", value, chosen, _zero(value), lambda a, b: a + b, keepdims)


def ReduceMean(x: Number, *, axes: Axes = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
    value, chosen = _every(x, axes, noop_with_empty_axes)
    if chosen is None:
        return value
    total, count = ReduceSum(value, axes=chosen, keepdims=keepdims), math.prod(value.shape[axis] for axis in chosen)
    return Div(total, count) if _is_int(value) else Mul(total, 1.0 / count)


def ReduceMax(x: Number, *, axes: Axes = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
    value, chosen = _every(x, axes, noop_with_empty_axes)
    start = hl.Expr(-(2**31)) if _is_int(value) else hl.f32(float("-inf"))
    return value if chosen is None else _reduced("ReduceMax", value, chosen, start, hl.max, keepdims)


def ReduceMin(x: Number, *, axes: Axes = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
    value, chosen = _every(x, axes, noop_with_empty_axes)
    start = hl.Expr(2**31 - 1) if _is_int(value) else hl.f32(float("inf"))
    return value if chosen is None else _reduced("ReduceMin", value, chosen, start, hl.min, keepdims)


def ReduceProd(x: Number, *, axes: Axes = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
    value, chosen = _every(x, axes, noop_with_empty_axes)
    start = hl.Expr(1) if _is_int(value) else hl.f32(1.0)
    return value if chosen is None else _reduced("ReduceProd", value, chosen, start, lambda a, b: a * b, keepdims)


def ReduceL1(x: Number, **options: Any) -> Value:
    return ReduceSum(Abs(x), **options)


def ReduceL2(x: Number, **options: Any) -> Value:
    return Sqrt(ReduceSumSquare(x, **options))


def ReduceSumSquare(x: Number, **options: Any) -> Value:
    return ReduceSum(Mul(x, x), **options)


def ReduceLogSum(x: Number, **options: Any) -> Value:
    return Log(ReduceSum(x, **options))


def ReduceLogSumExp(x: Number, *, axes: Axes = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
    value, chosen = _every(x, axes, noop_with_empty_axes)
    if chosen is None:
        return value
    top = ReduceMax(value, axes=chosen)
    found = Add(top, Log(ReduceSum(Exp(Sub(value, top)), axes=chosen)))
    return _with_axes(found, chosen, keepdims)


def _arg(
    op: str, x: Value, axis: int, keepdims: int, last: int, better: Callable[[Any, Any], Any], start: Any
) -> Value:
    axis %= x.rank

    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        found = x.at(*index[:axis], place[0], *index[axis + 1 :])
        wins = better(found, so_far[1]) | (hl.Expr(bool(last)) & (found == so_far[1]))
        wins = wins | (place[0] == 0)
        return [hl.select(wins, place[0], so_far[0]), hl.select(wins, found, so_far[1])]

    shape = [1 if each == axis else extent for each, extent in enumerate(x.shape)]
    return _with_axes(_fold(op, shape, [x.shape[axis]], [hl.Expr(0), start], step), [axis], keepdims)


def ArgMax(x: Number, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    value = _value(x)
    return _arg("ArgMax", value, axis, keepdims, select_last_index, lambda a, b: a > b, _zero(value))


def ArgMin(x: Number, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    value = _value(x)
    return _arg("ArgMin", value, axis, keepdims, select_last_index, lambda a, b: a < b, _zero(value))


def CumSum(x: Number, *, axis: int, exclusive: int = 0, reverse: int = 0) -> Value:
    """Each sum is calculated separately: the time grows with the square of the axis."""
    value = _value(x)
    axis %= value.rank
    none = _zero(value)

    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        here, there = (place[0], index[axis]) if not reverse else (index[axis], place[0])
        counts = here < there if exclusive else here <= there
        return [so_far[0] + hl.select(counts, value.at(*index[:axis], place[0], *index[axis + 1 :]), none)]

    return _fold("CumSum", value.shape, [value.shape[axis]], [none], step)


# --- shapes -----------------------------------------------------------------------------------------------------------


def _within(position: Any, extent: int) -> Any:
    """A position that is known to be within the axis, though its expression does not show it."""
    return ZERO if extent == 1 else hl.unsafe_promise_clamped(position, 0, extent - 1)


def Reshape(x: Number, *, shape: Sequence[int]) -> Value:
    """Reshape to a shape without 0 and -1."""
    value = _value(x)
    groups = _groups(value.shape, shape)

    def get(index: Index) -> Any:
        found: list[Any] = [ZERO] * value.rank
        for before, after in groups:
            if len(before) == len(after) == 1:
                found[before[0]] = index[after[0]]
                continue
            number: Any = ZERO
            for axis in after:
                number = number * shape[axis] + index[axis] if number is not ZERO else as_expr(index[axis])
            for place in reversed(range(len(before))):
                axis, extent = before[place], value.shape[before[place]]
                found[axis] = _within(number % extent if place else number, extent)
                number = number / extent
        return value.at(*found)

    return Value(tuple(shape), get)


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of axes that are reshaped into each other: (before, after)."""
    found = []
    i = j = 0
    while i < len(before) or j < len(after):
        left: list[int] = []
        right: list[int] = []
        a = b = 1
        while not left or not right or a != b:
            if i < len(before) and (not left or a <= b or j == len(after)):
                left.append(i)
                a *= before[i]
                i += 1
            elif j < len(after):
                right.append(j)
                b *= after[j]
                j += 1
            else:
                break
        found.append((left, right))
    return found


def Flatten(x: Number, *, axis: int = 1) -> Value:
    value = _value(x)
    axis = axis + value.rank if axis < 0 else axis
    return Reshape(value, shape=(math.prod(value.shape[:axis]), math.prod(value.shape[axis:])))


def Squeeze(x: Number, *, axes: Axes = None) -> Value:
    value = _value(x)
    gone = [axis % value.rank for axis in axes] if axes else [n for n, each in enumerate(value.shape) if each == 1]
    kept = [axis for axis in range(value.rank) if axis not in gone]

    def get(index: Index) -> Any:
        full: list[Any] = [ZERO] * value.rank
        for axis, each in zip(kept, index, strict=True):
            full[axis] = each
        return value.at(*full)

    return Value(tuple(value.shape[axis] for axis in kept), get)


def Unsqueeze(x: Number, *, axes: Sequence[int]) -> Value:
    value = _value(x)
    rank = value.rank + len(axes)
    new = {axis % rank for axis in axes}
    extents = iter(value.shape)
    shape = tuple(1 if axis in new else next(extents) for axis in range(rank))
    return Value(shape, lambda index: value.at(*(each for axis, each in enumerate(index) if axis not in new)))


def Transpose(x: Number, *, perm: Sequence[int] | None = None) -> Value:
    value = _value(x)
    order = list(perm) if perm else list(reversed(range(value.rank)))

    def get(index: Index) -> Any:
        found: list[Any] = [None] * value.rank
        for each, axis in zip(index, order, strict=True):
            found[axis] = each
        return value.at(*found)

    return Value(tuple(value.shape[axis] for axis in order), get)


def Expand(x: Number, *, shape: Sequence[int]) -> Value:
    value = _value(x)
    return Value(broadcast_shape(value.shape, shape), lambda index: _spread(value, index))


def Tile(x: Number, *, repeats: Sequence[int]) -> Value:
    value = _value(x)
    shape = tuple(extent * times for extent, times in zip(value.shape, repeats, strict=True))

    def get(index: Index) -> Any:
        rows = zip(index, value.shape, repeats, strict=True)
        return value.at(*(each if times == 1 else _within(each % extent, extent) for each, extent, times in rows))

    return Value(shape, get)


def Concat(*x: Number, axis: int) -> Value:
    values = [_value(each) for each in x]
    first = values[0]
    axis %= first.rank
    shape = list(first.shape)
    shape[axis] = sum(each.shape[axis] for each in values)

    def get(index: Index) -> Any:
        found, start = None, shape[axis]
        for each in reversed(values):
            start -= each.shape[axis]
            here = hl.clamp(index[axis] - start, 0, each.shape[axis] - 1)
            element = each.at(*index[:axis], here, *index[axis + 1 :])
            found = element if found is None else hl.select(index[axis] < start + each.shape[axis], element, found)
        return found

    return Value(tuple(shape), get)


def Split(x: Number, *, axis: int = 0, split: Sequence[int]) -> tuple[Value, ...]:
    value = _value(x)
    ends = list(itertools.accumulate(split))
    return tuple(
        Slice(value, starts=(end - length,), ends=(end,), axes=(axis,)) for end, length in zip(ends, split, strict=True)
    )


def Slice(
    x: Number, *, starts: Sequence[int], ends: Sequence[int], axes: Axes = None, steps: Sequence[int] | None = None
) -> Value:
    value = _value(x)
    ranges = [range(extent) for extent in value.shape]
    chosen = list(range(len(starts))) if axes is None else list(axes)
    for axis, start, end, step in zip(chosen, starts, ends, steps or [1] * len(starts), strict=True):
        extent = value.shape[axis]
        ranges[axis] = range(extent)[slice(start, None if step < 0 and end < -extent else end, step)]

    def get(index: Index) -> Any:
        rows = zip(index, ranges, value.shape, strict=True)
        return value.at(*(each if row == range(n) else each * row.step + row.start for each, row, n in rows))

    return Value(tuple(len(each) for each in ranges), get)


def Pad(x: Number, *, pads: Sequence[int], mode: str = "constant", value: Any = None, axes: Axes = None) -> Value:
    source = _value(x)
    chosen = _axes(source, axes) if axes is None else [axis % source.rank for axis in axes]
    before, after = [0] * source.rank, [0] * source.rank
    for place, axis in enumerate(chosen):
        before[axis], after[axis] = pads[place], pads[place + len(chosen)]
    shape = tuple(map(sum, zip(before, source.shape, after, strict=True)))
    filling = _value(value) if value is not None else constant(_zero(source))

    def get(index: Index) -> Any:
        inside: Any = None
        found = []
        for each, low, high, extent in zip(index, before, after, source.shape, strict=True):
            if low == high == 0:
                found.append(each)
                continue
            place = each - low
            if mode == "reflect" and extent > 1:
                place = place % (2 * extent - 2)
                place = hl.select(place < extent, place, 2 * extent - 2 - place)
            elif mode == "wrap":
                place = place % extent
            elif mode == "constant":
                here = (place >= 0) & (place < extent)
                inside = here if inside is None else inside & here
            found.append(hl.clamp(place, 0, extent - 1))
        element = source.at(*found)
        return element if inside is None else hl.select(inside, element, filling.at())

    return Value(shape, get)


def _position(number: Any, extent: int) -> Any:
    """An index that was read from a tensor; a negative one counts from the end."""
    return hl.clamp(hl.select(number < 0, number + extent, number), 0, extent - 1)


def Gather(x: Number, indices: Number, *, axis: int = 0) -> Value:
    value, chosen = _value(x), _value(indices)
    axis %= value.rank

    def get(index: Index) -> Any:
        number = chosen.at(*index[axis : axis + chosen.rank])
        place = _position(number, value.shape[axis])
        return value.at(*index[:axis], place, *index[axis + chosen.rank :])

    return Value((*value.shape[:axis], *chosen.shape, *value.shape[axis + 1 :]), get)


def GatherElements(x: Number, indices: Number, *, axis: int = 0) -> Value:
    value, chosen = _value(x), _value(indices)
    axis %= value.rank

    def get(index: Index) -> Any:
        place = _position(chosen.at(*index), value.shape[axis])
        return value.at(*index[:axis], place, *index[axis + 1 :])

    return Value(chosen.shape, get)


def GatherND(x: Number, indices: Number, *, batch_dims: int = 0) -> Value:
    value, chosen = _value(x), _value(indices)
    count, rank = chosen.shape[-1], chosen.rank - 1

    def get(index: Index) -> Any:
        head, tail = index[:rank], index[rank:]
        numbers = [chosen.at(*head, hl.Expr(each)) for each in range(count)]
        places = [_position(each, value.shape[batch_dims + n]) for n, each in enumerate(numbers)]
        return value.at(*index[:batch_dims], *places, *tail)

    return Value((*chosen.shape[:-1], *value.shape[batch_dims + count :]), get)


def OneHot(indices: Number, values: Number, *, depth: float, axis: int = -1) -> Value:
    chosen, pair, depth = _value(indices), _value(values), int(depth)
    axis %= chosen.rank + 1

    def get(index: Index) -> Any:
        number = hl.cast(hl.Int(32), chosen.at(*index[:axis], *index[axis + 1 :]))
        hot = hl.select(number < 0, number + depth, number) == index[axis]
        return hl.select(hot, pair.at(hl.Expr(1)), pair.at(hl.Expr(0)))

    return Value((*chosen.shape[:axis], depth, *chosen.shape[axis:]), get)


def Trilu(x: Number, *, upper: int = 1, k: int = 0) -> Value:
    value = _value(x)
    none = _zero(value)

    def get(index: Index) -> Any:
        distance = index[-1] - index[-2]
        return hl.select(distance >= k if upper else distance <= k, value.at(*index), none)

    return Value(value.shape, get)


def DepthToSpace(x: Number, *, blocksize: int, mode: str = "DCR") -> Value:
    value = _value(x)
    n, c, h, w = value.shape
    b = blocksize
    split = (n, b, b, c // b**2, h, w) if mode == "DCR" else (n, c // b**2, b, b, h, w)
    perm = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return Reshape(Transpose(Reshape(value, shape=split), perm=perm), shape=(n, c // b**2, h * b, w * b))


def SpaceToDepth(x: Number, *, blocksize: int) -> Value:
    value = _value(x)
    n, c, h, w = value.shape
    b = blocksize
    split = Reshape(value, shape=(n, c, h // b, b, w // b, b))
    return Reshape(Transpose(split, perm=(0, 3, 5, 1, 2, 4)), shape=(n, c * b**2, h // b, w // b))


# --- norms ------------------------------------------------------------------------------------------------------------


def _rows(x: Number, axis: int, flat: bool, function: Callable[[Value, int], Value]) -> Value:
    """Apply a function along an axis; before opset 13 (`flat`), along all axes from it on."""
    value = _value(x)
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
        hot = Value(value.shape, lambda index: index[axis] == _spread(first, index))
        return Cast(hot, to="FLOAT")

    return _rows(x, axis, flat, hardmax)


def _by_channel(value: Number, rank: int) -> Value:
    """A tensor with one number for each channel, along axis 1."""
    return Unsqueeze(value, axes=[axis for axis in range(rank) if axis != 1])


def _normalized(x: Value, axes: Sequence[int], epsilon: float) -> Value:
    centred = Sub(x, ReduceMean(x, axes=axes))
    return Div(centred, Sqrt(Add(ReduceMean(Mul(centred, centred), axes=axes), epsilon)))


def BatchNormalization(
    x: Number, scale: Number, bias: Number, mean: Number, variance: Number, *, epsilon: float = 1e-5
) -> Value:
    value = _value(x)
    gain, shift, middle, spread = (_by_channel(each, value.rank) for each in (scale, bias, mean, variance))
    return Add(Mul(Div(Sub(value, middle), Sqrt(Add(spread, epsilon))), gain), shift)


def InstanceNormalization(x: Number, scale: Number, bias: Number, *, epsilon: float = 1e-5) -> Value:
    value = _value(x)
    found = _normalized(value, range(2, value.rank), epsilon)
    return Add(Mul(found, _by_channel(scale, value.rank)), _by_channel(bias, value.rank))


def GroupNormalization(
    x: Number, scale: Number, bias: Number, *, num_groups: int, epsilon: float = 1e-5, by_group: bool = False
) -> Value:
    """Before opset 21 (`by_group`), scale and bias are per group."""
    value = _value(x)
    n, channels, *rest = value.shape
    grouped = Reshape(value, shape=(n, num_groups, channels // num_groups, *rest))
    found = _normalized(grouped, range(2, grouped.rank), epsilon)
    if by_group:
        found = Add(Mul(found, _by_channel(scale, found.rank)), _by_channel(bias, found.rank))
        return Reshape(found, shape=value.shape)
    found = Reshape(found, shape=value.shape)
    return Add(Mul(found, _by_channel(scale, value.rank)), _by_channel(bias, value.rank))


def LayerNormalization(
    x: Number, scale: Number, bias: Number | None = None, *, axis: int = -1, epsilon: float = 1e-5
) -> Value:
    value = _value(x)
    found = Mul(_normalized(value, range(axis % value.rank, value.rank), epsilon), scale)
    return found if bias is None else Add(found, bias)


def RMSNormalization(x: Number, scale: Number, *, axis: int = -1, epsilon: float = 1e-5) -> Value:
    value = _value(x)
    squares = ReduceMean(Mul(value, value), axes=range(axis % value.rank, value.rank))
    return Mul(Div(value, Sqrt(Add(squares, epsilon))), scale)


def LpNormalization(x: Number, *, axis: int = -1, p: int = 2) -> Value:
    size = ReduceL1(x, axes=(axis,)) if p == 1 else ReduceL2(x, axes=(axis,))
    return Where(Equal(size, 0.0), 0.0, Div(x, size))


def MeanVarianceNormalization(x: Number, *, axes: Sequence[int] = (0, 2, 3)) -> Value:
    value = _value(x)
    centred = Sub(value, ReduceMean(value, axes=axes))
    return Div(centred, Add(Sqrt(ReduceMean(Mul(centred, centred), axes=axes)), 1e-9))


# --- sums of products -------------------------------------------------------------------------------------------------


def MatMul(a: Number, b: Number) -> Value:
    left, right = _value(a), _value(b)
    of_row, of_column = left.rank == 1, right.rank == 1
    left = Unsqueeze(left, axes=(0,)) if of_row else left
    right = Unsqueeze(right, axes=(1,)) if of_column else right
    batch = broadcast_shape(left.shape[:-2], right.shape[:-2])
    zero = _zero(left)

    def row(value: Value, index: Index, *last: Any) -> Any:
        own = index[len(batch) - (value.rank - 2) : len(batch)]
        places = (ZERO if extent == 1 else each for each, extent in zip(own, value.shape[:-2], strict=True))
        return value.at(*places, *last)

    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        i, j, k = index[-2], index[-1], place[0]
        return [so_far[0] + row(left, index, i, k) * row(right, index, k, j)]

    found = _fold("MatMul", (*batch, left.shape[-2], right.shape[-1]), [left.shape[-1]], [zero], step)
    gone = [axis for axis, is_gone in ((-2, of_row), (-1, of_column)) if is_gone]
    return Squeeze(found, axes=gone) if gone else found


def Gemm(
    a: Number,
    b: Number,
    c: Number | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    found = MatMul(Transpose(a) if transA else a, Transpose(b) if transB else b)
    found = found if alpha == 1.0 else Mul(found, alpha)
    return found if c is None else Add(found, c if beta == 1.0 else Mul(c, beta))


def _padding(
    auto_pad: str,
    pads: Sequence[int] | None,
    extents: Sequence[int],
    spans: Sequence[int],
    strides: Sequence[int],
    *,
    pools: bool,
) -> tuple[list[int], list[int]]:
    """The number of elements before and after each axis; for pooling, it may be negative."""
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        rows = zip(extents, spans, strides, strict=True)
        whole = [(math.ceil(n / stride) - 1) * stride + span - n for n, span, stride in rows]
        whole = whole if pools else [max(each, 0) for each in whole]
        # Rounded towards zero, as in ONNX Runtime.
        first = [int((each + (auto_pad == "SAME_LOWER")) / 2) for each in whole]
        return first, [each - before for each, before in zip(whole, first, strict=True)]
    count = len(extents)
    given = list(pads) if pads and auto_pad != "VALID" else [0] * (2 * count)
    return given[:count], given[count:]


def _taps(value: Value, head: Index, places: Sequence[Any], outside: Any) -> Any:
    """An element of an image; outside the image, another number."""
    inside: Any = None
    found = []
    for (place, may_miss), extent in zip(places, value.shape[len(head) :], strict=True):
        here = (place >= 0) & (place < extent)
        inside = (here if inside is None else inside & here) if may_miss else inside
        found.append(hl.clamp(place, 0, extent - 1) if may_miss else place)
    element = value.at(*head, *found)
    return element if inside is None else hl.select(inside, element, outside)


@dataclass(frozen=True)
class _Window:
    """How a window moves over an image."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    image: tuple[int, ...]
    shape: tuple[int, ...]  # of the output

    def places(self, index: Index, place: Index) -> list[tuple[Any, bool]]:
        """Where each axis of the image is read, and whether that may be outside the image."""
        rows = zip(
            index, place, self.strides, self.dilations, self.before, self.kernel, self.shape, self.image, strict=True
        )
        return [
            (i * stride + k * dilation - low, low > 0 or (size - 1) * stride + (span - 1) * dilation - low >= extent)
            for i, k, stride, dilation, low, span, size, extent in rows
        ]


def _window(
    image: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil_mode: int = 0,
    *,
    pools: bool = True,
) -> _Window:
    strides, dilations = strides or [1] * len(kernel), dilations or [1] * len(kernel)
    spans = [(size - 1) * each + 1 for size, each in zip(kernel, dilations, strict=True)]
    # For pooling, ONNX Runtime calculates padding without dilations.
    before, after = _padding(auto_pad, pads, image, kernel if pools else spans, strides, pools=pools)
    shape = []
    for extent, span, stride, low, high in zip(image, spans, strides, before, after, strict=True):
        room = extent + low + high - span
        steps = math.ceil(room / stride) if ceil_mode else room // stride
        if ceil_mode and steps * stride >= extent + low:
            steps -= 1
        shape.append(steps + 1)
    rows = (kernel, strides, dilations, before, after, image, shape)
    return _Window(*(tuple(each) for each in rows))


Lengths = Sequence[int] | None


def Conv(
    x: Number, w: Number, bias: Number | None = None, *, group: int = 1, strides: Lengths = None, pads: Lengths = None,
    dilations: Lengths = None, auto_pad: str = "NOTSET", kernel_shape: Lengths = None,
) -> Value:  # fmt: skip
    value, filters = _value(x), _value(w)
    count, depth = filters.shape[:2]
    window = _window(value.shape[2:], filters.shape[2:], strides, dilations, pads, auto_pad, pools=False)

    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        n, m, *rest = index
        first = (
            0 if group == 1 else m if depth == 1 and count == group else _within(m / (count // group), group) * depth
        )
        channel = place[0] if group == 1 else first if depth == 1 else first + place[0]
        taken = _taps(value, (n, channel), window.places(tuple(rest), place[1:]), hl.f32(0.0))
        return [so_far[0] + taken * filters.at(m, *place)]

    found = _fold("Conv", (value.shape[0], count, *window.shape), (depth, *window.kernel), [hl.f32(0.0)], step)
    return found if bias is None else Add(found, _by_channel(bias, value.rank))


def ConvTranspose(
    x: Number, w: Number, bias: Number | None = None, *, strides: Lengths = None, pads: Lengths = None,
    dilations: Lengths = None, output_padding: Lengths = None, kernel_shape: Lengths = None,
) -> Value:  # fmt: skip
    value, filters = _value(x), _value(w)
    axes = value.rank - 2
    strides, dilations, pads = strides or [1] * axes, dilations or [1] * axes, pads or [0] * (2 * axes)
    depth, count, *kernel = filters.shape
    extra = output_padding or [0] * axes
    image = value.shape[2:]
    shape = [
        (image[n] - 1) * strides[n] + (kernel[n] - 1) * dilations[n] + 1 + extra[n] - pads[n] - pads[n + axes]
        for n in range(axes)
    ]

    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        n, m, *rest = index
        inside: Any = None
        found = []
        for axis, (each, k) in enumerate(zip(rest, place[1:], strict=True)):
            numerator = each + pads[axis] - k * dilations[axis]
            here = (numerator % strides[axis] == 0) & (numerator >= 0) & (numerator < image[axis] * strides[axis])
            inside = here if inside is None else inside & here
            found.append(hl.clamp(numerator / strides[axis], 0, image[axis] - 1))
        product = value.at(n, place[0], *found) * filters.at(place[0], m, *place[1:])
        return [so_far[0] + hl.select(inside, product, hl.f32(0.0))]

    whole = (value.shape[0], count, *shape)
    found = _fold("ConvTranspose", whole, (depth, *kernel), [hl.f32(0.0)], step)
    return found if bias is None else Add(found, _by_channel(bias, value.rank))


# --- pooling ----------------------------------------------------------------------------------------------------------


def _pooled(op: str, x: Value, window: _Window, start: Any, outside: Any, both: Callable[[Any, Any], Any]) -> Value:
    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        return [both(so_far[0], _taps(x, index[:2], window.places(index[2:], place), outside))]

    return _fold(op, (*x.shape[:2], *window.shape), window.kernel, [start], step)


def MaxPool(
    x: Number, *, kernel_shape: Sequence[int], strides: Lengths = None, pads: Lengths = None, dilations: Lengths = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0,
) -> Value:  # fmt: skip
    value = _value(x)
    window = _window(value.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    least = hl.Expr(-(2**31)) if _is_int(value) else hl.f32(float("-inf"))
    return _pooled("MaxPool", value, window, least, least, hl.max)


def _counts(x: Value, window: _Window, include: int) -> Value:
    """The number of elements in each window: of the image, or of the image with its padding."""
    low = window.before if include else (0,) * len(window.kernel)
    high = window.after if include else low
    ones = Value((1, 1, *window.image), lambda _: hl.f32(1.0))

    def step(so_far: list[Any], index: Index, place: Index) -> list[Any]:
        inside: Any = hl.Expr(True)
        for (each, _), below, above, extent in zip(
            window.places(index[2:], place), low, high, window.image, strict=True
        ):
            inside = inside & (each >= -below) & (each < extent + above)
        return [so_far[0] + hl.select(inside, hl.f32(1.0), hl.f32(0.0))]

    return _fold("AveragePool", (*ones.shape[:2], *window.shape), window.kernel, [hl.f32(0.0)], step)


def AveragePool(
    x: Number, *, kernel_shape: Sequence[int], strides: Lengths = None, pads: Lengths = None, dilations: Lengths = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
) -> Value:  # fmt: skip
    value = _value(x)
    window = _window(value.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    total = _pooled("AveragePool", value, window, hl.f32(0.0), hl.f32(0.0), lambda a, b: a + b)
    if not any(may_miss for _, may_miss in window.places((ZERO,) * len(window.kernel), (ZERO,) * len(window.kernel))):
        return Mul(total, 1.0 / math.prod(window.kernel))
    return Div(total, _counts(value, window, count_include_pad))


def LpPool(
    x: Number, *, kernel_shape: Sequence[int], p: int = 2, strides: Lengths = None, pads: Lengths = None,
    dilations: Lengths = None, auto_pad: str = "NOTSET", ceil_mode: int = 0,
) -> Value:  # fmt: skip
    value = _value(x)
    window = _window(value.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return _root(_pooled("LpPool", _power(value, p), window, hl.f32(0.0), hl.f32(0.0), lambda a, b: a + b), p)


def _power(x: Value, p: int) -> Value:
    return Abs(x) if p == 1 else Pow(Abs(x), p)


def _root(x: Value, p: int) -> Value:
    return x if p == 1 else Sqrt(x) if p == 2 else Pow(x, 1.0 / p)


def GlobalMaxPool(x: Number) -> Value:
    value = _value(x)
    return ReduceMax(value, axes=range(2, value.rank))


def GlobalAveragePool(x: Number) -> Value:
    value = _value(x)
    return ReduceMean(value, axes=range(2, value.rank))


def GlobalLpPool(x: Number, *, p: int = 2) -> Value:
    value = _value(x)
    return _root(ReduceSum(_power(value, p), axes=range(2, value.rank)), p)


# --- quantization -----------------------------------------------------------------------------------------------------


def _along(value: Number, rank: int, axis: int) -> Number:
    """Numbers along one axis, for broadcasting."""
    if not isinstance(value, Value) or value.rank != 1:
        return value
    return Unsqueeze(value, axes=[each for each in range(rank) if each != axis % rank])


def QuantizeLinear(x: Number, scale: Number, zero: Number = 0, *, axis: int = 1, to: str = "UINT8") -> Value:
    value = _value(x)
    low, high = _INTEGER_RANGES[to]
    grid = (_along(scale, value.rank, axis), _along(zero, value.rank, axis))

    def quantized(a: Any, scale: Any, zero: Any) -> Any:
        steps = hl.round(a / scale) + _as_float(zero)
        return hl.cast(hl.Int(32), hl.clamp(steps, hl.f32(low), hl.f32(high)))

    return _each(quantized, value, *grid)


def DequantizeLinear(x: Number, scale: Number, zero: Number = 0, *, axis: int = 1) -> Value:
    value = _value(x)
    grid = (_along(scale, value.rank, axis), _along(zero, value.rank, axis))
    return _each(lambda a, scale, zero: _as_float(a - zero) * scale, value, *grid)
