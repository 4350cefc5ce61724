"""The picture of a plan: well-formed, complete, and readable for any names and any number of tensors."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from lxml import etree

from tests.contexts.pictures import PICTURES, pictures
from udogen.draw.plan import draw_plan
from udogen.qnn.system import GraphInfo, TensorInfo
from udogen.runtime.buffers.plan import BufferPlan
from udogen.runtime.buffers.planning import BufferOptions, ExecutionStep, plan_buffers

SVG = "{http://www.w3.org/2000/svg}"
LETTER = 7.23  # DejaVu Sans Mono of 12 px


def plan_of(tensors: int, name: str, *, graphs: int = 5, **wishes: bool) -> BufferPlan:
    steps = [
        ExecutionStep(
            shard,
            GraphInfo(
                "prefill_forward",
                tuple(
                    TensorInfo(index, f"{name}{index}", "FLOAT_32", (1, 4**index % 1021 + 1, 64), None)
                    for index in range(tensors // graphs)
                ),
                (),
            ),
        )
        for shard in range(graphs)
    ]
    return plan_buffers(steps, BufferOptions(**wishes))


def boxes(svg: etree._Element) -> list[tuple[float, float, float, float]]:
    """Return the box of each text: left, top, right, bottom."""
    found = []
    for text in svg.iter(f"{SVG}text"):
        width = len(text.text or "") * LETTER
        x, y = float(text.get("x", "")), float(text.get("y", ""))
        left = x - {"middle": width / 2, "end": width}.get(text.get("text-anchor", ""), 0)
        found.append((left, y - 10, left + width, y + 3))
    return found


@pytest.mark.parametrize("wishes", [{"packed": True}, {}, {"packed": True, "shared": True, "reuse": True}])
@pytest.mark.parametrize(("tensors", "graphs"), [(200, 5), (200, 100), (1, 1)])
@pytest.mark.parametrize("name", ["x", "a_name_that_" + "goes_on_and_" * 20])
def test_no_texts_touch_and_none_leaves_the_picture(
    tensors: int, graphs: int, name: str, wishes: dict[str, bool]
) -> None:
    plan = plan_of(tensors, name, graphs=graphs, **wishes)
    svg = etree.fromstring(draw_plan(plan).encode())
    width, height = float(svg.get("width", "")), float(svg.get("height", ""))
    placed = sorted(boxes(svg), key=lambda box: (box[1], box[0]))
    assert all(left >= 0 and right <= width and top >= 0 and bottom <= height for left, top, right, bottom in placed)
    for before, after in pairwise(placed):
        assert after[1] >= before[3] or after[0] >= before[2], (before, after)


def test_every_tensor_and_every_buffer_is_drawn_and_described() -> None:
    plan = plan_of(20, "x")
    svg = etree.fromstring(draw_plan(plan, title="KV & rows").encode())
    assert svg.get("role") == "img" and svg.get("aria-labelledby") == "title what"
    titles = [each.text or "" for each in svg.iter(f"{SVG}title")]
    assert titles[0] == "KV & rows"
    assert titles[1] == (
        "x0 of graph prefill_forward, shard 0: FLOAT_32 [1, 2, 64], APP_WRITE, 512 bytes at offset 0 of "
        "0.prefill_forward.x0, steps 0 to 0, bound as RAW"
    )
    assert len(titles) == 1 + 20
    groups = [each.get("aria-label") for each in svg.iter(f"{SVG}g") if each.get("role") == "group"]
    assert len(groups) == 20 and groups[0] == "buffer 0.prefill_forward.x0, 512 bytes"
    [what] = svg.iter(f"{SVG}desc")
    assert (what.text or "").startswith("20 buffers of 111.2 KiB for 20 tensors in 5 executions.")


def test_light_and_dark() -> None:
    text = draw_plan(plan_of(5, "x"))
    assert "prefers-color-scheme: dark" in text
    used = set(re.findall(r"var\((--\w+)\)", text))
    defined = re.findall(r"(--\w+): #", text)
    assert used <= set(defined) and all(defined.count(name) == 2 for name in used)


def test_names_of_any_letters() -> None:
    plan = plan_of(3, "<&>\"'\x00\x1b\ud800\uffff", graphs=1, packed=True)
    text = draw_plan(plan, title="</title><script>")
    svg = etree.fromstring(text.encode())
    assert not list(svg.iter(f"{SVG}script"))
    assert any("<&>\"'\ufffd" in (each.text or "") for each in svg.iter(f"{SVG}text"))


def test_a_plan_of_nothing() -> None:
    svg = etree.fromstring(draw_plan(plan_buffers([], BufferOptions())).encode())
    assert next(each.text for each in svg.iter(f"{SVG}text")) == "0 bytes in 0 buffers"


def test_the_same_plan_is_the_same_picture() -> None:
    assert draw_plan(plan_of(50, "x")) == draw_plan(plan_of(50, "x"))


def test_the_pictures_of_the_documents_are_the_planners(sharded_llm: Callable[[str], Path]) -> None:
    """`make golden` writes them."""
    for name, text in pictures(sharded_llm("real")).items():
        assert (PICTURES / name).read_text("utf-8") == text
