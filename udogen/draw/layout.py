"""The layout of a diagram: in rows, with lines that run down and do not cross boxes, or in columns next to one op.

Graphviz is missing on many machines, and layered layouts on PyPI are under the GPL.  This is Sugiyama's method: rows by
longest paths, order by barycentres, positions by least squares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import Any

from udogen.draw.diagram import Box, Diagram, Section

GAP_X, GAP_Y = 26.0, 34.0  # between boxes of a row, and between rows
_LANE = 6.0  # the width reserved for a line that passes through a row
_SWEEPS = 6
_SETTLING, _STILL = 15, 0.2  # the maximum of sweeps, and the movement below which they stop
Point = tuple[float, float]


@dataclass(frozen=True)
class PlacedBox:
    """A box and its upper left corner."""

    box: Box
    x: float
    y: float


@dataclass(frozen=True)
class Connector:
    """A line from box to box: points from top to bottom, or from left to right."""

    source: str
    target: str
    points: tuple[Point, ...]
    sideways: bool = False


@dataclass(frozen=True)
class DiagramLayout:
    """The positions of all boxes and connectors."""

    boxes: tuple[PlacedBox, ...]
    connectors: tuple[Connector, ...]
    width: float
    height: float


@dataclass
class _Slot:
    """A position in a row, of a box or a passing line."""

    row: int
    box: Box | None = None
    above: list[_Slot] = field(default_factory=list)
    below: list[_Slot] = field(default_factory=list)
    order: float = 0.0
    x: float = 0.0  # the middle

    @property
    def width(self) -> float:
        return self.box.width if self.box else _LANE


def layered(boxes: Sequence[Box], edges: Sequence[tuple[str, str]]) -> DiagramLayout:
    """The layout of one graph; edges that close a cycle are reversed."""
    if not boxes:
        return DiagramLayout((), (), 0, 0)
    forward = _forward([each.id for each in boxes], edges)
    rows_of = _rows([each.id for each in boxes], forward)
    slots = {each.id: _Slot(rows_of[each.id], each) for each in boxes}
    chains = {edge: _chain(slots[edge[0]], slots[edge[1]]) for edge in forward}
    rows: list[list[_Slot]] = [[] for _ in range(max(rows_of.values()) + 1)]
    for slot in slots.values():
        rows[slot.row].append(slot)
    for chain in chains.values():
        for slot in chain[1:-1]:
            rows[slot.row].append(slot)
    _order(rows)
    _place(rows)
    return _layout(rows, chains, set(edges))


def _forward(ids: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each edge once, without loops; edges that close a cycle are reversed."""
    followers: dict[str, list[str]] = {each: [] for each in ids}
    for source, target in dict.fromkeys(edges):
        if source != target and source in followers and target in followers:
            followers[source].append(target)
    found: dict[tuple[str, str], None] = {}
    state: dict[str, int] = {}  # 1: on the current path, 2: done
    for start in ids:
        stack = [(start, iter(followers[start]))] if start not in state else []
        state.setdefault(start, 1)
        while stack:
            here, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[here] = 2
                stack.pop()
                continue
            circle = state.get(following) == 1
            found[(following, here) if circle else (here, following)] = None
            if following not in state:
                state[following] = 1
                stack.append((following, iter(followers[following])))
    return list(found)


def _rows(ids: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The row of each box: its longest path from the top; boxes move down to their users if no line gets longer."""
    above: dict[str, list[str]] = {each: [] for each in ids}
    below: dict[str, list[str]] = {each: [] for each in ids}
    for source, target in edges:
        above[target].append(source)
        below[source].append(target)
    order = list(TopologicalSorter(above).static_order())
    row: dict[str, int] = {}
    for each in order:
        row[each] = max((row[other] + 1 for other in above[each]), default=0)
    for each in reversed(order):
        if below[each] and len(above[each]) <= len(below[each]):
            row[each] = min(row[target] for target in below[each]) - 1
    return row


def _chain(source: _Slot, target: _Slot) -> list[_Slot]:
    """The slots from box to box, with one in each row between them."""
    chain = [source, *(_Slot(row) for row in range(source.row + 1, target.row)), target]
    for one, other in pairwise(chain):
        one.below.append(other)
        other.above.append(one)
    return chain


def _order(rows: list[list[_Slot]]) -> None:
    """Order the rows by barycentres, alternately down and up, so that neighbours are below each other."""
    for row in rows:
        for place, slot in enumerate(row):
            slot.order = float(place)
    for sweep in range(_SWEEPS):
        downward = sweep % 2 == 0
        for row in rows if downward else reversed(rows):
            centres = {}
            for slot in row:
                near = slot.above if downward else slot.below
                centres[id(slot)] = sum(each.order for each in near) / len(near) if near else slot.order
            row.sort(key=lambda slot: centres[id(slot)])
            for place, slot in enumerate(row):
                slot.order = float(place)


def _center(row: Sequence[_Slot]) -> None:
    """Place the boxes of a row side by side, around 0."""
    at = -(sum(slot.width for slot in row) + GAP_X * (len(row) - 1)) / 2
    for slot in row:
        slot.x = at + slot.width / 2
        at += slot.width + GAP_X


def _pull(row: Sequence[_Slot], *, above: bool, below: bool) -> float:
    """Move the boxes of a row towards their neighbours above or below; returns the largest movement."""
    moved = 0.0
    near = [[*(slot.above if above else ()), *(slot.below if below else ())] for slot in row]
    wanted = [
        sum(other.x for other in each) / len(each) if each else slot.x for slot, each in zip(row, near, strict=True)
    ]
    for slot, x in zip(row, _apart(row, wanted), strict=True):
        moved = max(moved, abs(slot.x - x))
        slot.x = x
    return moved


def _place(rows: list[list[_Slot]]) -> None:
    """Move boxes near their neighbours, without overlap."""
    for row in rows:
        _center(row)
    # First towards one side per sweep, which straightens chains immediately; then towards both.
    for sweep in range(_SETTLING):
        both = sweep >= _SETTLING - 3
        moved = 0.0
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            moved = max(moved, _pull(row, above=down or both, below=not down or both))
        if both and moved < _STILL:
            break
    left = min(slot.x - slot.width / 2 for row in rows for slot in row)
    for row in rows:
        for slot in row:
            slot.x -= left


def _apart(row: Sequence[_Slot], wanted: Sequence[float]) -> list[float]:
    """The positions closest to the given ones (least squares) with enough space between neighbours."""
    offsets = [0.0]
    for one, other in pairwise(row):
        offsets.append(offsets[-1] + (one.width + other.width) / 2 + GAP_X)
    blocks: list[tuple[float, int]] = []  # the mean of adjacent boxes that touch, and their number
    for position, offset in zip(wanted, offsets, strict=True):
        mean, count = position - offset, 1
        while blocks and blocks[-1][0] > mean:
            before, many = blocks.pop()
            mean, count = (mean * count + before * many) / (count + many), count + many
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _layout(
    rows: list[list[_Slot]], chains: Mapping[tuple[str, str], list[_Slot]], asked: set[tuple[str, str]]
) -> DiagramLayout:
    tops, y = [], 0.0
    for row in rows:
        height = max((slot.box.height for slot in row if slot.box), default=0.0)
        tops.append((y, y + height))
        y += height + GAP_Y
    boxes = tuple(
        PlacedBox(slot.box, round(slot.x - slot.width / 2, 1), round(tops[number][0], 1))
        for number, row in enumerate(rows)
        for slot in row
        if slot.box
    )
    wires = []
    for (source, target), chain in chains.items():
        points = [point for slot in chain for point in ((slot.x, tops[slot.row][0]), (slot.x, tops[slot.row][1]))]
        first = chain[0].box
        assert first is not None
        points[1:1] = [(chain[0].x, tops[chain[0].row][0] + first.height)]  # below its box, inside its row
        rounded = tuple((round(x, 1), round(down, 1)) for x, down in points[1:-1])
        turned = (source, target) not in asked
        wires.append(Connector(target if turned else source, source if turned else target, rounded))
    width = max(placed.x + placed.box.width for placed in boxes)
    lanes = max((x for wire in wires for x, _ in wire.points), default=0.0)
    return DiagramLayout(boxes, tuple(wires), round(max(width, lanes + _LANE), 1), round(y - GAP_Y, 1))


# --- one op or stored graph: inputs on the left, outputs on the right ------------------------------------------------


_BETWEEN = 90.0
_GAP = 10.0


def beside(boxes: Sequence[Box], edges: Sequence[tuple[str, str]]) -> DiagramLayout:
    """The layout with the op in the middle, and its inputs and outputs in columns next to it, in order."""
    [middle] = [each for each in boxes if each.kind in ("op", "custom")]
    sources, targets = ({each for edge in edges for each in edge[end : end + 1]} - {middle.id} for end in (0, 1))
    left, right = ([each for each in boxes if each.id in ids] for ids in (sources, targets))
    height = max(_column_height(left), _column_height(right), middle.height)
    x_middle = _column_width(left) + (_BETWEEN if left else 0.0)
    x_right = x_middle + middle.width + _BETWEEN
    placed = [PlacedBox(middle, round(x_middle, 1), round((height - middle.height) / 2, 1))]
    wires = []
    for column, is_left in ((left, True), (right, False)):
        y = (height - _column_height(column)) / 2
        for number, box in enumerate(column):
            x = x_middle - _BETWEEN - box.width if is_left else x_right
            placed.append(PlacedBox(box, round(x, 1), round(y, 1)))
            y_middle = height / 2 + ((number + 1) / (len(column) + 1) - 0.5) * (middle.height - 8)
            y_box = y + box.height / 2
            if is_left:
                wires.append(_straight(box, (x + box.width, y_box), middle, (x_middle, y_middle)))
            else:
                wires.append(_straight(middle, (x_middle + middle.width, y_middle), box, (x, y_box)))
            y += box.height + _GAP
    width = x_right + _column_width(right) if right else x_middle + middle.width
    return DiagramLayout(tuple(placed), tuple(wires), round(width, 1), round(height, 1))


def _column_width(boxes: Sequence[Box]) -> float:
    return max((each.width for each in boxes), default=0.0)


def _column_height(boxes: Sequence[Box]) -> float:
    return max(sum(each.height + _GAP for each in boxes) - _GAP, 0.0)


def _straight(source: Box, begin: Point, target: Box, end: Point) -> Connector:
    points = tuple((round(x, 1), round(y, 1)) for x, y in (begin, end))
    return Connector(source.id, target.id, points, sideways=True)


# --- both, and as JSON -----------------------------------------------------------------------------------------------


def arrange(section: Section) -> DiagramLayout:
    """The layout of a section."""
    return beside(section.boxes, section.edges) if section.sides else layered(section.boxes, section.edges)


def as_json(diagram: Diagram) -> dict[str, Any]:
    """The diagram with the position of each box in its section."""
    return {"title": diagram.title, **diagram.facts, "sections": [_section_json(each) for each in diagram.sections]}


def _section_json(section: Section) -> dict[str, Any]:
    layout = arrange(section)
    return {
        "title": section.title,
        "note": section.note,
        "width": layout.width,
        "height": layout.height,
        "boxes": [
            {
                "id": placed.box.id,
                "kind": placed.box.kind,
                "rows": [row.text for row in placed.box.rows],
                "x": placed.x,
                "y": placed.y,
                "width": placed.box.width,
                "height": placed.box.height,
            }
            for placed in layout.boxes
        ],
        "edges": [list(edge) for edge in section.edges],
    }
