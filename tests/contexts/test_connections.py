"""Which output is connected to which input, in a chain of graphs."""

from __future__ import annotations

import pytest

from tests.contexts.conftest import refused
from udogen.errors import UsageError
from udogen.qnn.quantization import ScaleOffset
from udogen.qnn.system import BinaryInfo, GraphInfo, HtpGraph, TensorInfo
from udogen.runtime.sessions.connections import find_connections
from udogen.runtime.sessions.placement import Activation, SizedShard, layers_of


def tensor(name: str, shape: tuple[int, ...] = (1, 4), dtype: str = "FLOAT_32", scale: float = 0) -> TensorInfo:
    return TensorInfo(0, name, dtype, shape, ScaleOffset(scale) if scale else None)


def graph(inputs: str, outputs: str, name: str = "g") -> GraphInfo:
    return GraphInfo(name, tuple(map(tensor, inputs.split())), tuple(map(tensor, outputs.split())))


def wires(*stages: GraphInfo, links: dict[str, str] | None = None, **more: object) -> dict[str, list[str]]:
    found = find_connections(stages, links=links, **more)  # type: ignore[arg-type]
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
        with refused(f"the graphs cannot be connected: {fault}", error=UsageError):
            find_connections([writes, GraphInfo("b", (other,), ())])


def test_links_that_lead_nowhere_are_reported_together() -> None:
    with pytest.raises(UsageError) as caught:
        find_connections([graph("x", "y"), graph("x", "z")], links={"x": "nothing", "other": "y"})
    assert caught.value.message == "the graphs cannot be connected: 2 links are wrong"
    assert list(caught.value.details) == [
        "input `x` of stage 1: nothing before it has an output `nothing`",
        "there is no input `other`",
    ]


# --- what shards map --------------------------------------------------------------------------------------------------


def binary(*graphs: GraphInfo) -> BinaryInfo:
    return BinaryInfo(6, "b", "2.0.0", "1.0.0", "s", graphs)


def shard(number: int) -> BinaryInfo:
    def made(name: str, tokens: int, spill: int) -> GraphInfo:
        cache = (1, 32, 64)
        return GraphInfo(
            name,
            (tensor("hidden", (tokens, 64)), tensor("mask", (tokens, 32)), tensor("past_key", cache)),
            (tensor("hidden_out", (tokens, 64)), tensor("key", cache)),
            htp=HtpGraph(spill_fill=spill),
        )

    return binary(made("prefill", 16, 500), made("kv", 1, 300))


def test_what_a_context_maps_is_read_from_its_binary() -> None:
    links = {"hidden": "hidden_out"}
    shards = [SizedShard(f"s{number}", shard(number), size=1000) for number in range(3)]
    first, middle, last = layers_of(shards, links=links, states=("past_*", "key"))
    assert (middle.name, middle.weights, middle.spill_fill) == ("s1", 1000, 500)
    assert middle.cache == 2 * 32 * 64 * 4
    assert middle.compute == 16 * 32 * 4  # the mask of prefill, which is larger than that of kv
    assert middle.activations == (
        Activation("kv:0.hidden_out", 256),
        Activation("kv:1.hidden_out", 256),
        Activation("prefill:0.hidden_out", 4096),
        Activation("prefill:1.hidden_out", 4096),
    )
    assert first.compute == middle.compute + 4096 == last.compute  # plus the input or output of the model
    assert [len(each.activations) for each in (first, last)] == [2, 2]


def test_what_the_runtime_reports_counts_more() -> None:
    [layer] = layers_of([SizedShard("s", shard(0), size=1000, weights=700, spill_fill=9)])
    assert (layer.weights, layer.spill_fill) == (700, 9)
