"""Right numbers in wrong places: layouts, axes, shifts, broadcasts, exchanged inputs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from udogen.verify.diagnosis.evidence import Clue, Quants, Suspect, clue, proof

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

# --- layouts -----------------------------------------------------------------------------------------

# The orders of axes that kernels and converters mix up, by rank, and how their users call them.
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
    """What memory holds where an array is written in another order of its axes."""
    return np.asarray(np.ascontiguousarray(array.transpose(order)).reshape(array.shape))


def _as_read(array: Array, order: tuple[int, ...]) -> Array:
    """What a kernel sees that takes memory to be in another order of axes."""
    there = tuple(array.shape[axis] for axis in order)
    return np.asarray(np.ascontiguousarray(array).reshape(there).transpose([*np.argsort(order)]))


def layout(suspect: Suspect) -> Iterator[Clue]:
    """Inputs, the output or both in another order of axes: images, and sequences."""
    yield from _reordered(suspect, _ORDERS)


def transposed(suspect: Suspect) -> Iterator[Clue]:
    """Matrices, taken with rows for columns."""
    yield from _reordered(suspect, _TRANSPOSED)


def _reordered(suspect: Suspect, known: dict[int, dict[tuple[int, ...], str]]) -> Iterator[Clue]:
    inputs = suspect.evidence.inputs
    for order, name in known.get(suspect.expected.ndim, {}).items():
        written = _as_written(suspect.expected, order)
        if count := suspect.explains(written):
            yield _layout(suspect, f"the output `{suspect.name}` is written {name}", count, order)
    for order, name in ((order, name) for orders in known.values() for order, name in orders.items()):
        fitting = [each for each, array in inputs.items() if array.ndim == len(order)]
        groups = ([fitting] if len(fitting) > 1 else []) + [[each] for each in fitting]
        for group in groups:
            answer = suspect.ask(inputs={each: _as_read(inputs[each], order) for each in group})
            if answer is None:
                continue
            names = "the inputs" if len(group) > 1 else f"the input `{group[0]}`"
            verb = "are" if len(group) > 1 else "is"
            if count := suspect.explains(answer):
                yield _layout(suspect, f"{names} {verb} read {name}", count, order)
            elif answer.ndim == len(order) and (count := suspect.explains(_as_written(answer, order))):
                yield _layout(suspect, f"{names} {verb} read, and the output is written, {name}", count, order)


def _layout(suspect: Suspect, sentence: str, count: int, order: tuple[int, ...]) -> Clue:
    rows = ", ".join(map(str, order))
    return clue(
        "layout",
        sentence,
        evidence=f"with the axes in the order {rows}, {proof(count, suspect)}",
        hint="index memory in the order of the shape that the kernel is given; converters move axes of custom ops, "
        "so look at the shape that arrives",
    )


# --- axes --------------------------------------------------------------------------------------------

_AXIS_HINT = "a negative axis counts from the end: add the rank once, before it is used"
_AXIS_WORDS = ("axis", "axes", "dim")


def is_axis(param: str) -> bool:
    """Whether a parameter names an axis."""
    return any(word in param.lower() for word in _AXIS_WORDS)


def axis(suspect: Suspect) -> Iterator[Clue]:
    """The op works along another axis: by its parameter, or by asking what it would answer with axes exchanged."""
    yield from _axis_param(suspect)
    yield from _exchanged_axes(suspect)
    yield from _left_out(suspect)


def _axis_param(suspect: Suspect) -> Iterator[Clue]:
    case = suspect.evidence
    rank = max((array.ndim for array in case.inputs.values()), default=0)
    for name, value in {**case.defaults, **case.params}.items():
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not is_axis(name):
            continue
        meant = int(value) % rank if rank else 0  # type: ignore[call-overload]
        others = sorted((each for each in range(rank) if each != meant), key=lambda each: abs(each - meant))
        for other in others:
            if count := suspect.explains(suspect.ask(params={**case.params, name: other})):
                yield _axis(suspect, count, meant=meant, other=other, why=f"the parameter `{name}` is {value}")


def _exchanged_axes(suspect: Suspect) -> Iterator[Clue]:
    inputs = suspect.evidence.inputs
    rank = max((array.ndim for array in inputs.values()), default=0)
    pairs = sorted(combinations(range(rank), 2), key=lambda pair: (pair[1] - pair[0], -pair[1]))
    for one, other in pairs:
        turned = {name: array.swapaxes(one, other) for name, array in inputs.items() if array.ndim == rank}
        answer = suspect.answer(inputs=turned, any_shape=True)
        if answer is None:
            continue
        stored = suspect.store(answer)
        back = [stored.swapaxes(one, other)] if stored.ndim == rank else []
        if count := max(map(suspect.explains, [*back, stored])):
            near = " (off by one)" if other - one == 1 else ""
            yield clue(
                "axis",
                f"the op works along axis {one} where axis {other} is meant, or the other way round{near}",
                evidence=f"with the two exchanged, {proof(count, suspect)}",
                hint=_AXIS_HINT,
            )


def _axis(suspect: Suspect, count: int, *, meant: int, other: int, why: str) -> Clue:
    near = " (off by one)" if abs(meant - other) == 1 else ""
    return clue(
        "axis",
        f"the op works along axis {other} where axis {meant} is meant{near}",
        evidence=f"{why}; along axis {other}, {proof(count, suspect)}",
        hint=_AXIS_HINT,
    )


def _left_out(suspect: Suspect) -> Iterator[Clue]:
    """A loop that begins one too late, or ends one too early, along an axis that is reduced."""
    for name, array in suspect.evidence.inputs.items():
        for along in range(array.ndim):
            if array.shape[along] < 3:
                continue
            for which, part in (("last", slice(0, -1)), ("first", slice(1, None))):
                cut = array[(slice(None),) * along + (part,)]
                if count := suspect.explains(suspect.ask(inputs={name: cut})):
                    yield clue(
                        "off-by-one",
                        f"the {which} element along axis {along} of `{name}` is left out",
                        evidence=f"without it, {proof(count, suspect)}",
                        hint="look at where the loop over that axis begins and ends",
                    )


# --- shifts ------------------------------------------------------------------------------------------


def shift(suspect: Suspect) -> Iterator[Clue]:
    """Each element is where its neighbour should be."""
    for by in (1, -1):
        direction = "after" if by > 0 else "before"
        flat = np.roll(suspect.expected.ravel(), by).reshape(suspect.expected.shape)
        edge = np.zeros(suspect.expected.size, bool)
        edge[: 1 if by > 0 else None] = by > 0
        edge[-1:] |= by < 0
        found = [(f"the output `{suspect.name}`", flat, edge.reshape(flat.shape), "in memory")]
        for along in range(suspect.expected.ndim):
            rolled = np.roll(suspect.expected, by, along)
            found.append(
                (f"the output `{suspect.name}`", rolled, _edge(rolled.shape, along, by), f"along axis {along}")
            )
        for what, predicted, ignored, where in found:
            if count := suspect.explains(predicted, ignore=ignored):
                yield _shift(suspect, what, f"one element {direction} its place {where}", count)
        for name, array in suspect.evidence.inputs.items():
            for along in range(array.ndim):
                answer = suspect.ask(inputs={name: np.roll(array, by, along)})
                if answer is None or answer.ndim != array.ndim:
                    continue
                ignored = _edge(answer.shape, along, by) | _edge(answer.shape, along, -by)
                if count := suspect.explains(answer, ignore=ignored):
                    yield _shift(suspect, f"the input `{name}`", f"one element off along axis {along}", count)


def _edge(shape: tuple[int, ...], along: int, by: int) -> Array:
    """What `roll` brought from the other end."""
    mask = np.zeros(shape, bool)
    mask[(slice(None),) * along + (0 if by > 0 else -1,)] = True
    return mask


def _shift(suspect: Suspect, what: str, where: str, count: int) -> Clue:
    return clue(
        "shift",
        f"{what} is {where}",
        evidence=proof(count, suspect) + ", but for the edge",
        hint="look for an index that begins at 1, or a pointer that moves before it is used",
    )


# --- inputs ------------------------------------------------------------------------------------------


def swapped_inputs(suspect: Suspect) -> Iterator[Clue]:
    """Two inputs, each taken for the other."""
    case = suspect.evidence
    for one, other in combinations(case.inputs, 2):
        a, b = case.inputs[one], case.inputs[other]
        if a.shape != b.shape or a.dtype != b.dtype:
            continue
        grids: list[Quants] = [{}]
        if case.quants.get(one) != case.quants.get(other):
            grids.append({each: case.quants[of] for each, of in ((one, other), (other, one)) if of in case.quants})
        for quants in grids:
            if count := suspect.explains(suspect.ask(inputs={one: b, other: a}, quants=quants)):
                yield clue(
                    "swapped-inputs",
                    f"the inputs `{one}` and `{other}` are exchanged",
                    evidence=proof(count, suspect),
                    hint="take inputs by their names, in the order of the config",
                )


def broadcast(suspect: Suspect) -> Iterator[Clue]:
    """The smaller input is repeated in another way than it should be."""
    shape = suspect.found.shape
    for name, array in suspect.evidence.inputs.items():
        if not 1 < array.size < suspect.found.size:
            continue
        for how, wide in _repeated(array.ravel(), shape):
            if count := suspect.explains(suspect.ask(inputs={name: wide})):
                yield clue(
                    "broadcast",
                    f"the input `{name}` is broadcast {how}",
                    evidence=proof(count, suspect),
                    hint="shapes are aligned at their last axes: index the smaller one with the remainder by its size",
                )


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
