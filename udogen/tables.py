"""Plain tables for terminals and files."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest

_NARROWEST = 8  # columns of text that are wrapped are at least so wide


def table(head: Sequence[str], rows: Iterable[Sequence[str]], width: int = 0) -> list[str]:
    """The lines of a table: as wide as its cells, or (`width`) with the widest columns wrapped, at spaces if possible.

    Columns in which every row has `-` are left out of a table that would be too wide.
    """
    every = [list(row) for row in rows]
    names = list(head)
    if width and _total(_widths([names, *every])) > width:
        kept = [column for column in range(len(names)) if not every or any(row[column] != "-" for row in every)]
        names, every = [names[column] for column in kept], [[row[column] for column in kept] for row in every]
    widths = _widths([names, *every])
    longest = [
        max(len(word) for row in [names, *every] for word in row[column].split() or [""])
        for column in range(len(names))
    ]
    for least in (longest, [_NARROWEST] * len(names)):  # words are broken only if nothing else helps
        while width and _total(widths) > width and (wide := [n for n, each in enumerate(widths) if each > least[n]]):
            widths[max(wide, key=lambda column: widths[column])] -= 1
    lines = [line for row in (names, ["-" * each for each in widths], *every) for line in _lines(row, widths)]
    return [line.rstrip() for line in lines]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
    """A row, whose cells may take several lines."""
    cells = [
        textwrap.wrap(cell, width) if len(cell) > width else [cell] for cell, width in zip(row, widths, strict=True)
    ]
    for parts in zip_longest(*cells, fillvalue=""):
        yield "  ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True))
