"""Sums in too few bits: their error grows with what is summed, and a reference that sums so answers the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from udogen.verify.diagnosis.evidence import PREDICTED, SEEN, Arrays, Clue, Suspect, clue, proof
from udogen.verify.diagnosis.halving import in_half_precision
from udogen.verify.tolerances import differences

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_SHORTEST = 32
_HALF = 2.0**-11  # what half precision is off at most, relative
_FAR = 0.5  # more is no inaccuracy
_ORDERS = 6  # in which the same numbers are summed, for one could be good by luck


def half_sums(suspect: Suspect) -> Iterator[Clue]:
    """Sums in 16 bits: the error is of that size, and grows with the length that is summed."""
    if suspect.found.dtype.kind != "f" or suspect.unsteady or not np.isfinite(suspect.error).all():
        return
    inputs = suspect.evidence.inputs
    floats = {name: in_half_precision(array) for name, array in inputs.items() if array.dtype.kind == "f"}
    answer = suspect.ask(inputs=floats) if floats else None
    if (count := suspect.explains(answer)) and answer is not None:
        yield _half(f"summed one after the other in half precision, {proof(count, suspect)}")
    elif grown := _growth(suspect, None if answer is None else _size(differences(answer, suspect.expected))):
        steps = ", ".join(f"{error:.1e} at {length}" for length, error in grown)
        yield _half(f"the error is of the size of half precision, and grows with the length: {steps}", strength=SEEN)


def _half(evidence: str, strength: int = PREDICTED) -> Clue:
    return clue(
        "half-sums",
        "sums are kept in half precision: the error grows with the length that is summed",
        evidence=evidence,
        hint="add up in 32 bits, and make the sum short only when it is stored",
        strength=strength,
    )


def _growth(suspect: Suspect, predicted: float | None) -> list[tuple[int, float]]:
    """(length, relative error) where an axis is made longer and longer; empty where that is not telling."""
    size, off = _size(suspect.expected), _size(suspect.error)
    if not size or not _HALF / 16 <= off / size <= _FAR:
        return []
    extents = {extent for array in suspect.evidence.inputs.values() for extent in array.shape if extent >= _SHORTEST}
    for extent in sorted(extents, reverse=True):
        if not _is_summed(suspect, extent):
            continue
        random = np.random.default_rng(extent)
        # One number over and over is off in one direction, so that its error grows fast.
        errors = _errors(suspect, extent, [np.full(extent, random.integers(extent)) for _ in range(_ORDERS)])
        if errors and _grows(errors, slope=0.6):
            return list(zip(_lengths(extent), errors, strict=True))
        # Where that gives no result (of equal numbers there is no variance), all of them in several orders.
        if not errors and predicted and 1 / 6 <= off / predicted <= 6:
            errors = _errors(suspect, extent, [random.permutation(extent) for _ in range(_ORDERS)])
            if errors and _grows(errors, slope=0.35):
                return list(zip(_lengths(extent), errors, strict=True))
    return []


def _lengths(extent: int) -> list[int]:
    return [extent // part for part in (8, 4, 2, 1)]


def _is_summed(suspect: Suspect, extent: int) -> bool:
    """Whether results depend on how long the axes of this length are."""
    half = np.arange(extent // 2)
    answer = suspect.answer(inputs=_taken(suspect.evidence.inputs, extent, half), any_shape=True)
    [(_, whole)] = _taken({suspect.name: suspect.expected}, extent, half).items()
    if answer is None:
        return False
    return answer.shape != whole.shape or bool(suspect.beyond(differences(suspect.store(answer), whole), whole).any())


def _errors(suspect: Suspect, extent: int, orders: list[Array]) -> list[float]:
    """The error at each length; none where one is not to be had, or nothing is off."""
    found = [_error_of(suspect, extent, [order[:length] for order in orders]) for length in _lengths(extent)]
    known = [error for error in found if error]
    return known if len(known) == len(found) else []


def _grows(off: list[float], *, slope: float) -> bool:
    """Like a power of the length, from about what half precision is off at once."""
    if not (_HALF / 16 <= off[-1] <= _FAR and off[0] >= _HALF / 32):
        return False
    found = float(np.polyfit(range(len(off)), np.log2(off), 1)[0])
    return found >= slope and off[-1] >= 2 * off[0] and all(after > 0.9 * before for before, after in pairwise(off))


def _size(values: Array) -> float:
    """The root of the mean of squares."""
    return float(np.sqrt(np.square(values.astype(np.float64)).mean()))


def _error_of(suspect: Suspect, extent: int, parts: list[Array]) -> float | None:
    """The error where axes of one length hold some of their elements, in several orders."""
    squares = []
    for part in parts:
        error = _error(suspect, _cut(suspect.evidence.inputs, extent, part))
        if error is None:
            return None
        squares.append(error**2)
    return float(np.sqrt(np.mean(squares)))


def _cut(inputs: Arrays, extent: int, part: Array) -> Arrays:
    """Axes of this length made shorter, and one input larger by as much: an error may also grow with the results."""
    cut = _taken(inputs, extent, part)
    for name, array in cut.items():
        if extent in inputs[name].shape and array.dtype.kind == "f":
            cut[name] = array * array.dtype.type(extent // len(part))
            break
    return cut


def _taken(arrays: Arrays, extent: int, part: Array) -> dict[str, Array]:
    """Of each axis of this length these elements."""
    taken = dict(arrays)
    for name, array in arrays.items():
        for along, each in enumerate(array.shape):
            if each == extent:
                taken[name] = taken[name].take(part, axis=along)
    return taken


def _error(suspect: Suspect, inputs: Arrays) -> float | None:
    """How far the op is off, relative to the size of its results."""
    answer = suspect.answer(inputs=inputs, any_shape=True)
    found = suspect.run(inputs=inputs)
    if answer is None or found is None or found.shape != answer.shape:
        return None
    expected = answer.astype(np.float64)
    size = _size(expected) if expected.size else 0.0
    off = differences(found, expected)
    return _size(off) / size if size and np.isfinite(off).all() else None
