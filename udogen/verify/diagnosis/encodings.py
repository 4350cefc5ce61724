"""Correct numbers, stored incorrectly: rounding, zero points, scales, limits, precision."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from udogen.verify.cases import Quants
from udogen.verify.diagnosis.wrong_output import (
    ROUNDINGS,
    Cause,
    OpExecution,
    Prediction,
    Rounding,
    WrongOutput,
    halves,
)


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
