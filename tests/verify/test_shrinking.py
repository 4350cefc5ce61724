"""The smallest shapes that fail, found in few runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udogen.verify.diagnosis.explain import shrink

Shapes = Mapping[str, tuple[int, ...]]
Fails = Callable[[Shapes], bool]


def same(shapes: Shapes) -> bool:
    return len(set(shapes.values())) == 1


CASES: dict[str, tuple[Shapes, Fails, Shapes]] = {
    "always": ({"x": (2, 30, 30, 7)}, lambda _: True, {"x": (1,)}),
    "only as it is": ({"x": (2, 3)}, lambda shapes: shapes["x"] == (2, 3), {"x": (2, 3)}),
    "never": ({"x": (2, 3)}, lambda _: False, {"x": (2, 3)}),
    "a last axis that is not a multiple": ({"x": (4, 8, 129)}, lambda s: s["x"][-1] % 128 != 0, {"x": (1,)}),
    "more than a vector": ({"x": (4, 8, 1000)}, lambda s: s["x"][-1] > 128, {"x": (129,)}),
    "two axes": ({"x": (1, 64, 64, 3)}, lambda s: len(s["x"]) == 4 and s["x"][1] * s["x"][3] >= 12,
                 {"x": (1, 4, 1, 3)}),
    "two inputs of one shape": ({"a": (3, 17, 31), "b": (3, 17, 31)}, same, {"a": (1,), "b": (1,)}),
    "a matrix product": (
        {"a": (20, 64), "b": (64, 30)},
        lambda s: len(s["a"]) == len(s["b"]) == 2 and s["a"][1] == s["b"][0] >= 33,
        {"a": (1, 33), "b": (33, 1)},
    ),
    "a rank that must stay": ({"x": (1, 4, 4, 2)}, lambda s: len(s["x"]) == 4, {"x": (1, 1, 1, 1)}),
    "an axis that is equal by chance": ({"x": (8, 8), "bias": (8,)}, lambda s: s["x"][-1] == s["bias"][0] == 8,
                                        {"x": (8,), "bias": (8,)}),
    "of rank 0": ({"x": ()}, lambda _: True, {"x": ()}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_smallest_is_found(name: str) -> None:
    shapes, fails, smallest = CASES[name]
    requested: list[Shapes] = []

    def recorded(shapes: Shapes) -> bool:
        requested.append(dict(shapes))
        return fails(shapes)

    assert shrink(shapes, recorded) == smallest
    assert len(requested) <= 60
    assert len({tuple(each.items()) for each in requested}) == len(requested), "asked twice"
    again = list(requested)
    requested.clear()
    shrink(shapes, recorded)
    assert requested == again, "nothing of it depends on chance"


@given(
    st.lists(st.integers(1, 5000), min_size=0, max_size=5).map(tuple),
    st.lists(st.integers(1, 5000), min_size=5, max_size=5),
    st.integers(0, 60),
)
def test_what_is_returned_fails_and_is_no_larger(shape: tuple[int, ...], least: list[int], runs: int) -> None:
    requested = 0

    def fails(shapes: Shapes) -> bool:
        nonlocal requested
        requested += 1
        return all(extent >= low for extent, low in zip(shapes["x"], least, strict=False))

    found = shrink({"x": shape}, fails, runs=runs)["x"]
    used = requested
    assert used <= runs
    assert len(found) <= len(shape)
    if fails({"x": shape}):
        assert fails({"x": found})
    else:
        assert found == shape or fails({"x": found})
