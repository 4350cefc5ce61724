"""The layout of a single op or stored graph: inputs on the left, the box itself, outputs on the right."""

from __future__ import annotations

from collections.abc import Sequence

from udogen.draw.layers import Layout, Placed, Wire
from udogen.draw.scene import Box

_BETWEEN = 90.0
_GAP = 10.0


def beside(boxes: Sequence[Box], edges: Sequence[tuple[str, str]]) -> Layout:
    """One box in the middle, which the edges name; the others in columns beside it, in their order."""
    [middle] = [each for each in boxes if each.kind in ("op", "custom")]
    taken, made = {source for source, _ in edges}, {target for _, target in edges}
    left = [each for each in boxes if each.id in taken - {middle.id}]
    right = [each for each in boxes if each.id in made - {middle.id}]
    heights = [sum(each.height + _GAP for each in side) - _GAP if side else 0.0 for side in (left, right)]
    height = max(*heights, middle.height)
    x_middle = max((each.width for each in left), default=0.0) + (_BETWEEN if left else 0.0)
    x_right = x_middle + middle.width + _BETWEEN
    placed = [Placed(middle, round(x_middle, 1), round((height - middle.height) / 2, 1))]
    y_middle = height / 2
    wires = []
    for side, tall, is_left in ((left, heights[0], True), (right, heights[1], False)):
        y = (height - tall) / 2
        for number, box in enumerate(side):
            x = x_middle - _BETWEEN - box.width if is_left else x_right
            placed.append(Placed(box, round(x, 1), round(y, 1)))
            spread = (number + 1) / (len(side) + 1) - 0.5
            inner = (x_middle if is_left else x_middle + middle.width, y_middle + spread * (middle.height - 8))
            outer = (x + box.width if is_left else x, y + box.height / 2)
            points = tuple((round(a, 1), round(b, 1)) for a, b in ((outer, inner) if is_left else (inner, outer)))
            ends = (box.id, middle.id) if is_left else (middle.id, box.id)
            wires.append(Wire(*ends, points, sideways=True))
            y += box.height + _GAP
    width = x_right + max(each.width for each in right) if right else x_middle + middle.width
    return Layout(tuple(placed), tuple(wires), round(width, 1), round(height, 1))
