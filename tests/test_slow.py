"""The list of slow tests is correct."""

from __future__ import annotations


def test_every_row_names_a_test(unknown_rows: list[str]) -> None:
    assert unknown_rows == []
