"""The causes of wrong numbers, in order.  A new cause is a function here and a row in data/number_causes.toml."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from udogen.findings import Finding
from udogen.runtime.op.calls import OTHER_POISON, POISON
from udogen.verify.cases import Quants
from udogen.verify.diagnosis import positions, slips
from udogen.verify.diagnosis.wrong_output import (
    ROUNDINGS,
    Cause,
    FailedCase,
    OpExecution,
    Prediction,
    Rounding,
    WrongOutput,
    finding,
    halves,
)

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
            whole = f", which whole vectors of {vectors} leave over" if vectors else ""
            return f"the last {length - done} of {length} elements{of_what}{whole}"
    return ""


def _where(mask: Array) -> str:
    """The smallest block that contains all marked elements."""
    box = [(int(axis.min()), int(axis.max())) for axis in np.nonzero(mask)] if mask.ndim and mask.any() else []
    if not box:
        return "the only one"
    first, last = ("[" + ", ".join(str(axis[end]) for axis in box) + "]" for end in (0, 1))
    return f"in the block from {first} to {last}"


def rounding(output: WrongOutput) -> Iterator[Cause]:
    """Rounding other than to nearest even."""
    scale, offset = output.case.quants.get(output.name) or (1.0, 0)
    if output.found.dtype.kind not in "iu":
        return
    for way, function in ROUNDINGS.items():
        noise = {"noise": 0.0} if way.startswith("half") else {}  # these differ only half-way between two numbers
        for late in dict.fromkeys((0, offset)):  # some kernels add the offset before rounding

            def predict(it: OpExecution, function: Rounding = function, late: int = late,
                        noise: dict[str, float] = noise) -> Prediction | None:  # fmt: skip
                real = it.reference()
                if real is None or real.dtype.kind != "f":
                    return None
                return it.store(real - late * scale, (scale, offset - late), rounding=function, **noise)

            yield Cause("rounding", {"way": way}, predict)


def saturation(output: WrongOutput) -> Iterator[Cause]:
    """Results beyond the limits of their type: clipped instead of wrapped around, or vice versa."""
    if output.found.dtype.kind not in "iu":
        return
    quant = output.case.quants.get(output.name)
    for row, wrap in (("saturation.wraps", True), ("saturation.cut-off", False)):

        def predict(it: OpExecution, wrap: bool = wrap) -> Prediction | None:
            real = it.reference()
            return None if real is None else it.store(real, quant, wrap=wrap)

        yield Cause(row, {}, predict)


def stored(output: WrongOutput) -> Iterator[Cause]:
    """A kernel that computes with stored integers and ignores scales and offsets."""
    if output.name not in output.case.quants or output.found.dtype.kind not in "iu":
        return
    ignored = dict.fromkeys(output.case.quants, (1.0, 0))
    for wrap, function in product((False, True), (np.rint, np.trunc)):

        def predict(it: OpExecution, wrap: bool = wrap, function: Rounding = function) -> Prediction | None:
            real = it.reference(quants=ignored)
            return None if real is None else it.store(real, (1.0, 0), rounding=function, wrap=wrap)

        yield Cause("stored-numbers", {"output": output.name}, predict)


def zero_point(output: WrongOutput) -> Iterator[Cause]:
    """An offset that is left out, or has the wrong sign."""
    quants = output.case.quants
    # Outputs first: in a linear op, a wrong offset of the output looks like a wrong offset of the input.
    for name in sorted(quants, key=lambda name: name not in output.case.expected):
        scale, offset = quants[name]
        for row, used in (("zero-point.sign", -offset), ("zero-point.left-out", 0)):
            changed: Quants = {name: (scale, used)}
            if used != offset:
                yield Cause(row, {"one": f"`{name}`"}, lambda it, changed=changed: it.predict(quants=changed))


# --- floats ------------------------------------------------------------------------------------------


def floats(output: WrongOutput) -> Iterator[Cause]:
    """float32 results that passed through 16 bits."""
    if output.found.dtype == np.float32:
        for kind, name in (("half", "half precision"), ("bfloat16", "bfloat16"), ("cut", "bfloat16, cut off")):
            yield Cause("precision", {"type": name}, lambda it, kind=kind: [halves(it.expected, rounding=kind)])


MOST = 3  # findings that are shown

# What running the op again shows; elements that it explains are excluded from predictions.
OBSERVATIONS: tuple[Callable[[WrongOutput], Iterator[Finding]], ...] = (varying, unwritten)
PREDICTIONS: tuple[Callable[[WrongOutput], Iterator[Cause]], ...] = (
    positions.missing_param,
    positions.swapped_inputs,
    rounding,
    saturation,
    stored,
    zero_point,
    positions.axis,
    positions.layout,
    positions.left_out,
    floats,
    positions.copy,
    slips.slips,
)


def diagnose(failed: FailedCase) -> tuple[Finding, ...]:
    """The causes that reproduce wrong outputs, at most three; empty if none does."""
    findings: dict[str, Finding] = {}
    for name, expected in failed.case.expected.items():
        found = failed.found.get(name)
        if found is None or found.shape != expected.shape or found.size == 0:
            continue
        output = WrongOutput(failed, name)
        if output.wrong.any():
            for finding in _findings(output):
                findings.setdefault(finding.kind, finding)
    return tuple(findings.values())[:MOST]


def _findings(output: WrongOutput) -> Iterator[Finding]:
    for observe in OBSERVATIONS:
        yield from observe(output)
    explained = 0
    for predict in PREDICTIONS:
        if not (output.wrong & ~output.known).any() or explained == MOST:
            return
        if predict is slips.slips and explained:
            return  # a slip in one operation may be the same fault in other words
        for cause in predict(output):
            if finding := output.finding(cause):
                explained += 1
                yield finding
                break
