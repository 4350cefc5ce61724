"""The report's pictures of a tensor: the right slice, every wrong element, the right colours."""

from __future__ import annotations

import base64
import itertools
import re
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from lxml import etree

from tests.verify.report_sample import FLOAT, STEP, tensor_result, waves
from udogen.verify.report import pictures
from udogen.verify.report.pictures import MOST_SQUARES, UNSHOWN, ErrorBin, OutputPictures, output_pictures
from udogen.verify.tolerances import EXACT, Tolerance


def seen(expected: np.ndarray, found: np.ndarray, *, allowed: Tolerance = FLOAT, unit: str = "") -> OutputPictures:
    quant = (0.5, 0) if unit else None
    close = output_pictures(tensor_result("y", expected, found, allowed=allowed, quant=quant), allowed)
    assert close is not None
    return close


def spoilt(shape: tuple[int, ...], *places: tuple[int, ...], by: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    right = waves(shape)
    wrong = right.copy()
    for place in places:
        wrong[place] += by
    return right, wrong


# --- slices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "wrong", "where", "mark"),
    [
        ((2, 3, 4, 5), (1, 2, 3, 4), "y[1, 2, :, :]", (3, 4)),
        ((1, 4, 5, 1), (0, 1, 2, 0), "y[0, :, :, 0]", (1, 2)),
        ((4, 1, 5), (3, 0, 2), "y[:, 0, :]", (3, 2)),
        ((4, 5), (3, 2), "y", (3, 2)),
        ((20,), (7,), "y", (0, 7)),
        ((1, 20, 1), (0, 7, 0), "y", (0, 7)),
        ((100,), (70,), "y, in rows of 32", (2, 6)),
        ((), (), "y", (0, 0)),
    ],
)
def test_the_slice_with_the_fault(shape: tuple[int, ...], wrong: tuple[int, ...], where: str, mark: object) -> None:
    close = seen(*spoilt(shape, wrong))
    assert (close.slice.where, close.slice.mark, close.slice.wrong) == (where, mark, 1)


def test_the_slice_where_most_is_wrong() -> None:
    close = seen(*spoilt((3, 4, 4), (0, 0, 0), (2, 1, 1), (2, 1, 2)))
    assert close.slice.where == "y[2, :, :]"
    assert (close.slice.wrong, close.slice.count) == (2, 16)
    assert (close.slice.rows, close.slice.columns) == ("axis 1: 0 to 3", "axis 2: 0 to 3")


@given(st.integers(1, 200), st.integers(1, 200), st.data())
def test_one_wrong_element_is_seen_however_large_the_tensor(rows: int, columns: int, data: st.DataObject) -> None:
    place = (data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1)))
    close = seen(*spoilt((rows, columns), place))
    expected, found, off = (panel.levels for panel in close.slice.panels)
    assert off.shape[0] <= MOST_SQUARES and off.shape[1] <= MOST_SQUARES
    wrong = (off >= 2) & (off != UNSHOWN)
    assert wrong.sum() == 1 and (off == 1).sum() == 0 and (off == UNSHOWN).sum() == close.slice.spare
    assert close.slice.mark == tuple(int(each[0]) for each in np.nonzero(wrong))
    assert expected.shape == found.shape == off.shape
    assert close.slice.count == rows * columns


def test_a_square_shows_the_element_that_is_furthest_off() -> None:
    right, wrong = spoilt((96, 96), (10, 10), (11, 11))
    wrong[11, 11] += 100
    close = seen(right, wrong)
    assert close.slice.each == "2x2 elements, of which it shows the one that is furthest off"
    assert close.slice.panels[2].levels[5, 5] == len(pictures.OFF) - 1


def test_the_end_of_a_vector_is_no_element() -> None:
    close = seen(*spoilt((100,), (99,)))
    assert close.slice.spare == 28 and close.slice.count == 100
    assert (close.slice.panels[0].levels == UNSHOWN).sum() == 28


def test_absurd_numbers_leave_the_others_their_colours() -> None:
    close = seen(*spoilt((4, 4), (0, 0), by=1e30))
    expected, found, _ = close.slice.panels
    assert len(np.unique(expected.levels)) > 4
    assert found.high.startswith("≥ ") and not expected.high.startswith("≥ ")


def test_what_is_no_number_has_no_colour() -> None:
    right = waves((4, 4))
    wrong = right.copy()
    wrong[1, 1], wrong[2, 2] = np.nan, np.inf
    close = seen(right, wrong)
    for panel, count in zip(close.slice.panels, (0, 2, 2), strict=True):
        assert (panel.levels == UNSHOWN).sum() == count
    assert close.slice.wrong == 2


def test_a_nan_that_is_expected_is_right() -> None:
    right = waves((4, 4))
    right[0, 0] = np.nan
    close = seen(right, right.copy())
    assert close.slice.wrong == 0 and close.slice.panels[2].levels.max() == 0


def test_within_what_is_allowed_is_another_colour_than_exact() -> None:
    right = np.ones((3, 3), np.float32)
    wrong = right.copy()
    wrong[1, 1] += np.float32(5e-6)
    assert seen(right, wrong).slice.panels[2].levels.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]


def test_numbers_are_written_where_there_are_few() -> None:
    right, wrong = spoilt((2, 3), (1, 2))
    close = seen(right, wrong)
    assert close.slice.panels[2].numbers == (("0", "0", "0"), ("0", "0", "1"))
    assert not seen(*spoilt((2, 9), (1, 2))).slice.panels[2].numbers
    assert all(len(each) <= 7 for row in close.slice.panels[0].numbers for each in row)


def test_nothing_to_lay_on_one_another() -> None:
    for expected, found in ((waves((2, 3)), waves((3, 2))), (np.zeros((0, 4)), np.zeros((0, 4)))):
        assert output_pictures(tensor_result("y", expected, found, allowed=FLOAT), FLOAT) is None


# --- distributions --------------------------------------------------------------------------------


def test_steps_have_a_bin_each() -> None:
    expected = np.uint8([[10, 20, 30, 40, 50]])
    found = np.uint8([[10, 21, 29, 43, 50]])
    assert seen(expected, found, allowed=STEP, unit="step").spread == (
        ErrorBin("-1", 1, 0),
        ErrorBin("0", 2, 0),
        ErrorBin("+1", 1, 0),
        ErrorBin("+2", 0, 0),
        ErrorBin("+3", 0, 1),
    )


def test_many_steps_share_bins_and_one_begins_at_zero() -> None:
    expected = np.full(256, 128, np.uint8)
    spread = seen(expected, np.arange(256, dtype=np.uint8), allowed=EXACT, unit="step").spread
    assert [each.name for each in spread][4:7] == ["-48…-25", "-24…-1", "0…23"]
    assert len(spread) <= 12


def test_floats_have_a_bin_for_each_power_of_ten() -> None:
    expected = np.ones(6)
    found = expected + np.array([0, 2e-6, 3e-2, 5e-2, np.nan, np.inf])
    assert seen(expected, found).spread == (
        ErrorBin("exact", 1, 0),
        ErrorBin("1e-6", 1, 0),
        ErrorBin("1e-5", 0, 0),
        ErrorBin("1e-4", 0, 0),
        ErrorBin("1e-3", 0, 0),
        ErrorBin("1e-2", 0, 2),
        ErrorBin("∞, NaN", 0, 2),
    )


@given(arrays.arrays(np.float32, (5, 7)), arrays.arrays(np.float32, (5, 7)))
@pytest.mark.filterwarnings("ignore:overflow")
def test_every_element_is_in_one_bin_of_floats(expected: np.ndarray, found: np.ndarray) -> None:
    close = seen(expected, found)
    tensor = tensor_result("y", expected, found, allowed=FLOAT)
    assert sum(each.right + each.wrong for each in close.spread) == 35
    assert sum(each.wrong for each in close.spread) == tensor.wrong
    assert len(close.spread) <= 13
    assert close.slice.panels[2].levels.shape == (5, 7)
    assert ((close.slice.panels[2].levels >= 2).sum()) == tensor.wrong


@given(arrays.arrays(np.int16, (4, 9)), arrays.arrays(np.int16, (4, 9)))
def test_every_element_is_in_one_bin_of_steps(expected: np.ndarray, found: np.ndarray) -> None:
    close = seen(expected, found, allowed=STEP, unit="step")
    assert sum(each.right + each.wrong for each in close.spread) == 36
    assert sum(each.wrong for each in close.spread) == tensor_result("y", expected, found, allowed=STEP).wrong
    assert len(close.spread) <= 12


# --- drawings -------------------------------------------------------------------------------------


def decoded(svg: str) -> tuple[np.ndarray, list[bytes], bytes]:
    """Return pixels, palette and transparency of the PNG of a picture, decoded by the specification."""
    match = re.search(r'href="data:image/png;base64,([^"]+)"', svg)
    assert match
    data = base64.b64decode(match[1])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        content = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + content)
        chunks[kind] = content
        at += 12 + size
    columns, rows, bits, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (bits, colour) == (4, 3)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(rows, -1)
    assert not lines[:, 0].any()
    pixels = np.stack([lines[:, 1:] >> 4, lines[:, 1:] & 15], axis=2).reshape(rows, -1)[:, :columns]
    table = chunks[b"PLTE"]
    return pixels, [table[i : i + 3] for i in range(0, len(table), 3)], chunks[b"tRNS"]


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (48, 47), (500, 3), (1, 500)])
def test_the_picture_shows_the_panel(shape: tuple[int, int]) -> None:
    right, wrong = spoilt(shape, (0, 0))
    wrong[-1, -1] = np.nan
    for panel in seen(right, wrong).slice.panels:
        pixels, colours, clear = decoded(pictures.heatmap(seen(right, wrong).slice, panel, "x"))
        assert (np.where(panel.levels == UNSHOWN, 15, panel.levels) == pixels).all()
        assert [f"#{each.hex()}" for each in colours[: len(panel.colours)]] == list(panel.colours)
        assert clear[15] == 0 and set(clear[:15]) == {255}


@pytest.mark.parametrize("shape", [(1, 1), (12, 8), (2, 6), (48, 47), (500, 3), (1, 500), (3, 1)])
def test_nothing_leaves_a_picture(shape: tuple[int, int]) -> None:
    right, wrong = spoilt(shape, (0, 0))
    wrong[-1, -1] = np.nan
    close = seen(right, wrong)
    for text in [
        *(pictures.heatmap(close.slice, panel, "x") for panel in close.slice.panels),
        pictures.spread(close.spread, close.unit),
    ]:
        svg = etree.fromstring(text)
        _, _, width, height = (float(each) for each in svg.get("viewBox", "").split())
        for each in svg.iter("rect", "image"):
            x, y = float(each.get("x", 0)), float(each.get("y", 0))
            assert x >= 0 and y >= 0
            assert x + float(each.get("width", 0)) <= width + 0.1 and y + float(each.get("height", 0)) <= height
        for each in svg.iter("text"):
            length = len(each.text or "") * 0.62 * float(each.get("font-size", 12))
            x = float(each.get("x", 0))
            left = x - {"middle": length / 2, "end": length}.get(_anchor(each), 0)
            assert left >= -4 and left + length <= width + 4, etree.tostring(each)
            assert 0 <= float(each.get("y", 0)) <= height


def _anchor(text: etree._Element) -> str:
    return "middle" if text.get("class") == "in" else text.get("text-anchor", "")


def test_a_single_element_of_a_million_has_a_bar() -> None:
    svg = etree.fromstring(pictures.spread((ErrorBin("exact", 10**6, 0), ErrorBin("1e0", 0, 1)), "absolute difference"))
    bars = {each.get("class"): float(each.get("height", 0)) for each in svg.iter("rect")}
    assert bars["wrong"] >= 3
    assert svg.get("aria-label") == (
        "Error distribution (absolute difference). exact: 1,000,000 elements; 1e0: 1 element, 1 wrong"
    )
    assert [each.text for each in svg.iter("text")] == ["1M", "exact", "1", "1e0"]


def test_pictures_have_labels() -> None:
    close = seen(*spoilt((2, 3, 4), (1, 2, 3)))
    svg = etree.fromstring(pictures.heatmap(close.slice, close.slice.panels[2], "Softmax, large, CPU"))
    assert svg.get("aria-label") == (
        "Softmax, large, CPU: difference of y[1, :, :]: 3 rows (axis 1: 0 to 2), 4 columns (axis 2: 0 to 3)"
    )


def test_names_of_bins_do_not_overlap() -> None:
    bins = tuple(ErrorBin(f"{18 * n - 162}…{18 * n - 145}", 0, 1) for n in range(12))
    names = [each for each in etree.fromstring(pictures.spread(bins, "steps")).iter("text") if "…" in (each.text or "")]
    ends = [(float(each.get("x", 0)), len(each.text or "") * 0.62 * 12 / 2) for each in names]
    assert len(names) > 2 and ends[0][0] >= ends[0][1] - 4
    assert all(right - half >= left + half_before for (left, half_before), (right, half) in itertools.pairwise(ends))
