"""Sessions: layers in order, within limits, with the load of the fullest session minimal, compared with brute force."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udogen.errors import UsageError
from udogen.runtime.sessions.placement import (
    DEFAULT_LIMIT,
    MIB,
    Activation,
    Layer,
    SessionPlan,
    place_layers,
    session_specs,
    sizes_of,
    table_lines,
)


def layer(name: str, weights: float, cache: float = 0, compute: float = 0, **more: object) -> Layer:
    """Sizes are in MiB."""
    return Layer(name, int(weights * MIB), int(cache * MIB), int(compute * MIB), **more)  # type: ignore[arg-type]


def runs(plan: SessionPlan) -> list[list[str]]:
    return [list(share.layers) for share in plan.shares]


@contextmanager
def refused(message: str, *, hint: str = "", details: list[str] | None = None) -> Iterator[None]:
    with pytest.raises(UsageError) as caught:
        yield
    assert caught.value.message == message
    assert not hint or caught.value.hint == hint
    assert details is None or list(caught.value.details) == details


# --- choices ----------------------------------------------------------------------------------------------------------


def test_the_table_of_a_model_of_24_layers() -> None:
    """Sizes like those of the seed: 10 GB of weights on four sessions."""
    hidden = [Activation(f"h{index}", MIB) for index in range(25)]
    layers = [
        layer(f"blk.{i}", 417.5, 4.25, 0.5, spill_fill=16 * MIB, activations=(hidden[i], hidden[i + 1]))
        for i in range(24)
    ]
    plan = place_layers(layers, session_specs(4), exactly=4, shared_spill_fill=True)
    assert table_lines(plan) == [
        "session [MiB]   weights   cache  compute     total    limit    free  layers",
        "HTP0            2505.00   25.50    26.00   2556.50  3337.86  781.36  blk.0 … blk.5 (6)",
        "HTP1            2505.00   25.50    26.00   2556.50  3337.86  781.36  blk.6 … blk.11 (6)",
        "HTP2            2505.00   25.50    26.00   2556.50  3337.86  781.36  blk.12 … blk.17 (6)",
        "HTP3            2505.00   25.50    26.00   2556.50  3337.86  781.36  blk.18 … blk.23 (6)",
        "all            10020.00  102.00   104.00  10226.00                   24 layers",
        "HTP0 -> HTP1: `h6`: 1.00 MiB mapped by both",
        "HTP1 -> HTP2: `h12`: 1.00 MiB mapped by both",
        "HTP2 -> HTP3: `h18`: 1.00 MiB mapped by both",
    ]
    assert plan.as_json()["sessions"][1] == {  # type: ignore[index]
        "name": "HTP1",
        "device": 1,
        "layers": [f"blk.{i}" for i in range(6, 12)],
        "weights": 2505 * MIB,
        "cache": int(25.5 * MIB),
        "compute": 26 * MIB,
        "total": int(2556.5 * MIB),
        "limit": DEFAULT_LIMIT,
        "free": DEFAULT_LIMIT - int(2556.5 * MIB),
    }
    assert plan.session_of("blk.7").name == "HTP1"
    assert place_layers(layers, session_specs(4), exactly=4, shared_spill_fill=True) == plan


def test_the_default_limit_is_the_smaller_reading_of_3_5_gb() -> None:
    assert DEFAULT_LIMIT == 3_500_000_000
    assert [session.limit for session in session_specs(2)] == [DEFAULT_LIMIT] * 2


def test_as_few_sessions_as_will_do() -> None:
    layers = [layer(name, 1000) for name in "abcdefgh"]
    assert runs(place_layers(layers[:3], session_specs(8))) == [["a", "b", "c"]]
    assert runs(place_layers(layers, session_specs(8))) == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]
    assert [len(run) for run in runs(place_layers(layers, session_specs(8), exactly=4))] == [2, 2, 2, 2]


def test_a_session_may_have_a_limit_of_its_own() -> None:
    layers = [layer(name, 100) for name in "abcd"]
    sessions = session_specs(2, limit=350 * MIB, limits={"HTP1": 150 * MIB})
    assert runs(place_layers(layers, sessions)) == [["a", "b", "c"], ["d"]]
    assert runs(place_layers(layers, session_specs(2, limit=400 * MIB, limits={"HTP0": 100 * MIB}))) == [
        ["a"],
        ["b", "c", "d"],
    ]
    with refused("there is a limit for HTP7, and no such session", hint="sessions are called HTP0, HTP1"):
        session_specs(2, limits={"HTP7": 5})


def test_several_sessions_may_run_on_one_device() -> None:
    assert [session.device for session in session_specs(3, devices=(0, 0))] == [0, 0, 2]


def test_activations_are_counted_once_in_each_session() -> None:
    shared, own = Activation("h", 10), Activation("x", 3)
    a, b = Layer("a", 100, activations=(own, shared)), Layer("b", 100, activations=(shared,))
    assert sizes_of([a, b]).compute == 13
    assert (sizes_of([a]).compute, sizes_of([b]).compute) == (13, 10)
    plan = place_layers([a, b], session_specs(2), exactly=2)
    assert [(each.activation, each.source, each.target, each.size) for each in plan.handovers] == [
        ("h", "HTP0", "HTP1", 10)
    ]


def test_spill_fill_buffers_add_up_unless_they_are_shared() -> None:
    layers = [Layer(name, 1, spill_fill=size) for name, size in (("a", 5), ("b", 7))]
    assert place_layers(layers, session_specs(1)).sizes.compute == 12
    assert place_layers(layers, session_specs(1), shared_spill_fill=True).sizes.compute == 7


def test_layers_placed_by_hand() -> None:
    layers = [layer(name, 10) for name in "abcdef"]
    all_fixed = dict(zip("abcdef", ["HTP2", "HTP0", "HTP0", "HTP2", "HTP0", "HTP0"], strict=True))
    assert runs(place_layers(layers, session_specs(3), pins=all_fixed)) == [["b", "c", "e", "f"], ["a", "d"]]
    some = place_layers(layers, session_specs(3), pins={"b": "HTP1", "c": "HTP2"}, exactly=3)
    assert runs(some) == [["a"], ["b"], ["c", "d", "e", "f"]]
    assert runs(place_layers(layers, session_specs(3), pins={"f": "HTP1"})) == [["a", "b", "c"], ["d", "e", "f"]]


# --- compared with brute force ----------------------------------------------------------------------------------------

SIZES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=8)


@given(sizes=SIZES, count=st.integers(1, 4), limits=st.lists(st.integers(10, 90), min_size=4, max_size=4), share=...)
def test_no_other_way_is_better(sizes: list[tuple[int, int, int]], count: int, limits: list[int], share: bool) -> None:
    layers = [
        Layer(f"l{i}", weights, spill_fill=spill, activations=(Activation(f"h{i}", h), Activation("all", 2)))
        for i, (weights, spill, h) in enumerate(sizes)
    ]
    sessions = session_specs(4, limits={f"HTP{i}": limit for i, limit in enumerate(limits)})

    def loads(cuts: tuple[int, ...]) -> list[float]:
        totals = [sizes_of(layers[i:j], shared_spill_fill=share).total for i, j in pairwise(cuts)]
        fits = all(total <= session.limit for total, session in zip(totals, sessions, strict=False))
        return [total / session.limit for total, session in zip(totals, sessions, strict=False)] if fits else []

    ways = [
        found for inner in combinations(range(1, len(layers)), count - 1) if (found := loads((0, *inner, len(layers))))
    ]
    if not ways:
        with pytest.raises(UsageError):
            place_layers(layers, sessions, exactly=count, shared_spill_fill=share)
        return
    plan = place_layers(layers, sessions, exactly=count, shared_spill_fill=share)
    assert [name for share_ in plan.shares for name in share_.layers] == [each.name for each in layers]
    found = [each.sizes.total / each.session.limit for each in plan.shares]
    least = min(max(way) for way in ways)
    assert max(found) == pytest.approx(least)
    even = min(sum(load * load for load in way) for way in ways if max(way) <= least + 1e-12)
    assert sum(load * load for load in found) == pytest.approx(even)
    assert all(each.free >= 0 for each in plan.shares)


def test_many_layers_are_placed_at_once() -> None:
    layers = [Layer(f"l{i}", 1000 + i * 7919 % 1000) for i in range(300)]
    plan = place_layers(layers, session_specs(16), exactly=16)
    assert max(share.sizes.total for share in plan.shares) < sum(each.weights for each in layers) / 16 * 1.06


# --- errors --------------------------------------------------------------------------------------------------


def test_a_layer_that_no_session_can_map() -> None:
    with refused(
        "layer `b` maps 7000.00 MiB: a session may map 3337.86 MiB",
        hint="split the model into smaller shards: this one into 3 or more",
    ):
        place_layers([layer("a", 1), layer("b", 6990, 4, 6)], session_specs(4))


def test_a_model_that_the_sessions_cannot_map() -> None:
    layers = [layer(name, 1000) for name in "abcdefg"]
    with refused(
        "7 layers that map 7000.00 MiB do not fit into 2 sessions that may map 3337.86 MiB each",
        hint="3 sessions are enough; or split the model into smaller shards",
        details=[
            "distributed evenly, HTP0 would map 662.14 MiB more than it may",
            "session [MiB]  weights  cache  compute    total    limit     free  layers",
            "HTP0           4000.00   0.00     0.00  4000.00  3337.86  -662.14  a … d (4)",
            "HTP1           3000.00   0.00     0.00  3000.00  3337.86   337.86  e … g (3)",
            "all            7000.00   0.00     0.00  7000.00                    7 layers",
        ],
    ):
        place_layers(layers, session_specs(2))
    with refused("7 layers that map 7000.00 MiB do not fit into one session that may map 3337.86 MiB"):
        place_layers(layers, session_specs(3), exactly=1)


def test_layers_too_large_for_the_cuts_that_are_left() -> None:
    """Their sum would fit, but no cut does."""
    layers = [layer(name, 60) for name in "abc"]
    with refused(
        "3 layers that map 180.00 MiB do not fit into 2 sessions that may map 100.00 MiB each",
        hint="3 sessions are enough; or split the model into smaller shards",
    ):
        place_layers(layers, session_specs(2, limit=100 * MIB))


def test_layers_placed_by_hand_where_they_do_not_fit() -> None:
    layers = [layer(name, 2000) for name in "ab"]
    with refused(
        "HTP0 would map 4000.00 MiB, 662.14 MiB more than it may",
        hint="place layers on another session, or leave some unpinned",
    ):
        place_layers(layers, session_specs(2), pins={"a": "HTP0", "b": "HTP0"})


def test_layers_placed_by_hand_out_of_order() -> None:
    layers = [layer(name, 1) for name in "abc"]
    with refused(
        "layer `c` is pinned to HTP0, `a` before it to HTP1: the layers between them cannot be placed in order",
        hint="pin layers in the order of the sessions, or pin all layers: then any order is possible",
    ):
        place_layers(layers, session_specs(2), pins={"a": "HTP1", "c": "HTP0"})
    assert runs(place_layers(layers, session_specs(2), pins={"a": "HTP1", "b": "HTP1", "c": "HTP0"})) == [
        ["c"],
        ["a", "b"],
    ]


def test_a_layer_placed_by_hand_where_the_others_do_not_fit() -> None:
    """The hint names the remedy: not more sessions, but another session for that layer."""
    layers = [layer(name, 10) for name in "abcd"]
    with pytest.raises(UsageError) as caught:
        place_layers(layers, session_specs(2, limit=20 * MIB), pins={"c": "HTP0"})
    assert caught.value.hint == "they fit if `c` are not pinned"
    with pytest.raises(UsageError) as caught:
        place_layers(layers, session_specs(2, limit=20 * MIB), pins={"x": "HTP0"})
    assert caught.value.hint == "sessions: HTP0, HTP1; layers: a, b, c, d"


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    layers = [
        Layer("a", -1, cache=-2, activations=(Activation("h", 5),)),
        Layer("b", 1, activations=(Activation("h", 6),)),
        Layer("b", 1),
    ]
    with refused(
        "9 problems with the placement",
        details=[
            "layer `b` is given twice",
            "layer `a` has -1 bytes of weights",
            "layer `a` has -2 bytes of cache",
            "activation `h` has 5 bytes in layer `a`, 6 in `b`",
            "session HTP0 may map 0 bytes",
            "session HTP1 may map 0 bytes",
            "`x` is pinned but is not a layer",
            "layer `b` is pinned to `HTP9`, which is not a session",
            "5 sessions are requested, 2 can be opened",
        ],
    ):
        place_layers(layers, session_specs(2, limit=0), exactly=5, pins={"x": "HTP0", "b": "HTP9"})


@pytest.mark.parametrize(
    ("layers", "count", "exactly", "message"),
    [
        ([], 2, 0, "no layers to place"),
        ([Layer("a", 1)], 0, 0, "no sessions to place layers on"),
        ([Layer("a", 1)], 2, 2, "2 sessions are requested for 1 layers: some would be empty"),
    ],
)
def test_nothing_to_place(layers: list[Layer], count: int, exactly: int, message: str) -> None:
    with refused(message):
        place_layers(layers, session_specs(count), exactly=exactly)
