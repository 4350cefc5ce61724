"""The planner: offsets that never collide, for any options; a plan that is written according to its schema."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udogen import resources
from udogen.errors import UsageError
from udogen.qnn.system import GraphInfo, TensorInfo
from udogen.qnn.tensors import byte_size
from udogen.runtime.buffers import planning
from udogen.runtime.buffers.plan import BufferPlan
from udogen.runtime.buffers.planning import (
    BufferOptions,
    Endpoint,
    ExecutionStep,
    Link,
    PlannedValue,
    chain_links,
    plan_buffers,
    state_links,
)


def tensor(name: str, *shape: int, dtype: str = "FLOAT_32") -> TensorInfo:
    return TensorInfo(0, name, dtype, shape, None)


def graph(name: str, inputs: list[TensorInfo], outputs: list[TensorInfo]) -> GraphInfo:
    return GraphInfo(name, tuple(inputs), tuple(outputs))


def shards(count: int, *, graphs: tuple[str, ...] = ("prefill", "kv")) -> list[ExecutionStep]:
    """Return shards that pass a row on to the next, and keep a cache."""
    sides = [tensor("row", 1, 16), tensor("past", 4, 8)], [tensor("next", 1, 16), tensor("cache", 4, 8)]
    return [ExecutionStep(shard, graph(name, *sides)) for name in graphs for shard in range(count)]


def handed_on(steps: list[ExecutionStep]) -> list[Link]:
    return chain_links(steps, {"next": "row"}) + state_links(steps, {"cache": "past"})


def refused(steps: list[ExecutionStep], *links: Link, **options: object) -> list[str]:
    with pytest.raises(UsageError) as caught:
        plan_buffers(steps, BufferOptions(**options), links)  # type: ignore[arg-type]
    assert caught.value.message == "these tensors cannot be planned"
    return list(caught.value.details)


# --- options, and their effect ------------------------------------------------------------------------------------


def test_one_buffer_for_each_tensor() -> None:
    plan = plan_buffers(shards(1), BufferOptions(shared=True, memory="memfd"))
    assert [(row.buffer, row.offset, row.nbytes, row.bound) for row in plan.tensors[:2]] == [
        ("0.prefill.row", 0, 64, "ION"),
        ("0.prefill.past", 0, 128, "ION"),
    ]
    assert len(plan.buffers) == len(plan.tensors) == 8
    assert plan.why == "requested" and {buffer.allocator for buffer in plan.buffers} == {"memfd"}


def test_one_block_of_client_memory() -> None:
    plan = plan_buffers(shards(2), BufferOptions(packed=True, alignment=128))
    assert [(buffer.name, buffer.allocator) for buffer in plan.buffers] == [("all", "client")]
    assert [row.offset for row in plan.tensors[:4]] == [0, 128, 256, 384]
    assert plan.size == 16 * 128 and plan.tensor_bytes == 8 * 64 + 8 * 128
    assert {row.bound for row in plan.tensors} == {"RAW"}


def test_shared_blocks_belong_to_the_shards_that_map_them() -> None:
    steps = shards(3)
    plan = plan_buffers(steps, BufferOptions(packed=True, shared=True), handed_on(steps))
    assert [buffer.name for buffer in plan.buffers] == ["shard 0", "shard 0+1", "shard 1", "shard 1+2", "shard 2"]
    [out] = [row for row in plan.of(0, "kv") if row.tensor == "next"]
    [given_on] = [row for row in plan.of(1, "kv") if row.tensor == "row"]
    assert (out.buffer, out.offset, out.value) == (given_on.buffer, given_on.offset, given_on.value)
    assert out.buffer == "shard 0+1" and out.bound == "SHARED_BUFFER"
    caches = {(row.buffer, row.offset) for row in plan.tensors if row.shard == 1 and row.tensor in ("cache", "past")}
    assert len(caches) == 1


def test_reuse_needs_fewer_bytes_and_stepwise_fewer_still() -> None:
    steps = shards(8)
    sizes = [
        plan_buffers(steps, BufferOptions(packed=True, **option), handed_on(steps)).size
        for option in ({}, {"reuse": True}, {"reuse": True, "stepwise": True})
    ]
    assert sizes == [8 * 128 + 2 * 9 * 64, 8 * 128 + 3 * 64, 8 * 128 + 2 * 64]


def test_lifetimes() -> None:
    steps = shards(3, graphs=("kv",))
    links = handed_on(steps)

    def alive(plan: BufferPlan) -> dict[str, tuple[int, int]]:
        return {f"{row.shard}.{row.tensor}": (row.first, row.last) for row in plan.tensors}

    whole, stepwise = (alive(plan_buffers(steps, BufferOptions(stepwise=each), links)) for each in (False, True))
    assert whole["0.row"] == (0, 0) and whole["0.next"] == whole["1.row"] == (0, 1)
    assert whole["1.cache"] == whole["1.past"] == stepwise["1.past"] == (0, 2)  # a state: from run to run
    alone = [
        ExecutionStep(0, graph("a", [tensor("x", 1)], [tensor("y", 1)])),
        ExecutionStep(1, graph("b", [tensor("z", 1)], [])),
    ]
    assert alive(plan_buffers(alone, BufferOptions())) == {"0.x": (0, 0), "0.y": (0, 1), "1.z": (0, 1)}
    assert alive(plan_buffers(alone, BufferOptions(stepwise=True))) == {"0.x": (0, 0), "0.y": (0, 0), "1.z": (1, 1)}


def test_a_graph_that_is_executed_twice_keeps_its_tensors_between() -> None:
    one, two = (ExecutionStep(shard, graph("g", [tensor("x", 4)], [tensor("y", 4)])) for shard in (0, 1))
    plan = plan_buffers([one, two, one], BufferOptions(packed=True, reuse=True, stepwise=True))
    assert [(row.first, row.last) for row in plan.tensors] == [(0, 2), (0, 2), (1, 1), (1, 1)]
    assert plan.size == 4 * 64


def test_a_context_registers_no_place_with_two_types() -> None:
    first = graph("a", [tensor("x", 64)], [])
    second = graph("b", [tensor("y", 256, dtype="UINT_8")], [])
    option = {"reuse": True, "stepwise": True}
    for shard, offsets in ((0, [0, 64]), (1, [0, 0])):  # in one context, and in two
        steps = [ExecutionStep(0, first), ExecutionStep(shard, second)]
        plan = plan_buffers(steps, BufferOptions(shared=True, packed=True, **option))
        if shard == 0:
            assert [row.offset for row in plan.tensors] == offsets
        apart = plan_buffers(steps, BufferOptions(shared=True, **option))
        assert len({row.buffer for row in apart.tensors}) == (2 if shard == 0 else 1)
    assert [row.offset for row in plan_buffers(steps, BufferOptions(packed=True, **option)).tensors] == [0, 0]


def test_nothing_is_planned_for_nothing() -> None:
    plan = plan_buffers([], BufferOptions(packed=True))
    assert (plan.size, plan.buffers, plan.tensors) == (0, (), ())
    assert plan.as_json()["bytes"] == {"buffers": 0, "tensors": 0}


# --- errors ----------------------------------------------------------------------------------------------


def test_faults_are_reported_together() -> None:
    step = ExecutionStep(
        2, graph("g", [tensor("a", 0), tensor("b", -3), tensor("c", 4, dtype="0x999")], [tensor("d", 8)])
    )
    faults = refused(
        [step],
        Link(Endpoint(2, "g", "e"), Endpoint(2, "g", "b")),
        Link(Endpoint(2, "g", "d"), Endpoint(7, "h", "x")),
    )
    assert faults == [
        "`a` of graph `g` (shard 2) has the shape [0]: every dimension is 1 or more",
        "`b` of graph `g` (shard 2) has the shape [-3]: every dimension is 1 or more",
        "`c` of graph `g` (shard 2): `0x999` is not a data type that a tensor or a param can have",
        "there is no tensor `e` of graph `g` (shard 2); that graph has: a, b, c, d",
        "there is no tensor `x` of graph `h` (shard 7); that graph has: nothing that is executed",
    ]


def test_links_of_tensors_that_differ() -> None:
    steps = [
        ExecutionStep(0, graph("a", [], [tensor("y", 4)])),
        ExecutionStep(1, graph("b", [tensor("x", 4, dtype="INT_32")], [])),
    ]
    link = Link(Endpoint(0, "a", "y"), Endpoint(1, "b", "x"))
    assert refused(steps, link) == [
        "`y` of graph `a` (shard 0) is FLOAT_32 [4], `x` of graph `b` (shard 1) is INT_32 [4]: "
        "they cannot be the same bytes"
    ]


def test_what_a_graph_reads_it_does_not_write_unless_it_may() -> None:
    steps = shards(1, graphs=("kv",))
    fault = (
        "`past` of graph `kv` (shard 0) and `cache` would be the same bytes, which the graph reads and writes at once: "
        "set in_place if it appends to them, else use two buffers in turn"
    )
    assert refused(steps, *state_links(steps, {"cache": "past"}, in_place=False)) == [fault]
    assert len(plan_buffers(steps, BufferOptions(), state_links(steps, {"cache": "past"})).buffers) == 3


def test_raw_buffers_end_at_four_gib() -> None:
    steps = [ExecutionStep(0, graph("g", [tensor("x", 2**30)], [tensor("y", 2**30 - 1)]))]
    with pytest.raises(UsageError) as caught:
        plan_buffers(steps, BufferOptions())
    assert caught.value.message == "raw buffers of tensors end at 4294967295 bytes (QNN counts them with 32 bits)"
    assert caught.value.details == ("`x` of graph `g` (shard 0) has 4294967296 bytes",)
    plan = plan_buffers(steps, BufferOptions(shared=True, packed=True, alignment=4096))
    assert [row.offset for row in plan.tensors] == [0, 2**32] and plan.size == 2**33


def test_sums_do_not_overflow() -> None:
    steps = [ExecutionStep(0, graph("g", [tensor(f"x{each}", 2**31, 2**29) for each in range(3)], []))]
    for packed in (False, True):
        with pytest.raises(UsageError) as caught:
            plan_buffers(steps, BufferOptions(shared=True, packed=packed))
        assert caught.value.message.startswith(f"these tensors take {3 * 2**62} bytes, a process has at most ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (BufferOptions(memory="memfd"), "raw buffers cannot be of `memfd` memory"),
        (BufferOptions(memory="client", shared=True), "shared buffers cannot be of `client` memory"),
        (BufferOptions(memory="nowhere"), "raw buffers cannot be of `nowhere` memory"),
        (BufferOptions(alignment=100), "buffers cannot be aligned to 100 bytes"),
    ],
)
def test_options_that_cannot_be(options: BufferOptions, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan_buffers(shards(1), options)
    assert caught.value.message == message


# --- any options --------------------------------------------------------------------------------------------------

TENSORS = st.builds(
    tensor,
    st.just("t"),
    st.integers(1, 40),
    st.integers(1, 9),
    dtype=st.sampled_from(["FLOAT_32", "UINT_8", "UFIXED_POINT_4", "INT_64"]),
)
GRAPHS = st.tuples(st.lists(TENSORS, max_size=4), st.lists(TENSORS, max_size=4))
OPTIONS = st.builds(
    BufferOptions,
    alignment=st.sampled_from([1, 64, 128, 4096]),
    packed=st.booleans(),
    shared=st.booleans(),
    reuse=st.booleans(),
    stepwise=st.booleans(),
)


def numbered(infos: list[TensorInfo], prefix: str) -> list[TensorInfo]:
    return [tensor(f"{prefix}{at}", *info.shape, dtype=info.dtype) for at, info in enumerate(infos)]


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[ExecutionStep], list[Link]]:
    made = [
        ExecutionStep(shard, graph(f"g{index}", numbered(inputs, "i"), numbered(outputs, "o")))
        for index, (inputs, outputs) in enumerate(draw(st.lists(GRAPHS, min_size=1, max_size=5)))
        for shard in [draw(st.integers(0, 2))]
    ]
    steps = made + [made[at] for at in draw(st.lists(st.integers(0, len(made) - 1), max_size=4))]
    ends = [
        (Endpoint(step.shard, step.graph.name, info.name), info)
        for step in made
        for info in step.graph.inputs + step.graph.outputs
    ]
    alike = [
        Link(one, other, in_place=True)
        for one, first in ends
        for other, second in ends
        if one != other and (first.dtype, first.shape) == (second.dtype, second.shape)
    ]
    links = draw(st.lists(st.sampled_from(alike), max_size=4)) if alike else []
    return steps, links


@given(runs(), OPTIONS)
def test_no_two_values_that_are_alive_together_overlap(
    run: tuple[list[ExecutionStep], list[Link]], options: BufferOptions
) -> None:
    steps, links = run
    plan = plan_buffers(steps, options, links)
    assert plan == plan_buffers(steps, options, links)
    sizes = {buffer.name: buffer.size for buffer in plan.buffers}
    assert len(sizes) == len(plan.buffers)
    for row in plan.tensors:
        assert row.nbytes == byte_size(row.dtype, row.shape)
        assert row.offset % options.alignment == 0 and sizes[row.buffer] % options.alignment == 0
        assert row.offset >= 0 and row.offset + row.nbytes <= sizes[row.buffer]
        assert 0 <= row.first <= row.last < len(steps)
        executed = [at for at, step in enumerate(plan.steps) if (step.shard, step.graph) == (row.shard, row.graph)]
        assert row.first <= min(executed) and row.last >= max(executed)
        assert options.packed or row.offset == 0
    values = {row.value: row for row in plan.tensors}
    for row in plan.tensors:
        same = values[row.value]
        assert (row.buffer, row.offset, row.first, row.last) == (same.buffer, same.offset, same.first, same.last)
    for one in values.values():
        for other in values.values():
            if one.value < other.value and one.buffer == other.buffer:
                apart = one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset
                assert apart or (options.reuse and (one.last < other.first or other.last < one.first))
    registered: dict[tuple[int, str, int], str] = {}
    for row in plan.tensors if options.shared else ():
        assert registered.setdefault((row.shard, row.buffer, row.offset), row.dtype) == row.dtype
    linked = {(row.shard, row.graph, row.tensor): row.value for row in plan.tensors}
    assert all(linked[link.source] == linked[link.target] for link in links)
    jsonschema.validate(plan.as_json(), SCHEMA)


SCHEMA = json.loads((resources.schemas() / "bind_plan.schema.json").read_text())


def test_the_written_plan() -> None:
    steps = shards(1, graphs=("kv",))
    written = plan_buffers(steps, BufferOptions(packed=True), state_links(steps, {"cache": "past"})).as_json()
    assert json.loads(json.dumps(written)) == {
        "version": 1,
        "allocator": {"name": "client", "why": "used by this process only"},
        "bytes": {"buffers": 256, "tensors": 384},
        "steps": [{"step": 0, "shard": 0, "graph": "kv"}],
        "buffers": [{"name": "all", "size": 256, "alignment": 64, "allocator": "client"}],
        "tensors": [
            {
                "shard": 0,
                "graph": "kv",
                "tensor": name,
                "role": role,
                "dtype": "FLOAT_32",
                "shape": shape,
                "buffer": "all",
                "offset": offset,
                "nbytes": nbytes,
                "lifetime": [0, 0],
                "value": value,
                "bound": "RAW",
            }
            for name, role, shape, offset, nbytes, value in [
                ("row", "APP_WRITE", [1, 16], 0, 64, 0),
                ("past", "APP_WRITE", [4, 8], 64, 128, 1),
                ("cache", "APP_READ", [4, 8], 64, 128, 1),
                ("next", "APP_READ", [1, 16], 192, 64, 2),
            ]
        ],
    }


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


# --- to the byte --------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=6),
    st.sampled_from([1, 2, 4]),
)
def test_every_value_lies_at_the_lowest_byte_that_is_free(rows: list[tuple[int, int, int]], alignment: int) -> None:
    """Next to the values that are alive at the same time, without gap or overlap: found byte by byte."""
    options = BufferOptions(alignment=alignment, packed=True, reuse=True)
    block = planning._packed([PlannedValue((), size, min(ends), max(ends)) for size, *ends in rows], options)
    lying: list[tuple[PlannedValue, int]] = []
    for value in sorted((value for value, _ in block.rows), key=lambda each: -each.nbytes):
        offset = next(begin for other, begin in block.rows if other is value)
        taken = {byte for other, begin in lying if other.meets(value) for byte in range(begin, begin + other.nbytes)}
        free = (at for at in range(0, 99, alignment) if taken.isdisjoint(range(at, at + value.nbytes)))
        assert offset == next(free)
        lying.append((value, offset))


def test_a_gap_that_is_one_byte_too_small_is_not_taken() -> None:
    """Two are alive in step 1 in the gap of 10 bytes that the first leaves: 6 + 4 fit, 6 + 5 do not."""
    for size, offset in ((4, 6), (5, 19)):
        values = [
            PlannedValue((), 10, 0, 0),
            PlannedValue((), 9, 0, 1),
            PlannedValue((), 6, 1, 1),
            PlannedValue((), size, 1, 1),
        ]
        block = planning._packed(values, BufferOptions(alignment=1, packed=True, reuse=True))
        assert [begin for value in values for other, begin in block.rows if other is value] == [0, 10, 0, offset]
