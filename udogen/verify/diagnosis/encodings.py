"""Correct numbers, stored incorrectly: rounding, zero points, scales, limits, precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from udogen.verify.cases import Quants
from udogen.verify.diagnosis import arrays
from udogen.verify.diagnosis.wrong_output import PATTERN, Clue, WrongOutput, clue

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

# --- rounding ----------------------------------------------------------------------------------------

_FEWEST = 6  # results that must show a way of rounding
_NOISE = 2e-6  # relative to a level: the float32 error allowed before rounding


def rounding(output: WrongOutput) -> Iterator[Clue]:
    """Rounding other than to nearest even."""
    if output.real is None:
        return
    if not output.is_integer:
        if output.found.dtype == np.float16 and (count := output.explains(arrays.half_toward_zero(output.real))):
            yield _rounded(count, output, "toward zero")
        return
    scale, offset = output.quant or (1.0, 0)
    exact = output.real.astype(np.float64) / scale
    for name, function in arrays.ROUNDINGS.items():
        if name == "to nearest even":
            continue
        # Some kernels add the offset before rounding.
        for late in (0, offset) if offset else (0,):
            if count := _rounds_so(output, exact - late, function, offset - late, is_tie=name.startswith("half")):
                yield _rounded(count, output, name)
                return


def _rounds_so(output: WrongOutput, exact: Array, function: arrays.Rounding, offset: int, *, is_tie: bool) -> int:
    """The number of elements that show this way of rounding; 0 if one contradicts it."""
    left = ~output.explained
    found, exact = output.found[left].astype(np.int64), exact[left]
    known = np.isfinite(exact)
    limits = np.iinfo(output.found.dtype.name)

    def stored(levels: Array, way: arrays.Rounding) -> Array:
        return np.asarray(np.clip(way(np.nan_to_num(levels)) - offset, limits.min, limits.max).astype(np.int64))

    noise = _NOISE * np.maximum(np.abs(np.nan_to_num(exact)), 1)
    low, high = stored(exact - noise, function), stored(exact + noise, function)
    holds = (found >= low) & (found <= high)
    if is_tie:  # the ways differ only half-way between two numbers, where noise must not decide
        ties = known & (exact - np.floor(exact) == 0.5)
        holds[ties] = (found == stored(exact, function))[ties]
        decisive = ties & holds & (found != stored(exact, np.rint))
    else:
        decisive = known & holds & ((high < stored(exact - noise, np.rint)) | (low > stored(exact + noise, np.rint)))
    count = int(decisive.sum())
    return count if holds[known].all() and count >= _FEWEST and np.unique(found[decisive]).size > 1 else 0


def _rounded(count: int, output: WrongOutput, name: str) -> Clue:
    evidence = f"rounded {name}, every element is what was found, and {count} differ from the nearest"
    return clue("rounding", way=name, evidence=evidence)


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


def zero_point(output: WrongOutput) -> Iterator[Clue]:
    """An offset that is left out, has the wrong sign, or is that of another tensor."""
    yield from _regridded(output, _ZERO_POINTS)
    quants = output.case.quants
    for cause, change in _ZERO_POINTS[:2]:
        every = {name: change(grid, grid) for name, grid in quants.items()}
        if len(quants) > 1:
            yield from output.clues_of(cause, output.predict(quants=every), one="every tensor")
    yield from _signedness(output)


def stored(output: WrongOutput) -> Iterator[Clue]:
    """A kernel that computes with stored integers and ignores scales and offsets."""
    if output.quant is None or not output.is_integer:
        return
    real = output.reference(quants=dict.fromkeys(output.case.quants, (1.0, 0)))
    if real is None:
        return
    for wrap in (False, True):
        for rounding in (np.rint, np.trunc):
            predicted = arrays.store(real, output.found.dtype, (1.0, 0), rounding=rounding, wrap=wrap)
            if count := output.explains(predicted):
                yield clue("stored-numbers", output=output.name, evidence=output.confirmed(count))
                return


def scale(output: WrongOutput) -> Iterator[Clue]:
    """A scale that is left out, inverted, or that of another tensor."""
    yield from _regridded(output, _SCALES)


def _regridded(output: WrongOutput, changes: tuple[tuple[str, Change], ...]) -> Iterator[Clue]:
    quants = output.case.quants
    # Outputs first: in a linear op, a wrong scale of the output looks like a wrong scale of the input.
    names = sorted(quants, key=lambda name: name not in output.case.expected)
    for cause, change in changes:
        of_another = cause.endswith("of-another")
        for one in names:
            grid = quants[one]
            for other in quants if of_another else (one,):
                changed: Quants = {one: change(grid, quants[other])}
                if changed[one] != grid and not (other == one and of_another):
                    predicted = output.predict(quants=changed)
                    yield from output.clues_of(cause, predicted, one=f"`{one}`", other=f"`{other}`")


def _signedness(output: WrongOutput) -> Iterator[Clue]:
    """Unsigned stored numbers read as signed, or vice versa."""
    for name, array in output.case.inputs.items():
        if array.dtype.kind in "iu":
            other = array.view(("u" if array.dtype.kind == "i" else "i") + str(array.itemsize))
            predicted = output.predict(inputs={name: other})
            yield from output.clues_of(
                "zero-point.signedness", predicted, input=name, read=other.dtype, dtype=array.dtype
            )


# --- limits ------------------------------------------------------------------------------------------


def saturation(output: WrongOutput) -> Iterator[Clue]:
    """Results beyond the limits of their type: clipped instead of wrapped around, or vice versa."""
    if output.is_integer:
        yield from _wraps(output)
    else:
        yield from _overflows(output)


def _wraps(output: WrongOutput) -> Iterator[Clue]:
    dtype = output.found.dtype
    for what, wide, grid in _wide_results(output):
        for wrap, cause in ((True, "saturation.wraps"), (False, "saturation.cut-off")):
            if count := output.explains(arrays.store(wide, dtype, grid, wrap=wrap), distinct=1):
                yield clue(cause, evidence=f"{what}: {output.confirmed(count)}")
                return
    limits = np.iinfo(dtype.name)
    full = (output.expected == limits.max) | (output.expected == limits.min)
    wrong = output.unexplained
    if wrong.sum() >= 4 and not (wrong & ~full).any() and wrong.sum() * 2 > full.sum():
        yield clue(
            "saturation.wraps",
            evidence=f"for all {wrong.sum()} wrong elements the limit of {dtype} is expected",
            strength=PATTERN,
        )


def _wide_results(output: WrongOutput) -> Iterator[tuple[str, Array, tuple[float, int] | None]]:
    """The result before it is stored; if the reference does not return it, sum, difference and product of inputs."""
    if output.real is not None:
        yield "from the result before it is stored", output.real, output.quant
        return
    if output.quant is not None and len({*output.case.quants.values()}) > 1:
        return
    whole = [array.astype(np.int64) for array in output.case.inputs.values() if array.dtype.kind in "iu"]
    if len(whole) == 2 and whole[0].shape == whole[1].shape == output.found.shape:
        a, b = whole
        yield "assuming the sum of the inputs", a + b, None
        yield "assuming the difference of the inputs", a - b, None
        yield "assuming the product of the inputs", a * b, None


def _overflows(output: WrongOutput) -> Iterator[Clue]:
    wrong, found, expected = output.unexplained, output.found, output.expected
    largest = np.finfo(found.dtype).max
    lost = wrong & np.isinf(expected) & (np.abs(found) == largest)
    if wrong.any() and (wrong == lost).all():
        yield clue(
            "saturation.finite",
            dtype=found.dtype,
            evidence=f"all {wrong.sum()} wrong elements are the largest number",
            strength=PATTERN,
        )
    beyond = wrong & np.isfinite(expected) & ~np.isfinite(found)
    tiny = wrong & (output.error <= _rounding(output))  # rounding errors of sums with the largest input
    if beyond.any() and (wrong == (beyond | tiny)).all():
        kinds = "infinite" if np.isinf(found[beyond]).all() else "infinite or no number"
        others = "; the others are off by a rounding of the largest input" if tiny.any() else ""
        count = (
            f"all {wrong.sum()} wrong elements" if not tiny.any() else f"{beyond.sum()} of {wrong.sum()} wrong elements"
        )
        evidence = f"{count} are {kinds} where finite numbers are expected{others}"
        yield clue("overflow", dtype=found.dtype, evidence=evidence, strength=PATTERN)


def _rounding(output: WrongOutput) -> float:
    """The rounding error of the largest finite input, in the type of the output."""
    inputs = [array[np.isfinite(array)] for array in output.case.inputs.values() if array.dtype.kind == "f"]
    largest = max((float(np.abs(each).max(initial=0.0)) for each in inputs), default=0.0)
    return largest * float(np.finfo(output.found.dtype).eps)


# --- floats ------------------------------------------------------------------------------------------


def precision(output: WrongOutput) -> Iterator[Clue]:
    """float32 results that passed through 16 bits."""
    if output.found.dtype != np.float32:
        return
    for kind, name in (("half", "half precision"), ("bfloat16", "bfloat16"), ("cut", "bfloat16, cut off")):
        yield from output.clues_of("precision", arrays.halves(output.expected, rounding=kind), type=name)


def special_values(output: WrongOutput) -> Iterator[Clue]:
    """NaN that is not kept, and denormals that become zero."""
    found, expected, wrong = output.found, output.expected, output.unexplained
    if found.dtype.kind != "f" or not wrong.any():
        return
    if np.isnan(expected[wrong]).all():
        yield clue(
            "nan",
            evidence=f"all {wrong.sum()} wrong elements are finite or infinite where NaN is expected",
            strength=PATTERN,
        )
    tiny = np.finfo(found.dtype).tiny
    if ((found[wrong] == 0) & (np.abs(expected[wrong]) < tiny)).all():
        yield clue(
            "denormals",
            evidence=f"all {wrong.sum()} wrong elements are 0 where less than {tiny:.2g} is expected",
            strength=PATTERN,
        )
