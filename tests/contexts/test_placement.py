"""Sessions: layers in order, one session after the other, within limits; what a context maps."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udogen import UsageError
from udogen.qnn.system import BinaryInfo, GraphInfo, HtpGraph
from udogen.qnn.tensors import QnnTensor
from udogen.runtime.sessions import (
    DEFAULT_LIMIT,
    MIB,
    Layer,
    SessionPlan,
    SessionSpec,
    layer_of,
    place_layers,
)


def layers(*sizes: int) -> list[Layer]:
    """Layers `a`, `b`, ... of these sizes in MiB."""
    return [Layer(name, size * MIB) for name, size in zip("abcdefgh", sizes, strict=False)]


def sessions(count: int, limit: int = DEFAULT_LIMIT) -> list[SessionSpec]:
    return [SessionSpec(f"HTP{index}", index, limit) for index in range(count)]


def runs(plan: SessionPlan) -> list[str]:
    return ["".join(share.layers) for share in plan.shares]


def test_the_table_of_a_model_of_24_layers() -> None:
    """Sizes like those of the seed: 10 GB of weights on four sessions."""
    blocks = [Layer(f"blk.{i}", 835 * MIB // 2, 17 * MIB // 4, MIB // 2, spill_fill=MIB // 2) for i in range(24)]
    plan = place_layers(blocks, sessions(4), exactly=4)
    assert str(plan).splitlines() == [
        "session [MiB]   weights   cache  compute     total    limit    free  layers",
        "HTP0            2505.00   25.50     6.00   2536.50  3337.86  801.36  blk.0 … blk.5 (6)",
        "HTP1            2505.00   25.50     6.00   2536.50  3337.86  801.36  blk.6 … blk.11 (6)",
        "HTP2            2505.00   25.50     6.00   2536.50  3337.86  801.36  blk.12 … blk.17 (6)",
        "HTP3            2505.00   25.50     6.00   2536.50  3337.86  801.36  blk.18 … blk.23 (6)",
        "all            10020.00  102.00    24.00  10146.00                   24 layers",
    ]
    assert plan.as_json()["sessions"][1] == {  # type: ignore[index]
        "name": "HTP1",
        "device": 1,
        "layers": [f"blk.{i}" for i in range(6, 12)],
        "weights": 2505 * MIB,
        "cache": 51 * MIB // 2,
        "compute": 6 * MIB,
        "total": 5073 * MIB // 2,
        "limit": DEFAULT_LIMIT,
        "free": DEFAULT_LIMIT - 5073 * MIB // 2,
    }
    assert plan.session_of("blk.7").name == "HTP1"
    assert [len(share.layers) for share in place_layers(blocks, sessions(8)).shares] == [7, 7, 7, 3]


@pytest.mark.parametrize(
    ("sizes", "exactly", "expected"),
    [
        ((1000, 1000, 1000), 0, ["abc"]),
        ((1000,) * 8, 0, ["abc", "def", "gh"]),
        ((1000,) * 8, 4, ["ab", "cd", "ef", "gh"]),
        ((2000, 2000, 1), 0, ["a", "bc"]),
        ((3000, 1, 1, 1), 3, ["a", "bc", "d"]),  # none is empty
        ((1, 1, 1, 3000), 2, ["abc", "d"]),
        ((1, 1), 2, ["a", "b"]),
    ],
)
def test_layers_in_order(sizes: tuple[int, ...], exactly: int, expected: list[str]) -> None:
    assert runs(place_layers(layers(*sizes), sessions(exactly or 8), exactly=exactly)) == expected


@given(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=8), count=st.integers(1, 4), limit=st.integers(10, 90))
def test_nothing_is_refused_that_fits_and_the_load_is_even(sizes: list[int], count: int, limit: int) -> None:
    placed = [Layer(f"l{i}", weights) for i, weights in enumerate(sizes)]
    ways = [
        max(sum(sizes[i:j]) for i, j in pairwise((0, *inner, len(sizes))))
        for inner in combinations(range(1, len(sizes)), count - 1)
    ]
    if min(ways, default=limit + 1) > limit:
        with pytest.raises(UsageError):
            place_layers(placed, sessions(4, limit), exactly=count)
        return
    plan = place_layers(placed, sessions(4, limit), exactly=count)
    assert [name for share in plan.shares for name in share.layers] == [layer.name for layer in placed]
    assert len(plan.shares) == count and max(share.sizes.total for share in plan.shares) == min(ways)
    fewest = place_layers(placed, sessions(8, limit))
    assert len(fewest.shares) <= count and all(share.free >= 0 for share in fewest.shares)


@pytest.mark.parametrize(
    ("sizes", "count", "exactly", "message", "hint"),
    [
        (
            (1, 7000), 4, 0, "layer `b` maps 7000.00 MiB: a session may map 3337.86 MiB",
            "split the model into smaller shards: this one into 3 or more",
        ),
        (
            (1000,) * 7, 2, 0, "7 layers that map 7000.00 MiB do not fit into 2 sessions of at most 3337.86 MiB",
            "3 sessions are enough; or split the model into smaller shards",
        ),
        (
            (2000,) * 3, 2, 2, "3 layers that map 6000.00 MiB do not fit into 2 sessions of at most 3337.86 MiB",
            "3 sessions are enough; or split the model into smaller shards",
        ),
        ((1,), 2, 2, "2 sessions are requested for 1 layers: some would be empty", "request fewer sessions"),
    ],
)  # fmt: skip
def test_what_does_not_fit(sizes: tuple[int, ...], count: int, exactly: int, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        place_layers(layers(*sizes), sessions(count), exactly=exactly)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    if len(sizes) == 7:
        assert caught.value.details[-1] == "not placed: `g`"


def test_what_a_context_maps_is_read_from_its_binary() -> None:
    def graph(name: str, tokens: int, spill: int) -> GraphInfo:
        sides = [
            tuple(QnnTensor(tensor, "FLOAT_32", shape) for tensor, shape in side)
            for side in (
                (("hidden", (tokens, 64)), ("mask", (tokens, 32)), ("past_key", (32, 64))),
                (("hidden_out", (tokens, 64)), ("key", (32, 64))),
            )
        ]
        return GraphInfo(name, *sides, htp=HtpGraph(spill_fill=spill))

    info = BinaryInfo(6, "b", "2.0.0", "1.0.0", "s", (graph("prefill", 16, 500), graph("kv", 1, 300)))
    tensors = 16 * (64 + 32 + 64) * 4  # of prefill, which is larger than kv
    state = 32 * 64 * 4
    assert layer_of("s", info, 1000, {"past_key", "key"}) == Layer("s", 1000, state, tensors + state, 500)
