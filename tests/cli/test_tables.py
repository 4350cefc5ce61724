"""Tables fit the terminal."""

from __future__ import annotations

import pytest

from udogen.tables import table

ROWS = [("htp_v68", "built by zig, symbols checked against the real library; not run", "-"), ("cpu", "executed", "-")]


def test_a_table_is_as_wide_as_its_cells() -> None:
    assert table(("target", "verified", "x"), ROWS[1:]) == [
        "target  verified  x",
        "------  --------  -",
        "cpu     executed  -",
    ]


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_table_fits_and_loses_no_word(width: int) -> None:
    lines = table(("target", "verified", "x"), ROWS, width)
    assert max(map(len, lines)) <= width
    assert set("".join(" ".join(map(" ".join, ROWS)).split())) <= set("".join(lines))
    words = " ".join(line[9:] for line in lines[2:]).split()
    assert width == 20 or [each for each in ROWS[0][1].split() if each not in words] == []
    assert "x" not in lines[0].split()
