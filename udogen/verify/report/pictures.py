"""Slices of tensors and spreads of errors as SVG, to stand inside of the report: light and dark come from its CSS."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from math import log1p
from struct import pack

from udogen.verify.report import palette
from udogen.verify.report.closeup import UNSHOWN, Bin, Panel, Slice
from udogen.verify.report.words import Html, cut, many, number, text

WIDTH = 320  # units of a picture; on a phone it has about as many pixels
_SQUARE, _THIN = 53, 14  # the largest square, and how flat one may be made
_CLEAR = 15  # the pixel that shows what is behind it


def heatmap(shown: Slice, panel: Panel, label: str) -> Html:
    """One panel of a slice: a square for each element, its numbers in it where there are few."""
    rows, columns = panel.levels.shape
    wide = min(_SQUARE, WIDTH / columns)
    high = min(_SQUARE, max(WIDTH / rows, _THIN if rows == 1 else 0), max(wide, WIDTH / 2 / rows))
    across, down = wide * columns, high * rows
    sides = f"{many(rows, 'row')} ({shown.rows}), {many(columns, 'column')} ({shown.columns})"
    told = text(f"{label}: {panel.title} of {shown.where}: {sides}")
    hatched = bool((panel.levels == UNSHOWN).any())
    legend = list(_legend(panel, down + 12, hatched=hatched))
    tall = down + (58 if hatched else 40)
    behind = f'<path class="none" d="{_outline(across, down, wide, high, columns, shown.spare)}"/>' if hatched else ""
    lines = [
        f'<svg class="heat" viewBox="0 0 {WIDTH} {tall:g}" role="img" aria-label="{told}">',
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
    """All squares but those that stand for nothing."""
    last = wide * (columns - spare)
    return f"M0 0H{across:g}V{down - high if spare else down:g}H{last:g}V{down:g}H0z"


def _numbers(panel: Panel, wide: float, high: float) -> Iterator[str]:
    longest = max((len(each) for row in panel.numbers for each in row), default=1)
    letters = min(13.0, (wide - 2) / (0.62 * longest))
    for y, row in enumerate(panel.numbers):
        for x, written in enumerate(row):
            level = int(panel.levels[y, x])
            ink = "" if level == UNSHOWN else f' fill="{palette.ink_on(panel.colours[level])}"'
            yield (
                f'<text class="in" x="{(x + 0.5) * wide:g}" y="{(y + 0.5) * high + letters * 0.35:g}" '
                f'font-size="{letters:.3g}"{ink}>{text(written)}</text>'
            )


def _legend(panel: Panel, y: float, *, hatched: bool) -> Iterator[str]:
    """What the colours mean: words for those that stand alone, a ramp for the others with what its ends are."""
    x = 0.0
    for word, colour in zip(panel.words, panel.colours, strict=False):
        yield f'<rect class="frame" x="{x:g}" y="{y:g}" width="14" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 19:g}" y="{y + 9:g}">{text(word)}</text>'
        x += 19 + 7 * len(word) + 12
    ramp = panel.colours[len(panel.words) :]
    step = 140 / len(ramp)
    for place, colour in enumerate(ramp):
        yield f'<rect x="{x + place * step:g}" y="{y:g}" width="{step:g}" height="10" fill="{colour}"/>'
    yield f'<rect class="frame" x="{x:g}" y="{y:g}" width="140" height="10" fill="none"/>'
    if panel.low == panel.high:
        yield f'<text x="{x + 140:g}" y="{y + 24:g}" text-anchor="end">{text(panel.high)}</text>'
    else:
        yield f'<text x="{x:g}" y="{y + 24:g}">{text(panel.low)}</text>'
        yield f'<text x="{x + 140:g}" y="{y + 24:g}" text-anchor="end">{text(panel.high)}</text>'
    if hatched:
        yield f'<rect class="none" x="0" y="{y + 31:g}" width="14" height="10"/>'
        yield f'<text x="19" y="{y + 40:g}">no finite number</text>'


def spread(bins: Sequence[Bin], unit: str) -> Html:
    """How many elements are how far off: bars on a scale of logarithms, so that a single one is seen too."""
    tall, foot = 110, 16
    most = max((each.right + each.wrong for each in bins), default=1)
    step = WIDTH / max(len(bins), 6)
    told = "; ".join(
        f"{each.name}: {many(each.right + each.wrong, 'element')}" + (f", {each.wrong:,} wrong" if each.wrong else "")
        for each in bins
        if each.right + each.wrong
    )
    lines = [
        f'<svg class="spread" viewBox="0 0 {WIDTH} {tall + 2 * foot + 4}" role="img" '
        f'aria-label="{text(f"How the errors are spread ({unit}). {told}")}">'
    ]
    every = 1 if max((len(each.name) for each in bins), default=0) * 6 < step - 2 else 2
    for place, each in enumerate(bins):
        count = each.right + each.wrong
        x, y, height = place * step, 0.0, 0.0
        if count:
            height = max(3.0, tall * log1p(count) / log1p(most))
            y = foot + tall - height
            # A bar is of one kind, or is divided as its elements are.
            wrong = height * each.wrong / count
            if each.wrong:
                wrong = max(wrong, 2.0)
                lines.append(_bar("wrong", x, y, step, wrong))
            if each.right:
                lines.append(_bar("right", x, y + wrong, step, max(height - wrong, 1.0)))
            lines.append(f'<text x="{x + step / 2:g}" y="{y - 4:g}" text-anchor="middle">{_count(count)}</text>')
        if place % every == 0:
            lines.append(
                f'<text class="quiet" x="{x + step / 2:g}" y="{foot + tall + 15}" text-anchor="middle">'
                f"{text(each.name)}</text>"
            )
    lines.append(f'<path class="axis" d="M0 {foot + tall + 0.5}H{WIDTH}"/></svg>')
    return Html("".join(lines))


def _bar(kind: str, x: float, y: float, step: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x + 2:g}" y="{y:.4g}" width="{step - 4:g}" height="{height:.4g}"/>'


def _count(count: int) -> str:
    for unit, much in (("M", 10**6), ("k", 10**3)):
        if count >= much:
            return f"{number(count / much, 3 if count < 1000 * much else 4)}{unit}"
    return cut(str(count), 6)


# --- a picture of squares as PNG ------------------------------------------------------------------


def _png(panel: Panel) -> str:
    """A data URI, four bits to a square: a hundredth of what it would be in rectangles.

    Stored, not compressed: which bytes compressing gives is not the same with every zlib.
    """
    import numpy as np

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
    """A zlib stream of one block as it is; a picture has less than the 65,535 bytes that one can hold."""
    return b"\x78\x01\x01" + pack("<HH", len(data), len(data) ^ 0xFFFF) + data + pack(">I", zlib.adler32(data))
