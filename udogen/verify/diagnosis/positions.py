"""Correct numbers in wrong places: layouts, axes, shifts, broadcasts, exchanged inputs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.verify.cases import Quants
from udogen.verify.diagnosis.wrong_output import Clue, WrongOutput, clue

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

# --- layouts -----------------------------------------------------------------------------------------

# Orders of axes that kernels and converters mix up, by rank, with their usual names.
_TRANSPOSED: dict[int, dict[tuple[int, ...], str]] = {2: {(1, 0): "transposed"}}
_ORDERS: dict[int, dict[tuple[int, ...], str]] = {
    3: {(2, 0, 1): "CHW instead of HWC", (1, 2, 0): "HWC instead of CHW", (0, 2, 1): "NCW instead of NWC"},
    4: {
        (0, 3, 1, 2): "NCHW instead of NHWC",
        (0, 2, 3, 1): "NHWC instead of NCHW",
        (0, 2, 1, 3): "NWHC instead of NHWC",
        (0, 1, 3, 2): "with the last two axes exchanged",
    },
    5: {(0, 4, 1, 2, 3): "NCDHW instead of NDHWC", (0, 2, 3, 4, 1): "NDHWC instead of NCDHW"},
}


def _as_written(array: Array, order: tuple[int, ...]) -> Array:
    """The contents of memory after an array is written with its axes in another order."""
    return np.asarray(np.ascontiguousarray(array.transpose(order)).reshape(array.shape))


def _as_read(array: Array, order: tuple[int, ...]) -> Array:
    """The array that a kernel reads if it assumes another order of axes."""
    there = tuple(array.shape[axis] for axis in order)
    return np.asarray(np.ascontiguousarray(array).reshape(there).transpose([*np.argsort(order)]))


def layout(output: WrongOutput) -> Iterator[Clue]:
    """Images or sequences whose axes are in another order: in inputs, the output, or both."""
    yield from _reordered(output, _ORDERS)


def transposed(output: WrongOutput) -> Iterator[Clue]:
    """Matrices whose rows and columns are exchanged."""
    yield from _reordered(output, _TRANSPOSED)


def _reordered(output: WrongOutput, known: dict[int, dict[tuple[int, ...], str]]) -> Iterator[Clue]:
    inputs = output.case.inputs
    for order, name in known.get(output.expected.ndim, {}).items():
        written = _as_written(output.expected, order)
        yield from _layout(output, "layout.output", written, order, name, output=output.name)
    for order, name in ((order, name) for orders in known.values() for order, name in orders.items()):
        fitting = [each for each, array in inputs.items() if array.ndim == len(order)]
        for group in ([fitting] if len(fitting) > 1 else []) + [[each] for each in fitting]:
            yield from _reordered_inputs(output, group, order, name)


def _reordered_inputs(output: WrongOutput, group: list[str], order: tuple[int, ...], name: str) -> Iterator[Clue]:
    """These inputs in another order, and possibly the output too."""
    predicted = output.predict(inputs={each: _as_read(output.case.inputs[each], order) for each in group})
    if predicted is None:
        return
    names = "the inputs are" if len(group) > 1 else f"the input `{group[0]}` is"
    found = [*_layout(output, "layout.inputs", predicted, order, name, inputs=names)]
    if not found and predicted.ndim == len(order):
        found += _layout(output, "layout.both", _as_written(predicted, order), order, name, inputs=names)
    yield from found


def _layout(
    wrong: WrongOutput, cause: str, predicted: Array, axes: tuple[int, ...], order: str, **names: Any
) -> Iterator[Clue]:
    because = f"with the axes in the order {', '.join(map(str, axes))}, "
    return wrong.clues_of(cause, predicted, because=because, order=order, **names)


# --- axes --------------------------------------------------------------------------------------------

_AXIS_WORDS = ("axis", "axes", "dim")


def is_axis(param: str) -> bool:
    """Whether a parameter names an axis."""
    return any(word in param.lower() for word in _AXIS_WORDS)


def axis(output: WrongOutput) -> Iterator[Clue]:
    """The op works along an axis other than the one in its parameter, or as if axes were exchanged."""
    yield from _axis_param(output)
    yield from _exchanged_axes(output)
    yield from _left_out(output)


def _axis_param(output: WrongOutput) -> Iterator[Clue]:
    case = output.case
    rank = max((array.ndim for array in case.inputs.values()), default=0)
    for name, value in {**output.defaults, **case.params}.items():
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not is_axis(name):
            continue
        meant = int(value) % rank if rank else 0  # type: ignore[call-overload]
        others = sorted((each for each in range(rank) if each != meant), key=lambda each: abs(each - meant))
        for other in others:
            if count := output.explains(output.predict(params={**case.params, name: other})):
                why = f"the parameter `{name}` is {value}; along axis {other}"
                yield _axis(output, count, meant=meant, used=other, why=why)


def _exchanged_axes(output: WrongOutput) -> Iterator[Clue]:
    inputs = output.case.inputs
    rank = max((array.ndim for array in inputs.values()), default=0)
    pairs = sorted(combinations(range(rank), 2), key=lambda pair: (pair[1] - pair[0], -pair[1]))
    for one, other in pairs:
        turned = {name: array.swapaxes(one, other) for name, array in inputs.items() if array.ndim == rank}
        predicted = output.reference(inputs=turned, any_shape=True)
        if predicted is None:
            continue
        stored = output.store(predicted)
        back = [stored.swapaxes(one, other)] if stored.ndim == rank else []
        if count := max(map(output.explains, [*back, stored])):
            yield _axis(output, count, meant=other, used=one, why="with the two exchanged", cause="axis.exchanged")


def _axis(output: WrongOutput, count: int, *, meant: int, used: int, why: str, cause: str = "axis") -> Clue:
    near = " (off by one)" if abs(meant - used) == 1 else ""
    return clue(cause, used=used, meant=meant, near=near, evidence=f"{why}, {output.confirmed(count)}")


def _left_out(output: WrongOutput) -> Iterator[Clue]:
    """A loop that begins one too late, or ends one too early, along a reduced axis."""
    for name, array in output.case.inputs.items():
        for along in range(array.ndim):
            if array.shape[along] < 3:
                continue
            for which, part in (("last", slice(0, -1)), ("first", slice(1, None))):
                cut = array[(slice(None),) * along + (part,)]
                predicted = output.predict(inputs={name: cut})
                yield from output.clues_of(
                    "off-by-one", predicted, because="without it, ", which=which, axis=along, input=name
                )


# --- shifts ------------------------------------------------------------------------------------------

_EDGE = ", except for the edge"


def shift(output: WrongOutput) -> Iterator[Clue]:
    """Each element is in the place of its neighbour."""
    for by in (1, -1):
        direction = "after" if by > 0 else "before"
        flat = np.roll(output.expected.ravel(), by).reshape(output.expected.shape)
        edge = np.zeros(output.expected.size, bool)
        edge[: 1 if by > 0 else None] = by > 0
        edge[-1:] |= by < 0
        found = [(f"the output `{output.name}`", flat, edge.reshape(flat.shape), "in memory")]
        for along in range(output.expected.ndim):
            rolled = np.roll(output.expected, by, along)
            found.append((f"the output `{output.name}`", rolled, _edge(rolled.shape, along, by), f"along axis {along}"))
        for what, predicted, ignored, place in found:
            where = f"one element {direction} its place {place}"
            yield from output.clues_of("shift", predicted, ignore=ignored, but=_EDGE, what=what, where=where)
        for name, array in output.case.inputs.items():
            for along in range(array.ndim):
                predicted = output.predict(inputs={name: np.roll(array, by, along)})
                if predicted is None or predicted.ndim != array.ndim:
                    continue
                ignored = _edge(predicted.shape, along, by) | _edge(predicted.shape, along, -by)
                what, where = f"the input `{name}`", f"one element off along axis {along}"
                yield from output.clues_of("shift", predicted, ignore=ignored, but=_EDGE, what=what, where=where)


def _edge(shape: tuple[int, ...], along: int, by: int) -> Array:
    """The elements that `roll` moves in from the other end."""
    mask = np.zeros(shape, bool)
    mask[(slice(None),) * along + (0 if by > 0 else -1,)] = True
    return mask


# --- inputs ------------------------------------------------------------------------------------------


def swapped_inputs(output: WrongOutput) -> Iterator[Clue]:
    """Two inputs that are exchanged."""
    case = output.case
    for one, other in combinations(case.inputs, 2):
        a, b = case.inputs[one], case.inputs[other]
        if a.shape != b.shape or a.dtype != b.dtype:
            continue
        grids: list[Quants] = [{}]
        if case.quants.get(one) != case.quants.get(other):
            grids.append({each: case.quants[of] for each, of in ((one, other), (other, one)) if of in case.quants})
        for quants in grids:
            exchanged = output.predict(inputs={one: b, other: a}, quants=quants)
            yield from output.clues_of("swapped-inputs", exchanged, one=one, other=other)


def broadcast(output: WrongOutput) -> Iterator[Clue]:
    """The smaller input is broadcast incorrectly."""
    shape = output.found.shape
    for name, array in output.case.inputs.items():
        if not 1 < array.size < output.found.size:
            continue
        for how, wide in _repeated(array.ravel(), shape):
            yield from output.clues_of("broadcast", output.predict(inputs={name: wide}), input=name, how=how)


def _repeated(flat: Array, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    size = int(np.prod(shape))
    places = np.arange(size)
    for along, extent in enumerate(shape):
        if extent == flat.size:
            aligned = flat.reshape([extent if each == along else 1 for each in range(len(shape))])
            yield f"along axis {along}", np.broadcast_to(aligned, shape)
    if size % flat.size == 0:
        yield "element by element in blocks, not as a whole", flat[places // (size // flat.size)].reshape(shape)
    yield "as a whole, over and over in memory", flat[places % flat.size].reshape(shape)
    yield "from its first element alone", np.full(shape, flat[0])
