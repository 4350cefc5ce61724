"""Which output is connected to which input, in a chain of graphs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from udogen.qnn.quantization import ScaleOffset
from udogen.qnn.system import GraphInfo, TensorInfo
from udogen.runtime.models.connections import Connection, LinkFault, connect


def tensor(name: str, shape: tuple[int, ...] = (1, 4), dtype: str = "FLOAT_32", scale: float = 0) -> TensorInfo:
    return TensorInfo(0, name, dtype, shape, ScaleOffset(scale) if scale else None)


def graph(inputs: str, outputs: str, name: str = "g") -> GraphInfo:
    return GraphInfo(name, tuple(map(tensor, inputs.split())), tuple(map(tensor, outputs.split())))


def connected(
    *stages: GraphInfo, links: dict[str, str] | None = None, apart: Collection[tuple[int, str]] = ()
) -> tuple[tuple[Connection, ...], list[LinkFault]]:
    places = [f"stage {number}" for number in range(len(stages))]
    return connect(stages, links=links or {}, apart=apart, places=places)


def wires(*stages: GraphInfo, **more: Any) -> dict[str, list[str]]:
    found, faults = connected(*stages, **more)
    assert not faults
    return {wire.name: [f"{stage}.{each.name}" for stage, each in wire.targets] for wire in found}


def test_by_name_from_the_nearest_stage_before() -> None:
    assert wires(graph("x mask", "h"), graph("h mask", "h"), graph("h mask", "y")) == {"0.h": ["1.h"], "1.h": ["2.h"]}


def test_an_output_may_have_several_readers() -> None:
    assert wires(graph("x", "h rest"), graph("h", "g"), graph("g rest h", "y")) == {
        "0.h": ["1.h", "2.h"],
        "0.rest": ["2.rest"],
        "1.g": ["2.g"],
    }


def test_by_a_map_for_all_stages_or_for_one() -> None:
    stage = graph("hidden", "hidden_out")
    assert wires(stage, stage, stage) == {}
    assert wires(stage, stage, stage, links={"hidden": "hidden_out"}) == {
        "0.hidden_out": ["1.hidden"],
        "1.hidden_out": ["2.hidden"],
    }
    assert wires(stage, stage, stage, links={"2.hidden": "0.hidden_out"}) == {"0.hidden_out": ["2.hidden"]}


def test_tensors_with_a_place_of_their_own_are_left_out() -> None:
    stages = graph("x s", "h s"), graph("h s", "y")
    assert wires(*stages) == {"0.h": ["1.h"], "0.s": ["1.s"]}
    assert wires(*stages, apart={(1, "s")}) == {"0.h": ["1.h"]}


def test_tensors_that_cannot_be_one_piece_of_memory() -> None:
    writes = GraphInfo("a", (), (tensor("h", (1, 4)),))
    output = "output `h` of stage 0 (graph `a`)"
    for other, fault in (
        (tensor("h", (1, 5)), f"{output} is FLOAT_32 [1, 4], input `h` of stage 1 (graph `b`) is FLOAT_32 [1, 5]"),
        (
            tensor("h", dtype="INT_32"),
            f"{output} is FLOAT_32 [1, 4], input `h` of stage 1 (graph `b`) is INT_32 [1, 4]",
        ),
        (tensor("h", scale=0.5), f"{output} and input `h` of stage 1 (graph `b`) have different quantizations"),
    ):
        assert [each.text for each in connected(writes, GraphInfo("b", (other,), ()))[1]] == [fault]


def test_links_that_lead_nowhere_are_reported_together() -> None:
    _, faults = connected(graph("x", "y"), graph("x", "z"), links={"x": "nothing", "other": "y"})
    assert [each.text for each in faults] == [
        "input `x` of stage 1: nothing before it has an output `nothing`",
        "there is no input `other`",
    ]
