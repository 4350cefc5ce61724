"""Tensors as a kernel in Python sees them: views, real numbers for stored ones, reductions; the usual schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import Any

import halide as hl

from udogen.kernels import Flat, Rows, View, Whole
from udogen.kernels.fixed import Fixed, Largest, NotFixedError, OfRow, as_expr, of_shared, stored_as
from udogen.kernels.opencl import NotOnGpuError
from udogen.kernels.request import TargetMachine, TensorPort
from udogen.kernels.scratch import ScratchTensor, Steps, loops, own_variable, place_scratch
from udogen.kernels.sums import Tiles

TYPES = {
    "f32": hl.Float(32), "f16": hl.UInt(16), "u8": hl.UInt(8), "i8": hl.Int(8), "u16": hl.UInt(16),
    "i16": hl.Int(16), "u32": hl.UInt(32), "i32": hl.Int(32), "i64": hl.Int(64),
}  # fmt: skip
_RANGES = {"u8": (0, 255), "i8": (-128, 127), "u16": (0, 65535), "i16": (-32768, 32767)}
_ROUNDER = 12582912.0  # 1.5 * 2 ** 23: adding it leaves a float no digits after the point


@dataclass
class RowLayout:
    """How the rows of a variant are laid out, and what is calculated for each row before its elements."""

    machine: TargetMachine
    lanes: int  # elements of a vector; 1: no vectors
    last: bool
    fixed: bool = False  # real numbers are integers times scales
    only_floats: bool = False  # on HVX, where loops of floats calculate two or three vectors at once
    inner: hl.Var = field(default_factory=lambda: own_variable("inner"))
    row: hl.Var = field(default_factory=lambda: own_variable("row"))
    # Values of rows for the output being defined, with the lanes of partial results; each output has its own loops.
    of_rows: list[tuple[hl.Func, hl.Var | None]] = field(default_factory=list)
    scratch: list[ScratchTensor | Steps] = field(default_factory=list)  # the same for memory
    sizes: list[hl.Expr] = field(default_factory=list)  # the lengths of rows; memory has elements of rows, too
    # A call of the kernel's function defines one output, the first that has no definition yet.
    output: str = ""
    later: set[str] = field(default_factory=set)  # outputs that a later call defines
    read: list[tuple[KernelTensor, list[Any]]] = field(default_factory=list)  # elements that were read, with indices
    used: Callable[[str, list[Any]], None] = lambda name, indices: None  # called for each use of elements
    tiles: Tiles | None = None  # of sums; None if they are calculated one by one
    reads_outputs: bool = False  # elements of an output depend on elements of outputs that another thread may calculate

    @property
    def rest(self) -> list[hl.Var]:
        """The variables that identify the row."""
        return [self.row] if self.last else [self.inner, self.row]

    def begin(self) -> None:
        """Reset the state before each call."""
        self.output, self.of_rows, self.scratch = "", [], []
        self.later.clear()

    def shared(self, value: Any) -> Fixed:
        """A number that all elements of a vector share."""
        if isinstance(value, hl.Expr):
            try:
                hl.Func("shared")[self.row] = value
            except hl.HalideError as fault:
                raise NotFixedError(_IN_FLOATS) from fault
        return of_shared(value)


class KernelTensor:
    """A tensor of the op.  `x[i]` is an element; `y[i] = …` defines each element of an output."""

    __iter__ = None  # there is an element at every index, so that Python would never end

    def __init__(self, port: TensorPort, stored: str, view: View, place: RowLayout) -> None:
        self.name, self.view, self._stored, self._place = port.name, view, stored, place
        self.real = port.real or stored in ("f32", "f16")
        self.is_quantized = port.real and stored in _RANGES
        self._is_fixed_point = port.real
        self.scale = hl.Param(hl.Float(32), f"{port.name}_scale")
        self.offset = hl.Param(hl.Int(32), f"{port.name}_offset")
        self._shared_scale, self._shared_offset = hl.Expr(self.scale), hl.Expr(self.offset)
        rank = {Flat: 1, Rows: 2 if place.last else 3}.get(type(view)) or getattr(view, "rank", 1)
        self.buffer: Any = hl.ImageParam(TYPES[stored], rank, port.name) if not port.is_output else None
        self.func: Any = hl.Func(TYPES[stored], rank, port.name) if port.is_output else None
        self.indices: list[Any] = []
        self.of_rows: list[tuple[hl.Func, hl.Var | None]] = []
        place.sizes += [self.size] if isinstance(view, Rows) else []
        self.scratch: list[ScratchTensor | Steps] = []

    @property
    def lanes(self) -> int:
        """Elements of a vector in its calculation; 1: no vectors."""
        return self._place.lanes

    @property
    def size(self) -> hl.Expr:
        """The number of elements of a row; for a flat tensor, of all elements."""
        return self._dim(0 if not isinstance(self.view, Rows) or self._place.last else 1).extent()

    def extent(self, axis: int) -> hl.Expr:
        """The length of an axis of `Whole`, counted from the last."""
        return self._dim(axis).extent()

    def lengths(self, shape: tuple[int, ...]) -> list[int]:
        """The lengths of the axes that Halide sees for a tensor of this shape, if rows are along the last axis."""
        if isinstance(self.view, Whole):
            return [*reversed(shape), *[1] * self.view.rank][: self.view.rank]
        if isinstance(self.view, Rows):
            return [shape[-1], math.prod(shape[:-1])]
        return [math.prod(shape)]

    def promise_words(self) -> None:
        """Promise that each line of elements begins at an address that is a multiple of four."""
        size = 4 // TYPES[self._stored].bytes()
        self.buffer.set_host_alignment(4)
        for axis in range(1, self.buffer.dimensions()):
            self.buffer.dim(axis).set_stride(self.buffer.dim(axis).stride() / size * size)

    def _dim(self, at: int) -> Any:
        return (self.buffer if self.buffer is not None else self.func.output_buffer()).dim(at)

    def _at(self, indices: Any) -> list[Any]:
        given = list(indices) if isinstance(indices, tuple) else [indices]
        wanted = self.view.rank if isinstance(self.view, Whole) else 1
        if len(given) != wanted:
            raise IndexError(f"`{self.name}` is taken as {self.view}: it has {wanted} index(es), not {len(given)}")
        if not isinstance(self.view, Rows):
            return given
        return [*given, *self._place.rest] if self._place.last else [self._place.inner, *given, self._place.row]

    def stored(self, *indices: Any) -> hl.Expr:
        """An element as it is stored."""
        if self.buffer is None and not self.func.defined() and self.name not in self._place.later:
            raise TypeError(f"`{self.name}` is an output, which has no elements yet")
        if self._place.machine.gpu and self._is_fixed_point:
            raise NotOnGpuError(f"it takes elements of `{self.name}` as they are stored")
        at = tuple(self._at(indices))
        self._place.read.append((self, list(indices)))
        self._place.used(self.name, list(indices))
        if self.buffer is not None:
            tiles = self._place.tiles
            return tiles.read(self, at, self.buffer[at]) if tiles else self.buffer[at]
        self._reads_outputs()
        return hl.Expr(self.func[at]) if self.func.defined() else hl.cast(TYPES[self._stored], 0)

    def __getitem__(self, indices: Any) -> hl.Expr:
        if self.buffer is None or not self._place.machine.gpu:
            return self.to_real(self.stored(*indices) if isinstance(indices, tuple) else self.stored(indices))
        at = self._at(indices)
        self._place.used(self.name, at)
        return self.buffer[tuple(at)]

    def to_real(self, raw: hl.Expr) -> hl.Expr:
        """The number that a stored one represents."""
        if self._stored == "f16":
            half = self._place.machine.half_vectors
            return hl.cast(hl.Float(32), hl.reinterpret(hl.Float(16), raw)) if half else _from_half(raw)
        if not self.is_quantized:
            return raw
        if self._place.fixed:
            return Fixed(raw, self._shared_scale, 2 * _RANGES[self._stored][1] + 1, self._shared_offset)
        return self.scale * hl.cast(hl.Float(32), hl.cast(hl.Int(32), raw) + self.offset)

    def __setitem__(self, indices: Any, value: Any) -> None:
        if self.func is None:
            raise TypeError(f"`{self.name}` is an input, which nothing can be written to")
        if not self._place.output and not self.func.defined():
            self._place.output, self.of_rows, self.scratch = self.name, self._place.of_rows, self._place.scratch
        if self._place.output != self.name:
            self._place.later.add(self.name)
            return
        if self.func.defined():
            self._reads_outputs()
        else:
            self.indices = list(indices) if isinstance(indices, tuple) else [indices]
        self._place.used(self.name, list(indices) if isinstance(indices, tuple) else [indices])
        stored = self._to_fixed(value) if self._place.fixed else self.to_stored(as_expr(value))
        self.func[tuple(self._at(indices))] = stored

    def _reads_outputs(self) -> None:
        if not isinstance(self.view, Rows):
            self._place.reads_outputs = True

    def _to_fixed(self, value: Any) -> hl.Expr:
        """The stored form of a number in fixed point."""
        if not self.is_quantized:
            raise NotFixedError(f"`{self.name}` contains no fixed point")
        number = value if isinstance(value, Fixed) else self._place.shared(value)
        return stored_as(number, TYPES[self._stored], self._shared_scale, -self._shared_offset)

    def to_stored(self, value: hl.Expr) -> hl.Expr:
        """The stored form of a number."""
        if self._stored == "f16":
            half = self._place.machine.half_vectors
            value = hl.cast(hl.Float(32), value)
            return hl.reinterpret(hl.UInt(16), hl.cast(hl.Float(16), value)) if half else _to_half(value)
        if not self.is_quantized:
            return hl.cast(TYPES[self._stored], value)
        low, high = (float(each) for each in _RANGES[self._stored])
        offset = hl.cast(hl.Float(32), self.offset)
        whole = hl.cast(hl.Float(32), value) / self.scale
        whole = hl.select(whole > low + offset, whole, low + offset)  # also for NaN
        whole = hl.min(whole, high + offset) + _ROUNDER
        integer = hl.reinterpret(hl.Int(32), whole) - hl.reinterpret(hl.Int(32), hl.f32(_ROUNDER))
        return hl.cast(TYPES[self._stored], hl.clamp(integer - self.offset, int(low), int(high)))

    # --- reductions of rows ---------------------------------------------------------------------------------------

    def sum(self, of: Callable[[Any], hl.Expr] | None = None) -> hl.Expr:
        """The sum over a row, of its elements or of a function of k."""
        return self._reduced("sum", of)

    def max(self, of: Callable[[Any], hl.Expr] | None = None) -> hl.Expr:
        """The largest of a row."""
        return self._reduced("max", of)

    def min(self, of: Callable[[Any], hl.Expr] | None = None) -> hl.Expr:
        """The smallest of a row."""
        return self._reduced("min", of)

    def mean(self, of: Callable[[Any], hl.Expr] | None = None) -> hl.Expr:
        """The mean over a row."""
        return self.sum(of) / hl.cast(hl.Float(32), self.size)

    def _reduced(self, kind: str, of: Callable[[Any], hl.Expr] | None) -> hl.Expr:
        if not isinstance(self.view, Rows):
            raise TypeError(f"`{self.name}.{kind}` goes over rows: take `{self.name}` as Rows(axis)")
        get = of or (lambda k: self[k])
        start, both = _REDUCTIONS[kind]
        if not self._place.fixed:
            return self._over_row(kind, [hl.f32(start)], both, lambda k: [hl.cast(hl.Float(32), get(k))])[0]
        sample = get(own_variable("sample"))
        if not self._place.last or not isinstance(sample, Fixed):
            raise NotFixedError("rows are along an axis other than the last" if not self._place.last else _IN_FLOATS)
        if kind == "sum":
            return self._fixed_sum(get, sample)
        plain = sample.zero is None
        integers = sample.integer.type() if plain else sample.stored.type()
        start = integers.max() if kind == "min" else integers.min()
        [reduced] = self._over_row(kind, [start], both, lambda k: [get(k).integer if plain else get(k).stored])
        made = Largest if kind == "max" and of is None else OfRow
        return made(reduced, sample.scale, sample.bound, sample.zero)

    def _fixed_sum(self, get: Callable[[Any], Fixed], sample: Fixed) -> hl.Expr:
        """The sum of each term's integers; longer ones than 16 bits are added in two parts.

        A row of 2 ** 20 elements overflows neither.
        """
        is_short, terms = sample.bound < 1 << 16, sample.terms
        by_terms = len(terms) > 1 and all(term.number is None or term.number.bound < 1 << 16 for term in terms)

        def parts(k: Any) -> list[hl.Expr]:
            found = get(k)
            if by_terms:
                return [term.number.integer for term in found.terms if term.number is not None]
            return [found.integer] if is_short else [found.integer & 0xFFFF, found.integer >> 16]

        sums = self._over_row(
            "sum", [hl.i32(0)] * len(parts(own_variable("sample"))), lambda a, b: a + b, parts, last=hl.Float(32)
        )
        if by_terms:
            left, count = iter(sums), hl.cast(hl.Float(32), self.size)
            values = [term.factor * (count if term.number is None else next(left)) for term in terms]
            return reduce(lambda a, b: a + b, values)
        return (sums[0] if is_short else sums[0] + sums[1] * hl.f32(65536.0)) * sample.scale

    def _over_row(
        self,
        name: str,
        starts: list[hl.Expr],
        both: Callable[[Any, Any], Any],
        get: Callable[[Any], list[hl.Expr]],
        last: hl.Type | None = None,
    ) -> list[hl.Expr]:
        """Values of each row; `last` is the type in which results of vectors are combined."""
        place, lanes = self._place, self._place.lanes
        row = _Reduction(f"{self.name}_{name}", tuple(place.rest), starts, both, get, last)
        if place.machine.gpu and place.last:
            self._over_threads(row)
            place.of_rows.append((row.total, None))
            return row.of(row.total, row.at)
        left, over_where = self.size, []  # for a row that is shorter than any vector
        # Shorter vectors also fill a register of 32-bit numbers: on Hexagon, LLVM splits others into single numbers.
        least = place.machine.vector // 4 if place.machine.aligned else 1
        for width in dict.fromkeys((lanes, max(lanes // 4, least))) if lanes > 1 and place.last else ():
            fits = self._fit(get, left - width) if least > 1 and width < lanes else []
            if fits is None:
                continue
            self._over_vectors(row, width, left, fits)
            if fits:
                over_where = [~reduce(lambda a, b: a & b, [left >= width, *fits])]
            else:
                left = hl.select(left >= width, 0, left)
        over = hl.RDom([(0, left)])
        for condition in over_where:
            over.where(condition)
        row.add(row.total, row.at, row.results(get(over.x)))
        place.of_rows.append((row.total, None))
        return row.of(row.total, row.at)

    def _over_threads(self, row: _Reduction) -> None:
        """Reduce each row with a group of n threads: each takes every n-th element, and a few take their results."""
        lanes, few, lane = self._place.lanes, _FEW_THREADS, own_variable("lane")
        steps, more, each = (hl.RDom([(0, count)]) for count in ((self.size + lanes - 1) // lanes, lanes // few, few))
        k = steps * lanes + lane
        values = zip(row.get(hl.min(k, self.size - 1)), row.starts, strict=True)
        some = self._of_threads(row, lanes, lane, [hl.select(k < self.size, a, b) for a, b in values])
        fewer = self._of_threads(row, few, lane, row.of(some, (more * few + lane, *row.at)))
        row.add(row.total, row.at, row.results(row.of(fewer, (each, *row.at))))

    def _of_threads(self, row: _Reduction, threads: int, lane: hl.Var, values: list[hl.Expr]) -> hl.Func:
        """The partial results of a row in a group of threads."""
        func, partial = hl.Func(f"{row.name}_{threads}"), (lane, *row.at)
        func[partial] = _one_or_tuple(row.starts)
        row.add(func, partial, values)
        func.bound(lane, 0, threads)
        self._place.of_rows.append((func, lane))
        return func

    def _over_vectors(self, row: _Reduction, width: int, left: hl.Expr, fits: Sequence[hl.Expr]) -> None:
        """Calculate as many partial results as a vector has elements, beginning with the row's end."""
        lane, some = own_variable("lane"), hl.Func(f"{row.name}_{width}")
        is_long = left >= width
        vectors, once = hl.RDom([(0, left // width)]), hl.RDom([(0, hl.select(is_long, 1, 0))])
        for domain, condition in product((vectors, once), fits):
            domain.where(condition)
        partial = (lane, *row.at)
        some[partial] = _one_or_tuple([hl.undef(start.type()) for start in row.starts])
        end = row.get(hl.unsafe_promise_clamped(left - width + lane + once, 0, left - 1))
        is_end = lane >= width - left % width
        some[partial] = _one_or_tuple([hl.select(is_end, a, b) for a, b in zip(end, row.starts, strict=True)])
        row.add(some, partial, row.get(vectors * width + lane))
        for stage, outer in ((some.update(0), once), (some.update(1), vectors)):
            stage.reorder(lane, outer).vectorize(lane, width)
        row.add(row.total, row.at, row.combined(some, width, once))
        some.bound(lane, 0, width).store_in(hl.MemoryType.Stack)
        self._place.of_rows.append((some, lane))

    def _fit(self, get: Callable[[Any], list[hl.Expr]], start: hl.Expr) -> list[hl.Expr] | None:
        """Conditions for a row: Hexagon's loads, which are whole vectors, end inside the tensors that `get` reads.

        They begin at `start` or before it.  Returns None if that cannot be known.
        """
        place, k = self._place, own_variable("k")
        place.read.clear()
        get(k)
        sizes = []
        for tensor, [index, *others] in place.read:
            if index is not k or others or tensor.buffer is None:
                return None
            size = tensor.size
            row = place.row if isinstance(tensor.view, Rows) else 0
            rows = tensor.buffer.dim(1).extent() if isinstance(tensor.view, Rows) else 1
            sizes.append(row * size + start + place.machine.vector // TYPES[tensor._stored].bytes() <= size * rows)
        return sizes


@dataclass
class _Reduction:
    """Values of each row: their start, how two are combined, the elements, the type in which parts are combined."""

    name: str
    at: tuple[Any, ...]
    starts: list[hl.Expr]
    both: Callable[[Any, Any], Any]
    get: Callable[[Any], list[hl.Expr]]
    last: hl.Type | None

    def __post_init__(self) -> None:
        self.total = hl.Func(self.name)
        self.total[self.at] = _one_or_tuple(self.results(self.starts))

    def results(self, values: list[hl.Expr]) -> list[hl.Expr]:
        return [hl.cast(self.last, value) for value in values] if self.last else values

    def of(self, func: hl.Func, indices: tuple[Any, ...]) -> list[hl.Expr]:
        return _values(func, indices, len(self.starts))

    def add(self, func: hl.Func, indices: tuple[Any, ...], values: list[hl.Expr]) -> None:
        func[indices] = _one_or_tuple([self.both(a, b) for a, b in zip(self.of(func, indices), values, strict=True)])

    def combined(self, some: hl.Func, width: int, once: Any) -> list[hl.Expr]:
        """The lanes of partial results combined: halves of a vector, then quarters, and so on."""
        each = (once.x, *self.at)
        lanes, at, found = hl.RDom([(0, width)]), (own_variable("n"), *self.at), []
        for value, start in zip(self.of(some, (lanes, *self.at)), self.starts, strict=True):
            parts = [value & 0xFFFF, value >> 16] if self.last else [value]  # so that the sum of all lanes fits
            wholes = [hl.Func(f"{self.name}_whole") for _ in parts]
            for whole, part in zip(wholes, parts, strict=True):
                whole[at] = start
                whole[at] = self.both(whole[at], part)
                whole.compute_at(self.total, once).update().atomic().vectorize(lanes)
            low, *high = self.results([hl.Expr(whole[each]) for whole in wholes])
            found.append(low + high[0] * hl.f32(65536.0) if high else low)
        return found


def _one_or_tuple(values: list[hl.Expr]) -> Any:
    return values[0] if len(values) == 1 else hl.Tuple(values)


def _values(func: hl.Func, indices: tuple[Any, ...], count: int) -> list[hl.Expr]:
    """The values of a function at one index, as expressions: a `FuncRef` would not become a float with a scale."""
    value = func[indices]
    return [as_expr(value)] if count == 1 else [as_expr(value[index]) for index in range(count)]


_GUARD = hl.TailStrategy.GuardWithIf
_FEW_THREADS = 8  # of a group on a GPU, about the square root of all
_IN_FLOATS = "Halide's own functions calculate elements in floats"
_REDUCTIONS: dict[str, tuple[float, Callable[[Any, Any], Any]]] = {
    "sum": (0.0, lambda a, b: a + b),
    "max": (float("-inf"), hl.max),
    "min": (float("inf"), hl.min),
}


def schedule(output: KernelTensor, place: RowLayout, *, own: bool) -> None:
    """Apply the usual schedule: vectors along contiguous elements; what is calculated once for a row comes first.

    `own`: the kernel's own schedule has already made the vectors of the output.
    """
    if place.machine.gpu:
        _schedule_gpu(output, place, own=own)
        return
    func, lanes = output.func, place.lanes
    strided = isinstance(output.view, Rows) and not place.last
    first, order = func.args()[0], loops(func, [] if own or isinstance(output.view, Rows) else output.scratch)
    if strided:
        first, order = place.inner, [place.row, place.inner, *output.indices]
    if strided or not own:  # a schedule of the kernel's own may have split them
        func.reorder(*reversed(order))
    if lanes > 1 and not own:
        # The branch of numbers comes first: until it, Halide puts vectors in memory in another order.
        func.specialize(output._dim(0).extent() < lanes)
        vector = own_variable("vector")
        func.split(first, first, vector, lanes, hl.TailStrategy.ShiftInwards)
        func.reorder(vector, *reversed(order)).vectorize(vector)
        if place.only_floats and not isinstance(output.view, Whole):
            func.unroll(first, 2 if isinstance(output.view, Rows) else 3, _GUARD)
    _place_memory(output, place, [] if own else order, first)
    _place_rows(output, place, strided=strided)


def _place_rows(output: KernelTensor, place: RowLayout, *, strided: bool) -> None:
    """Calculate the values of a row before its elements."""
    for row, lane in output.of_rows:
        row.compute_at(output.func, place.inner if strided else place.row)
        for stage in (row, row.update(0)) if lane is None and place.lanes > 1 and strided else ():
            _over_rows(stage, output, place)


def _over_rows(stage: Any, output: KernelTensor, place: RowLayout) -> None:
    """Calculate as many rows at once as a vector has elements, along another axis than the last."""
    many = stage.specialize(output._dim(0).extent() >= place.lanes)
    many.vectorize(place.inner, place.lanes, hl.TailStrategy.RoundUp)


def _kept(output: KernelTensor) -> list[ScratchTensor | Steps]:
    """The memory of an output that is really kept."""
    return [memory for memory in output.scratch if not memory.is_inlined]


def _place_memory(output: KernelTensor, place: RowLayout, order: Sequence[Any], first: hl.Var) -> None:
    """Calculate memory in loops of an output, in vectors."""
    for memory in _kept(output):
        place_scratch(memory, output.func, order[: -1 if isinstance(output.view, Rows) else None])
        if place.sizes and isinstance(memory, ScratchTensor):
            memory.func.bound_storage(memory.func.args()[0 if place.last else 1], reduce(hl.max, place.sizes))
        is_scan, kind = not isinstance(memory, ScratchTensor), memory.func.types()[0]
        # Halide compiles vectors of integers wrongly for HVX if each is made of the one before.
        if place.lanes > 1 and not (is_scan and place.machine.aligned and not kind.is_float()):
            _make_vectors(memory, output, place, first)


def _make_vectors(memory: ScratchTensor | Steps, output: KernelTensor, place: RowLayout, first: hl.Var) -> None:
    """Calculate memory in vectors."""
    for stage, names in memory.definitions(first):
        if names[:1] == [place.inner.name()]:
            _over_rows(stage, output, place)
        elif names and (isinstance(memory, ScratchTensor) or names[0] == first.name()):
            stage.vectorize(hl.Var(names[0]), place.lanes, _GUARD)


def _schedule_gpu(output: KernelTensor, place: RowLayout, *, own: bool) -> None:
    """Use a thread for each element; if rows have values of their own, a group of threads for each row."""
    func, lanes, tail = output.func, place.lanes, _GUARD
    outer, inner = own_variable("outer"), own_variable("thread")
    by_group = isinstance(output.view, Rows) and place.last
    if own:
        pass
    elif by_group:
        func.split(output.indices[0], outer, inner, lanes, tail)
        func.reorder(inner, outer, place.row).gpu_blocks(place.row).gpu_threads(inner)
    elif isinstance(output.view, Rows):
        func.split(place.inner, outer, inner, lanes, tail).reorder(*output.indices, inner, outer, place.row)
        func.gpu_blocks(outer, place.row).gpu_threads(inner)
    else:
        first, *others = func.args()
        if others:
            line, side = own_variable("line"), own_variable("side")
            func.gpu_tile(first, others[0], outer, line, inner, side, lanes // 4, 4, tail)
            func.reorder(*others[2:], inner, side, outer, line, *others[1:2])
            if others[1:]:
                func.gpu_blocks(others[1])
        else:
            func.gpu_tile(first, outer, inner, lanes, tail)
    for row, lane in output.of_rows:
        row.compute_at(func, place.row if by_group else inner)
        for stage in (row, row.update(0)) if lane is not None else ():
            stage.gpu_threads(lane)
    for memory in _kept(output):
        _schedule_scratch_on_gpu(memory, func.args()[0], place)


def _schedule_scratch_on_gpu(memory: ScratchTensor | Steps, first: hl.Var, place: RowLayout) -> None:
    """Calculate memory in kernels before that of the output."""
    if place.sizes:
        raise NotOnGpuError("it has memory for rows, which a group of threads shares")
    memory.func.compute_root()
    for stage, names in memory.definitions(first):
        if not names:
            raise NotOnGpuError("it writes to memory along a domain, which one thread does")
        axis, *rest = map(hl.Var, names)
        block, thread = own_variable("block"), own_variable("thread")
        stage.split(axis, block, thread, place.lanes, _GUARD)
        while rest[1:]:
            inner, outer, *others = rest
            rest = [hl.Var(), *others]
            stage.fuse(inner, outer, rest[0])
        stage.reorder(thread, block, *rest).gpu_blocks(block, *rest).gpu_threads(thread)


def _from_half(raw: hl.Expr) -> hl.Expr:
    """A half as a float, calculated with integers, for machines that have no vectors of halves."""
    bits = hl.cast(hl.UInt(32), raw)
    sign, rest = (bits & 0x8000) << 16, bits & 0x7FFF
    usual = (rest << 13) + hl.select(rest >= 0x7C00, hl.u32(0x70000000), hl.u32(0x38000000))
    small = hl.reinterpret(hl.Float(32), (rest << 13) + hl.u32(0x38800000)) - hl.f32(2.0**-14)
    small = hl.reinterpret(hl.UInt(32), small)
    return hl.reinterpret(hl.Float(32), sign | hl.select(rest >= 0x400, usual, small))


def _to_half(value: hl.Expr) -> hl.Expr:
    """A float as a half, rounded to nearest even; the reverse of `_from_half`."""
    bits = hl.reinterpret(hl.UInt(32), value)
    sign, rest = (bits >> 16) & 0x8000, bits & hl.u32(0x7FFFFFFF)
    none = hl.select(rest > hl.u32(0x7F800000), hl.u32(0x7E00), hl.u32(0x7C00))
    small = hl.reinterpret(hl.UInt(32), hl.reinterpret(hl.Float(32), rest) + hl.f32(0.5)) - hl.u32(0x3F000000)
    usual = (rest + hl.u32(0xFFF) + ((rest >> 13) & 1) - hl.u32(0x38000000)) >> 13
    half = hl.select(rest >= hl.u32(0x47800000), none, hl.select(rest < hl.u32(0x38800000), small, usual))
    return hl.cast(hl.UInt(16), sign | half)
