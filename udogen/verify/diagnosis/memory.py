"""What the op itself shows when it is run again: results that differ, and memory that it does not write.

A session can fill the memory of outputs with a byte, the poison, before the op executes: what stands there
afterwards was never written, and what follows the byte was read before it was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from udogen.runtime.op.calls import POISON
from udogen.verify.diagnosis.comparison import box_of
from udogen.verify.diagnosis.evidence import PATTERN, SEEN, Clue, Suspect, clue
from udogen.verify.tolerances import differences

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_POISONS = (POISON, 0xC3)
_RUNS = 6
_VECTOR = "what whole vectors of"
_VECTORS = (32, 64, 128)  # elements that loops over vectors do at once


def race(suspect: Suspect) -> Iterator[Clue]:
    """Runs of the same input, with the same poison, give different results."""
    first = suspect.run(poison=_POISONS[0])
    if first is None:
        return
    differs = np.zeros(first.shape, bool)
    for _ in range(1, _RUNS):
        again = suspect.run(poison=_POISONS[0])
        if again is not None:
            differs |= _bytes_differ(first, again)
        if differs.sum() >= differs.size / 8:
            break
    if differs.any():
        suspect.settled |= differs
        suspect.unsteady = True
        yield clue(
            "race",
            "runs of the same input give different results: threads race, or memory is read that nobody has set",
            evidence=f"{differs.sum()} of {differs.size} elements differ between {_RUNS} runs, {_where(differs)}",
            hint="give each thread its own part of the output and its own sums; --sanitize thread names the lines",
            strength=SEEN,
        )


def unwritten(suspect: Suspect) -> Iterator[Clue]:
    """Elements that show the poison, or depend on it."""
    if suspect.unsteady:
        return
    one, other = (suspect.run(poison=byte) for byte in _POISONS)
    if one is None or other is None:
        yield from _looks_unwritten(suspect)
        return
    left = _shows(one, _POISONS[0]) & _shows(other, _POISONS[1])
    follows = _bytes_differ(one, other) & ~left
    suspect.settled |= left | follows
    if follows.any():
        yield clue(
            "uninitialised",
            f"`{suspect.name}` depends on memory that is read before it is written",
            evidence=f"{follows.sum()} of {follows.size} elements change with what their memory held before, "
            f"{_where(follows)}",
            hint="begin sums with 0, not with what an output or scratch memory holds: neither is cleared",
            strength=SEEN,
        )
    if left.any():
        yield _unwritten(suspect, left, "still hold the byte that their memory was filled with", strength=SEEN)
    elif not follows.any():
        yield from _looks_unwritten(suspect)


def _looks_unwritten(suspect: Suspect) -> Iterator[Clue]:
    """Where the runtime lets no poison through: a remainder that holds one and the same number."""
    wrong = suspect.open
    if 0 < wrong.sum() < wrong.size and np.unique(suspect.found[wrong]).size == 1 and _VECTOR in _tail_of(wrong):
        value = suspect.found[wrong][0]
        if np.unique(suspect.expected[wrong]).size > 1 and value == 0:
            yield _unwritten(suspect, wrong, "are 0", strength=PATTERN)


def _unwritten(suspect: Suspect, mask: Array, how: str, *, strength: int) -> Clue:
    if mask.all():
        return clue(
            "uninitialised",
            f"nothing of the output `{suspect.name}` is written",
            evidence=f"all {mask.size} elements {how}",
            hint="is the kernel reached, and are fewer elements than a vector done too?",
            strength=strength,
        )
    tail = _tail_of(mask)
    evidence = f"{mask.sum()} of {mask.size} elements {how}, {_where(mask)}"
    if tail:
        return clue(
            "unwritten-tail",
            f"the end of the output `{suspect.name}` is not written: {tail}",
            evidence=evidence,
            hint="after the loop over whole vectors, do what is left of them one by one",
            strength=strength,
        )
    return clue(
        "uninitialised",
        f"parts of the output `{suspect.name}` are not written",
        evidence=evidence,
        hint="every element must be written at every execution: memory is not cleared",
        strength=strength,
    )


def state(suspect: Suspect) -> Iterator[Clue]:
    """The first execution is right, and later ones are not."""
    case = suspect.evidence
    if suspect.unsteady or case.loops < 2 or not suspect.open.any():
        return
    first = suspect.run()
    if first is None or first.shape != suspect.found.shape or not _is_right(first, suspect):
        return
    later = suspect.run(loops=case.loops)
    if later is not None and not _is_right(later, suspect):
        suspect.settled |= suspect.wrong
        yield clue(
            "state",
            "the first execution is right, and later ones are not: something is kept between them",
            evidence=f"one execution agrees with what is expected, {case.loops} in one graph do not",
            hint="set sums and counters in execute, not once in finalize, and keep no static variables",
            strength=SEEN,
        )


def _is_right(found: Array, suspect: Suspect) -> bool:
    return not suspect.beyond(differences(found, suspect.expected), suspect.expected).any()


def _bytes_differ(one: Array, other: Array) -> Array:
    """Which elements do not have the same bytes."""
    size = one.dtype.itemsize
    a, b = (np.ascontiguousarray(each).reshape(-1).view(np.uint8).reshape(-1, size) for each in (one, other))
    return np.asarray(np.asarray((a != b).any(axis=1)).reshape(one.shape))


def _shows(array: Array, byte: int) -> Array:
    """Which elements are made of this byte alone."""
    return ~_bytes_differ(array, np.full(array.size * array.dtype.itemsize, byte, np.uint8).view(array.dtype))


def _tail_of(mask: Array) -> str:
    """In words, where the end of memory or of each row is marked and nothing else is; empty elsewhere."""
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
    """Where the first and the last one are."""
    box = box_of(mask)
    if not box:
        return "the only one"
    first, last = ("[" + ", ".join(str(axis[end]) for axis in box) + "]" for end in (0, 1))
    return f"in the block from {first} to {last}"
