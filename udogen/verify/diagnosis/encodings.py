"""Right numbers, stored wrongly: rounding, zero points, scales, limits, precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from udogen.verify.diagnosis import storing
from udogen.verify.diagnosis.evidence import PATTERN, Clue, Quants, Suspect, clue, proof
from udogen.verify.diagnosis.storing import ROUNDINGS

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

# --- rounding ----------------------------------------------------------------------------------------

_FEWEST = 6  # results that must be rounded one way
_NOISE = 2e-6  # relative to a level: what floats of 32 bits may be off before they are rounded


def rounding(suspect: Suspect) -> Iterator[Clue]:
    """Another way of rounding than to the nearest, and to the even one of two."""
    if suspect.real is None:
        return
    if not suspect.whole:
        if suspect.found.dtype == np.float16 and (count := suspect.explains(storing.half_toward_zero(suspect.real))):
            yield _rounded(count, suspect, "toward zero")
        return
    scale, offset = suspect.quant or (1.0, 0)
    exact = suspect.real.astype(np.float64) / scale
    for name, function in ROUNDINGS.items():
        if name == "to nearest even":
            continue
        # Some kernels add the offset before they round.
        for late in (0, offset) if offset else (0,):
            if count := _rounds_so(suspect, exact - late, function, offset - late, is_tie=name.startswith("half")):
                yield _rounded(count, suspect, name)
                return


def _rounds_so(suspect: Suspect, exact: Array, function: storing.Rounding, offset: int, *, is_tie: bool) -> int:
    """How many elements tell that it rounds so; 0 where one says otherwise."""
    left = ~suspect.settled
    found, exact = suspect.found[left].astype(np.int64), exact[left]
    known = np.isfinite(exact)
    limits = np.iinfo(suspect.found.dtype.name)

    def stored(levels: Array, way: storing.Rounding) -> Array:
        return np.asarray(np.clip(way(np.nan_to_num(levels)) - offset, limits.min, limits.max).astype(np.int64))

    noise = _NOISE * np.maximum(np.abs(np.nan_to_num(exact)), 1)
    low, high = stored(exact - noise, function), stored(exact + noise, function)
    holds = (found >= low) & (found <= high)
    if is_tie:  # all ways agree but half-way between two numbers; there noise must not decide
        ties = known & (exact - np.floor(exact) == 0.5)
        holds[ties] = (found == stored(exact, function))[ties]
        telling = ties & holds & (found != stored(exact, np.rint))
    else:
        telling = known & holds & ((high < stored(exact - noise, np.rint)) | (low > stored(exact + noise, np.rint)))
    count = int(telling.sum())
    return count if holds[known].all() and count >= _FEWEST and np.unique(found[telling]).size > 1 else 0


def _rounded(count: int, suspect: Suspect, name: str) -> Clue:
    return clue(
        "rounding",
        f"results are rounded {name}, not to the nearest (and to the even one of two)",
        evidence=f"rounded {name}, every element is what was found, and {count} tell that from the nearest",
        hint="a cast to an integer cuts off: use std::nearbyint (or std::rint) before it",
    )


# --- scale and offset --------------------------------------------------------------------------------

Change = Callable[[tuple[float, int], tuple[float, int]], tuple[float, int]]

# (what a kernel does with the grid of one tensor, how that grid then looks; `other` is that of another tensor)
_ZERO_POINTS: tuple[tuple[str, Change], ...] = (
    ("the offset of {one} has the wrong sign", lambda grid, _other: (grid[0], -grid[1])),
    ("the offset of {one} is left out", lambda grid, _other: (grid[0], 0)),
    ("the offset of {other} is used for {one}", lambda grid, other: (grid[0], other[1])),
)
_SCALES: tuple[tuple[str, Change], ...] = (
    ("the scale of {other} is used for {one}", lambda grid, other: (other[0], grid[1])),
    ("{one} is multiplied where it should be divided by its scale", lambda grid, _other: (1 / grid[0], grid[1])),
    ("the scale of {one} is left out", lambda grid, _other: (1.0, grid[1])),
    ("scale and offset of {other} are used for {one}", lambda _grid, other: other),
)


def zero_point(suspect: Suspect) -> Iterator[Clue]:
    """An offset that is left out, has the wrong sign, or is another tensor's."""
    hint = "real = (stored + offset) * scale: QNN's offset is added when a number is read, and mostly negative"
    yield from _regridded(suspect, "zero-point", _ZERO_POINTS, hint)
    quants = suspect.evidence.quants
    for what, change in _ZERO_POINTS[:2]:
        every = {name: change(grid, grid) for name, grid in quants.items()}
        if len(quants) > 1 and (count := suspect.explains(suspect.ask(quants=every))):
            yield clue("zero-point", what.format(one="every tensor"), evidence=proof(count, suspect), hint=hint)
    yield from _signedness(suspect)


def scale(suspect: Suspect) -> Iterator[Clue]:
    """A scale that is left out, upside down, or another tensor's."""
    hint = "real = (stored + offset) * scale: divide by the output's own scale when a number is stored"
    yield from _regridded(suspect, "scale", _SCALES, hint)


def _regridded(suspect: Suspect, cause: str, changes: tuple[tuple[str, Change], ...], hint: str) -> Iterator[Clue]:
    quants = suspect.evidence.quants
    # The output's first: of a linear op nothing tells a scale that is wrong there from one that is wrong in the input.
    names = sorted(quants, key=lambda name: name not in suspect.evidence.expected)
    for what, change in changes:
        for one in names:
            grid = quants[one]
            for other in quants if "{other}" in what else (one,):
                changed: Quants = {one: change(grid, quants[other])}
                if changed[one] == grid or (other == one and "{other}" in what):
                    continue
                if count := suspect.explains(suspect.ask(quants=changed)):
                    sentence = what.format(one=f"`{one}`", other=f"`{other}`")
                    yield clue(cause, sentence, evidence=proof(count, suspect), hint=hint)


def _signedness(suspect: Suspect) -> Iterator[Clue]:
    """Stored numbers taken for signed ones, or the other way round."""
    for name, array in suspect.evidence.inputs.items():
        if array.dtype.kind not in "iu":
            continue
        other = array.view(("u" if array.dtype.kind == "i" else "i") + str(array.itemsize))
        if count := suspect.explains(suspect.ask(inputs={name: other})):
            yield clue(
                "zero-point",
                f"the input `{name}` is read as {other.dtype}, and is {array.dtype}",
                evidence=proof(count, suspect),
                hint="read it through a pointer of its own type",
            )


# --- limits ------------------------------------------------------------------------------------------


def saturation(suspect: Suspect) -> Iterator[Clue]:
    """Results beyond the limits of their type: cut off where they should wrap around, or the other way round."""
    if suspect.whole:
        yield from _wraps(suspect)
    else:
        yield from _overflows(suspect)


def _wraps(suspect: Suspect) -> Iterator[Clue]:
    dtype = suspect.found.dtype
    for what, wide, grid in _wide_results(suspect):
        for wrap, sentence in ((True, _WRAPS), (False, _SATURATES)):
            if count := suspect.explains(storing.store(wide, dtype, grid, wrap=wrap), distinct=1):
                yield clue("saturation", sentence, evidence=f"{what}: {proof(count, suspect)}", hint=_LIMITS)
                return
    limits = np.iinfo(dtype.name)
    full = (suspect.expected == limits.max) | (suspect.expected == limits.min)
    wrong = suspect.open
    if wrong.sum() >= 4 and not (wrong & ~full).any() and wrong.sum() * 2 > full.sum():
        yield clue(
            "saturation",
            _WRAPS,
            evidence=f"all {wrong.sum()} wrong elements are ones where the limit of {dtype} is expected",
            hint=_LIMITS,
            strength=PATTERN,
        )


_WRAPS = "results beyond the limits of their type wrap around, and should be cut off there"
_SATURATES = "results beyond the limits of their type are cut off there, and should wrap around"
_LIMITS = "compute in a wider type, and compare with the limits before the result is stored (or do not)"


def _wide_results(suspect: Suspect) -> Iterator[tuple[str, Array, tuple[float, int] | None]]:
    """The result before it is stored; where the reference does not tell, what a sum or product of inputs would be."""
    if suspect.real is not None:
        yield "by the result before it is stored", suspect.real, suspect.quant
        return
    if suspect.quant is not None and len({*suspect.evidence.quants.values()}) > 1:
        return
    whole = [array.astype(np.int64) for array in suspect.evidence.inputs.values() if array.dtype.kind in "iu"]
    if len(whole) == 2 and whole[0].shape == whole[1].shape == suspect.found.shape:
        a, b = whole
        yield "taken as the sum of the inputs", a + b, None
        yield "taken as the difference of the inputs", a - b, None
        yield "taken as the product of the inputs", a * b, None


def _overflows(suspect: Suspect) -> Iterator[Clue]:
    wrong, found, expected = suspect.open, suspect.found, suspect.expected
    largest = np.finfo(found.dtype).max
    lost = wrong & np.isinf(expected) & (np.abs(found) == largest)
    if wrong.any() and (wrong == lost).all():
        yield clue(
            "saturation",
            f"results beyond the largest {found.dtype} are cut off there, and should be infinite",
            evidence=f"all {wrong.sum()} wrong elements are the largest number",
            hint="let an overflow be an infinity, as IEEE 754 says, or let the reference cut off too",
            strength=PATTERN,
        )
    beyond = wrong & np.isfinite(expected) & ~np.isfinite(found)
    if wrong.any() and (wrong == beyond).all():
        kinds = "infinite" if np.isinf(found[wrong]).all() else "infinite or no number"
        yield clue(
            "overflow",
            f"a value on the way to the result is too large for {found.dtype}",
            evidence=f"all {wrong.sum()} wrong elements are {kinds} where finite numbers are expected",
            hint="subtract the largest value before exp, divide before you multiply, or compute in a wider type",
            strength=PATTERN,
        )


# --- floats ------------------------------------------------------------------------------------------


def precision(suspect: Suspect) -> Iterator[Clue]:
    """Floats of 32 bits that went through 16."""
    if suspect.found.dtype != np.float32:
        return
    for kind, name in (("half", "half precision"), ("bfloat16", "bfloat16"), ("cut", "bfloat16, cut off")):
        if count := suspect.explains(storing.halves(suspect.expected, rounding=kind)):
            yield clue(
                "precision",
                f"results go through {name} on their way to the output",
                evidence=proof(count, suspect),
                hint="keep 32 bits from the last operation to the store",
            )


def special_values(suspect: Suspect) -> Iterator[Clue]:
    """NaN that gets lost, and denormals that become zero."""
    found, expected, wrong = suspect.found, suspect.expected, suspect.open
    if found.dtype.kind != "f" or not wrong.any():
        return
    if np.isnan(expected[wrong]).all():
        yield clue(
            "nan",
            "NaN does not come through",
            evidence=f"all {wrong.sum()} wrong elements are finite or infinite where NaN is expected",
            hint="every comparison with NaN is false: `a > b ? a : b` and std::max drop it on one side",
            strength=PATTERN,
        )
    tiny = np.finfo(found.dtype).tiny
    if ((found[wrong] == 0) & (np.abs(expected[wrong]) < tiny)).all():
        yield clue(
            "denormals",
            "denormal numbers become zero",
            evidence=f"all {wrong.sum()} wrong elements are 0 where less than {tiny:.2g} is expected",
            hint="-ffast-math and the flush-to-zero mode of a processor do that; allow it in the tolerance if you may",
            strength=PATTERN,
        )
