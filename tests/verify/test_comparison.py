"""The difference between two arrays, and properties that hold for any arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from udogen.verify.report.numbers import measure
from udogen.verify.tolerances import EXACT, Tolerance, judge

DTYPES = ["float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "?"]
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


@st.composite
def pairs(draw: st.DrawFn, dtypes: list[str] = DTYPES) -> tuple[Any, Any]:
    dtype, shape = draw(st.sampled_from(dtypes)), draw(SHAPES)
    made = arrays.arrays(dtype, shape)
    return draw(made), draw(made)


def test_measures() -> None:
    expected = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    found = expected.copy()
    found[1, 0, 2], found[1, 2, 3] = 15, 22.5
    verdict = judge(found, expected, Tolerance(0.25))
    assert (verdict.wrong, verdict.first, verdict.max_error) == (2, (1, 0, 2), 1.0)
    measured = measure(found, expected)
    assert measured.mean == pytest.approx(1.5 / 24)
    assert measured.cosine == pytest.approx(1, abs=1e-2)
    assert measured.snr == pytest.approx(10 * math.log10(sum(n * n for n in range(24)) / 1.25))


def test_nothing_but_the_same_is_right_where_there_is_no_number() -> None:
    expected = np.float32([np.nan, np.inf, -np.inf, 1, 1])
    assert not judge(expected, expected, EXACT).wrong
    found = np.float32([1, 2, np.inf, np.nan, np.inf])
    verdict = judge(found, expected, Tolerance(1e9, 1e9))
    assert (verdict.wrong, verdict.max_error) == (5, math.inf)


def test_other_shapes() -> None:
    assert judge(np.zeros((2, 3)), np.zeros((3, 2)), EXACT).wrong
    assert not judge(np.zeros((0, 3)), np.zeros((0, 3)), EXACT).wrong
    assert judge(np.zeros((0, 3)), np.zeros((0, 4)), EXACT).wrong
    assert judge(np.float32(3), np.float32(4), EXACT).first == ()


def test_whole_numbers_of_64_bits_are_compared_exactly() -> None:
    expected = np.int64([2**62])
    assert judge(expected + 1, expected, EXACT).max_error == 1


@given(pairs(), st.floats(0, 1e6), st.floats(0, 2))
def test_what_holds_of_all_arrays(pair: tuple[Any, Any], absolute: float, relative: float) -> None:
    found, expected = pair
    tolerance = Tolerance(absolute, relative)
    verdict = judge(found, expected, tolerance)
    assert 0 <= verdict.wrong <= found.size
    assert (verdict.first is None) == (verdict.wrong == 0)
    if verdict.first is not None:
        before = np.ravel_multi_index(verdict.first, found.shape) if found.ndim else 0
        assert not judge(found.ravel()[:before], expected.ravel()[:before], tolerance).wrong
    same = judge(found, found, EXACT)
    assert (same.wrong, same.max_error) == (0, 0)
    if found.size:
        measured = measure(found, expected)
        assert measured.cosine is None or -1 <= measured.cosine <= 1
        assert measure(found, found).mean == 0
