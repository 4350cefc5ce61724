"""Pictures of graphs: nothing overlaps, nothing leaves the page, everything has a label, for any graph."""

from __future__ import annotations

import random
import re
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from lxml import etree

from tests.init import models
from udogen.configs.load import load
from udogen.draw import sources, svg
from udogen.draw.diagram import KINDS, Box, Diagram, Section, TextLine, head
from udogen.draw.layout import DiagramLayout, arrange, layered
from udogen.opdef.onnx.load import load_model

SVG = "{http://www.w3.org/2000/svg}"
LETTER = 7.23  # DejaVu Sans Mono of 12 px
Rectangle = tuple[float, float, float, float]


def rectangles(layout: DiagramLayout) -> list[Rectangle]:
    return [(each.x, each.y, each.x + each.box.width, each.y + each.box.height) for each in layout.boxes]


def overlap(one: Rectangle, other: Rectangle) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def curve(points: tuple[tuple[float, float], ...], *, sideways: bool) -> list[tuple[float, float]]:
    """Return points of a wire as it is drawn: straight down, and between rows a cubic curve."""
    if sideways:
        turned = tuple((y, x) for x, y in points)
        return [(x, y) for y, x in curve(turned, sideways=False)]
    found = []
    for (x0, y0), (x1, y1) in pairwise(points):
        for step in range(21):
            t = step / 20
            bend = 3 * t * t - 2 * t**3 if x0 != x1 else t  # both control points at the middle height
            along = 1.5 * t - 1.5 * t * t + t**3 if x0 != x1 else t
            found.append((x0 + (x1 - x0) * bend, y0 + (y1 - y0) * along))
    return found


def hold(layout: DiagramLayout) -> None:
    """Check that boxes do not overlap, wires touch only the boxes that they join, and all is on the page."""
    boxes = {each.box.id: box for each, box in zip(layout.boxes, rectangles(layout), strict=True)}
    for (first, one), (second, other) in combinations(boxes.items(), 2):
        assert not overlap(one, other), (first, second)
    right, bottom = layout.width + 0.15, layout.height + 0.15  # positions are rounded to tenths
    assert all(x >= -0.15 and y >= -0.15 and r <= right and b <= bottom for x, y, r, b in boxes.values())
    for wire in layout.connectors:
        assert all(-0.15 <= x <= right and -0.15 <= y <= bottom for x, y in wire.points)
        for x, y in curve(wire.points, sideways=wire.sideways):
            for name, (x0, y0, x1, y1) in boxes.items():
                inside = x0 + 0.6 < x < x1 - 0.6 and y0 + 0.6 < y < y1 - 0.6
                assert not inside, (wire.source, wire.target, name)


@pytest.mark.parametrize("seed", range(40))
def test_no_box_overlaps_and_no_line_crosses_a_box(seed: int) -> None:
    dice = random.Random(seed)
    count = dice.choice((1, 2, 7, 30, 80))
    boxes = [
        Box(str(n), "op", tuple(TextLine("x" * dice.randint(1, 60)) for _ in range(dice.randint(1, 6))))
        for n in range(count)
    ]
    edges = [(str(dice.randrange(count)), str(dice.randrange(count))) for _ in range(dice.randint(0, 2 * count))]
    layout = layered(boxes, edges)  # with loops, cycles and duplicate edges
    hold(layout)
    joined = {frozenset(edge) for edge in edges if edge[0] != edge[1]}
    assert {frozenset((wire.source, wire.target)) for wire in layout.connectors} == joined
    assert layout == layered(boxes, edges)


@pytest.mark.parametrize("name", models.ALL)
def test_models(name: str, tmp_path: Path) -> None:
    loaded = load_model(models.save(name, tmp_path))
    diagram = sources.onnx_diagram(loaded)
    for section in diagram.sections:
        hold(arrange(section))
    custom = [box for section in diagram.sections for box in section.boxes if box.kind == "custom"]
    assert len(custom) == sum(row["uses"] for row in diagram.facts["custom"])  # type: ignore[attr-defined]
    check_document(svg.draw(diagram))


@pytest.mark.parametrize(
    "config", sorted((Path(__file__).parents[2] / "examples").glob("*/*.xml")), ids=lambda p: p.name
)
def test_configs(config: Path) -> None:
    packages, _ = load([config])
    diagram = sources.config_diagram(packages, config.name)
    for section in diagram.sections:
        hold(arrange(section))
    check_document(svg.draw(diagram))
    assert len(diagram.sections) == sum(len(package.ops) for package in packages)


def texts(root: etree._Element) -> list[Rectangle]:
    found = []
    for text in root.iter(f"{SVG}text"):
        large = 1.25 if text.get("class") == "big" else 1
        width = len(text.text or "") * LETTER * large
        x, y = float(text.get("x", "")), float(text.get("y", ""))
        found.append((x, y - 10 * large, x + width, y + 3 * large))
    return found


def check_document(text: str) -> None:
    """Check that it is well-formed, with titles, without overlapping texts, all on the page."""
    root = etree.fromstring(text.encode())
    assert root.get("role") == "img" and root.get("aria-labelledby") == "title what"
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    placed = texts(root)
    assert all(left >= 0 and right <= width and top >= 0 and bottom <= height for left, top, right, bottom in placed)
    for one, other in combinations(placed, 2):
        assert not overlap(one, other)
    boxes = [each for each in root.iter(f"{SVG}g") if each.find(f"{SVG}rect") is not None]
    assert boxes and all(each.findtext(f"{SVG}title") for each in boxes if each.get("role") != "group")
    assert not re.findall(r"(?:href|src|url\()", text), "nothing is fetched"


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_texts_have_contrast_in_light_and_dark() -> None:
    document = svg.draw(Diagram("t", "d", (Section("s", (Box("a", "op", (head("a"),)),)),)))
    light, dark = (dict(re.findall(r"--(\w+): (#\w{6})", part)) for part in document.split("@media", 1))
    assert light.keys() == dark.keys()
    for colours in (light, dark):
        for paper in ("paper", "op", "custom", "tensor", "input", "output", "static"):
            for ink in ("ink", "quiet"):
                assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper)
        assert contrast(colours["line"], colours["paper"]) >= 3
        assert contrast(colours["accent"], colours["custom"]) >= 3


def test_kinds_are_also_in_words(tmp_path: Path) -> None:
    """Readers who cannot distinguish the colours read `custom`, `input`, `output`."""
    diagram = sources.onnx_diagram(load_model(models.save("torch_style", tmp_path)))
    for section in diagram.sections:
        for box in section.boxes:
            if box.kind in ("custom", "input", "output"):
                assert any(row.text.startswith(box.kind) for row in box.rows), box
    assert set(KINDS) >= {box.kind for section in diagram.sections for box in section.boxes}


def test_names_of_any_letters() -> None:
    name = "<&>\"'\x00\x1b\ud800\uffff]]>"
    box = Box(name, "op", (head(name),), name)
    text = svg.draw(Diagram("</title><script>", name, (Section(name, (box,)),)))
    root = etree.fromstring(text.encode())
    assert not list(root.iter(f"{SVG}script"))
    assert any("<&>\"'\ufffd" in (each.text or "") for each in root.iter(f"{SVG}text"))


def test_nothing_to_draw() -> None:
    check = etree.fromstring(svg.draw(Diagram("empty", "0 nodes", (Section("graph", ()),))).encode())
    assert [each.text for each in check.iter(f"{SVG}text")][:2] == ["empty", "0 nodes"]
