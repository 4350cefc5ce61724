"""Diagrams: boxes with lines of text, connected by lines, in sections from top to bottom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from udogen.tables import many, shape_text

LETTER, LINE = 7.3, 17  # width of a letter in a 12 px monospaced font, rounded up; height of a line
PAD_X, PAD_Y = 10, 7
LONGEST = 44  # letters of a line; longer ones are shortened in the middle, and complete in the box's tooltip

# Kinds of boxes, and their names in a legend.
KINDS: Mapping[str, str] = {
    "op": "op",
    "custom": "custom op",
    "input": "input",
    "output": "output",
    "tensor": "tensor",
    "static": "constant",
    "param": "parameter",
    "more": "left out",
}


@dataclass(frozen=True)
class TextLine:
    """A line of a box."""

    text: str
    kind: str = ""  # head, quiet

    @property
    def shown(self) -> str:
        """The text, shortened to the width of a box."""
        return shorten(self.text)


@dataclass(frozen=True)
class Box:
    """A named element: an op or a tensor."""

    id: str
    kind: str
    rows: tuple[TextLine, ...]
    description: str = ""  # full text, for tooltips and screen readers

    @property
    def width(self) -> float:
        """The width of the longest line, with padding."""
        return round(max((len(row.shown) for row in self.rows), default=1) * LETTER + 2 * PAD_X, 1)

    @property
    def height(self) -> float:
        """The height of all lines, with padding."""
        return len(self.rows) * LINE + 2 * PAD_Y


@dataclass(frozen=True)
class Section:
    """A graph, or an op with its tensors; edges are pairs of ids, from producer to consumer."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[tuple[str, str], ...] = ()
    note: str = ""
    sides: bool = False  # inputs on the left, outputs on the right of one op


@dataclass(frozen=True)
class Diagram:
    """A whole picture."""

    title: str
    description: str
    sections: tuple[Section, ...]
    facts: Mapping[str, object] = field(default_factory=dict)  # additional fields of `--json`


def shorten(text: str, letters: int = LONGEST) -> str:
    """The text, without its middle if it is too long, because names often begin alike."""
    if len(text) <= letters:
        return text
    head = (letters - 1) // 2
    return f"{text[:head]}…{text[len(text) - (letters - 1 - head) :]}"


def head(text: str) -> TextLine:
    """A line in bold."""
    return TextLine(text, "head")


def quiet(text: str) -> TextLine:
    """A line in grey."""
    return TextLine(text, "quiet")


def shape_or_word(shape: Sequence[object] | None) -> str:
    """A shape as `1x3x8`, or words if it is unknown or a scalar."""
    return "of unknown shape" if shape is None else shape_text(shape) or "scalar"


def lines(diagram: Diagram) -> Iterator[str]:
    """A summary of the diagram as text."""
    yield f"{diagram.title}: {diagram.description}"
    for section in diagram.sections:
        ops = [box for box in section.boxes if box.kind in ("op", "custom")]
        values = len(section.boxes) - len(ops)
        counts = [many(count, word) for count, word in ((len(ops), "op"), (values, "tensor"))]
        yield f"  {section.title}: {', '.join(counts)}" + (f"; {section.note}" if section.note else "")
        for box in ops:
            if box.kind == "custom":
                yield f"    {box.description}"
