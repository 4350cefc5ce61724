"""Causes found by running the op again: results that differ, and memory that it does not write.

A session can fill the memory of outputs with a byte, the poison, before the op executes.  Elements that still contain
it were never written; elements that change with it, every time, depend on memory that was read before it was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from udogen.findings import Finding
from udogen.runtime.op.calls import OTHER_POISON, POISON
from udogen.verify.diagnosis.wrong_output import WrongOutput, finding

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_POISONS = (POISON, OTHER_POISON)
_RUNS = 6
_VECTORS = (32, 64, 128)  # elements in one iteration of vector loops


def varying(output: WrongOutput) -> Iterator[Finding]:
    """Runs of the same input, with the same poison, differ."""
    runs = [output.rerun(poison=_POISONS[0]) for _ in range(_RUNS)]
    first, *others = [result for result in runs if result is not None] or [output.found]
    differs = np.zeros(output.found.shape, bool)
    for other in others:
        differs |= _bytes_differ(first, other)
    if differs.any():
        output.known |= differs
        evidence = f"{differs.sum()} of {differs.size} elements differ between {_RUNS} runs, {_where(differs)}"
        yield finding("varying", evidence=evidence)


def unwritten(output: WrongOutput) -> Iterator[Finding]:
    """Elements that show the poison, or depend on it."""
    if output.known.any():  # runs differ without it, too
        return
    one, other, again = (output.rerun(poison=byte) for byte in (*_POISONS, _POISONS[0]))
    if one is None or other is None or again is None:
        return
    left = _shows(one, _POISONS[0]) & _shows(other, _POISONS[1])
    follows = _bytes_differ(one, other) & ~_bytes_differ(one, again) & ~left
    output.known |= left | follows
    share = f"{follows.sum()} of {follows.size} elements change with what their memory held before, {_where(follows)}"
    if follows.any():
        yield finding("uninitialised.read", output=output.name, evidence=share)
    if left.all():
        evidence = f"{left.size} of {left.size} elements still have the fill pattern"
        yield finding("uninitialised.output", output=output.name, evidence=evidence)
    elif left.any():
        evidence = f"{left.sum()} of {left.size} elements still have the fill pattern, {_where(left)}"
        tail = _tail_of(left)
        row = "unwritten-tail" if tail else "uninitialised.parts"
        yield finding(row, output=output.name, tail=tail, evidence=evidence)


def _bytes_differ(one: Array, other: Array) -> Array:
    """A mask of the elements whose bytes differ."""
    size = one.dtype.itemsize
    a, b = (np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, size) for array in (one, other))
    return np.asarray(np.asarray((a != b).any(axis=1)).reshape(one.shape))


def _shows(array: Array, byte: int) -> Array:
    """A mask of the elements that consist of this byte only."""
    return ~_bytes_differ(array, np.full(array.size * array.dtype.itemsize, byte, np.uint8).view(array.dtype))


def _tail_of(mask: Array) -> str:
    """A description if the mask covers exactly the end of memory or of each row; otherwise empty."""
    flat = mask.ravel()
    for length, of_what in ((flat.size, ""), (mask.shape[-1] if mask.ndim else 1, " of each row")):
        if not 1 < length <= flat.size or flat.size % length:
            continue
        rows = flat.reshape(-1, length)
        done = int(np.argmax(rows[0])) if rows[0].any() else length
        if 0 < done < length and not rows[:, :done].any() and rows[:, done:].all():
            vectors = " or ".join(str(vector) for vector in _VECTORS if done % vector == 0 and length - done < vector)
            whole = f", what whole vectors of {vectors} leave over" if vectors else ""
            return f"the last {length - done} of {length} elements{of_what}{whole}"
    return ""


def _where(mask: Array) -> str:
    """The smallest block that contains all marked elements."""
    box = [(int(axis.min()), int(axis.max())) for axis in np.nonzero(mask)] if mask.ndim and mask.any() else []
    if not box:
        return "the only one"
    first, last = ("[" + ", ".join(str(axis[end]) for axis in box) + "]" for end in (0, 1))
    return f"in the block from {first} to {last}"
