"""SVG documents without scripts, fonts or external resources; and diagrams as such documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise

from udogen.draw.diagram import KINDS, LETTER, LINE, PAD_X, PAD_Y, Diagram, Section
from udogen.draw.layout import DiagramLayout, PlacedBox, Point, arrange

MARGIN = 20
_BETWEEN = 44
_NARROWEST = 480

_EVERY_STYLE = """\
  svg { background: var(--paper) }
  text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: var(--ink); white-space: pre }
  .quiet { fill: var(--quiet) }
  .head { font-weight: bold }
"""
_STYLE = """
  :root { --paper: #ffffff; --ink: #1b1f24; --quiet: #57606a; --line: #6e7781; --band: #f3f5f7;
          --op: #ffffff; --custom: #fff1d6; --accent: #9a5b00; --tensor: #eef4fb; --edge: #8c959f;
          --input: #e3f4e6; --output: #f1e8fb; --static: #eceff1 }
  @media (prefers-color-scheme: dark) {
    :root { --paper: #0d1117; --ink: #e6edf3; --quiet: #9aa4af; --line: #8b949e; --band: #161c24;
            --op: #161b22; --custom: #3a2a08; --accent: #f0b34e; --tensor: #122236; --edge: #6e7681;
            --input: #10291a; --output: #281c3b; --static: #21262d }
  }
  .big { font-size: 15px; font-weight: bold }
  .wire { fill: none; stroke: var(--line); stroke-width: 1.2 }
  .tip { fill: var(--line) }
  .box { stroke: var(--edge); stroke-width: 1 }
  .op { fill: var(--op) }
  .custom { fill: var(--custom); stroke: var(--accent); stroke-width: 2.5 }
  .tensor { fill: var(--tensor) }
  .input { fill: var(--input) }
  .output { fill: var(--output) }
  .static, .param { fill: var(--static); stroke-dasharray: 4 3 }
  .more { fill: var(--paper); stroke-dasharray: 2 3 }
"""


def draw(diagram: Diagram) -> str:
    """The picture as a document."""
    layouts = [(section, arrange(section)) for section in diagram.sections]
    kinds = [kind for kind in KINDS if any(box.kind == kind for section, _ in layouts for box in section.boxes)]
    wide = max([_NARROWEST, *(layout.width for _, layout in layouts), *map(_wide, _texts(diagram, kinds))])
    width = round(wide + 2 * MARGIN)
    return document(diagram.title, diagram.description, width, _STYLE, _body(diagram, layouts, kinds))


def document(title: str, description: str, width: int, style: str, body: Iterable[str]) -> str:
    """A document with these elements, from top to bottom; the last item of `body` is the total height.

    The style defines the colours --paper, --ink and --quiet, for light and dark.
    """
    *elements, height = body
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-labelledby="title what">',
            f'<title id="title">{text_of(title)}</title>',
            f'<desc id="what">{text_of(description)}</desc>',
            f"<style>{style}{_EVERY_STYLE}</style>",
            f'<rect width="{width}" height="{height}" fill="var(--paper)"/>',
            *elements,
            "</svg>",
            "",
        ]
    )


def _texts(diagram: Diagram, kinds: Sequence[str]) -> Iterator[str]:
    """The texts outside boxes, which must fit too."""
    yield diagram.title + "    "  # marks the larger font for `_wide`
    yield diagram.description
    for section in diagram.sections:
        yield section.title
        yield section.note
    yield "".join(KINDS[kind] + "      " for kind in kinds)


def _wide(text: str) -> float:
    return len(text) * LETTER * (1.25 if text.endswith("    ") else 1)


def _body(diagram: Diagram, layouts: Sequence[tuple[Section, DiagramLayout]], kinds: Sequence[str]) -> Iterator[str]:
    """The elements from top to bottom; the last item is the total height."""
    y = MARGIN + 14.0
    yield line(MARGIN, y, diagram.title, "big")
    y += LINE
    yield line(MARGIN, y, diagram.description, "quiet")
    y += LINE
    x = float(MARGIN)
    for kind in kinds:
        yield f'<rect class="box {kind}" x="{x:g}" y="{y - 10:g}" width="14" height="12" rx="3"/>'
        yield line(x + 20, y, KINDS[kind])
        x += 20 + (len(KINDS[kind]) + 3) * LETTER
    y += LINE
    for section, layout in layouts:
        y += _BETWEEN
        yield f'<g role="group" aria-label="{text_of(section.title)}">'
        yield line(MARGIN, y, section.title, "head")
        if section.note:
            y += LINE
            yield line(MARGIN, y, section.note, "quiet")
        y += LINE
        yield from _section(layout, y)
        yield "</g>"
        y += layout.height
    yield f"{y + MARGIN:g}"


def _section(layout: DiagramLayout, top: float) -> Iterator[str]:
    for wire in layout.connectors:
        points = [(x + MARGIN, y + top) for x, y in wire.points]
        yield f'<path class="wire" d="{_path(points, sideways=wire.sideways)}"/>'
        x, y = points[-1]
        yield f'<path class="tip" d="M{x:g} {y:g} {"l-7 -4 v8 z" if wire.sideways else "l-4 -7 h8 z"}"/>'
    for placed in layout.boxes:
        yield from _box(placed, top)


def _path(points: Sequence[Point], *, sideways: bool) -> str:
    """An SVG path: straight along an axis, otherwise a curve."""
    parts = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 == x1 or y0 == y1:
            parts.append(f"L{x1:g} {y1:g}")
        elif sideways:
            middle = (x0 + x1) / 2
            parts.append(f"C{middle:g} {y0:g} {middle:g} {y1:g} {x1:g} {y1:g}")
        else:
            middle = (y0 + y1) / 2
            parts.append(f"C{x0:g} {middle:g} {x1:g} {middle:g} {x1:g} {y1:g}")
    return " ".join(parts)


def _box(placed: PlacedBox, top: float) -> Iterator[str]:
    box, x, y = placed.box, placed.x + MARGIN, placed.y + top
    round_ = 6 if box.kind in ("op", "custom") else 12
    description = box.description or " ".join(row.text for row in box.rows)
    yield f"<g><title>{text_of(description)}</title>"
    place = f'x="{x:g}" y="{y:g}" width="{box.width:g}" height="{box.height:g}"'
    yield f'<rect class="box {box.kind}" {place} rx="{round_}"/>'
    for number, row in enumerate(box.rows):
        yield line(x + PAD_X, y + PAD_Y + LINE * number + 12, row.shown, row.kind)
    yield "</g>"


def line(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    """A line of text."""
    looks = f' class="{kind}"' if kind else ""
    looks += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:g}" y="{y:g}"{looks}>{text_of(text)}</text>'


def text_of(text: str) -> str:
    """Escape text for XML, which does not allow control characters and lone surrogates."""
    return escape(re.sub("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", text))
