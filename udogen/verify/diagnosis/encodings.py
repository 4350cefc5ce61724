"""Correct numbers, stored incorrectly: rounding, zero points, scales, limits, precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.verify.cases import Quants
from udogen.verify.diagnosis import arrays
from udogen.verify.diagnosis.wrong_output import Cause, Execution, Prediction, WrongOutput

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array


def rounding(output: WrongOutput) -> Iterator[Cause]:
    """Rounding other than to nearest even."""
    if output.found.dtype == np.float16:
        yield Cause("rounding", {"way": "toward zero"}, lambda it: _of_real(it, arrays.half_toward_zero))
    scale, offset = output.case.quants.get(output.name) or (1.0, 0)
    if output.found.dtype.kind not in "iu":
        return
    for way, function in arrays.ROUNDINGS.items():
        noise = {"noise": 0.0} if way.startswith("half") else {}  # these differ only half-way between two numbers
        for late in dict.fromkeys((0, offset)):  # some kernels add the offset before rounding

            def predict(it: Execution, function: arrays.Rounding = function, late: int = late,
                        noise: dict[str, float] = noise) -> Prediction | None:  # fmt: skip
                real = it.reference()
                if real is None or real.dtype.kind != "f":
                    return None
                return it.store(real - late * scale, (scale, offset - late), rounding=function, **noise)

            yield Cause("rounding", {"way": way}, predict)


def _of_real(it: Execution, function: Callable[[Array], Array]) -> Prediction | None:
    real = it.reference()
    return None if real is None else [function(real)]


def saturation(output: WrongOutput) -> Iterator[Cause]:
    """Results beyond the limits of their type: clipped instead of wrapped around, or vice versa."""
    if output.found.dtype.kind not in "iu":
        return
    quant = output.case.quants.get(output.name)
    combine: dict[str, Callable[..., Any]] = {"the result": np.add}
    if quant is None:  # the reference may not return the result before it is stored
        combine |= {"a sum": np.add, "a difference": np.subtract, "a product": np.multiply}
    for (what, function), wrap in product(combine.items(), (True, False)):

        def predict(it: Execution, what: str = what, function: Callable[..., Any] = function,
                    wrap: bool = wrap) -> Prediction | None:  # fmt: skip
            given = [array.astype(np.int64) for array in it.inputs.values() if array.dtype.kind in "iu"]
            if what != "the result" and len(given) != 2:
                return None
            real = it.reference() if what == "the result" else function(*given)
            return None if real is None else it.store(real, quant, wrap=wrap)

        yield Cause("saturation.wraps" if wrap else "saturation.cut-off", {}, predict)


def stored(output: WrongOutput) -> Iterator[Cause]:
    """A kernel that computes with stored integers and ignores scales and offsets."""
    if output.name not in output.case.quants or output.found.dtype.kind not in "iu":
        return
    ignored = dict.fromkeys(output.case.quants, (1.0, 0))
    for wrap, function in product((False, True), (np.rint, np.trunc)):

        def predict(it: Execution, wrap: bool = wrap, function: arrays.Rounding = function) -> Prediction | None:
            real = it.reference(quants=ignored)
            return None if real is None else it.store(real, (1.0, 0), rounding=function, wrap=wrap)

        yield Cause("stored-numbers", {"output": output.name}, predict)


# --- scale and offset --------------------------------------------------------------------------------

Change = Callable[[tuple[float, int], tuple[float, int]], tuple[float, int]]

# (variant of the cause, the (scale, offset) that the kernel uses for one tensor; `other` is that of another tensor)
_ZERO_POINTS: tuple[tuple[str, Change], ...] = (
    ("zero-point.sign", lambda grid, _other: (grid[0], -grid[1])),
    ("zero-point.left-out", lambda grid, _other: (grid[0], 0)),
    ("zero-point.of-another", lambda grid, other: (grid[0], other[1])),
)
_SCALES: tuple[tuple[str, Change], ...] = (
    ("scale.of-another", lambda grid, other: (other[0], grid[1])),
    ("scale.inverse", lambda grid, _other: (1 / grid[0], grid[1])),
    ("scale.left-out", lambda grid, _other: (1.0, grid[1])),
    ("scale.both-of-another", lambda _grid, other: other),
)


def zero_point(output: WrongOutput) -> Iterator[Cause]:
    """An offset that is left out, has the wrong sign, or is that of another tensor; signed for unsigned numbers."""
    yield from _regridded(output, _ZERO_POINTS)
    quants = output.case.quants
    for cause, change in _ZERO_POINTS[:2]:
        every = {name: change(grid, grid) for name, grid in quants.items()}
        yield Cause(cause, {"one": "every tensor"}, lambda it, every=every: it.predict(quants=every))
    for name, array in output.case.inputs.items():
        if array.dtype.kind in "iu":
            other = np.dtype(("u" if array.dtype.kind == "i" else "i") + str(array.itemsize))
            names = {"input": name, "read": other, "dtype": array.dtype}

            def signed(it: Execution, name: str = name, to: np.dtype[Any] = other) -> Prediction | None:
                return it.predict(inputs={name: it.inputs[name].view(to)})

            yield Cause("zero-point.signedness", names, signed)


def scale(output: WrongOutput) -> Iterator[Cause]:
    """A scale that is left out, inverted, or that of another tensor."""
    yield from _regridded(output, _SCALES)


def _regridded(output: WrongOutput, changes: tuple[tuple[str, Change], ...]) -> Iterator[Cause]:
    quants = output.case.quants
    # Outputs first: in a linear op, a wrong scale of the output looks like a wrong scale of the input.
    names = sorted(quants, key=lambda name: name not in output.case.expected)
    for cause, change in changes:
        of_another = cause.endswith("of-another")
        for one in names:
            for other in [each for each in quants if each != one] if of_another else [one]:
                changed: Quants = {one: change(quants[one], quants[other])}
                if changed[one] != quants[one]:
                    yield Cause(cause, {"one": f"`{one}`", "other": f"`{other}`"},
                                lambda it, changed=changed: it.predict(quants=changed))  # fmt: skip


# --- floats ------------------------------------------------------------------------------------------


def floats(output: WrongOutput) -> Iterator[Cause]:
    """float32 results that passed through 16 bits, and denormals that become zero."""
    dtype = output.found.dtype
    if dtype == np.float32:
        for kind, name in (("half", "half precision"), ("bfloat16", "bfloat16"), ("cut", "bfloat16, cut off")):
            yield Cause("precision", {"type": name}, lambda it, kind=kind: [arrays.halves(it.expected, rounding=kind)])
    if dtype.kind == "f":
        tiny = np.finfo(dtype).tiny
        yield Cause("denormals", {}, lambda it: [np.where(abs(it.expected) < tiny, 0, it.expected)])
