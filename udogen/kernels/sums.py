"""Sums over domains in register tiles: each pass of an inner loop adds products to all sums of a tile.

A kernel's function is called with variables in place of its domains, so that a sum can be defined over any domain.
Bytes on HVX: `vrmpy` multiplies four bytes of each lane.  With zero points, the sum of (a + p) * (b + q) is that of
a * b, and q times the sum of a, and p times the sum of b, and p * q for each element.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import halide as hl

from udogen.kernels.fixed import MOST_BYTES, Fixed, count_of, size_of, wide_byte
from udogen.kernels.lines import LANES, LINE, LineSums, TransposedColumns, Transposition, define, element_of, uses
from udogen.kernels.scratch import UNDEFINED, ScratchTensor, own_variable, variables_of

_RDom = hl.RDom  # which is replaced while a function is called
_AXES = "xyzw"
_NO_ZERO = hl.i32(0)  # of integers
_TAPS = 3  # of a window, whose loop is unrolled: rows of a tile share what they load
_QUAD = 4  # bytes that HVX multiplies and adds into 32 bits
_MOST_UNROLLED = 64  # elements of a domain with such quads, whose loop is unrolled
_BLOCK = 64  # columns that are transposed before they are multiplied by all rows of a tile
_ROWS = 32  # of such a tile
_SOME = 8  # rows whose sums of a block are in registers
_FEW = 6  # rows of a tile; fewer are calculated one by one
_MOST = 1 << 30  # elements of a tensor: more do not fit in memory


_CLAMPED = re.compile(r"\b(?:min|max|select)\(")


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
    window: tuple[Any, Any] | None = None  # sums of a window's lines, which rows share, and their domain
    of: Sum | None = None  # the sum whose terms these are, each of which is calculated in its loop
    rest: Any = None  # the domain of the last elements, if the first axis of the other one is unrolled
    few: LineSums | None = None  # the same sums along lines, for few rows
    quads: bool = False  # the first axis of the domain has four elements, which an instruction of HVX may multiply


@dataclass
class RowSums:
    """Sums of the bytes of rows: the function of all, that of each lane of a vector, and their domains."""

    func: Any
    part: Any
    steps: Any
    lanes: Any
    ones: Any


@dataclass
class Lines:
    """Sums of an output along lines: a block of columns is transposed, then multiplied by all rows of a tile."""

    blocks: Any  # the domain of the blocks
    func: Any = None
    quads: Any = None  # the domain of a block
    words: Any = None  # four bytes of a column, transposed
    packed: Any = None  # their bytes
    part: Any = None  # of sums, from one block
    columns: Any = None  # sums of the factor of columns
    more: Any = None  # these times the other factor's zero point
    row: RowSums | None = None
    aligned: Any = None  # the tensor of the factor of rows, which is loaded by four bytes

    def transpose(self, word: Callable[[Any, Any], Any], near: Sequence[Any]) -> None:
        """Transpose words of columns, and take their bytes apart."""
        self.words, (byte, half) = Transposition(word, near), map(own_variable, ("byte", "half"))
        value = hl.extract_bits(hl.UInt(8), element_of(self.words.lines, byte / _QUAD, half, *near), byte % _QUAD * 8)
        self.packed = define("packed", [byte, half, *near], value)


@dataclass
class Columns:
    """What columns share with no row; it may lie in memory, in the order of its use."""

    func: Any
    inner: Sequence[str]  # the names of a domain's variables
    others: Sequence[str]
    in_lines: bool  # columns are beside each other already
    transposed: TransposedColumns | None = None


@dataclass
class RowReduction:
    """A value of each row over a domain: the function of all, and that of each lane of a vector."""

    func: Any
    part: Any
    steps: Any
    lane: Any


@dataclass
class ScratchTile:
    """What one definition of memory has in tiles, and the length of its first axis."""

    tensor: ScratchTensor
    sums: list[Sum]
    columns: list[Columns]
    reductions: list[RowReduction]
    length: Any = None


@dataclass
class Tiles:
    """The sums of the output that is being defined."""

    of_bytes: bool  # on HVX: sums of bytes and of their products
    names: Sequence[str] = ("", "")  # the variables of the output: its columns, rows, and others
    lanes: int = 4  # of a vector of floats, or of half floats on HVX
    steps: int = 1  # of a sum in a loop: HVX converts qfloat after the last one
    halves: bool = False  # zig compiles vectors of half floats
    sums: list[Sum] = field(default_factory=list)
    lines: list[Lines] = field(default_factory=list)
    last: Sequence[Any] = ()  # indices of the columns and rows of the output
    fits: list[Any] = field(default_factory=list)  # conditions, without which the op needs its other function
    elements: list[tuple[Any, Sequence[Any], Any]] = field(default_factory=list)  # that were read, with indices
    columns: list[Columns] = field(default_factory=list)
    reductions: list[RowReduction] = field(default_factory=list)
    scratch: list[ScratchTile] = field(default_factory=list)
    lengths: dict[str, Any] = field(default_factory=dict)  # of the axes of domains, by the names of their variables
    as_stored: Any = field(default_factory=lambda: own_variable("as_stored"))  # 1 where lines are not transposed
    rows: Any = None  # of the output

    def read(self, tensor: Any, at: Sequence[Any], value: Any) -> Any:
        """An element that is read, which may lie in memory if columns share it with no row."""
        self.elements.append((tensor, at, value))
        if self.of_bytes:
            return value
        in_lines = str(at[0]) not in self.lengths
        is_transposed = not in_lines and self._is_transposed(at, value.type().bits())
        shared = self.of_columns(value, in_lines=in_lines, lines=(tensor, at) if is_transposed else None)
        return hl.select(self.as_stored == 1, value, shared) if is_transposed else shared

    def _is_transposed(self, at: Sequence[Any], bits: int) -> bool:
        """Whether columns are lines of a tensor, which vectors transpose."""
        is_plain = all(isinstance(index, hl.Var) for index in at[:2]) and str(at[1]) not in self.lengths
        return self.steps > 1 and is_plain and bits in ((16, 32) if self.halves else (32,))

    def chosen(self, of: Any, *, as_stored: bool) -> Any:
        """An expression with elements of lines as they are stored, or transposed."""
        free = variables_of([of])
        if self.as_stored.name() not in [axis.name() for axis in free]:
            return of
        at = [hl.i32(as_stored) if axis.name() == self.as_stored.name() else axis for axis in free]
        return element_of(define("chosen", free, of), *at)

    def of_columns(self, value: Any, *, in_lines: bool, lines: tuple[Any, Sequence[Any]] | None = None) -> Any:
        """A value that may lie in memory if columns share it with no row; `lines` are those of a tensor and indices."""
        free = variables_of([value])
        inner = [axis.name() for axis in free if axis.name() in self.lengths]
        others = [axis.name() for axis in free if axis.name() not in self.lengths]
        if not inner or not others or self.names[1] in others:
            return value
        transposed, places = TransposedColumns.of(*lines, free) if lines else None, list(free)
        if transposed:
            value, along = transposed.value, [axis.name() for axis in free].index(transposed.along.name())
            free[along : along + 1], places[along : along + 1] = transposed.variables, transposed.places
            inner = [axis.name() for axis in free if axis.name() not in others]
        found = Columns(define("columns", free, value), inner, others, in_lines, transposed)
        self.columns.append(found)
        return element_of(found.func, *places)

    def write(self, tensor: ScratchTensor) -> None:
        """A definition of memory, which has the sums since the last one."""
        if self.of_bytes:
            raise NotTiledError("memory")
        if len(self.scratch) and self.scratch[-1].tensor is tensor:
            raise NotTiledError("memory that is written twice")
        self.scratch.append(ScratchTile(tensor, self.sums, self.columns, self.reductions))
        self.sums, self.columns, self.reductions = [], [], []

    def read_scratch(self, tensor: ScratchTensor, first: Any) -> None:
        """An element of memory that is read: over a domain, its first axis is as long as that."""
        [written] = [each for each in self.scratch if each.tensor is tensor]
        if isinstance(first, hl.Var) and first.name() in self.lengths:
            written.length = self.lengths[first.name()]

    def can_be_made(self, variables: Sequence[Any]) -> bool:
        """Whether an output with these variables has sums, all of which vectors calculate."""
        names = {variable.name() for variable in variables}
        for each in self.scratch:
            own = {axis.name() for axis in each.tensor.func.args()}
            first = each.tensor.func.args()[0].name()
            if any(not {first} <= {axis.name() for axis in total.func.args()} <= own for total in each.sums):
                return False
        each_has = [{var.name() for var in total.func.args()} for total in self.sums if total.of is None]
        each_has += [{self.names[0], *(var.name() for var in line.func.args()[1:-1])} for line in self.lines]
        return bool(each_has) and all({self.names[0]} <= found <= names for found in each_has)

    def element(self, value: hl.Expr) -> tuple[Any, Sequence[Any]]:
        """The tensor of which this is an element, and its indices."""
        text = str(value)
        return next(((tensor, at) for tensor, at, element in self.elements if str(element) == text), (None, [""]))


class Domain:
    """Variables in place of a domain."""

    def __init__(self, tiles: Tiles, *given: Any) -> None:
        self.tiles, self.over = tiles, _RDom(*given)
        self.axes = [self.over[n] for n in range(self.over.dimensions())]
        self.variables = [hl.Var(f"{axis.name().replace('$', '_')}_of_domain") for axis in self.axes]
        tiles.lengths |= {name.name(): axis.extent() for name, axis in zip(self.variables, self.axes, strict=True)}

    def __getattr__(self, name: str) -> Any:
        if name not in _AXES[: len(self.axes)]:
            raise NotTiledError(name)
        return self.variables[_AXES.index(name)]

    def total(self, of: Any) -> Any:
        """The sum of something over the domain."""
        count = count_of(self.over)
        if isinstance(of, Fixed):
            if of.factors is None:
                if not of.has_bytes:
                    raise NotTiledError("a sum of no products")
                return of.of_window(self._of_window(of.stored), size_of(self.over))
            return of.summed(self._of_products(*of.factors, count), count, self.tiles.fits)
        if self.tiles.of_bytes:
            for *_, byte in self.tiles.elements:
                if byte.type().bits() == 8 and str(of) == str(hl.cast(of.type(), byte)):
                    return hl.cast(of.type(), self._of_window(byte))
            return hl.cast(of.type(), self._of_products(*self._factors(of), count))
        return self._of_any(of)

    def _of_window(self, byte: hl.Expr) -> hl.Expr:
        """The sum of bytes over a domain of a known size, in 16 bits: rows of a tile share the sums of lines."""
        (tensor, at), wide = self.tiles.element(byte), wide_byte(byte)
        if tensor is None or not 0 < size_of(self.over) <= MOST_BYTES:
            raise NotTiledError("a sum of no products")
        n, axis = self._shared_axis(at)
        if axis is None or len(self.axes) == 1:
            return self._of_any(wide)
        place, others = own_variable("place"), [each for each in range(len(self.axes)) if each != axis]
        free = self.free(byte)
        along, zero = [*(each for each in free if each.name() != self.tiles.names[1]), place], hl.cast(wide.type(), 0)
        byte = tensor.buffer[tuple(place if each == n else index for each, index in enumerate(at))]
        element = define("element", [*along, *map(self.variables.__getitem__, others)], wide_byte(byte))
        axes = [[self.axes[each] for each in some] for some in (others, [axis])]
        over = [_RDom([(each.min(), each.extent()) for each in some]) for some in axes]
        lines = define(
            "lines", along, zero, element_of(element, *along, *(over[0][each] for each in range(len(others))))
        )
        line = define("line", [*free, self.variables[axis]], element_of(lines, *along[:-1], at[n]))
        func = define("sums", free, zero, element_of(line, *free, over[1].x))
        self.tiles.sums.append(Sum(func, over[1], window=(lines, over[0])))
        return element_of(func, *free)

    def _shared_axis(self, at: Sequence[Any]) -> tuple[int, int | None]:
        """The index of an element that is a row plus a place along one axis of the domain, which no other has."""
        names = [{axis.name() for axis in variables_of([index])} for index in at]
        for n, found in enumerate(names):
            for axis, variable in enumerate(self.variables):
                is_alone = not any(found & other for other in names[:n] + names[n + 1 :])
                if found == {self.tiles.names[1], variable.name()} and is_alone and not _CLAMPED.search(str(at[n])):
                    return n, axis
        return 0, None

    def reduced(self, of: Any, both: Callable[[Any, Any], Any], start: Any) -> hl.Expr:
        """A value of each row over a domain of one axis, in vectors of partial results."""
        if self.tiles.of_bytes or len(self.axes) > 1 or start is None:
            raise NotTiledError("a reduction")
        of = self.tiles.chosen(of, as_stored=False)
        [axis], lane, lanes = self.axes, own_variable("lane"), self.tiles.lanes
        free = self.free(of)
        element = define("element", [*free, *self.variables], of)
        steps, rest, every = (_RDom([(0, size)]) for size in (axis.extent() / lanes, axis.extent() % lanes, lanes))
        part, func = define("part", [lane, *free], start), define("row", free, start)
        for where, index in ((lane, steps * lanes + lane), (rest.x, axis.extent() / lanes * lanes + rest)):
            value = element_of(element, *free, axis.min() + index)
            at = (where, *free)
            part[at] = both(part[at], value)
        func[tuple(free)] = both(element_of(func, *free), element_of(part, every.x, *free))
        self.tiles.reductions.append(RowReduction(func, part, steps, lane))
        return element_of(func, *free)

    def free(self, value: Any) -> list[Any]:
        """The variables of an expression that are none of the domain."""
        free_axes: list[Any] = []
        while True:
            try:
                define("probe", [*free_axes, *self.variables], value)
            except hl.HalideError as fault:
                missing = UNDEFINED.search(str(fault))
                if not missing:
                    raise NotTiledError(str(fault)) from fault
                free_axes.append(hl.Var(missing[1]))
            else:
                return free_axes

    def steps(self, size: int) -> Any:
        """The same domain in steps of so many bytes, of four bytes each; steps are its second axis."""
        x, *rest = self.axes
        return _RDom([(0, _QUAD), (0, x.extent() / size), *((axis.min(), axis.extent()) for axis in rest)])

    def _factors(self, of: Any) -> tuple[Fixed, Fixed]:
        """The factors of a product of bytes, each of which is converted to 32 bits first."""
        text, one = str(of), hl.f32(1.0)
        factors = [element for *_, element in self.tiles.elements if element.type().bits() == 8]
        for a in factors if of.type() == hl.Int(32) else ():
            for b in factors:
                if text == str(hl.cast(hl.Int(32), a) * hl.cast(hl.Int(32), b)):
                    return Fixed(a, one, 255, _NO_ZERO), Fixed(b, one, 255, _NO_ZERO)
        raise NotTiledError("a sum of no products of bytes")

    def _of_any(self, of: Any) -> hl.Expr:
        """Sums of any type, each lane of which is one of a column."""
        given, of = of, self.tiles.chosen(of, as_stored=False)
        free = self.free(of)
        if len(self.axes) == 1 and self.tiles.scratch and {axis.name() for axis in free} <= set(self.tiles.names[1:]):
            return self.reduced(of, lambda a, b: a + b, hl.cast(of.type(), 0))
        part = define("part", [*free, *self.variables], of)
        found, own = Sum(define("sums", free, hl.cast(of.type(), 0)), self.over), {x.name() for x in self.variables}
        terms = [each for each in self.tiles.sums if own & {axis.name() for axis in each.func.args()}]
        for each in terms:
            each.of = found
        for place in self._in_steps(found, of.type(), is_nested=bool(terms)) if self.tiles.steps > 1 else [self.axes]:
            found.func[tuple(free)] += element_of(part, *free, *place)
        self.tiles.sums.append(found)
        usual = element_of(found.func, *free)
        few = None if terms else self._of_few_rows(given, free)
        if not few:
            return usual
        found.few, is_whole = few, self.axes[0].extent() % few.width == 0
        return hl.select((self.tiles.rows < _FEW) & is_whole, element_of(few.func, *few.func.args()), usual)

    def _of_few_rows(self, of: Any, free: Sequence[Any]) -> LineSums | None:
        """The sums of products along lines of columns, if all that is read lies along lines of the domain."""
        along, columns = self.variables[0], [each.transposed for each in self.tiles.columns if each.transposed]
        found = [each for each in columns if each.along.name() == along.name()]
        is_inner = any(axis.name() in self.tiles.lengths for axis in free)
        if not found or is_inner or len(self.axes) > 1:
            return None
        read = [at for _, at, _ in self.tiles.elements if uses(at, along)]
        if not all(isinstance(at[0], hl.Var) and not uses(at[1:], along) for at in read):
            return None
        term = define("element", [along, *free], self.tiles.chosen(of, as_stored=True))
        return LineSums.of(term, self.axes[0], found[0], self.tiles.lanes)

    def _in_steps(self, found: Sum, kind: Any, *, is_nested: bool) -> list[list[Any]]:
        """Divide the domain of a sum into steps of several elements, and the rest; returns the places in both."""
        (x, *others), size = self.axes, self.tiles.steps
        if kind == hl.Int(32) and str(x.extent()) == str(hl.i32(_QUAD)):
            found.quads, found.aligned = True, self._tensor_of_rows()
        if found.quads or is_nested:
            return [self.axes]
        more = [(axis.min(), axis.extent()) for axis in others]
        found.domain = _RDom([(0, size), (0, x.extent() / size), *more])
        found.rest = _RDom([(0, x.extent() % size), *more])
        each, step, *after = (found.domain[n] for n in range(found.domain.dimensions()))
        last, *after_last = (found.rest[n] for n in range(found.rest.dimensions()))
        in_step, in_rest = step * size + each, x.extent() / size * size + last
        return [[x.min() + in_step, *after], [x.min() + in_rest, *after_last]]

    def _tensor_of_rows(self) -> Any:
        """The tensor of bytes along whose lines the domain goes, and no columns."""
        for tensor, at, byte in self.tiles.elements:
            names = {axis.name() for axis in variables_of([at[0]])}
            if byte.type().bits() == 8 and self.variables[0].name() in names and self.tiles.names[0] not in names:
                return tensor
        return None

    def _of_products(self, a: Fixed, b: Fixed, count: Any) -> hl.Expr:
        """Sums of products of bytes."""
        if not all(factor.zero is not None and factor.stored.type().bits() == 8 for factor in (a, b)):
            raise NotTiledError("a sum of no products of bytes")
        one, other = _Bytes(self, a), _Bytes(self, b)
        if not self._is_column(one):
            one, other = other, one
        if not self._is_column(one):
            raise NotTiledError("sums that vectors do not calculate")
        if self._is_column(other):
            few, many = sorted((one, other), key=lambda each: len(each.free))
            return self._of_vectors(few, many, count)
        is_along = str(self.tiles.element(one.number.stored)[1][0]) == self.variables[0].name()
        return self._of_lines(one, other, count) if is_along else self._of_quads(one, other, count)

    def _is_column(self, factor: _Bytes) -> bool:
        return any(axis.name() == self.tiles.names[0] for axis in factor.free)

    def _of_vectors(self, few: _Bytes, many: _Bytes, count: Any) -> hl.Expr:
        """Products of two factors of columns, of which `few` may be the same for several rows."""
        factors = [hl.cast(hl.Int(16), each) for each in (many.number.stored, few.number.integer)]
        factors[1] = self.tiles.of_columns(factors[1], in_lines=True)
        products = self._of_any(reduce(lambda a, b: a * b, (hl.cast(hl.Int(32), each) for each in factors)))
        if many.number.zero is _NO_ZERO:
            return products
        zero = many.number.zero
        return products + hl.cast(hl.Int(32), self._more_of_columns(self.tiles.sums[-1], few, zero, count * few.zero))

    def _more_of_columns(self, found: Sum, part: _Bytes, factor: Any, plus: Any) -> hl.Expr:
        """A factor times the sums of these bytes, plus a number, modulo 2 ** 32."""
        value = hl.cast(hl.UInt(32), part.at(*self.axes))
        found.columns = define("columns", part.free, hl.u32(0), value)
        whole = element_of(found.columns, *part.free) + hl.cast(hl.UInt(32), plus)
        found.more = define("more", part.free, hl.cast(hl.UInt(32), factor) * whole)
        return element_of(found.more, *part.free)

    def _of_quads(self, column: _Bytes, row: _Bytes, count: Any) -> hl.Expr:
        """Four bytes of a row, which all lanes share, times four bytes of each column."""
        x, quads, variables = self.axes[0], self.steps(_QUAD), _union(column.free, row.free)
        self.tiles.fits.append(x.extent() % _QUAD == 0)
        others, (q, k, lane) = [quads[n] for n in range(2, quads.dimensions())], map(own_variable, ("q", "k", "lane"))
        given = column.at(x.min() + k * _QUAD + q, *self.variables[1:])
        packed = define("packed", [q, *column.free, k, *self.variables[1:]], given)
        scalar = hl.cast(hl.UInt(32), row.at(x.min() + quads.y * _QUAD + quads.x, *others))
        vector = hl.cast(hl.UInt(32), element_of(packed, quads.x, *column.free, quads.y, *others))
        found = Sum(define("sums", variables, hl.u32(0), vector * scalar), quads, packed)
        found.aligned = self.tiles.element(row.number.stored)[0]
        self.tiles.sums.append(found)
        value = element_of(found.func, *variables)
        if row.has_zero:
            value = value + self._more_of_columns(found, column, row.zero, count * column.zero)
        if column.has_zero:
            found.ones = define("ones", [q, lane], hl.u8(1))
            one = hl.cast(hl.UInt(32), element_of(found.ones, quads.x, lane))
            found.rows = define("rows", [lane, *row.free], hl.u32(0), one * scalar)
            value = value + hl.cast(hl.UInt(32), column.zero) * element_of(found.rows, hl.i32(0), *row.free)
        return hl.cast(hl.Int(32), value)

    def _of_lines(self, column: _Bytes, row: _Bytes, count: Any) -> hl.Expr:
        """Two tensors along their lines: blocks of those of columns are transposed, four bytes at a time."""
        x, others, nothing = self.axes[0], self.variables[1:], hl.cast(hl.UInt(32), self.axes[0].extent() > _MOST)
        self.tiles.fits.append(x.extent() % LINE == 0)
        found = Lines(_RDom([(0, x.extent() / LINE), *((axis.min(), axis.extent()) for axis in self.axes[1:])]))
        found.quads = quads = _RDom([(0, _QUAD), (0, LANES)])
        n, group, block = (own_variable(each) for each in ("n", "group", "block"))
        first, second = (hl.Var(name) for name in self.tiles.names[:2])
        if any(each.name() == second.name() for each in column.free):
            raise NotTiledError("columns that depend on the row")
        last_column, last_row = self.tiles.last
        start = hl.max(hl.min(group * _BLOCK, last_column + 1 - _BLOCK), 0)
        row = row.within(second, hl.min(second, last_row))
        rows = [each for each in _union(row.free, column.free) if each.name() != first.name()]
        near = [group, *(each for each in column.free if each.name() != first.name()), block, *others]

        def word(k: Any, n: Any) -> Any:
            lines = column.within(first, hl.min(start + n, last_column))
            return hl.concat_bits([lines.at(x.min() + block * LINE + k * _QUAD + q, *others) for q in range(_QUAD)])

        found.transpose(word, near)
        byte = quads.y * LINE + n % LANES * _QUAD + quads.x
        packed = hl.cast(hl.UInt(32), element_of(found.packed, byte, n / LANES, *near))
        start = start_of_part = nothing  # for 0, LLVM calls memset
        if row.has_zero:
            found.columns = define("columns", [n, *near], nothing, packed)
            times = hl.cast(hl.UInt(32), row.zero) * element_of(found.columns, n, *near)
            found.more = define("more", [n, *near], times)
            start_of_part = element_of(found.more, n, *near)
        scalar = hl.cast(hl.UInt(32), row.at(x.min() + block * LINE + quads.y * _QUAD + quads.x, *others))
        found.part = define("part", [n, *rows, group, block, *others], start_of_part, packed * scalar)
        if column.has_zero:
            whole = self._of_row(found, row) + hl.cast(hl.UInt(32), count) * hl.cast(hl.UInt(32), row.zero)
            start = hl.cast(hl.UInt(32), column.zero) * whole
        blocks = [found.blocks[axis] for axis in range(found.blocks.dimensions())]
        found.func = define("sums", [n, *rows, group], start, element_of(found.part, n, *rows, group, *blocks))
        found.aligned = self.tiles.element(row.number.stored)[0]
        self.tiles.lines.append(found)
        place = first - hl.max(hl.min(first / _BLOCK * _BLOCK, last_column + 1 - _BLOCK), 0)
        place = hl.unsafe_promise_clamped(place, 0, _BLOCK - 1)
        return hl.cast(hl.Int(32), element_of(found.func, place, *rows, first / _BLOCK))

    def _of_row(self, found: Lines, row: _Bytes) -> hl.Expr:
        """The sum of the bytes of a row, whose lines are vectors."""
        x, steps, lanes, lane = self.axes[0], self.steps(LINE), _RDom([(0, LANES)]), own_variable("lane")
        nothing, others = hl.cast(hl.UInt(32), x.extent() > _MOST), [steps[n] for n in range(2, steps.dimensions())]
        ones = define("ones", [own_variable("q"), lane], hl.u8(1))
        byte = row.at(x.min() + steps.y * LINE + lane * _QUAD + steps.x, *others)
        product = hl.cast(hl.UInt(32), byte) * hl.cast(hl.UInt(32), element_of(ones, steps.x, lane))
        part = define("part", [lane, *row.free], nothing, product)
        func = define("rows", row.free, nothing, element_of(part, lanes.x, *row.free))
        found.row = RowSums(func, part, steps, lanes, ones)
        return element_of(func, *row.free)


class _Bytes:
    """A factor, as unsigned bytes of a domain."""

    def __init__(self, domain: Domain, number: Fixed) -> None:
        self.number, self.free = number, domain.free(number.stored)
        signed = number.stored.type().is_int()
        stored = hl.reinterpret(hl.UInt(8), number.stored) ^ hl.u8(128) if signed else number.stored
        self.zero = number.zero - 128 if signed else number.zero
        self.has_zero = signed or number.zero is not _NO_ZERO
        self.func = define("bytes", [*self.free, *domain.variables], stored)
        self.indices = list(self.free)

    def at(self, *where: Any) -> hl.Expr:
        """The byte at a place of the domain."""
        return element_of(self.func, *self.indices, *where)

    def within(self, variable: Any, limited: Any) -> _Bytes:
        """The same bytes with a limited index in place of a variable."""
        found = copy(self)
        found.indices = [limited if each.name() == variable.name() else each for each in self.free]
        return found


def _union(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    return list({variable.name(): variable for variable in (*a, *b)}.values())


@dataclass(frozen=True)
class _Loops:
    """The loops of an output in tiles: its columns and rows, and the loops in which sums are calculated."""

    func: Any
    column: Any
    row: Any
    outer: Any  # over columns; all others are inside of it
    tile: Any
    lanes: int  # of vectors of the output
    width: int  # columns of a tile

    def inside(self, func: Any) -> list[Any]:
        """The variables of a function that are those of a tile."""
        names = [axis.name() for axis in func.args()]
        return [variable for variable in (self.column, self.row) if variable.name() in names]

    def hold(self, func: Any) -> Any:
        """Calculate sums of a tile, or of a column before all its rows, in memory of a known size."""
        names = {axis.name() for axis in func.args()}
        at = self.outer if names == {self.column.name()} else self.tile
        return func.compute_at(self.func, at).store_in(hl.MemoryType.Stack)


def tile(output: Any, tiles: Tiles, vector: int, lanes: int) -> None:
    """Schedule the sums of an output: a tile of columns, which are vectors, and of rows."""
    func = stage = output.func
    if tiles.fits:
        stage = func.specialize(reduce(lambda a, b: a & b, tiles.fits))
        func.specialize_fail("sums do not fit in tiles")
    if tiles.lines:
        _tile_lines(output, tiles, stage)
        return
    if not tiles.of_bytes and not tiles.halves:
        lanes = vector // tiles.sums[0].func.type().bytes()
    loops, outer_row = _split(func, stage, tiles, lanes)
    rest = [(axis.name(), axis) for axis in reversed(func.args()[2:])]
    for columns in tiles.columns:
        if not (tiles.scratch or (tiles.steps > 1 and columns.in_lines)):
            _schedule_columns(columns, func, loops.column.name(), [loops.outer, *(axis for _, axis in rest)], lanes)
    for memory in tiles.scratch:
        _tile_scratch(memory, loops, [*rest, (loops.row.name(), outer_row)])
    _schedule_reductions(tiles.reductions, func, loops.tile, lanes)
    for total in tiles.sums:
        _schedule_sum(loops, total, of_bytes=tiles.of_bytes)


def _split(func: Any, stage: Any, tiles: Tiles, lanes: int) -> tuple[_Loops, Any]:
    """Split the loops of an output into those of tiles; rows of an output with fewer are calculated one by one."""
    column, row, *rest = func.args()
    outer, inner, outer_row, inner_row = (own_variable(name) for name in ("outer", "inner", "outer_row", "inner_row"))
    is_nested = any(total.of for total in tiles.sums)
    width, height = (lanes, 4) if tiles.of_bytes or is_nested else (lanes if tiles.halves else 2 * lanes, _FEW)
    order = [outer_row, *rest, outer] if not tiles.scratch else [outer, outer_row, *rest]
    few, tail = stage.specialize(tiles.rows < height), hl.TailStrategy.ShiftInwards
    for each, size in ((few, 1), (stage, height)):
        each.split(column, outer, inner, width, tail).split(row, outer_row, inner_row, size, tail)
        each.reorder(inner, inner_row, *order).vectorize(inner, lanes).unroll(inner).unroll(inner_row)
    return _Loops(func, hl.Var(column.name()), hl.Var(row.name()), outer, order[0], lanes, width), outer_row


def _schedule_sum(loops: _Loops, total: Sum, *, of_bytes: bool) -> None:
    total.func.reorder_storage(*sorted(total.func.args(), key=lambda var: var.name() != loops.column.name()))
    loops.hold(total.func)
    axes = [total.domain[n] for n in range(total.domain.dimensions())]
    if total.of is not None:
        total.func.compute_at(total.of.func, total.of.domain[0])
    if total.quads:
        _schedule_words(loops, total.func, total.domain, axes)
    elif total.packed is None:
        _schedule_stage(loops, total)
    else:
        _schedule_quads(loops, total, axes)
    if total.window is not None:
        _schedule_window(loops, total, axes)
    elif total.packed is None and of_bytes:
        total.func.update().specialize(axes[0].extent() == _TAPS).unroll(axes[0])
    if total.columns is not None:
        for part in (loops.hold(total.more), loops.hold(total.columns), total.columns.update()):
            part.vectorize(loops.column, loops.lanes)


def _schedule_stage(loops: _Loops, total: Sum) -> None:
    """Keep a tile in registers: its sums are the innermost loops, without a jump."""
    func, domains = total.func, [total.domain, *([total.rest] if total.rest else [])]
    inside, stages = loops.inside(func), [func.update(n) for n in range(len(domains))]
    func.reorder(*inside)
    for stage, domain in zip(stages, domains, strict=True):
        stage.reorder(*inside, *(domain[n] for n in range(domain.dimensions())))
    for stage in (func, *stages):
        stage.vectorize(loops.column, loops.lanes)
        for variable in inside:
            stage.unroll(variable)
    if total.rest:
        stages[0].unroll(total.domain[0])
    if total.few:
        total.few.schedule(loops.func, loops.tile, loops.width)


def _schedule_words(loops: _Loops, func: Any, domain: Any, axes: Sequence[Any]) -> None:
    """Multiply four numbers of the domain with four of each column, which are beside each other."""
    (quad, *others), inside = axes, loops.inside(func)
    func.reorder(*inside).vectorize(loops.column, loops.lanes)
    update = func.update().reorder(quad, *inside, *others).vectorize(loops.column, loops.lanes)
    update.atomic().vectorize(quad)
    for variable in inside:
        func.unroll(variable)
        update.unroll(variable)
    for axis in others if size_of(domain) in range(1, _MOST_UNROLLED + 1) else ():
        update.unroll(axis)


def _schedule_window(loops: _Loops, total: Sum, axes: Sequence[Any]) -> None:
    """Keep the sums of lines in registers, too."""
    assert total.window
    lines, domain = total.window
    place, over = lines.args()[-1], [domain[n] for n in range(domain.dimensions())]
    loops.hold(lines).reorder_storage(loops.column, place)
    lines.vectorize(loops.column, loops.lanes).unroll(place)
    lines.update().reorder(loops.column, *over, place).vectorize(loops.column, loops.lanes)
    for stage, each in [(total.func.update(), axes[0]), *((lines.update(), each) for each in (place, *over))]:
        stage.unroll(each)


def _schedule_columns(columns: Columns, output: Any, column: str, order: Sequence[Any], lanes: int) -> None:
    """Put the elements of columns in the order of their use, once for all rows, in one of these loops."""
    loops, others = [axis.name() for axis in order[1:]], [name for name in columns.others if name != column]
    inside = [name for name in loops if name in others]
    if len(others) == len(columns.others) or loops[: len(inside)] != inside:
        return
    columns.func.compute_at(output, order[len(inside)]).hoist_storage_root()
    columns.func.reorder_storage(*map(hl.Var, (column, *columns.inner, *others)))
    if columns.transposed:
        columns.transposed.schedule(columns.func)
    else:
        columns.func.vectorize(hl.Var(column), lanes, hl.TailStrategy.GuardWithIf)


def _tile_scratch(memory: ScratchTile, loops: _Loops, order: Sequence[tuple[str, Any]]) -> None:
    """Calculate memory for the rows of a tile, in tiles of its own; `order` has the loops from the outermost."""
    func, lanes = memory.tensor.func, loops.lanes
    level = None
    for name, axis in order:
        if name not in memory.tensor.shared:
            break
        level = axis
    first, (outer, inner) = func.args()[0], (own_variable(name) for name in ("outer", "inner"))
    if level is None:
        raise NotTiledError("memory that the output shares no loop with")
    func.compute_at(loops.func, level).hoist_storage_root()
    if first.name() == loops.row.name() or memory.length is None:
        _schedule_reductions(memory.reductions, func, first, lanes)
        if not (memory.reductions or memory.sums):
            func.vectorize(first, lanes, hl.TailStrategy.GuardWithIf)
        return
    func.split(first, outer, inner, loops.width, hl.TailStrategy.ShiftInwards)
    func.reorder(inner, loops.row, outer).vectorize(inner, lanes).unroll(inner).unroll(loops.row)
    own = replace(loops, func=func, column=hl.Var(first.name()), outer=outer, tile=outer)
    for total in memory.sums:
        total.func.reorder_storage(*sorted(total.func.args(), key=lambda axis: axis.name() != first.name()))
        own.hold(total.func)
        _schedule_stage(own, total)
    for columns in memory.columns:
        if not columns.in_lines:
            _schedule_columns(columns, loops.func, first.name(), [None, *(axis for _, axis in order[:-1])], lanes)


def _schedule_reductions(reductions: Sequence[RowReduction], consumer: Any, at: Any, lanes: int) -> None:
    """Calculate values of rows where they are used: partial results of vectors first."""
    for each in reductions:
        each.func.compute_at(consumer, at)
        each.part.compute_at(consumer, at).bound(each.lane, 0, lanes).store_in(hl.MemoryType.Stack)
        each.part.vectorize(each.lane, lanes)
        each.part.update(0).reorder(each.lane, each.steps.x).vectorize(each.lane, lanes)
        each.part.update(1).unscheduled()


def _schedule_quads(loops: _Loops, each: Sum, axes: Sequence[Any]) -> None:
    """Pack the factor of columns in each pass, and add up the rows before each tile."""
    quad, *others = axes
    update = each.func.update()
    inside = loops.inside(each.func)
    each.func.reorder(*inside).vectorize(loops.column, LANES)
    update.reorder(quad, *inside, *others).vectorize(loops.column, LANES).atomic().vectorize(quad)
    for var in inside:
        each.func.unroll(var)
        update.unroll(var)
    q = each.packed.args()[0]
    each.packed.compute_at(each.func, others[0]).store_in(hl.MemoryType.Stack).bound_extent(q, _QUAD)
    each.packed.reorder(q, loops.column).unroll(q).vectorize(loops.column, loops.lanes)
    if each.rows is None:
        return
    lane, row = each.rows.args()[0], loops.inside(each.rows)
    loops.hold(each.rows).bound_extent(lane, LANES)
    each.rows.update().reorder(quad, lane, *row, *others)
    for part in (each.rows, each.rows.update()):
        part.vectorize(lane, LANES)
        for var in row:
            part.unroll(var)
    each.rows.update().atomic().vectorize(quad)
    _schedule_ones(loops, each.ones, loops.tile)


def _schedule_ones(loops: _Loops, ones: Any, at: Any) -> None:
    quad, lane = ones.args()
    ones.compute_at(loops.func, at).store_in(hl.MemoryType.Stack).bound_extent(quad, _QUAD)
    ones.vectorize(lane, LANES).unroll(quad)


def _tile_lines(output: Any, tiles: Tiles, stage: Any) -> None:
    """Loops of sums along lines: rows are outside of columns, so that their own sums are calculated once."""
    func = output.func
    column, row, *rest = func.args()
    outer, inner, outer_row, inner_row = (own_variable(each) for each in ("outer", "inner", "outer_row", "inner_row"))
    stage.split(column, outer, inner, _BLOCK, hl.TailStrategy.GuardWithIf)
    stage.split(row, outer_row, inner_row, _ROWS, hl.TailStrategy.GuardWithIf)
    stage.reorder(inner, inner_row, outer, outer_row, *rest).vectorize(inner)
    stage.partition(outer, hl.Partition.Never).partition(outer_row, hl.Partition.Never)
    for lines in tiles.lines:
        _schedule_lines(func, lines, outer, outer_row, hl.Var(row.name()))


def _schedule_lines(output: Any, lines: Lines, outer: Any, outer_row: Any, row: Any) -> None:
    stack = hl.MemoryType.Stack
    func, update, part, some = lines.func, lines.func.update(), lines.part, own_variable("some")
    n = func.args()[0]
    blocks = [lines.blocks[axis] for axis in range(lines.blocks.dimensions())]
    func.compute_at(output, outer).store_in(stack).bound(n, 0, _BLOCK).vectorize(n, LANES)
    func.bound_storage(row, _ROWS).bound_storage(func.args()[-1], 1)
    update.split(row, row, some, _SOME, hl.TailStrategy.RoundUp).reorder(n, some, row, *blocks)
    update.vectorize(n, LANES).unroll(n).unroll(some)
    part.compute_at(func, row).store_in(stack).bound(n, 0, _BLOCK)
    quad, k = lines.quads[0], lines.quads[1]
    part.update().reorder(quad, n, row, k)
    for each in (part, part.update()):
        each.vectorize(n, LANES).unroll(n).unroll(row)
    part.update().atomic().vectorize(quad)
    if lines.columns is not None:
        lines.columns.compute_at(func, blocks[0]).store_in(stack).bound(n, 0, _BLOCK)
        lines.columns.update().reorder(quad, n, k)
        lines.more.compute_at(func, blocks[0]).store_in(stack).bound(n, 0, _BLOCK)
        for each in (lines.columns, lines.columns.update(), lines.more):
            each.vectorize(n, LANES).unroll(n)
        lines.columns.update().atomic().vectorize(quad)
    _schedule_transposition(func, lines, blocks[0])
    if lines.row is not None:
        _schedule_row(output, lines.row, outer_row)


def _schedule_transposition(sums: Any, lines: Lines, at: Any) -> None:
    stack, (byte, half, *_), some = hl.MemoryType.Stack, lines.packed.args(), own_variable("some")
    lines.packed.compute_at(sums, at).store_in(stack).bound(byte, 0, LINE * LANES).bound(half, 0, _BLOCK // LANES)
    lines.packed.split(byte, byte, some, lines.words.many[-1] * LINE).vectorize(some, LINE).unroll(some)
    lines.words.schedule(lines.packed, half, byte)


def _schedule_row(output: Any, row: RowSums, at: Any) -> None:
    """Sums of rows, once for all columns."""
    stack = hl.MemoryType.Stack
    m = row.func.args()[0]
    row.func.compute_at(output, at).store_in(stack)
    row.func.update().reorder(row.lanes.x, m).atomic().vectorize(row.lanes.x)
    lane = row.part.args()[0]
    row.part.compute_at(row.func, m).store_in(stack).bound(lane, 0, LANES)
    axes = [row.steps[n] for n in range(row.steps.dimensions())]
    row.part.update().reorder(axes[0], lane, *axes[1:])
    for each in (row.part, row.part.update()):
        each.vectorize(lane)
    row.part.update().atomic().vectorize(axes[0])
    quad, lane = row.ones.args()
    row.ones.compute_at(output, at).store_in(stack).bound(quad, 0, _QUAD).bound(lane, 0, LANES)
    row.ones.vectorize(lane).unroll(quad)
