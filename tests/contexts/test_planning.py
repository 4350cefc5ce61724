"""Buffer plans: offsets that never collide, for any options; a plan that is written according to its schema."""

from __future__ import annotations

import json
from itertools import product

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udogen import UsageError, resources
from udogen.qnn.system import GraphInfo
from udogen.qnn.tensors import QnnTensor, byte_size, described_tensor
from udogen.runtime.buffers.plan import BufferPlan, join_plans, plan_buffers

SCHEMA = json.loads((resources.schemas() / "bind_plan.schema.json").read_text())


def tensor(name: str, *shape: int, dtype: str = "FLOAT_32") -> QnnTensor:
    return described_tensor(name, dtype, shape)


def graph(name: str, inputs: list[QnnTensor], outputs: list[QnnTensor]) -> GraphInfo:
    return GraphInfo(name, tuple(inputs), tuple(outputs))


SIDES = [tensor("row", 1, 16), tensor("past", 4, 8)], [tensor("next", 1, 16), tensor("cache", 4, 8)]
GRAPHS = [graph(name, *SIDES) for name in ("prefill", "kv")]


def test_one_buffer_for_each_tensor() -> None:
    plan = plan_buffers(0, GRAPHS, shared=True)
    assert [(row.buffer, row.offset, row.nbytes, row.bound) for row in plan.tensors[:2]] == [
        ("0.prefill.in.row", 0, 64, "ION"),
        ("0.prefill.in.past", 0, 128, "ION"),
    ]
    assert len(plan.buffers) == len(plan.tensors) == 8 and {buffer.allocator for buffer in plan.buffers} == {"memfd"}


def test_one_block() -> None:
    for shared, bound, allocator in ((False, "RAW", "client"), (True, "SHARED_BUFFER", "memfd")):
        plan = join_plans([plan_buffers(shard, GRAPHS, packed=True, alignment=128, shared=shared) for shard in (0, 1)])
        assert [(row.name, row.size, row.allocator) for row in plan.buffers] == [
            ("shard 0", 8 * 128, allocator),
            ("shard 1", 8 * 128, allocator),
        ]
        assert [row.offset for row in plan.tensors[:4]] == [0, 128, 256, 384]
        assert plan.size == 16 * 128 and plan.tensor_bytes == 8 * 64 + 8 * 128
        assert {row.bound for row in plan.tensors} == {bound}


def test_nothing_is_planned_for_nothing() -> None:
    for plan in (plan_buffers(0, [], packed=True), join_plans([])):
        assert (plan.size, plan.buffers, plan.tensors) == (0, (), ())
        assert plan.as_json()["bytes"] == {"buffers": 0, "tensors": 0}


def test_faults_are_reported_together() -> None:
    wrong = [tensor("a", 0), tensor("b", -3), tensor("c", 4, dtype="0x999"), tensor("d", 2**30)]
    with pytest.raises(UsageError) as caught:
        plan_buffers(2, [graph("g", wrong, [tensor("e", 8)])])
    assert caught.value.message == "these tensors cannot be planned"
    assert list(caught.value.details) == [
        "`a` of graph `g` (shard 2) has the shape [0]: every dimension is 1 or more",
        "`b` of graph `g` (shard 2) has the shape [-3]: every dimension is 1 or more",
        "`c` of graph `g` (shard 2): a tensor or a param is 0x999, which is not a data type",
        "`d` of graph `g` (shard 2) has 4294967296 bytes, its buffer at most 4294967295",
    ]


def test_large_tensors_are_for_shared_buffers() -> None:
    plan = plan_buffers(
        0, [graph("g", [tensor("x", 2**30)], [tensor("y", 2**30 - 1)])], shared=True, packed=True, alignment=4096
    )
    assert [row.offset for row in plan.tensors] == [0, 2**32] and plan.size == 2**33
    huge = [graph("g", [tensor(f"x{number}", 2**31, 2**29) for number in range(3)], [])]
    for packed in (False, True):
        with pytest.raises(UsageError, match=f"these tensors take {3 * 2**62} bytes, a process has at most "):
            plan_buffers(0, huge, shared=True, packed=packed)


def test_an_alignment_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="buffers cannot be aligned to 100 bytes"):
        plan_buffers(0, GRAPHS, alignment=100)


TENSORS = st.lists(
    st.builds(
        tensor,
        st.just("t"),
        st.integers(1, 40),
        st.integers(1, 9),
        dtype=st.sampled_from(["FLOAT_32", "UINT_8", "UFIXED_POINT_4", "INT_64"]),
    ),
    max_size=4,
)


def numbered(infos: list[QnnTensor]) -> list[QnnTensor]:
    return [tensor(f"t{number}", *info.shape, dtype=info.dtype) for number, info in enumerate(infos)]


@given(st.lists(st.tuples(TENSORS, TENSORS), max_size=4), st.sampled_from([1, 64, 128, 4096]))
def test_no_two_tensors_overlap(sides: list[tuple[list[QnnTensor], list[QnnTensor]]], alignment: int) -> None:
    """Even an input and an output of one name."""
    graphs = [graph(f"g{number}", numbered(ins), numbered(outs)) for number, (ins, outs) in enumerate(sides)]
    for packed, shared in product((False, True), repeat=2):
        plan = plan_buffers(0, graphs, alignment=alignment, packed=packed, shared=shared)
        check(plan, alignment)
        assert len(plan.tensors) == sum(len(one.inputs) + len(one.outputs) for one in graphs)
        assert packed or all(row.offset == 0 for row in plan.tensors)
        jsonschema.validate(plan.as_json(), SCHEMA)


def check(plan: BufferPlan, alignment: int) -> None:
    sizes = {buffer.name: buffer.size for buffer in plan.buffers}
    assert len(sizes) == len(plan.buffers)
    ends = dict.fromkeys(sizes, 0)
    for row in sorted(plan.tensors, key=lambda row: (row.buffer, row.offset)):
        assert row.nbytes == byte_size(row.dtype, row.shape)
        assert row.offset % alignment == 0 and sizes[row.buffer] % alignment == 0
        assert row.offset >= ends[row.buffer]
        ends[row.buffer] = row.offset + row.nbytes
        assert ends[row.buffer] <= sizes[row.buffer]


def test_the_written_plan() -> None:
    written = plan_buffers(0, [graph("kv", [tensor("row", 1, 16)], [tensor("cache", 4, 8)])], packed=True).as_json()
    assert json.loads(json.dumps(written)) == {
        "version": 1,
        "allocator": {"name": "client", "why": "used by this process only"},
        "bytes": {"buffers": 192, "tensors": 192},
        "buffers": [{"name": "shard 0", "size": 192, "alignment": 64, "allocator": "client"}],
        "tensors": [
            {
                "shard": 0,
                "graph": "kv",
                "tensor": name,
                "role": role,
                "dtype": "FLOAT_32",
                "shape": shape,
                "buffer": "shard 0",
                "offset": offset,
                "nbytes": nbytes,
                "bound": "RAW",
            }
            for name, role, shape, offset, nbytes in [
                ("row", "APP_WRITE", [1, 16], 0, 64),
                ("cache", "APP_READ", [4, 8], 64, 128),
            ]
        ],
    }
