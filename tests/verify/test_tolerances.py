"""The permitted difference of a right number: declarations of a test file, the defaults, and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from udogen.opdef import datatypes
from udogen.verify import tolerances
from udogen.verify.tolerances import EXACT, Tolerance, judge


@pytest.mark.parametrize(
    ("raw", "message"),
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
    ],
)
def test_keys_of_a_test_file(raw: object, message: object) -> None:
    assert tolerances.parse(raw) == message


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ("close", "`close` is not a tolerance: as in 1e-6"),
        (-1, "-1 is not a tolerance"),
        (float("nan"), "nan is not a tolerance"),
        (True, "this is not a tolerance"),
        ("1e-6 furlongs", "`1e-6 furlongs` is not a tolerance"),
        ({"FLOAT_23": 1}, "`FLOAT_23` is not a data type, and none of float, fixed, integer"),
    ],
)
def test_what_is_no_tolerance(raw: object, sentence: str) -> None:
    found = tolerances.parse(raw)
    assert isinstance(found, str) and found.startswith(sentence)


def test_the_most_particular_word_holds() -> None:
    message = tolerances.parse({"FLOAT_16": 1, "float": 2})
    assert not isinstance(message, str)
    rows = datatypes.BY_NAME
    assert tolerances.of(rows["FLOAT_16"], message) == Tolerance(1)
    assert tolerances.of(rows["FLOAT_32"], message) == Tolerance(2)
    assert tolerances.of(rows["UFIXED_POINT_8"], message) == tolerances.default(rows["UFIXED_POINT_8"]) == Tolerance(1)
    assert tolerances.of(rows["INT_32"], message) == EXACT


@pytest.mark.parametrize("row", [row for row in datatypes.ALL if row.numpy], ids=lambda row: row.name)
def test_every_data_type_has_a_default(row: datatypes.DataType) -> None:
    assert isinstance(tolerances.default(row), Tolerance)


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
    ],
)
def test_judging(found: list[float], expected: list[float], tolerance: Tolerance, wrong: int) -> None:
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


def test_judging_takes_every_type_of_numbers() -> None:
    kinds: list[Any] = [row.numpy for row in datatypes.ALL if row.numpy]
    for kind in kinds:
        assert judge(np.ones(3, kind), np.ones(3, kind), Tolerance(1, 1, 1)).wrong == 0
