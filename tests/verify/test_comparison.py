"""Two arrays in every measure, and what must hold of them whatever the arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from udogen.verify.diagnosis.arrays import compare
from udogen.verify.tolerances import Tolerance

DTYPES = [
    "float16",
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "?",
]
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


@st.composite
def pairs(draw: st.DrawFn, dtypes: list[str] = DTYPES) -> tuple[Any, Any]:
    dtype, shape = draw(st.sampled_from(dtypes)), draw(SHAPES)
    made = arrays.arrays(dtype, shape)
    return draw(made), draw(made)


def test_a_difference_is_reported_with_its_position() -> None:
    expected = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    found = expected.copy()
    found[1, 0, 2], found[1, 2, 3] = 15, 22.5
    measured = compare(found, expected, tolerance=Tolerance(0.25))
    assert not measured.passed
    assert (measured.wrong, measured.size) == (2, 24)
    assert measured.first is not None
    assert (measured.first.index, measured.first.found, measured.first.expected) == ((1, 0, 2), 15.0, 14.0)
    assert measured.worst == measured.first
    assert measured.box == ((1, 1), (0, 2), (2, 3))
    assert measured.max_abs == 1.0
    assert measured.mean_abs == pytest.approx(1.5 / 24)
    assert measured.max_relative == pytest.approx(1 / 14)
    assert measured.cosine == pytest.approx(1, abs=1e-2)
    assert measured.snr == pytest.approx(10 * math.log10(sum(n * n for n in range(24)) / 1.25))


def test_fixed_point_is_shown_in_steps_and_in_real_numbers() -> None:
    measured = compare(np.uint8([0, 255, 7]), np.uint8([3, 0, 7]), quant=(0.5, -3), tolerance=Tolerance(3))
    assert (measured.max_steps, measured.max_real, measured.max_ulp, measured.wrong) == (255, 127.5, None, 1)
    assert [(each.above, each.to, each.count) for each in measured.histogram if each.count] == [
        (0.0, 0.0, 1),
        (2.0, 4.0, 1),
        (128.0, 256.0, 1),
    ]


def test_ulps() -> None:
    one = np.float32(1)
    assert compare(np.nextafter(one, np.float32(2)).reshape(1), one.reshape(1)).max_ulp == 1
    assert compare(np.float32([-0.0]), np.float32([0.0])).max_ulp == 0
    smallest = np.float32([np.finfo(np.float32).smallest_subnormal])
    assert compare(smallest, -smallest).max_ulp == 2
    assert compare(np.float32([1 / 3]), np.float64([1 / 3])).max_ulp == 0


def test_nothing_but_the_same_is_right_where_there_is_no_number() -> None:
    expected = np.float32([np.nan, np.inf, -np.inf, 1, 1])
    assert compare(expected, expected).passed
    measured = compare(np.float32([1, 2, np.inf, np.nan, np.inf]), expected, tolerance=Tolerance(1e9, 1e9))
    assert (measured.wrong, measured.not_finite, measured.max_abs) == (5, 5, math.inf)


def test_other_shapes() -> None:
    measured = compare(np.zeros((2, 3)), np.zeros((3, 2)))
    assert not measured.passed
    assert (measured.shape, measured.expected_shape) == ((2, 3), (3, 2))
    assert compare(np.zeros((0, 3)), np.zeros((0, 3))).passed
    assert not compare(np.zeros((0, 3)), np.zeros((0, 4))).passed
    assert compare(np.float32(3), np.float32(4)).first is not None


def test_whole_numbers_of_64_bits_are_compared_exactly() -> None:
    expected = np.int64([2**62])
    assert compare(expected + 1, expected).max_steps == 1


@given(pairs(), st.floats(0, 1e6), st.floats(0, 2))
@settings(deadline=None)
def test_what_holds_of_all_arrays(pair: tuple[Any, Any], absolute: float, relative: float) -> None:
    found, expected = pair
    measured = compare(found, expected, tolerance=Tolerance(absolute, relative))
    assert sum(each.count for each in measured.histogram) == measured.size == found.size
    assert all(each.count >= 0 for each in measured.histogram)
    assert 0 <= measured.wrong <= measured.size
    assert (measured.first is None) == (measured.wrong == 0)
    assert measured.cosine is None or -1 <= measured.cosine <= 1
    assert measured.histogram[-1].count == measured.not_finite
    if measured.first is not None:
        before = np.ravel_multi_index(measured.first.index, found.shape) if found.ndim else 0
        assert compare(
            found.ravel()[:before], expected.ravel()[:before], tolerance=Tolerance(absolute, relative)
        ).passed
        assert all(low <= index <= high for index, (low, high) in zip(measured.first.index, measured.box, strict=True))
    same = compare(found, found)
    assert same.passed
    assert same.max_abs == 0
    assert same.max_ulp in (None, 0)
    assert same.histogram[0].count == found.size


@given(pairs(["float16", "float32", "float64"]))
@settings(deadline=None)
def test_ulps_are_a_distance(pair: tuple[Any, Any]) -> None:
    found, expected = pair
    one, other = compare(found, expected).max_ulp, compare(expected, found).max_ulp
    assert one == other
    finite = np.isfinite(found) & np.isfinite(expected)
    if one is not None:
        assert (one == 0) == bool((found[finite] == expected[finite]).all())


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(1, 40))
def test_as_many_ulps_as_steps_to_the_next_number(start: float, steps: int) -> None:
    found = np.float32([start])
    with np.errstate(over="ignore"):
        for _ in range(steps):
            found = np.nextafter(found, np.float32(np.inf))
    if np.isfinite(found[0]):
        assert compare(found, np.float32([start])).max_ulp == steps
