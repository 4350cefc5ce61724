"""Sums over domains in register tiles: each pass of an inner loop adds products to all sums of a tile.

A kernel's function is called with variables in place of its domains, so that a sum can be defined over any domain.
Bytes on HVX: `vrmpy` multiplies four bytes of each lane.  With zero points, the sum of (a + p) * (b + q) is that of
a * b, and q times the sum of a, and p times the sum of b, and p * q for each element.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import halide as hl

from udogen.kernels.fixed import Fixed, count_of

_RDom = hl.RDom  # which is replaced while a function is called
_UNDEFINED = re.compile(r'Undefined variable "([^"]+)"')
_AXES = "xyzw"
_NO_ZERO = hl.i32(0)  # of integers
_TAPS = 3  # of a window, whose loop is unrolled: rows of a tile share what they load
_QUAD = 4  # bytes that HVX multiplies and adds into 32 bits
_LINE = 128  # bytes of a vector
_LANES = _LINE // _QUAD
_MOST = 1 << 30  # elements of a tensor: more do not fit in memory


class NotTiledError(Exception):
    """A kernel whose sums the usual schedule calculates one by one."""


@dataclass
class Sum:
    """The sums of an output: the function of all, and what it needs."""

    func: Any
    domain: Any  # of the stage that adds
    packed: Any = None  # the factor of columns, four bytes of the domain after another
    columns: Any = None  # sums of a factor that rows share
    more: Any = None  # what is added for the other factor's zero point
    rows: Any = None  # sums of the factor of rows, in all lanes of a vector
    ones: Any = None  # a vector of ones
    aligned: Any = None  # the tensor of the factor of rows, which is loaded by four bytes


@dataclass
class LineSums:
    """Sums along lines: the function of all, that of a sum for each lane of a vector, and their domains."""

    func: Any
    part: Any
    steps: Any
    lanes: Any


@dataclass
class Tiles:
    """The sums of the output that is being defined."""

    on_hvx: bool
    first: str = ""  # the first variable of the output: its columns
    sums: list[Sum] = field(default_factory=list)
    lines: list[tuple[Any, LineSums, LineSums, LineSums]] = field(default_factory=list)  # ones, all sums, columns, rows
    fits: list[Any] = field(default_factory=list)  # conditions, without which the op needs its other function
    elements: list[tuple[Any, str, Any]] = field(default_factory=list)  # that were read: tensor, first index, value

    def can_be_made(self, variables: Sequence[Any]) -> bool:
        """Whether an output with these variables has sums, all of which vectors calculate."""
        names = {each.name() for each in variables}
        sums = [*(each.func for each in self.sums), *(each.func for _, each, *_ in self.lines)]
        each_has = [{var.name() for var in func.args()} for func in sums]
        return bool(each_has) and all({self.first} <= found <= names for found in each_has)

    def element(self, value: hl.Expr) -> tuple[Any, str]:
        """The tensor of which this is an element, and its first index."""
        text = str(value)
        return next(((tensor, first) for tensor, first, each in self.elements if str(each) == text), (None, ""))


class Domain:
    """Variables in place of a domain."""

    def __init__(self, tiles: Tiles, *given: Any) -> None:
        self.tiles, self.over = tiles, _RDom(*given)
        self.axes = [self.over[n] for n in range(self.over.dimensions())]
        self.variables = [hl.Var(f"{each.name().replace('$', '_')}_of_domain") for each in self.axes]

    def __getattr__(self, name: str) -> Any:
        if name not in _AXES[: len(self.axes)]:
            raise NotTiledError(name)
        return self.variables[_AXES.index(name)]

    def total(self, of: Any) -> Any:
        """The sum of something over the domain."""
        if isinstance(of, Fixed):
            if of.factors is None:
                raise NotTiledError("a sum of no products")
            count = count_of(self.over)
            return of.summed(self._of_products(*of.factors, count), count, self.tiles.fits)
        if self.tiles.on_hvx:
            return hl.cast(of.type(), self._of_products(*self._factors(of), count_of(self.over)))
        return self._of_any(of)

    def free(self, value: Any) -> list[Any]:
        """The variables of an expression that are none of the domain."""
        found: list[Any] = []
        while True:
            try:
                _define("probe", [*found, *self.variables], value)
            except hl.HalideError as fault:
                missing = _UNDEFINED.search(str(fault))
                if not missing or missing[1].endswith("_of_domain"):
                    raise NotTiledError(str(fault)) from fault
                found.append(hl.Var(missing[1]))
            else:
                return found

    def steps(self, size: int) -> Any:
        """The same domain in steps of so many bytes, of four bytes each; steps are its second axis."""
        x, *rest = self.axes
        return _RDom([(0, _QUAD), (0, x.extent() / size), *((each.min(), each.extent()) for each in rest)])

    def _factors(self, of: Any) -> tuple[Fixed, Fixed]:
        """The factors of a product of bytes, each of which is converted to 32 bits first."""
        text, one = str(of), hl.f32(1.0)
        found = [each for *_, each in self.tiles.elements if each.type().bits() == 8]
        for a in found if of.type() == hl.Int(32) else ():
            for b in found:
                if text == str(hl.cast(hl.Int(32), a) * hl.cast(hl.Int(32), b)):
                    return Fixed(a, one, 255, _NO_ZERO), Fixed(b, one, 255, _NO_ZERO)
        raise NotTiledError("a sum of no products of bytes")

    def _of_any(self, of: Any) -> hl.Expr:
        """Sums of any type, each lane of which is one of a column."""
        free = self.free(of)
        part = _define("part", [*free, *self.variables], of)
        func = _define("sums", free, hl.cast(of.type(), 0), _at(part, *free, *self.axes))
        self.tiles.sums.append(Sum(func, self.over))
        return _at(func, *free)

    def _of_products(self, a: Fixed, b: Fixed, count: Any) -> hl.Expr:
        """Sums of products of bytes."""
        if not all(each.zero is not None and each.stored.type().bits() == 8 for each in (a, b)):
            raise NotTiledError("a sum of no products of bytes")
        one, other = _Bytes(self, a), _Bytes(self, b)
        if not self._is_column(one):
            one, other = other, one
        if not self._is_column(one):
            raise NotTiledError("sums that vectors do not calculate")
        if self._is_column(other):
            few, many = sorted((one, other), key=lambda each: len(each.free))
            return self._of_vectors(few, many, count)
        is_along = self.tiles.element(one.number.stored)[1] == self.variables[0].name()
        return self._of_lines(one, other, count) if is_along else self._of_quads(one, other, count)

    def _is_column(self, factor: _Bytes) -> bool:
        return any(each.name() == self.tiles.first for each in factor.free)

    def _of_vectors(self, few: _Bytes, many: _Bytes, count: Any) -> hl.Expr:
        """Products of two factors of columns, of which `few` may be the same for several rows."""
        products = self._of_any(hl.cast(hl.Int(32), hl.cast(hl.Int(16), many.number.stored)) * few.number.integer)
        if many.number.zero is _NO_ZERO:
            return products
        zero = many.number.zero
        return products + hl.cast(hl.Int(32), self._more_of_columns(self.tiles.sums[-1], few, zero, count * few.zero))

    def _more_of_columns(self, found: Sum, part: _Bytes, factor: Any, plus: Any) -> hl.Expr:
        """A factor times the sums of these bytes, plus a number, modulo 2 ** 32."""
        value = hl.cast(hl.UInt(32), part.at(*self.axes))
        found.columns = _define("columns", part.free, hl.u32(0), value)
        whole = _at(found.columns, *part.free) + hl.cast(hl.UInt(32), plus)
        found.more = _define("more", part.free, hl.cast(hl.UInt(32), factor) * whole)
        return _at(found.more, *part.free)

    def _of_quads(self, column: _Bytes, row: _Bytes, count: Any) -> hl.Expr:
        """Four bytes of a row, which all lanes share, times four bytes of each column."""
        x, quads, variables = self.axes[0], self.steps(_QUAD), _union(column.free, row.free)
        self.tiles.fits.append(x.extent() % _QUAD == 0)
        others, (q, k, lane) = [quads[n] for n in range(2, quads.dimensions())], map(hl.Var, ("q", "k", "lane"))
        given = column.at(x.min() + k * _QUAD + q, *self.variables[1:])
        packed = _define("packed", [q, *column.free, k, *self.variables[1:]], given)
        scalar = hl.cast(hl.UInt(32), row.at(x.min() + quads.y * _QUAD + quads.x, *others))
        vector = hl.cast(hl.UInt(32), _at(packed, quads.x, *column.free, quads.y, *others))
        found = Sum(_define("sums", variables, hl.u32(0), vector * scalar), quads, packed)
        found.aligned = self.tiles.element(row.number.stored)[0]
        self.tiles.sums.append(found)
        value = _at(found.func, *variables)
        if row.has_zero:
            value = value + self._more_of_columns(found, column, row.zero, count * column.zero)
        if column.has_zero:
            found.ones = _define("ones", [q, lane], hl.u8(1))
            one = hl.cast(hl.UInt(32), _at(found.ones, quads.x, lane))
            found.rows = _define("rows", [lane, *row.free], hl.u32(0), one * scalar)
            value = value + hl.cast(hl.UInt(32), column.zero) * _at(found.rows, hl.i32(0), *row.free)
        return hl.cast(hl.Int(32), value)

    def _of_lines(self, column: _Bytes, row: _Bytes, count: Any) -> hl.Expr:
        """Vectors of two tensors along their lines, the lanes of whose products are added up at the end."""
        x, steps, variables = self.axes[0], self.steps(_LINE), _union(column.free, row.free)
        self.tiles.fits.append(x.extent() % _LINE == 0)
        others, lane = [steps[n] for n in range(2, steps.dimensions())], hl.Var("lane")
        lanes, nothing = _RDom([(0, _LANES)]), hl.cast(hl.UInt(32), x.extent() > _MOST)  # for 0, LLVM calls memset
        ones = _define("ones", [hl.Var("q"), lane], hl.u8(1))
        where = [x.min() + steps.y * _LINE + lane * _QUAD + steps.x, *others]
        of_column, of_row = (hl.cast(hl.UInt(32), each.at(*where)) for each in (column, row))
        one = hl.cast(hl.UInt(32), _at(ones, steps.x, lane))

        def line(free: Sequence[Any], product: Any) -> LineSums:
            part = _define("part", [lane, *free], nothing, product)
            return LineSums(_define("sums", free, nothing, _at(part, lanes.x, *free)), part, steps, lanes)

        found = line(variables, of_column * of_row), line(column.free, of_column * one), line(row.free, of_row * one)
        self.tiles.lines.append((ones, *found))
        zeros = [hl.cast(hl.UInt(32), each.zero) for each in (column, row)]
        value = _at(found[0].func, *variables) + zeros[1] * _at(found[1].func, *column.free)
        value = value + zeros[0] * _at(found[2].func, *row.free)
        return hl.cast(hl.Int(32), value + hl.cast(hl.UInt(32), count) * zeros[0] * zeros[1])


class _Bytes:
    """A factor, as unsigned bytes of a domain."""

    def __init__(self, domain: Domain, number: Fixed) -> None:
        self.number, self.free = number, domain.free(number.stored)
        signed = number.stored.type().is_int()
        stored = hl.reinterpret(hl.UInt(8), number.stored) ^ hl.u8(128) if signed else number.stored
        self.zero = number.zero - 128 if signed else number.zero
        self.has_zero = signed or number.zero is not _NO_ZERO
        self.func = _define("bytes", [*self.free, *domain.variables], stored)

    def at(self, *where: Any) -> hl.Expr:
        """The byte at a place of the domain."""
        return _at(self.func, *self.free, *where)


def _define(name: str, variables: Sequence[Any], value: Any, plus: Any = None) -> Any:
    """A function, which may then add something over a domain."""
    func = hl.Func(name)
    func[tuple(variables)] = value
    if plus is not None:
        func[tuple(variables)] += plus
    return func


def _at(func: Any, *where: Any) -> hl.Expr:
    return hl.Expr(func[where])


def _union(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    return list({each.name(): each for each in (*a, *b)}.values())


@dataclass(frozen=True)
class _Loops:
    """The loops of an output in tiles: its columns and rows, and the loops in which sums are calculated."""

    func: Any
    column: Any
    row: Any
    outer: Any  # over columns; all others are inside of it
    tile: Any
    lanes: int  # of vectors of the output

    def inside(self, func: Any) -> list[Any]:
        """The variables of a function that are those of a tile."""
        names = [each.name() for each in func.args()]
        return [each for each in (self.column, self.row) if each.name() in names]

    def hold(self, func: Any) -> Any:
        """Calculate sums of a tile, or of a column before all its rows, in memory of a known size."""
        names = {each.name() for each in func.args()}
        at = self.outer if names == {self.column.name()} else self.tile
        return func.compute_at(self.func, at).store_in(hl.MemoryType.Stack)


def tile(output: Any, tiles: Tiles, vector: int, lanes: int) -> None:
    """Schedule the sums of an output: a tile of columns, which are vectors, and of rows."""
    func = output.func
    column, row, *rest = func.args()
    if not tiles.on_hvx:
        lanes = vector // tiles.sums[0].func.type().bytes()
    width, height = (lanes, 4) if tiles.on_hvx else (2 * lanes, 6)
    outer, inner, outer_row, inner_row = (hl.Var(each) for each in ("outer", "inner", "outer_row", "inner_row"))
    stage, tail = func, hl.TailStrategy.ShiftInwards
    if tiles.fits:
        stage = func.specialize(reduce(lambda a, b: a & b, tiles.fits))
        func.specialize_fail("sums do not fit in tiles")
    stage.split(column, outer, inner, width, tail).split(row, outer_row, inner_row, height, tail)
    stage.reorder(inner, inner_row, outer_row, *rest, outer).vectorize(inner, lanes).unroll(inner).unroll(inner_row)
    loops = _Loops(func, hl.Var(column.name()), hl.Var(row.name()), outer, outer_row, lanes)
    for lines in tiles.lines:
        _schedule_lines(loops, *lines)
    for each in tiles.sums:
        each.func.reorder_storage(*sorted(each.func.args(), key=lambda var: var.name() != column.name()))
        loops.hold(each.func)
        axes = [each.domain[n] for n in range(each.domain.dimensions())]
        if each.packed is None:
            _schedule_stage(loops, each.func, each.func.update(), axes, lanes)
        else:
            _schedule_quads(loops, each, axes)
        if each.packed is None and tiles.on_hvx:
            each.func.update().specialize(axes[0].extent() == _TAPS).unroll(axes[0])
        if each.columns is not None:
            loops.hold(each.more)
            loops.hold(each.columns)
            for part in (each.columns, each.columns.update(), each.more):
                part.vectorize(loops.column, lanes)


def _schedule_stage(loops: _Loops, func: Any, update: Any, axes: Sequence[Any], lanes: int) -> None:
    """Keep a tile in registers: its sums are the innermost loops, without a jump."""
    inside = loops.inside(func)
    func.reorder(*inside).vectorize(loops.column, lanes)
    update.reorder(*inside, *axes).vectorize(loops.column, lanes)
    for each in inside:
        func.unroll(each)
        update.unroll(each)


def _schedule_quads(loops: _Loops, each: Sum, axes: Sequence[Any]) -> None:
    """Pack the factor of columns in each pass, and add up the rows before each tile."""
    quad, *others = axes
    update = each.func.update()
    inside = loops.inside(each.func)
    each.func.reorder(*inside).vectorize(loops.column, _LANES)
    update.reorder(quad, *inside, *others).vectorize(loops.column, _LANES).atomic().vectorize(quad)
    for var in inside:
        each.func.unroll(var)
        update.unroll(var)
    q = each.packed.args()[0]
    each.packed.compute_at(each.func, others[0]).store_in(hl.MemoryType.Stack).bound_extent(q, _QUAD)
    each.packed.reorder(q, loops.column).unroll(q).vectorize(loops.column, loops.lanes)
    if each.rows is None:
        return
    lane, row = each.rows.args()[0], loops.inside(each.rows)
    loops.hold(each.rows).bound_extent(lane, _LANES)
    each.rows.update().reorder(quad, lane, *row, *others)
    for part in (each.rows, each.rows.update()):
        part.vectorize(lane, _LANES)
        for var in row:
            part.unroll(var)
    each.rows.update().atomic().vectorize(quad)
    _schedule_ones(loops, each.ones, loops.tile)


def _schedule_ones(loops: _Loops, ones: Any, at: Any) -> None:
    quad, lane = ones.args()
    ones.compute_at(loops.func, at).store_in(hl.MemoryType.Stack).bound_extent(quad, _QUAD)
    ones.vectorize(lane, _LANES).unroll(quad)


def _schedule_lines(loops: _Loops, ones: Any, *lines: LineSums) -> None:
    """Multiply vectors of 4 columns and 4 rows in each pass; then add up the lanes."""
    _schedule_ones(loops, ones, loops.outer)
    for each in lines:
        inside, some, update = loops.inside(each.func), hl.Var("some"), each.func.update()
        axes = [each.steps[n] for n in range(each.steps.dimensions())]
        loops.hold(each.func)
        if inside[0].name() == loops.column.name():
            each.func.vectorize(loops.column, _LANES)
            update.split(loops.column, loops.column, some, 4)
            update.reorder(each.lanes.x, some, *inside[1:], loops.column)
            each.part.compute_at(each.func, loops.column)
        else:
            some = inside[0]
            update.reorder(each.lanes.x, some)
            each.part.compute_at(loops.func, loops.tile)
        update.atomic().vectorize(each.lanes.x)
        for var in (some, *inside[1:]):
            update.unroll(var)
        lane = each.part.args()[0]
        each.part.store_in(hl.MemoryType.Stack).bound_extent(lane, _LANES)
        each.part.update().reorder(axes[0], lane, *inside, *axes[1:])
        for part in (each.part, each.part.update()):
            part.vectorize(lane, _LANES)
            for var in inside:
                part.unroll(var)
        each.part.update().atomic().vectorize(axes[0])
