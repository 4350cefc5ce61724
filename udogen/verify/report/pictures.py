"""One failing output as SVG: its worst slice, and how its errors are distributed."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log1p
from struct import pack
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.tables import many
from udogen.verify.report import text
from udogen.verify.report.text import Html
from udogen.verify.tolerances import Tolerance, differences

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array
    from udogen.verify.results import TensorResult

# --- colours ----------------------------------------------------------------------------------------------------------


# From low to high; lightness always increases, so that colour-blind people can read it too.
RAMP = (
    "#1d1147",
    "#3b1d6e",
    "#5b2a86",
    "#7c3a8c",
    "#9d4a87",
    "#bd5c7c",
    "#d8736c",
    "#ec905f",
    "#f7b25f",
    "#fbd477",
    "#fdf5b0",
)
# Size of the difference: none, within the tolerance, and beyond it in steps.
OFF = ("#e8edf2", "#b9c7d6", "#f3b35c", "#e58432", "#cf5519", "#a92d0c", "#6e1206")


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, from 1 to 21, as WCAG defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: str) -> str:
    """Black or white, whichever has more contrast on this colour."""
    return "#000000" if contrast("#000000", colour) >= contrast("#ffffff", colour) else "#ffffff"


# --- the worst slice, and the errors ----------------------------------------------------------------------------------


MOST_SQUARES = 48  # of a picture, in each direction
_ROW = 32  # elements in a row when a vector is shown: remainders of vector loops become columns
_BINS = 11
_FIRST = 6  # wrong elements that are listed
UNSHOWN = 255  # the level of values that are not finite


@dataclass(frozen=True)
class Panel:
    """One of the pictures of a slice: levels of a ramp, row by row."""

    title: str
    levels: Array
    low: str  # what the ends of the ramp mean
    high: str
    colours: tuple[str, ...]
    labels: tuple[str, ...] = ()  # of the first colours; the others are the ramp
    numbers: tuple[tuple[str, ...], ...] = ()  # written into the squares if there are few


@dataclass(frozen=True)
class Slice:
    """The two-dimensional slice of a tensor that has the most wrong elements."""

    where: str  # `output[0, :, :, 2]`
    rows: str  # the vertical axis: `axis 1, 0 to 63`
    columns: str
    each: str  # what one square covers, if that is several elements
    panels: tuple[Panel, ...]
    wrong: int
    count: int
    mark: tuple[int, int] | None  # the square of the first wrong element
    spare: int = 0  # unused squares at the end of the last row


@dataclass(frozen=True)
class ErrorBin:
    """The numbers of right and wrong elements whose error is in one range."""

    name: str
    right: int
    wrong: int


@dataclass(frozen=True)
class OutputPictures:
    """The pictures of one output."""

    slice: Slice
    unit: str  # of the bins of `spread`
    spread: tuple[ErrorBin, ...]
    first: list[tuple[str, str, str, str]]  # the first wrong elements: index, expected, found, difference


def output_pictures(tensor: TensorResult, tolerance: Tolerance) -> OutputPictures | None:
    """The pictures of an output; None if shapes differ or the output is empty."""
    if tensor.found.shape != tensor.expected.shape or tensor.found.size == 0:
        return None
    off = differences(tensor.found, tensor.expected)
    bad = off > tolerance.allowed(tensor.expected)
    whole = tensor.expected.dtype.kind in "iub"
    signed = _signed(tensor) if whole else None
    return OutputPictures(
        slice=_worst_slice(tensor, off, bad),
        unit=f"found - expected, in {tensor.unit or 'one'}s" if whole else "absolute difference",
        spread=tuple(_whole_bins(signed, bad) if signed is not None else _decades(off, bad)),
        first=_first(tensor, off, bad),
    )


def _signed(tensor: TensorResult) -> Array:
    difference: Array = np.subtract(tensor.found.astype(np.float64), tensor.expected.astype(np.float64))
    return difference


def _first(tensor: TensorResult, off: Array, bad: Array) -> list[tuple[str, str, str, str]]:
    found = []
    for flat in np.flatnonzero(bad)[:_FIRST]:
        index = tuple(int(each) for each in np.unravel_index(int(flat), bad.shape))
        expected, got = (text.number(each[index].item(), 7) for each in (tensor.expected, tensor.found))
        found.append((text.index_of("", index), expected, got, text.number(float(off[index]))))
    return found


# --- the distribution of errors -------------------------------------------------------------------


def _whole_bins(signed: Array, bad: Array) -> list[ErrorBin]:
    """Bins of integer steps; one step for each bin if there are few."""
    low, high = int(signed.min()), int(signed.max())
    width = -(-(high - low + 1) // _BINS)
    start = -(-(0 - low) // width) * -width if width > 1 else low  # so that a bin begins at zero
    count = (high - start) // width + 1
    which = ((signed - start) // width).astype(np.int64).ravel()
    wrong = np.bincount(which, weights=bad.ravel(), minlength=count).astype(int)
    every = np.bincount(which, minlength=count)
    bins = []
    for index in range(count):
        left = start + index * width
        name = f"{left:+d}" if left else "0"
        if width > 1:
            name = f"{left:d}…{left + width - 1:d}"
        bins.append(ErrorBin(name, int(every[index] - wrong[index]), int(wrong[index])))
    return bins


def _decades(off: Array, bad: Array) -> list[ErrorBin]:
    """Bins of powers of ten, from exact to not finite."""
    flat, wrong = off.ravel(), bad.ravel()
    some = np.isfinite(flat) & (flat > 0)
    powers = np.full(flat.shape, 0, np.int64)
    powers[some] = np.floor(np.log10(flat[some])).astype(np.int64)
    bins = [_bin("exact", flat == 0, wrong)]
    if some.any():
        low, high = int(powers[some].min()), int(powers[some].max())
        low = max(low, high - _BINS + 3)  # smaller errors are counted in the lowest bin
        for power in range(low, high + 1):
            members = some & ((powers == power) | ((power == low) & (powers < low)))
            bins.append(_bin(f"1e{power}", members, wrong))
    if np.isinf(flat).any():
        bins.append(_bin("∞, NaN", np.isinf(flat), wrong))
    return bins


def _bin(name: str, members: Any, wrong: Array) -> ErrorBin:
    return ErrorBin(name, int((members & ~wrong).sum()), int((members & wrong).sum()))


# --- the worst slice ------------------------------------------------------------------------------


def _worst_slice(tensor: TensorResult, off: Array, bad: Array) -> Slice:
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
    rows = -(-off.size // _ROW) if off.size > _ROW else 1
    columns = _ROW if rows > 1 else off.size
    spare = rows * columns - off.size

    def folded(array: Array, fill: object) -> Array:
        flat = np.append(array.ravel(), np.full(spare, fill, array.dtype)) if spare else array.ravel()
        return flat.reshape(rows, columns)

    # Elements beyond the end are NaN, and not wrong.
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
    """The row and column of the element with the largest difference in each block of high x wide elements."""
    rows, columns = -(-off.shape[0] // high), -(-off.shape[1] // wide)
    padded = np.full((rows * high, columns * wide), -1.0)
    padded[: off.shape[0], : off.shape[1]] = np.nan_to_num(off, nan=-1.0, posinf=np.inf)
    blocks = padded.reshape(rows, high, columns, wide).transpose(0, 2, 1, 3).reshape(rows, columns, high * wide)
    best = blocks.argmax(axis=2)
    down = np.arange(rows)[:, None] * high + best // wide
    right = np.arange(columns)[None, :] * wide + best % wide
    # A block may be beyond the end of a vector.
    return np.minimum(down, off.shape[0] - 1), np.minimum(right, off.shape[1] - 1)


def _take(array: Array, picked: tuple[Array, Array]) -> Array:
    taken: Array = array[picked]
    return taken


def _range(expected: Array, found: Array, tensor: TensorResult) -> tuple[float, float]:
    """The range of the ramp: that of the expected values, extended by found values up to a margin of a quarter."""

    def ends(array: Array) -> tuple[float, float] | None:
        finite = array.astype(np.float64)
        finite = finite[np.isfinite(finite)]
        return (float(finite.min()), float(finite.max())) if finite.size else None

    whole, shown = ends(tensor.expected), ends(found)
    if whole is None:
        return shown or (0.0, 1.0)
    low, high = whole
    if shown is not None:
        margin = (high - low) / 4 or 1.0
        low, high = max(min(low, shown[0]), low - margin), min(max(high, shown[1]), high + margin)
    return low, high


def _values(title: str, array: Array, low: float, high: float, *, few: bool) -> Panel:
    real = array.astype(np.float64)
    finite = np.isfinite(real)
    # Halves, because the difference of two float64 can overflow float64.
    span = high / 2 - low / 2
    scaled = np.where(finite, real / 2 - low / 2, 0.0) / span if span > 0 else np.zeros(real.shape)
    last = len(RAMP) - 1
    levels = np.rint(np.clip(scaled, 0, 1) * last).astype(np.uint8)
    levels[~finite] = UNSHOWN
    below, above = bool((real[finite] < low).any()), bool((real[finite] > high).any())
    return Panel(
        title,
        levels,
        ("≤ " if below else "") + text.number(low, 3),
        ("≥ " if above else "") + text.number(high, 3),
        RAMP,
        numbers=_written(array, few=few),
    )


def _off_panel(off: Array, bad: Array, *, few: bool) -> Panel:
    """The panel of differences: none, within the tolerance, and the rest on a logarithmic scale."""
    levels = np.where(off > 0, 1, 0).astype(np.uint8)
    finite = off[bad & np.isfinite(off)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    steps = len(OFF) - 2
    if finite.size:
        span = np.log(high) - np.log(low)
        share = (np.log(finite) - np.log(low)) / span if span > 0 else np.ones(finite.shape)
        levels[bad & np.isfinite(off)] = 2 + np.clip((share * steps).astype(np.int64), 0, steps - 1)
    levels[~np.isfinite(off)] = UNSHOWN
    return Panel(
        "difference",
        levels,
        text.number(low, 3) if finite.size else "wrong",
        text.number(high, 3) if finite.size else "wrong",
        OFF,
        ("0", "allowed"),
        _written(off, few=few),
    )


def _written(array: Array, *, few: bool) -> tuple[tuple[str, ...], ...]:
    """The values as text, if they are legible in their squares."""
    if not few:
        return ()
    return tuple(tuple(_brief(each) for each in row) for row in array.tolist())


def _brief(value: object) -> str:
    """A value in at most six letters."""
    if not isinstance(value, float):
        return text.number(value, 3).replace(",", "")
    for digits in (3, 2, 1):
        short = text.number(value, digits)
        if len(short) <= 6:
            return short
    return short


# --- SVG --------------------------------------------------------------------------------------------------------------


WIDTH = 320  # of a picture in SVG units; about the number of pixels on a phone
_LETTER = 7  # about the width of a letter
_SQUARE, _THIN = 53, 14  # the largest square, and the minimal height of one
_CLEAR = 15  # the palette index of transparent pixels


def heatmap(shown: Slice, panel: Panel, label: str) -> Html:
    """One panel of a slice: a square for each element, with its value written in it if there are few."""
    rows, columns = panel.levels.shape
    wide = min(_SQUARE, WIDTH / columns)
    high = min(_SQUARE, max(WIDTH / rows, _THIN if rows == 1 else 0), max(wide, WIDTH / 2 / rows))
    across, down = wide * columns, high * rows
    sides = f"{many(rows, 'row')} ({shown.rows}), {many(columns, 'column')} ({shown.columns})"
    description = text.escape(f"{label}: {panel.title} of {shown.where}: {sides}")
    hatched = bool((panel.levels == UNSHOWN).any())
    legend = list(_legend(panel, down + 12, hatched=hatched))
    tall = down + (58 if hatched else 40)
    behind = f'<path class="none" d="{_outline(across, down, wide, high, columns, shown.spare)}"/>' if hatched else ""
    lines = [
        f'<svg class="heat" viewBox="0 0 {WIDTH} {tall:g}" role="img" aria-label="{description}">',
        behind,
        f'<image width="{across:g}" height="{down:g}" preserveAspectRatio="none" href="{_png(panel)}"/>',
        *_numbers(panel, wide, high),
    ]
    if shown.mark:
        y, x = shown.mark[0] * high, shown.mark[1] * wide
        for kind in ("halo", "mark"):
            lines.append(
                f'<rect class="{kind}" x="{x + 0.5:g}" y="{y + 0.5:g}" width="{wide - 1:g}" height="{high - 1:g}"/>'
            )
    lines += [*legend, "</svg>"]
    return Html("".join(lines))


def _outline(across: float, down: float, wide: float, high: float, columns: int, spare: int) -> str:
    """The SVG path around all squares except the unused ones at the end."""
    last = wide * (columns - spare)
    return f"M0 0H{across:g}V{down - high if spare else down:g}H{last:g}V{down:g}H0z"


def _numbers(panel: Panel, wide: float, high: float) -> Iterator[str]:
    longest = max((len(each) for row in panel.numbers for each in row), default=1)
    letters = min(13.0, (wide - 2) / (0.62 * longest))
    for y, row in enumerate(panel.numbers):
        for x, written in enumerate(row):
            level = int(panel.levels[y, x])
            ink = "" if level == UNSHOWN else f' fill="{ink_on(panel.colours[level])}"'
            yield (
                f'<text class="in" x="{(x + 0.5) * wide:g}" y="{(y + 0.5) * high + letters * 0.35:g}" '
                f'font-size="{letters:.3g}"{ink}>{text.escape(written)}</text>'
            )


def _legend(panel: Panel, y: float, *, hatched: bool) -> Iterator[str]:
    """The meaning of the colours: labels of single colours, and the ramp with its ends."""
    x = 0.0
    for word, colour in zip(panel.labels, panel.colours, strict=False):
        yield f'<rect class="frame" x="{x:g}" y="{y:g}" width="14" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 19:g}" y="{y + 9:g}">{text.escape(word)}</text>'
        x += 19 + 7 * len(word) + 12
    ramp = panel.colours[len(panel.labels) :]
    step = 140 / len(ramp)
    for place, colour in enumerate(ramp):
        yield f'<rect x="{x + place * step:g}" y="{y:g}" width="{step:g}" height="10" fill="{colour}"/>'
    yield f'<rect class="frame" x="{x:g}" y="{y:g}" width="140" height="10" fill="none"/>'
    if panel.low == panel.high:
        yield f'<text x="{x + 140:g}" y="{y + 24:g}" text-anchor="end">{text.escape(panel.high)}</text>'
    else:
        yield f'<text x="{x:g}" y="{y + 24:g}">{text.escape(panel.low)}</text>'
        yield f'<text x="{x + 140:g}" y="{y + 24:g}" text-anchor="end">{text.escape(panel.high)}</text>'
    if hatched:
        yield f'<rect class="none" x="0" y="{y + 31:g}" width="14" height="10"/>'
        yield f'<text x="19" y="{y + 40:g}">not finite</text>'


def spread(bins: Sequence[ErrorBin], unit: str) -> Html:
    """A histogram of errors; on its logarithmic scale, a single element is visible."""
    tall, foot = 110, 16
    most = max((each.right + each.wrong for each in bins), default=1)
    step = WIDTH / max(len(bins), 6)
    description = "; ".join(
        f"{each.name}: {many(each.right + each.wrong, 'element')}" + (f", {each.wrong:,} wrong" if each.wrong else "")
        for each in bins
        if each.right + each.wrong
    )
    lines = [
        f'<svg class="spread" viewBox="0 0 {WIDTH} {tall + 2 * foot + 4}" role="img" '
        f'aria-label="{text.escape(f"Error distribution ({unit}). {description}")}">'
    ]
    written = -float(_LETTER)  # where the previous label ends
    for place, each in enumerate(bins):
        count = each.right + each.wrong
        x, y, height = place * step, 0.0, 0.0
        if count:
            height = max(3.0, tall * log1p(count) / log1p(most))
            y = foot + tall - height
            # A bar is divided in the proportion of wrong to right elements.
            wrong = height * each.wrong / count
            if each.wrong:
                wrong = max(wrong, 2.0)
                lines.append(_bar("wrong", x, y, step, wrong))
            if each.right:
                lines.append(_bar("right", x, y + wrong, step, max(height - wrong, 1.0)))
            lines.append(f'<text x="{x + step / 2:g}" y="{y - 4:g}" text-anchor="middle">{_count(count)}</text>')
        half = len(each.name) * _LETTER / 2
        middle = min(max(x + step / 2, half), WIDTH - half)
        if middle - half >= written + _LETTER:
            written = middle + half
            lines.append(
                f'<text class="quiet" x="{middle:g}" y="{foot + tall + 15}" text-anchor="middle">'
                f"{text.escape(each.name)}</text>"
            )
    lines.append(f'<path class="axis" d="M0 {foot + tall + 0.5}H{WIDTH}"/></svg>')
    return Html("".join(lines))


def _bar(kind: str, x: float, y: float, step: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x + 2:g}" y="{y:.4g}" width="{step - 4:g}" height="{height:.4g}"/>'


def _count(count: int) -> str:
    for unit, much in (("M", 10**6), ("k", 10**3)):
        if count >= much:
            return f"{text.number(count / much, 3 if count < 1000 * much else 4)}{unit}"
    return text.cut(str(count), 6)


# --- squares as PNG -------------------------------------------------------------------------------


def _png(panel: Panel) -> str:
    """A data URI with four bits for each square: a hundredth of the size of SVG rectangles.

    The data is stored, not compressed, because compressed bytes differ between zlib versions.
    """
    rows, columns = panel.levels.shape
    levels = np.where(panel.levels == UNSHOWN, _CLEAR, panel.levels).astype(np.uint8)
    even = np.zeros((rows, columns + columns % 2), np.uint8)
    even[:, :columns] = levels
    packed = (even[:, ::2] << 4) | even[:, 1::2]
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), packed], axis=1).tobytes()  # 0: no filter
    colours = [bytes.fromhex(colour[1:]) for colour in panel.colours]
    table = b"".join([*colours, b"\0\0\0" * (_CLEAR + 1 - len(colours))])
    file = b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", pack(">IIBBBBB", columns, rows, 4, 3, 0, 0, 0)),
            _chunk(b"PLTE", table),
            _chunk(b"tRNS", b"\xff" * _CLEAR + b"\0"),
            _chunk(b"IDAT", _stored(lines)),
            _chunk(b"IEND", b""),
        ]
    )
    return "data:image/png;base64," + b64encode(file).decode("ascii")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))


def _stored(data: bytes) -> bytes:
    """A zlib stream of one stored block; a picture has less than the 65,535 bytes that a block can hold."""
    return b"\x78\x01\x01" + pack("<HH", len(data), len(data) ^ 0xFFFF) + data + pack(">I", zlib.adler32(data))
