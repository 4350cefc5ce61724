"""Scene -> what a terminal and a program are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from udogen.draw.scene import Scene
from udogen.draw.svg import arrange


def lines(scene: Scene) -> Iterator[str]:
    """What is drawn, in short."""
    yield f"{scene.title}: {scene.told}"
    for section in scene.sections:
        ops = [box for box in section.boxes if box.kind in ("op", "custom")]
        values = len(section.boxes) - len(ops)
        counts = [
            f"{count} {word}{'' if count == 1 else 's'}" for count, word in ((len(ops), "op"), (values, "tensor"))
        ]
        yield f"  {section.title}: {', '.join(counts)}" + (f"; {section.note}" if section.note else "")
        for box in ops:
            if box.kind == "custom":
                yield f"    {box.told}"


def as_json(scene: Scene) -> dict[str, Any]:
    """Everything that is drawn, with its place in its section."""
    return {"title": scene.title, **scene.facts, "sections": [_section(each) for each in scene.sections]}


def _section(section: Any) -> dict[str, Any]:
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
