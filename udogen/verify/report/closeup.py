"""One failing output, looked at closely: the slice that is worst, how its errors are spread, its first wrong numbers.

Pure functions on arrays; `pictures` draws what they find.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from udogen.verify.report import palette, words
from udogen.verify.tolerances import Tolerance, differences

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array
    from udogen.verify.results import TensorResult

MOST_SQUARES = 48  # of a picture, in each direction
_ROW = 32  # a vector is shown in rows of so many: the remainders of vector loops stand in columns then
_BINS = 11
_FIRST = 6  # wrong elements that are written out
UNSHOWN = 255  # the level of what is no finite number


@dataclass(frozen=True)
class Panel:
    """One of the pictures of a slice: levels of a ramp, row by row."""

    title: str
    levels: Array
    low: str  # what the ends of the ramp mean
    high: str
    colours: tuple[str, ...]
    words: tuple[str, ...] = ()  # what the first colours mean by themselves; the others are the ramp
    numbers: tuple[tuple[str, ...], ...] = ()  # to be written into the squares, where there are few


@dataclass(frozen=True)
class Slice:
    """Two dimensions of a tensor: those and there where most is wrong."""

    where: str  # `output[0, :, :, 2]`
    rows: str  # what runs downward: `axis 1, 0 to 63`
    columns: str
    each: str  # what one square stands for, where that is several elements
    panels: tuple[Panel, ...]
    wrong: int
    count: int
    mark: tuple[int, int] | None  # the square of the first element that is wrong
    spare: int = 0  # squares at the end of the last row that stand for nothing


@dataclass(frozen=True)
class Bin:
    """Elements whose errors are alike."""

    name: str
    right: int
    wrong: int


@dataclass(frozen=True)
class Element:
    """One wrong number."""

    index: str
    expected: str
    found: str
    off: str


@dataclass(frozen=True)
class CloseUp:
    """What there is to see of one output."""

    slice: Slice
    unit: str  # of the spread's bins
    spread: tuple[Bin, ...]
    first: tuple[Element, ...]


def look(tensor: TensorResult, tolerance: Tolerance) -> CloseUp | None:
    """None where the two cannot be laid on one another, or are empty."""
    if tensor.found.shape != tensor.expected.shape or tensor.found.size == 0:
        return None
    off = differences(tensor.found, tensor.expected)
    bad = off > tolerance.allowed(tensor.expected)
    whole = tensor.expected.dtype.kind in "iub"
    signed = _signed(tensor) if whole else None
    return CloseUp(
        slice=_worst_slice(tensor, off, bad),
        unit=f"found - expected, in {tensor.unit or 'one'}s" if whole else "absolute difference",
        spread=tuple(_whole_bins(signed, bad) if signed is not None else _decades(off, bad)),
        first=_first(tensor, off, bad),
    )


def _signed(tensor: TensorResult) -> Array:
    import numpy as np

    difference: Array = np.subtract(tensor.found.astype(np.float64), tensor.expected.astype(np.float64))
    return difference


def _first(tensor: TensorResult, off: Array, bad: Array) -> tuple[Element, ...]:
    import numpy as np

    found = []
    for flat in np.flatnonzero(bad)[:_FIRST]:
        index = tuple(int(each) for each in np.unravel_index(int(flat), bad.shape))
        expected, got = tensor.expected[index].item(), tensor.found[index].item()
        found.append(
            Element(
                words.index_of("", index),
                words.number(expected, 7),
                words.number(got, 7),
                words.number(float(off[index])),
            )
        )
    return tuple(found)


# --- how errors are spread ------------------------------------------------------------------------


def _whole_bins(signed: Array, bad: Array) -> list[Bin]:
    """Steps, each by itself where there are few."""
    import numpy as np

    low, high = int(signed.min()), int(signed.max())
    width = -(-(high - low + 1) // _BINS)
    start = -(-(0 - low) // width) * -width if width > 1 else low  # so that a bin begins at zero
    count = (high - start) // width + 1
    which = ((signed - start) // width).astype(np.int64).ravel()
    wrong = np.bincount(which, weights=bad.ravel(), minlength=count).astype(int)
    every = np.bincount(which, minlength=count)
    bins = []
    for number in range(count):
        left = start + number * width
        name = f"{left:+d}" if left else "0"
        if width > 1:
            name = f"{left:d}…{left + width - 1:d}"
        bins.append(Bin(name, int(every[number] - wrong[number]), int(wrong[number])))
    return bins


def _decades(off: Array, bad: Array) -> list[Bin]:
    """Powers of ten, from the exact ones to those that are no numbers."""
    import numpy as np

    flat, wrong = off.ravel(), bad.ravel()
    some = np.isfinite(flat) & (flat > 0)
    powers = np.full(flat.shape, 0, np.int64)
    powers[some] = np.floor(np.log10(flat[some])).astype(np.int64)
    bins = [_bin("exact", flat == 0, wrong)]
    if some.any():
        low, high = int(powers[some].min()), int(powers[some].max())
        low = max(low, high - _BINS + 3)  # what is smaller joins the smallest that is shown
        for power in range(low, high + 1):
            members = some & ((powers == power) | ((power == low) & (powers < low)))
            bins.append(_bin(f"1e{power}", members, wrong))
    if np.isinf(flat).any():
        bins.append(_bin("∞, NaN", np.isinf(flat), wrong))
    return bins


def _bin(name: str, members: Any, wrong: Array) -> Bin:
    return Bin(name, int((members & ~wrong).sum()), int((members & wrong).sum()))


# --- the slice that is worst ----------------------------------------------------------------------


def _worst_slice(tensor: TensorResult, off: Array, bad: Array) -> Slice:
    import numpy as np

    shape = off.shape
    axes = [axis for axis, extent in enumerate(shape) if extent > 1][-2:]
    if len(axes) < 2:  # a vector, in rows
        return _vector(tensor, off, bad)
    outer = tuple(axis for axis in range(len(shape)) if axis not in axes)
    sums = bad.sum(axis=tuple(axes))
    at = np.unravel_index(int(np.argmax(sums)), sums.shape) if outer else ()
    index: list[Any] = [slice(None)] * len(shape)
    for axis, place in zip(outer, at, strict=True):
        index[axis] = int(place)
    chosen = tuple(index)
    shown = ", ".join(":" if isinstance(each, slice) else str(each) for each in index)
    return _sliced(
        tensor,
        (tensor.expected[chosen], tensor.found[chosen], off[chosen], bad[chosen]),
        where=f"{tensor.name}[{shown}]" if outer else tensor.name,
        axes=(f"axis {axes[0]}", f"axis {axes[1]}"),
    )


def _vector(tensor: TensorResult, off: Array, bad: Array) -> Slice:
    import numpy as np

    rows = -(-off.size // _ROW) if off.size > _ROW else 1
    columns = _ROW if rows > 1 else off.size
    spare = rows * columns - off.size

    def folded(array: Array, fill: object) -> Array:
        flat = np.append(array.ravel(), np.full(spare, fill, array.dtype)) if spare else array.ravel()
        return flat.reshape(rows, columns)

    # What is beyond the end is shown as nothing: no number, and not wrong.
    float_type = np.float64 if spare else None
    expected, found = (
        folded(each if float_type is None else each.astype(float_type), np.nan if spare else 0)
        for each in (tensor.expected, tensor.found)
    )
    return _sliced(
        tensor,
        (expected, found, folded(off, np.nan if spare else 0), folded(bad, False)),
        where=f"{tensor.name}, in rows of {columns}" if rows > 1 else tensor.name,
        axes=(f"rows of {columns} elements", "element of the row"),
    )


def _sliced(
    tensor: TensorResult, arrays: tuple[Array, Array, Array, Array], *, where: str, axes: tuple[str, str]
) -> Slice:
    import numpy as np

    rows, columns = arrays[2].shape
    high, wide = -(-rows // MOST_SQUARES), -(-columns // MOST_SQUARES)
    picked = _pick(arrays[2], high, wide)
    expected, found, off, bad = (_take(array, picked) for array in arrays)
    low, top = _range(expected, found, tensor)
    few = off.shape[1] <= 8 and off.shape[0] <= 12
    panels = (
        _values("expected", expected, low, top, few=few),
        _values("found", found, low, top, few=few),
        _off_panel(off, bad, few=few),
    )
    marks = np.argwhere(bad)
    return Slice(
        where=where,
        rows=f"{axes[0]}: 0 to {rows - 1}" if rows > 1 else axes[0],
        columns=f"{axes[1]}: 0 to {columns - 1}",
        each=f"{high}x{wide} elements, of which it shows the one that is furthest off" if high * wide > 1 else "",
        panels=panels,
        wrong=int(np.count_nonzero(arrays[3])),
        count=int(np.count_nonzero(~np.isnan(arrays[2]))),
        mark=(int(marks[0][0]), int(marks[0][1])) if len(marks) else None,
        spare=int(np.count_nonzero(np.isnan(off))),
    )


def _pick(off: Array, high: int, wide: int) -> tuple[Array, Array]:
    """Of each block of high x wide elements, the row and column of the one that is furthest off."""
    import numpy as np

    rows, columns = -(-off.shape[0] // high), -(-off.shape[1] // wide)
    padded = np.full((rows * high, columns * wide), -1.0)
    padded[: off.shape[0], : off.shape[1]] = np.nan_to_num(off, nan=-1.0, posinf=np.inf)
    blocks = padded.reshape(rows, high, columns, wide).transpose(0, 2, 1, 3).reshape(rows, columns, high * wide)
    best = blocks.argmax(axis=2)
    down = np.arange(rows)[:, None] * high + best // wide
    right = np.arange(columns)[None, :] * wide + best % wide
    # A block of nothing but what is beyond the end of a vector.
    return np.minimum(down, off.shape[0] - 1), np.minimum(right, off.shape[1] - 1)


def _take(array: Array, picked: tuple[Array, Array]) -> Array:
    taken: Array = array[picked]
    return taken


def _range(expected: Array, found: Array, tensor: TensorResult) -> tuple[float, float]:
    """What the ramp spans: what is expected, and what was found as long as it is not absurd."""
    import numpy as np

    def ends(array: Array) -> tuple[float, float] | None:
        finite = array.astype(np.float64)
        finite = finite[np.isfinite(finite)]
        return (float(finite.min()), float(finite.max())) if finite.size else None

    whole, shown = ends(tensor.expected), ends(found)
    if whole is None:
        return shown or (0.0, 1.0)
    low, high = whole
    if shown is not None:
        room = (high - low) / 4 or 1.0
        low, high = max(min(low, shown[0]), low - room), min(max(high, shown[1]), high + room)
    return low, high


def _values(title: str, array: Array, low: float, high: float, *, few: bool) -> Panel:
    import numpy as np

    real = array.astype(np.float64)
    finite = np.isfinite(real)
    # Halves, for the whole range of float64 is more than one.
    span = high / 2 - low / 2
    scaled = np.where(finite, real / 2 - low / 2, 0.0) / span if span > 0 else np.zeros(real.shape)
    last = len(palette.RAMP) - 1
    levels = np.rint(np.clip(scaled, 0, 1) * last).astype(np.uint8)
    levels[~finite] = UNSHOWN
    below, above = bool((real[finite] < low).any()), bool((real[finite] > high).any())
    return Panel(
        title,
        levels,
        ("≤ " if below else "") + words.number(low, 3),
        ("≥ " if above else "") + words.number(high, 3),
        palette.RAMP,
        numbers=_written(array, few=few),
    )


def _off_panel(off: Array, bad: Array, *, few: bool) -> Panel:
    """Nothing, within what is allowed, and the rest from little to much, evenly on a scale of logarithms."""
    import numpy as np

    levels = np.where(off > 0, 1, 0).astype(np.uint8)
    finite = off[bad & np.isfinite(off)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    steps = len(palette.OFF) - 2
    if finite.size:
        span = np.log(high) - np.log(low)
        share = (np.log(finite) - np.log(low)) / span if span > 0 else np.ones(finite.shape)
        levels[bad & np.isfinite(off)] = 2 + np.clip((share * steps).astype(np.int64), 0, steps - 1)
    levels[~np.isfinite(off)] = UNSHOWN
    return Panel(
        "difference",
        levels,
        words.number(low, 3) if finite.size else "wrong",
        words.number(high, 3) if finite.size else "wrong",
        palette.OFF,
        ("0", "allowed"),
        _written(off, few=few),
    )


def _written(array: Array, *, few: bool) -> tuple[tuple[str, ...], ...]:
    """The numbers themselves, where they can be read in their squares."""
    if not few:
        return ()
    return tuple(tuple(_brief(each) for each in row) for row in array.tolist())


def _brief(value: object) -> str:
    """Not more than six letters."""
    if not isinstance(value, float):
        return words.number(value, 3).replace(",", "")
    for digits in (3, 2, 1):
        short = words.number(value, digits)
        if len(short) <= 6:
            return short
    return short
