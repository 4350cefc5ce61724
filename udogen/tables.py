"""Plain tables for terminals and files."""

from __future__ import annotations

import textwrap
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import zip_longest

_NARROWEST = 8  # the minimum width of a column with wrapped text


def table(head: Sequence[str], rows: Iterable[Sequence[str]], width: int = 0) -> list[str]:
    """The lines of a table: as wide as its cells; with `width`, the widest columns are wrapped, at spaces if possible.

    Columns in which every row has `-` are left out of a table that would be too wide.
    """
    every = [list(head), *map(list, rows)]
    widths = _widths(every)
    if width and _total(widths) > width:
        every = _without_unused(every)
        widths = _narrowed(every, width)
    every.insert(1, ["-" * each for each in widths])
    return [line.rstrip() for row in every for line in _lines(row, widths)]


def columns(rows: Sequence[Sequence[str]], *, right: Container[int] = ()) -> Iterator[str]:
    """The lines of rows whose columns are aligned; `right` has the numbers of those that are aligned on the right."""
    widths = _widths(rows)
    for row in rows:
        cells = (
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def many(count: int, thing: str) -> str:
    """`1 case`, `2,000 cases`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def shape_text(shape: Sequence[object]) -> str:
    """`1x3x8`, or `[batch, 3, ?]` if not all are numbers; empty for a scalar."""
    texts = ["?" if size is None else str(size) for size in shape]
    plain = all(isinstance(size, int) for size in shape)
    return "x".join(texts) if plain else f"[{', '.join(texts)}]"


def _without_unused(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows with only those columns in which a row below the head has a value other than `-`."""
    kept = [n for n in range(len(rows[0])) if len(rows) == 1 or any(row[n] != "-" for row in rows[1:])]
    return [[row[n] for n in kept] for row in rows]


def _narrowed(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """The widths with which all columns fit; words are broken only if nothing else helps."""
    widths = _widths(rows)
    longest = [max(len(word) for row in rows for word in row[n].split() or [""]) for n in range(len(widths))]
    for least in (longest, [_NARROWEST] * len(widths)):
        while _total(widths) > width and (wide := [n for n, each in enumerate(widths) if each > least[n]]):
            widths[max(wide, key=lambda column: widths[column])] -= 1
    return widths


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
    """The lines of a row, whose cells may need several."""
    cells = [
        textwrap.wrap(cell, width, break_on_hyphens=False) if len(cell) > width else [cell]
        for cell, width in zip(row, widths, strict=True)
    ]
    for parts in zip_longest(*cells, fillvalue=""):
        yield "  ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True))
