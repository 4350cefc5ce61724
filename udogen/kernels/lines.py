"""Lines of tensors that are columns of sums: they are transposed, or, for few rows, multiplied along their length.

A level puts elements of several vectors into memory, one of each after another: instructions of HVX interleave them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import halide as hl

from udogen.kernels.scratch import own_variable, variables_of

LINE = 128  # bytes of a vector
LANES = LINE // 4  # words of a vector
IN_ANY_ORDER = "sums_in_any_order"  # the function of sums whose lanes are added
_FIRST = 8  # vectors that a first level takes
_SECOND = LANES // _FIRST  # those of a second level of words
_RDom = hl.RDom  # which is replaced while a function is called


def define(name: str, variables: Sequence[Any], value: Any, plus: Any = None) -> Any:
    """A function, which may then add something over a domain."""
    func = hl.Func(name)
    func[tuple(variables)] = value
    if plus is not None:
        func[tuple(variables)] += plus
    return func


def element_of(func: Any, *where: Any) -> hl.Expr:
    """An element of a function."""
    return hl.Expr(func[where])


def uses(indices: Sequence[Any], variable: Any) -> bool:
    """Whether a variable is in one of these indices."""
    return variable.name() in {axis.name() for axis in variables_of(indices)}


@dataclass
class Transposition:
    """As many lines as a vector has lanes, given as a function of index and line, in two levels."""

    element: Callable[[Any, Any], Any]
    near: Sequence[Any]  # other variables of what follows
    lanes: int = LANES
    words: Any = None
    levels: list[Any] = field(default_factory=list)
    lines: Any = None  # transposed elements, in one dimension

    def __post_init__(self) -> None:
        (e, j, half, k), near, lanes = map(own_variable, ("e", "j", "half", "k")), self.near, self.lanes
        many, last = self.many
        place = j + lanes * lanes // last * e
        self.words = define("words", [k, e, j, half, *near], self.element(k, half * lanes + j + lanes // many * e))
        value = element_of(self.words, j % lanes, e, j / lanes, half, *near)
        self.levels.append(define("level", [e, j, half, *near], value))
        value = element_of(self.levels[0], place % many, place / many, half, *near)
        self.levels.append(define("level", [e, j, half, *near], value))
        self.lines = define("lines", [j, half, *near], element_of(self.levels[1], j % last, j / last, half, *near))

    @property
    def many(self) -> tuple[int, int]:
        """Vectors that each level takes."""
        return _FIRST, self.lanes // _FIRST

    def schedule(self, consumer: Any, outer: Any, inner: Any) -> None:
        """Two passes over a block in two loops of a consumer, in memory after each; lines are in registers."""
        stack, first, (j, *_) = hl.MemoryType.Stack, self.levels[0], self.lines.args()
        for each, many, loop in zip(self.levels, self.many, (outer, inner), strict=True):
            e, lane, *_ = each.args()
            each.compute_at(consumer, loop).store_in(stack)
            each.bound(e, 0, many).reorder(e, lane).unroll(e).vectorize(lane, self.lanes)
        self.lines.compute_at(consumer, inner).store_in(stack).vectorize(j, self.lanes).unroll(j)
        k, e, *_ = self.words.args()
        self.words.compute_at(first, first.args()[1]).store_in(stack).vectorize(k, self.lanes).unroll(e)


@dataclass
class TransposedColumns:
    """Elements that lie along lines, each line of which is a column: square blocks of them are transposed.

    The last block ends with the lines, so that its first elements may be in the block before it, too.
    """

    along: Any
    line: Any
    last: Any  # of the lines
    variables: Sequence[Any]  # in place of `along`: in a block, and its number
    places: Sequence[Any]  # of an element: in its block, and its number
    value: Any
    words: Transposition
    is_long: Any  # whether a line has a block; elements of others are gathered

    @classmethod
    def of(cls, tensor: Any, at: Sequence[Any], free: Sequence[Any]) -> TransposedColumns:
        """The elements of a tensor at these indices, which have these variables."""
        (along, line, *others), (each, block) = at, map(own_variable, ("each", "block"))
        rest = [axis for axis in free if axis.name() not in (along.name(), line.name())]
        buffer, length = tensor.buffer, tensor.extent(0)
        lanes, last = 8 * LINE // buffer.type().bits(), buffer.dim(1).max()

        def start(block: Any) -> hl.Expr:
            return hl.min(block * lanes, length - lanes)

        def element(k: Any, n: Any) -> Any:
            where = (k, hl.min(n, last), *others)
            return buffer[where]

        words = Transposition(lambda k, n: element(start(block) + k, n), [*rest, block], lanes)
        at, is_long = (each * lanes + line % lanes, line / lanes, *rest, block), length >= lanes
        gathered = element(hl.clamp(start(block) + each, 0, length - 1), line)
        value = hl.select(is_long, element_of(words.lines, *at), gathered)
        places = [hl.unsafe_promise_clamped(along - start(along / lanes), 0, lanes - 1), along / lanes]
        return cls(along, line, last, [each, block], places, value, words, is_long)

    def schedule(self, func: Any) -> None:
        """Calculate the elements in blocks."""
        (over, lane), lanes, many = map(own_variable, ("over", "lane")), self.words.lanes, self.words.many[-1]
        line, (each, block) = hl.Var(self.line.name()), self.variables
        func.align_bounds(line, lanes).bound(each, 0, lanes)
        for stage, unrolled in ((func.specialize(self.is_long), 2 * many), (func, 1)):
            stage.split(line, over, lane, lanes).reorder(lane, each, over, block).vectorize(lane).unroll(each, unrolled)
        self.words.schedule(func, over, each)


@dataclass
class LineSums:
    """Sums of products along lines of columns, each of which is the sum of the lanes of a vector.

    A level of eight such vectors makes eight others, and these are added; then one of four makes 32 sums of these.
    """

    products: Any  # in all lanes, of a line
    steps: Any  # after the first one
    width: int  # lanes of products
    line: Any
    levels: Sequence[Any]  # two, and the sums of the first one
    func: Any

    @classmethod
    def of(cls, term: Any, axis: Any, columns: TransposedColumns, width: int) -> LineSums:
        """The sums of terms, a function whose first variable is along the lines, over an axis of a domain."""
        each, lane, group, block = map(own_variable, ("each", "lane", "group", "block"))
        free, line = term.args()[1:], hl.Var(columns.line.name())
        rest, steps = [var for var in free if var.name() != line.name()], _RDom([(1, axis.extent() / width - 1)])
        near, number = [group, block, *rest], block * LANES + group + _SECOND * each

        def product(step: Any) -> hl.Expr:
            at = [hl.min(number, columns.last) if axis.name() == line.name() else axis for axis in free]
            place, end = axis.min() + step * width + lane, axis.min() + axis.extent() - 1
            return element_of(term, hl.unsafe_promise_clamped(place, axis.min(), end), *at)

        products = define(IN_ANY_ORDER, [lane, each, *near], product(0), product(steps.x))
        parts = [element_of(products, lane + n, each, *near) for n in range(0, width, LANES)]
        first = define("level", [each, lane, *near], sum(parts[1:], parts[0]))
        added = define("added", [lane, *near], _sum_of(first, _FIRST, lane, near))
        second = define("level", [each, lane, *near[1:]], element_of(added, lane, each, *near[1:]))
        func = define("sums", [line, *rest], _sum_of(second, _SECOND, line % LANES, [line / LANES, *rest]))
        return cls(products, steps, width, line, (first, second, added), func)

    def schedule(self, consumer: Any, loop: Any, most: int) -> None:
        """Calculate the sums of so many columns at most, in a loop of a consumer."""
        (over, inner), (first, second, added), func = map(own_variable, ("over", "inner")), self.levels, self.func
        func.compute_at(consumer, loop).align_bounds(self.line, LANES).bound_storage(self.line, most + LANES)
        func.split(self.line, over, inner, LANES).vectorize(inner)
        (lane, group, *_), stack = added.args(), hl.MemoryType.Stack
        for each in (second, added):
            each.compute_at(func, over)
        for each in (first, self.products):
            each.compute_at(added, group)
        for each in (func, *self.levels, self.products):
            each.store_in(stack)
        added.bound(group, 0, _SECOND).vectorize(lane, LANES)
        for level, many in ((first, _FIRST), (second, _SECOND)):
            each, lane, *_ = level.args()
            level.bound(each, 0, many).bound(lane, 0, LANES).reorder(each, lane).unroll(each).vectorize(lane, LANES)
        lane, each, *_ = self.products.args()
        self.products.bound(lane, 0, self.width).update().reorder(lane, each, self.steps.x)
        for stage in (self.products, self.products.update()):
            stage.vectorize(lane, self.width).unroll(each)


def _sum_of(level: Any, many: int, lane: Any, near: Sequence[Any]) -> Any:
    """The sum of as many vectors as a level was made of, in a tree."""
    terms = [element_of(level, (n * LANES + lane) % many, (n * LANES + lane) / many, *near) for n in range(many)]
    while len(terms) > 1:
        terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
    return terms[0]
