"""Causes found by running the op again: results that differ, and memory that it does not write.

A session can fill the memory of outputs with a byte, the poison, before the op executes.  Elements that still contain
it were never written; elements that change with it depend on memory that was read before it was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from udogen.runtime.op.calls import OTHER_POISON, POISON
from udogen.verify.diagnosis.wrong_output import OBSERVED, PATTERN, Clue, WrongOutput, clue
from udogen.verify.tolerances import differences

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_POISONS = (POISON, OTHER_POISON)
_RUNS = 6
_VECTOR = "what whole vectors of"
_VECTORS = (32, 64, 128)  # elements in one iteration of vector loops


def race(output: WrongOutput) -> Iterator[Clue]:
    """Runs of the same input, with the same poison, give different results."""
    first = output.rerun(poison=_POISONS[0])
    if first is None:
        return
    differs = np.zeros(first.shape, bool)
    for _ in range(1, _RUNS):
        other = output.rerun(poison=_POISONS[0])
        if other is not None:
            differs |= _bytes_differ(first, other)
        if differs.sum() >= differs.size / 8:
            break
    if differs.any():
        output.explained |= differs
        output.varies = True
        yield clue(
            "race",
            evidence=f"{differs.sum()} of {differs.size} elements differ between {_RUNS} runs, {_where(differs)}",
            strength=OBSERVED,
        )


def unwritten(output: WrongOutput) -> Iterator[Clue]:
    """Elements that show the poison, or depend on it."""
    if output.varies:
        return
    one, other = (output.rerun(poison=byte) for byte in _POISONS)
    if one is None or other is None:
        yield from _looks_unwritten(output)
        return
    left = _shows(one, _POISONS[0]) & _shows(other, _POISONS[1])
    follows = _bytes_differ(one, other) & ~left
    output.explained |= left | follows
    if follows.any():
        yield clue(
            "uninitialised.read",
            output=output.name,
            evidence=f"{follows.sum()} of {follows.size} elements change with what their memory held before, "
            f"{_where(follows)}",
            strength=OBSERVED,
        )
    if left.any():
        yield _unwritten(output, left, "still have the fill pattern", strength=OBSERVED)
    elif not follows.any():
        yield from _looks_unwritten(output)


def _looks_unwritten(output: WrongOutput) -> Iterator[Clue]:
    """If poison does not reach the op: a remainder of zeros."""
    wrong = output.unexplained
    if 0 < wrong.sum() < wrong.size and np.unique(output.found[wrong]).size == 1 and _VECTOR in _tail_of(wrong):
        value = output.found[wrong][0]
        if np.unique(output.expected[wrong]).size > 1 and value == 0:
            yield _unwritten(output, wrong, "are 0", strength=PATTERN)


def _unwritten(output: WrongOutput, mask: Array, how: str, *, strength: int) -> Clue:
    if mask.all():
        evidence = f"{mask.size} of {mask.size} elements {how}"
        return clue("uninitialised.output", output=output.name, evidence=evidence, strength=strength)
    evidence = f"{mask.sum()} of {mask.size} elements {how}, {_where(mask)}"
    if tail := _tail_of(mask):
        return clue("unwritten-tail", output=output.name, tail=tail, evidence=evidence, strength=strength)
    return clue("uninitialised.parts", output=output.name, evidence=evidence, strength=strength)


def state(output: WrongOutput) -> Iterator[Clue]:
    """The first execution is correct, and later ones are not."""
    if output.varies or output.loops < 2 or not output.unexplained.any():
        return
    first = output.rerun()
    if first is None or first.shape != output.found.shape or not _is_right(first, output):
        return
    later = output.rerun(loops=output.loops)
    if later is not None and not _is_right(later, output):
        output.explained |= output.wrong
        yield clue(
            "state",
            evidence=f"one execution agrees with what is expected, {output.loops} in one graph do not",
            strength=OBSERVED,
        )


def _is_right(found: Array, output: WrongOutput) -> bool:
    return not output.exceeds(differences(found, output.expected), output.expected).any()


def _bytes_differ(one: Array, other: Array) -> Array:
    """A mask of the elements whose bytes differ."""
    size = one.dtype.itemsize
    a, b = (np.ascontiguousarray(each).reshape(-1).view(np.uint8).reshape(-1, size) for each in (one, other))
    return np.asarray(np.asarray((a != b).any(axis=1)).reshape(one.shape))


def _shows(array: Array, byte: int) -> Array:
    """A mask of the elements that consist of this byte only."""
    return ~_bytes_differ(array, np.full(array.size * array.dtype.itemsize, byte, np.uint8).view(array.dtype))


def _tail_of(mask: Array) -> str:
    """A description if the mask covers exactly the end of memory or of each row; otherwise empty."""
    flat = mask.ravel()
    for length, what in ((flat.size, "the last {left} of {length} elements"), (_row(mask), _PER_ROW)):
        if not 1 < length <= flat.size or flat.size % length:
            continue
        rows = flat.reshape(-1, length)
        done = int(np.argmax(rows[0])) if rows[0].any() else length
        if 0 < done < length and not rows[:, :done].any() and rows[:, done:].all():
            vectors = " or ".join(str(each) for each in _VECTORS if done % each == 0 and length - done < each)
            whole = f", {_VECTOR} {vectors} leave over" if vectors else ""
            return what.format(left=length - done, length=length) + whole
    return ""


_PER_ROW = "the last {left} of {length} elements of each row"


def _row(mask: Array) -> int:
    return mask.shape[-1] if mask.ndim else 1


def _where(mask: Array) -> str:
    """The smallest block that contains all marked elements."""
    box = [(int(axis.min()), int(axis.max())) for axis in np.nonzero(mask)] if mask.ndim and mask.any() else []
    if not box:
        return "the only one"
    first, last = ("[" + ", ".join(str(axis[end]) for axis in box) + "]" for end in (0, 1))
    return f"in the block from {first} to {last}"
