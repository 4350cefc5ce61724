"""Memory of a kernel: tensors that are no inputs or outputs of the op, and values that are carried from step to step.

Their elements are calculated in a loop of the output that uses them: in the innermost one around which all loops are
over variables that both have, so that nothing is calculated twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import halide as hl

from udogen.kernels.fixed import Fixed, NotFixedError, as_expr

if TYPE_CHECKING:
    from udogen.kernels.algorithm import RowLayout

UNDEFINED = re.compile(r'Undefined variable "([^"]+)"')
_RDom = hl.RDom  # which is replaced while a function is called
places: list[RowLayout] = []  # of the function that is being called


def own_variable(name: str) -> Any:
    """A variable of a schedule, whose name no variable of a kernel has."""
    return hl.Var(f"{name}_of_schedule")


class ScratchTensor:
    """Elements in memory of the kernel, with any indices: `scores[t, s] = …` before `scores[t, s]` is used."""

    __iter__ = None

    def __init__(self, func: Any, place: RowLayout) -> None:
        self.func, self._place = func, place
        self._number: Fixed | None = None  # what was written, in fixed point
        self._written: list[tuple[Any, ...]] = []  # the indices of each definition
        self._across: set[str] = set()  # variables at which another element than theirs is read

    @property
    def is_inlined(self) -> bool:
        """Whether elements are calculated where they are used: those of rows in fixed point, or in a GPU's groups."""
        place = self._place
        return bool(place.sizes) and len(self._written) == 1 and (place.fixed or place.machine.gpu)

    def _at(self, indices: Any) -> tuple[Any, ...]:
        given, place = indices if isinstance(indices, tuple) else (indices,), self._place
        if not place.sizes:
            return given
        return (*given, place.row) if place.last else (place.inner, *given, place.row)

    def __setitem__(self, indices: Any, value: Any) -> None:
        at = self._at(indices)
        if self._number is not None or (isinstance(value, Fixed) and self.func.defined()):
            raise NotFixedError("memory is written twice")
        if isinstance(value, Fixed):
            self._number, value = value, value.integer
        self.func[at] = hl.f32(value) if isinstance(value, float) else value
        self._written.append(at)
        if self._place.tiles:
            self._place.tiles.write(self)

    def __getitem__(self, indices: Any) -> hl.Expr:
        if not self.func.defined():
            raise TypeError("memory is read, and nothing was written to it yet")
        at = self._at(indices)
        self._across |= {
            axis.name() for axis, index in zip(self.func.args(), at, strict=True) if str(index) != axis.name()
        }
        if self._place.tiles:
            self._place.tiles.read_scratch(self, at[0])
        value, number = hl.Expr(self.func[at]), self._number
        return value if number is None else Fixed(value, number.scale, number.bound, at_most_zero=number.at_most_zero)

    @property
    def shared(self) -> set[str]:
        """The variables of loops that it may share with an output: each pass of these needs elements of its own."""
        return {axis.name() for axis in self.func.args()} - self._across

    def definitions(self, _first: Any) -> Iterator[tuple[Any, list[str]]]:
        """Each definition, and its variables; none if the first index is not the first variable."""
        own = [axis.name() for axis in self.func.args()]
        for n, at in enumerate(self._written):
            names = [index.name() for index in at if isinstance(index, hl.Var) and index.name() in own]
            yield (self.func.update(n - 1) if n else self.func), names if names[:1] == own[:1] else []


class Steps:
    """What there is before each step of a scan."""

    __iter__ = None
    is_inlined = False

    def __init__(self, func: Any, free: Sequence[Any], count: int) -> None:
        self.func, self._free, self._count = func, free, count

    def __getitem__(self, step: Any) -> Any:
        at = (*self._free, step)
        found = self.func[at]
        return tuple(hl.Expr(found[n]) for n in range(self._count)) if self._count else hl.Expr(found)

    @property
    def shared(self) -> set[str]:
        """The variables of loops that it may share with an output."""
        return {axis.name() for axis in self._free}

    def definitions(self, first: Any) -> Iterator[tuple[Any, list[str]]]:
        """The start and the step, and their variables, the first one of an output first."""
        own = sorted((axis.name() for axis in self._free), key=lambda name: name != first.name())
        step = self.func.args()[-1]
        if own:
            self.func.reorder_storage(*map(hl.Var, own), step)
        yield self.func, [*own, step.name()]
        yield self.func.update(0), own


def scratch(name: str = "scratch") -> ScratchTensor:
    """Memory for elements that are calculated once, before the elements of the output that use them."""
    place = _place("scratch")
    made = ScratchTensor(hl.Func(name), place)
    place.scratch.append(made)
    return made


def scan(over: hl.RDom, start: Any, step: Callable[[Any], Any]) -> Steps:
    """A number, or a tuple of numbers, that each step of a domain makes of the one before: `step(before)`.

    `scan(…)[t]` is what there is before step t, `start` before the first one, and `scan(…)[t + 1]` after it.
    """
    place = _place("scan")
    if not isinstance(over, _RDom) or over.dimensions() != 1:
        raise TypeError("a scan goes along one axis: scan(hl.RDom([(0, x.extent(1))]), start, step)")
    starts = [hl.f32(each) if isinstance(each, float) else as_expr(each) for each in _numbers(start)]
    unknown = [hl.Expr(hl.Param(each.type(), "before")) for each in starts]
    count = len(starts) if isinstance(start, tuple) else 0
    free, func = variables_of([*starts, *_after(step, unknown if count else unknown[0], starts)]), hl.Func("scan")
    first, following = (*free, hl.Var()), (*free, over.x + 1)
    func[first] = hl.Tuple(starts) if count else starts[0]
    made = Steps(func, free, count)
    values = _after(step, made[over.x], starts)
    func[following] = hl.Tuple(values) if count else values[0]
    place.scratch.append(made)
    return made


def _numbers(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _after(step: Callable[[Any], Any], before: Any, starts: Sequence[Any]) -> list[Any]:
    """What a step makes, in the types of the start."""
    values = _numbers(step(tuple(before) if isinstance(before, list) else before))
    if any(isinstance(value, Fixed) for value in values):
        raise NotFixedError("a scan calculates in floats")
    if len(values) != len(starts):
        raise TypeError(f"a step makes {len(values)} numbers, and its start has {len(starts)}")
    return [hl.cast(each.type(), value) for each, value in zip(starts, values, strict=True)]


def _place(function: str) -> RowLayout:
    if not places:
        raise TypeError(f"memory belongs to a kernel: call {function}() in its function")
    return places[-1]


def variables_of(values: Sequence[Any]) -> list[Any]:
    """The variables of expressions."""
    found: list[Any] = []
    while True:
        probe = hl.Func("probe")
        probe[tuple(found)] = hl.f32(0.0)
        try:
            for value in values:
                probe[tuple(found)] += hl.cast(hl.Float(32), value)
        except hl.HalideError as fault:
            missing = UNDEFINED.search(str(fault))
            if not missing:
                raise
            found.append(hl.Var(missing[1]))
        else:
            return found


def loops(output: Any, scratches: Sequence[ScratchTensor | Steps]) -> list[Any]:
    """The loops of an output, the outermost first: those of variables that memory has, too, are outside."""
    order = list(reversed(output.args()))
    return sorted(order, key=lambda axis: -sum(axis.name() in each.shared for each in scratches))


def place_scratch(each: ScratchTensor | Steps, output: Any, order: Sequence[Any]) -> None:
    """Calculate memory in the loops that it shares with an output; it is allocated before all loops."""
    level = None
    for axis in order:
        if axis.name() not in each.shared:
            break
        level = axis
    if level is None:
        each.func.compute_root()
    else:
        each.func.compute_at(output, level).hoist_storage_root()
