"""Tensors as a kernel in Python has them: views, real numbers for stored ones, reductions; the usual schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import halide as hl

from udogen.kernels import Flat, Rows, View, Whole
from udogen.kernels.request import Machine, TensorPort

TYPES = {
    "f32": hl.Float(32), "f16": hl.UInt(16), "f64": hl.Float(64), "u8": hl.UInt(8), "i8": hl.Int(8), "u16": hl.UInt(16),
    "i16": hl.Int(16), "u32": hl.UInt(32), "i32": hl.Int(32), "i64": hl.Int(64), "u64": hl.UInt(64),
}  # fmt: skip
_RANGES = {"u8": (0, 255), "i8": (-128, 127), "u16": (0, 65535), "i16": (-32768, 32767)}
_ROUNDER = 12582912.0  # 1.5 * 2 ** 23: adding it leaves a float no digits behind the point


@dataclass
class Place:
    """How the rows of a variant lie, and what is calculated of each before its elements are."""

    machine: Machine
    lanes: int  # elements of a vector; 1: no vectors
    last: bool
    inner: hl.Var = field(default_factory=lambda: hl.Var("inner"))
    row: hl.Var = field(default_factory=lambda: hl.Var("row"))
    of_rows: list[tuple[hl.Func, hl.Var | None]] = field(default_factory=list)  # and the lanes of partial results

    @property
    def rest(self) -> list[hl.Var]:
        """What says which row it is."""
        return [self.row] if self.last else [self.inner, self.row]


class Tensor:
    """A tensor of the op.  `x[i]` is an element; `y[i] = …` says what each element of an output is."""

    def __init__(self, port: TensorPort, stored: str, view: View, place: Place) -> None:
        self.name, self.view, self._stored, self._place = port.name, view, stored, place
        self.real = port.real or stored in ("f32", "f16")
        self.is_quantized = port.real and stored in _RANGES
        self.scale = hl.Param(hl.Float(32), f"{port.name}_scale")
        self.offset = hl.Param(hl.Int(32), f"{port.name}_offset")
        rank = {Flat: 1, Rows: 2 if place.last else 3}.get(type(view)) or getattr(view, "rank", 1)
        self.buffer: Any = hl.ImageParam(TYPES[stored], rank, port.name) if not port.is_output else None
        self.func: Any = hl.Func(port.name) if port.is_output else None
        self.indices: list[Any] = []

    @property
    def size(self) -> hl.Expr:
        """How many elements a row has; of a flat tensor, how many there are."""
        return self._dim(0 if not isinstance(self.view, Rows) or self._place.last else 1).extent()

    def extent(self, axis: int) -> hl.Expr:
        """The length of an axis of `Whole`, counted from the last."""
        return self._dim(axis).extent()

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
        if self.buffer is None:
            raise TypeError(f"`{self.name}` is an output, which has no elements yet")
        return self.buffer[tuple(self._at(indices))]

    def __getitem__(self, indices: Any) -> hl.Expr:
        raw = self.stored(*indices) if isinstance(indices, tuple) else self.stored(indices)
        return self.to_real(raw)

    def to_real(self, raw: hl.Expr) -> hl.Expr:
        """The number that a stored one stands for."""
        if self._stored == "f16":
            half = self._place.machine.half_vectors
            return hl.cast(hl.Float(32), hl.reinterpret(hl.Float(16), raw)) if half else _from_half(raw)
        if not self.is_quantized:
            return raw
        return self.scale * hl.cast(hl.Float(32), hl.cast(hl.Int(32), raw) + self.offset)

    def __setitem__(self, indices: Any, value: Any) -> None:
        if self.func is None:
            raise TypeError(f"`{self.name}` is an input, which nothing can be written to")
        self.indices = list(indices) if isinstance(indices, tuple) else [indices]
        self.func[tuple(self._at(indices))] = self.to_stored(value if isinstance(value, hl.Expr) else hl.Expr(value))

    def to_stored(self, value: hl.Expr) -> hl.Expr:
        """What is stored for a number."""
        if self._stored == "f16":
            half = self._place.machine.half_vectors
            value = hl.cast(hl.Float(32), value)
            return hl.reinterpret(hl.UInt(16), hl.cast(hl.Float(16), value)) if half else _to_half(value)
        if not self.is_quantized:
            return hl.cast(TYPES[self._stored], value)
        low, high = (float(each) for each in _RANGES[self._stored])
        offset = hl.cast(hl.Float(32), self.offset)
        whole = hl.cast(hl.Float(32), value) / self.scale
        whole = hl.select(whole > low + offset, whole, low + offset)  # also where it is no number
        whole = hl.min(whole, high + offset) + _ROUNDER
        integer = hl.reinterpret(hl.Int(32), whole) - hl.reinterpret(hl.Int(32), hl.f32(_ROUNDER))
        return hl.cast(TYPES[self._stored], hl.clamp(integer - self.offset, int(low), int(high)))

    # --- of rows --------------------------------------------------------------------------------------------------

    def sum(self, of: Callable[[Any], hl.Expr] | None = None) -> hl.Expr:
        """The sum over a row, of its elements or of what a function makes of k."""
        return self._reduced("sum", 0.0, lambda a, b: a + b, of)

    def max(self, of: Callable[[Any], hl.Expr] | None = None) -> hl.Expr:
        """The largest of a row."""
        return self._reduced("max", float("-inf"), hl.max, of)

    def min(self, of: Callable[[Any], hl.Expr] | None = None) -> hl.Expr:
        """The smallest of a row."""
        return self._reduced("min", float("inf"), hl.min, of)

    def mean(self, of: Callable[[Any], hl.Expr] | None = None) -> hl.Expr:
        """The mean over a row."""
        return self.sum(of) / hl.cast(hl.Float(32), self.size)

    def _reduced(
        self, kind: str, start: float, both: Callable[[Any, Any], hl.Expr], of: Callable[[Any], hl.Expr] | None
    ) -> hl.Expr:
        if not isinstance(self.view, Rows):
            raise TypeError(f"`{self.name}.{kind}` goes over rows: take `{self.name}` as Rows(axis)")
        get, place = of or (lambda k: self[k]), self._place
        total, rest, lanes = hl.Func(f"{self.name}_{kind}"), place.rest, place.lanes
        at = tuple(rest)
        total[at] = hl.f32(start)
        first: Any = 0
        if lanes > 1 and place.last:  # as many partial results as a vector has elements
            lane, some = hl.Var("lane"), hl.Func(f"{self.name}_{kind}_lanes")
            vectors, each = hl.RDom([(0, self.size // lanes)]), hl.RDom([(0, lanes)])
            partial, one = (lane, *rest), (each, *rest)
            some[partial] = hl.f32(start)
            some[partial] = both(some[partial], get(vectors * lanes + lane))
            some.vectorize(lane, lanes).update(0).reorder(lane, vectors).vectorize(lane, lanes)
            total[at] = both(total[at], some[one])
            first = self.size // lanes * lanes
            place.of_rows.append((some, lane))
        over = hl.RDom([(first, self.size - first)])
        total[at] = both(total[at], get(over.x))
        place.of_rows.append((total, None))
        return total[at]


def schedule(output: Tensor, place: Place) -> None:
    """The usual schedule: vectors along what lies side by side, and of each row first what is calculated once."""
    func, lanes = output.func, place.lanes
    strided = isinstance(output.view, Rows) and not place.last
    enough = output._dim(0).extent() >= lanes
    wide = func.specialize(enough) if lanes > 1 else None
    if strided:
        func.reorder(*output.indices, place.inner, place.row)
    if wide is not None and strided:
        vector = hl.Var("vector")
        wide.split(place.inner, place.inner, vector, lanes, hl.TailStrategy.ShiftInwards)
        wide.reorder(vector, *output.indices, place.inner, place.row).vectorize(vector)
    elif wide is not None:
        wide.vectorize(func.args()[0], lanes, hl.TailStrategy.ShiftInwards)
    for each, lane in place.of_rows:
        each.compute_at(func, place.inner if strided else place.row)
        if lane is None and lanes > 1 and strided:  # as many rows as a vector has elements
            for stage in (each, each.update(0)):
                stage.specialize(enough).vectorize(place.inner, lanes, hl.TailStrategy.RoundUp)


def _from_half(raw: hl.Expr) -> hl.Expr:
    """A half as a float, by integers: for machines that have no vectors of halves."""
    bits = hl.cast(hl.UInt(32), raw)
    sign, rest = (bits & 0x8000) << 16, bits & 0x7FFF
    usual = hl.select(rest >= 0x7C00, hl.u32(0x7F800000) | ((rest & 0x3FF) << 13), (rest << 13) + hl.u32(0x38000000))
    small = hl.reinterpret(hl.UInt(32), hl.cast(hl.Float(32), hl.cast(hl.Int(32), rest)) * hl.f32(2.0**-24))
    return hl.reinterpret(hl.Float(32), sign | hl.select(rest >= 0x400, usual, small))


def _to_half(value: hl.Expr) -> hl.Expr:
    """The reverse; it rounds to nearest even."""
    bits = hl.reinterpret(hl.UInt(32), value)
    sign, rest = (bits >> 16) & 0x8000, bits & hl.u32(0x7FFFFFFF)
    none = hl.select(rest > hl.u32(0x7F800000), hl.u32(0x7E00), hl.u32(0x7C00))
    small = hl.reinterpret(hl.UInt(32), hl.reinterpret(hl.Float(32), rest) + hl.f32(0.5)) - hl.u32(0x3F000000)
    usual = (rest + hl.u32(0xFFF) + ((rest >> 13) & 1) - hl.u32(0x38000000)) >> 13
    found = hl.select(rest >= hl.u32(0x47800000), none, hl.select(rest < hl.u32(0x38800000), small, usual))
    return hl.cast(hl.UInt(16), sign | found)
