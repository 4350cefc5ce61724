"""The values of inputs, and how real numbers are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udogen import UsageError
from udogen.opdef.datatypes import ALL, BY_NAME, DataType
from udogen.verify.test_files import values
from udogen.verify.test_files.values import KINDS, Fill, draw, parse, quant_for, store, to_real

STORABLE = [row for row in ALL if row.numpy]


def drawn(text: str, dtype: str, shape: tuple[int, ...] = (1000,), quant: tuple[float, int] | None = None) -> Any:
    how = parse(text)
    assert isinstance(how, Fill), how
    return draw(how, dtype=BY_NAME[dtype], shape=shape, random=np.random.default_rng(0), quant=quant)


@pytest.mark.parametrize("dtype", STORABLE, ids=lambda row: row.name)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (0, 5), (1,), (2, 3, 5)], ids=str)
def test_every_kind_fills_every_type_and_shape(kind: str, dtype: DataType, shape: tuple[int, ...]) -> None:
    quant = (0.05, -128) if dtype.quantized else None
    real = drawn(kind, dtype.name, shape, quant)
    stored = store(real, dtype, quant)
    assert stored.shape == shape and stored.dtype == np.dtype(dtype.numpy)


def test_edges() -> None:
    floats = store(drawn("edge", "FLOAT_32"), BY_NAME["FLOAT_32"], None)
    info = np.finfo(np.float32)
    assert np.isfinite(floats).all()
    assert {info.max, info.min, info.tiny, info.smallest_subnormal, 0.0} <= set(floats.tolist())
    assert np.signbit(floats[floats == 0]).any() and not np.signbit(floats[floats == 0]).all()
    more = drawn("nonfinite", "FLOAT_16")
    assert np.isnan(more).any() and np.isposinf(more).any() and np.isneginf(more).any()
    fixed = store(drawn("edge", "UFIXED_POINT_8", quant=(0.1, -100)), BY_NAME["UFIXED_POINT_8"], (0.1, -100))
    assert {0, 100, 255} <= set(fixed.tolist())
    assert {-128, 127, 0, 1, -1} <= set(drawn("edge", "INT_8").astype(int).tolist())


def test_a_ramp_in_fixed_point_is_every_number_that_can_be_stored() -> None:
    quant = (0.05, -128)
    stored = store(drawn("ramp", "UFIXED_POINT_8", (256,), quant), BY_NAME["UFIXED_POINT_8"], quant)
    np.testing.assert_array_equal(stored, np.arange(256))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("uniform(2, 3)", 2, 3), ("integers(-3, 4)", -3, 4), ("constant(5)", 5, 5), ("ramp(1, 2)", 1, 2)],
)
def test_arguments_are_checked(text: str, low: float, high: float) -> None:
    found = drawn(text, "FLOAT_32")
    assert found.min() >= low and found.max() <= high
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gaussian", "`gaussian` is not a way to fill a tensor; there are normal, uniform, integers, ramp, constant, "),
        ("uniform(a, 2)", "`uniform(a, 2)`: the arguments of uniform are numbers"),
        ("edge(1)", "`edge(1)`: edge takes no arguments"),
        ("normal(1, 2, 3)", "`normal(1, 2, 3)`: normal takes mean, deviation"),
        ("uniform(1", "`uniform(1` is not a way to fill a tensor"),
    ],
)
def test_what_fills_nothing(text: str, sentence: str) -> None:
    found = parse(text)
    assert isinstance(found, str) and found.startswith(sentence)


@pytest.mark.parametrize("text", ["uniform(3, -3)", "normal(0, -1)", "integers(0, 1e30)", "uniform(-1e999, 1)"])
def test_arguments_that_numpy_refuses_are_an_error_of_the_user(text: str) -> None:
    with pytest.raises(UsageError, match="cannot fill a tensor of FLOAT_32"):
        drawn(text, "FLOAT_32")


@pytest.mark.filterwarnings("error")
def test_storing_rounds_to_even_and_saturates() -> None:
    fixed, quant = BY_NAME["UFIXED_POINT_8"], (0.5, -10)
    assert store([-99.0, -5.0, 0.25, 0.75, 1e9, np.nan, np.inf], fixed, quant).tolist() == [0, 0, 10, 12, 255, 0, 255]
    assert store([-1.5, -0.5, 0.5, 1.5, 300], BY_NAME["INT_8"], None).tolist() == [-2, 0, 0, 2, 127]
    assert store([0, 2, -1], BY_NAME["BOOL_8"], None).tolist() == [False, True, True]
    assert np.isposinf(store([1e9], BY_NAME["FLOAT_16"], None)).all()
    assert store(np.float32([3e9, -3e9]), BY_NAME["INT_32"], None).tolist() == [2**31 - 1, -(2**31)]
    assert store([1e30, -1e30], BY_NAME["INT_64"], None).tolist() == [2**63 - 1, -(2**63)]
    assert store([1e30, -1.0], BY_NAME["UINT_64"], None).tolist() == [2**64 - 1, 0]
    assert store([True, False], BY_NAME["UINT_64"], None).tolist() == [1, 0]


@given(st.sampled_from([row.name for row in STORABLE if row.quantized and row.bits <= 16]), st.data())
def test_what_is_stored_means_the_same_again(name: str, data: st.DataObject) -> None:
    row = BY_NAME[name]
    limits = row.range()
    assert limits is not None
    low = data.draw(st.floats(-1e4, 1e4))
    high = data.draw(st.floats(low, 1e4))
    quant = quant_for(low, high, row)
    stored = np.array(data.draw(st.lists(st.integers(*limits), min_size=1, max_size=20)), row.numpy)
    np.testing.assert_array_equal(store(to_real(stored, row, quant), row, quant), stored)


@given(st.floats(-1e4, 0), st.floats(0, 1e4))
def test_a_quantization_covers_its_numbers_and_zero_is_one_of_them(low: float, high: float) -> None:
    for name in ("UFIXED_POINT_8", "SFIXED_POINT_8", "UFIXED_POINT_16", "SFIXED_POINT_16"):
        row = BY_NAME[name]
        scale, offset = quant = quant_for(low, high, row)
        zero, ends = store([0.0], row, quant), store([low, high], row, quant)
        assert to_real(zero, row, quant)[0] == 0.0
        assert abs(to_real(ends, row, quant) - [low, high]).max() <= 1.01 * scale, (scale, offset)


def test_numbers_are_those_of_the_seed() -> None:
    first, again = (drawn("normal", "FLOAT_32") for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_unspecified_options() -> None:
    assert values.default_fill(BY_NAME["FLOAT_16"]) == Fill("normal") == values.default_fill(BY_NAME["UFIXED_POINT_8"])
    assert values.default_fill(BY_NAME["INT_32"]) == Fill("integers")


def test_a_file_that_is_no_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "several.npz", x=np.zeros(2))
    for name, content in (("text.npy", b"no array"), ("zip.npy", b"PK\3\4 cut off"), ("empty.npy", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match=f"{name} is not an array that numpy can load: "):
            values.load_array(tmp_path / name)
    with pytest.raises(UsageError, match=r"several\.npz contains several arrays"):
        values.load_array(tmp_path / "several.npz")


def test_the_grid_of_enormous_numbers_has_an_offset_in_its_bits() -> None:
    assert quant_for(-1.7e38, 3.4e38, BY_NAME["UFIXED_POINT_8"])[1] == -85
