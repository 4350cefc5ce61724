"""The permitted difference of a right number: declarations, defaults, NaN, and what holds for any arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from udogen.opdef import datatypes
from udogen.verify import tolerances
from udogen.verify.report.problems import measure
from udogen.verify.tolerances import EXACT, Tolerance, judge


@pytest.mark.parametrize(
    ("raw", "parsed"),
    [
        (0, {"": EXACT}),
        (1e-3, {"": Tolerance(1e-3)}),
        ("exact", {"": EXACT}),
        ("1e-5 relative", {"float": Tolerance(relative=1e-5)}),
        ("2 %", {"float": Tolerance(relative=0.02)}),
        ("4 ulp", {"float": Tolerance(ulp=4)}),
        ("1e-6 + 2 ulp", {"float": Tolerance(1e-6, ulp=2)}),
        ("1 step", {"fixed": Tolerance(1), "integer": Tolerance(1)}),
        ({"FLOAT_16": 2e-3, "fixed": "2 steps"}, {"FLOAT_16": Tolerance(2e-3), "fixed": Tolerance(2)}),
        ({"QNN_DATATYPE_FLOAT_32": "1 ulp"}, {"FLOAT_32": Tolerance(ulp=1)}),
        ("close", "`close` is not a tolerance: as in 1e-6"),
        (-1, "-1 is not a tolerance"),
        (float("nan"), "nan is not a tolerance"),
        (True, "this is not a tolerance"),
        ("1e-6 furlongs", "`1e-6 furlongs` is not a tolerance"),
        ({"FLOAT_23": 1}, "`FLOAT_23` is not a data type, and none of float, fixed, integer"),
    ],
)
def test_what_a_test_file_declares(raw: object, parsed: dict[str, Tolerance] | str) -> None:
    found = tolerances.parse(raw)
    assert found == parsed or (isinstance(found, str) and isinstance(parsed, str) and found.startswith(parsed))


def test_the_most_particular_word_holds() -> None:
    message = tolerances.parse({"FLOAT_16": 1, "float": 2})
    assert not isinstance(message, str)
    rows = datatypes.BY_NAME
    assert tolerances.of(rows["FLOAT_16"], message) == Tolerance(1)
    assert tolerances.of(rows["FLOAT_32"], message) == Tolerance(2)
    assert tolerances.of(rows["UFIXED_POINT_8"], message) == tolerances.default(rows["UFIXED_POINT_8"]) == Tolerance(1)
    assert tolerances.of(rows["INT_32"], message) == EXACT


INF, NAN = float("inf"), float("nan")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("found", "expected", "tolerance", "wrong"),
    [
        ([1.0, 2.0], [1.0, 2.0], EXACT, 0),
        ([1.0, 2.1], [1.0, 2.0], Tolerance(0.11), 0),
        ([1.0, 2.1], [1.0, 2.0], Tolerance(0.09), 1),
        ([100.0, 0.1], [101.0, 0.0], Tolerance(relative=0.01), 1),
        ([NAN, INF, -INF], [NAN, INF, -INF], EXACT, 0),
        ([NAN, 1.0, INF], [1.0, NAN, -INF], Tolerance(1e9, 1e9), 3),
        ([3e38], [INF], Tolerance(1e9, 1e9), 1),
        ([], [], EXACT, 0),
        ([[0, 0, 0]], [[0], [0], [0]], EXACT, 3),
        (np.zeros((0, 3)), np.zeros((0, 4)), EXACT, 1),
    ],
)
def test_judging(found: Any, expected: Any, tolerance: Tolerance, wrong: int) -> None:
    verdict = judge(np.float32(found), np.float32(expected), tolerance)
    assert verdict.wrong == wrong
    assert (verdict.worst > 1) is bool(wrong)


def test_units_in_the_last_place_are_those_of_the_outputs_type() -> None:
    for kind in (np.float16, np.float32):
        one = np.ones(1, kind)
        assert judge(np.nextafter(one, kind(2)), one, Tolerance(ulp=1)).wrong == 0
        assert judge(np.nextafter(np.nextafter(one, kind(2)), kind(2)), one, Tolerance(ulp=1)).wrong == 1


def test_the_first_wrong_number_and_the_largest_error() -> None:
    found = np.zeros((2, 3), np.uint8)
    expected = np.array([[0, 0, 1], [0, 255, 0]], np.uint8)
    verdict = judge(found, expected, Tolerance(1))
    assert verdict == tolerances.Deviation(max_error=255, worst=255, wrong=1, first=(1, 1))
    assert judge(found, expected[:, :2], EXACT).max_error == INF
    assert judge(np.float32(3), np.float32(4), EXACT).first == ()
    assert judge(np.int64([2**62 + 1]), np.int64([2**62]), EXACT).max_error == 1, "64 bits are compared exactly"


@pytest.mark.parametrize(
    ("tolerance", "unit", "words"),
    [
        (EXACT, "", "exact"),
        (Tolerance(1), "step", "1 step"),
        (Tolerance(2), "step", "2 steps"),
        (Tolerance(1e-6, 1e-5), "", "1e-06 + 1e-05 relative"),
        (Tolerance(ulp=4), "", "4 ulp"),
    ],
)
def test_words(tolerance: Tolerance, unit: str, words: str) -> None:
    assert tolerance.words(unit) == words


@pytest.mark.parametrize("row", [row for row in datatypes.ALL if row.numpy], ids=lambda row: row.name)
def test_every_data_type_has_a_default_and_is_judged(row: datatypes.DataType) -> None:
    assert isinstance(tolerances.default(row), Tolerance)
    numbers = np.ones(3, row.numpy)
    assert judge(numbers, numbers, Tolerance(1, 1, 1)).wrong == 0


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
    measured = measure(found, expected)
    assert measured.mean == pytest.approx(1.5 / 24)
    assert measured.cosine == pytest.approx(1, abs=1e-2)
    assert measured.snr == pytest.approx(10 * math.log10(sum(n * n for n in range(24)) / 1.25))


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
