"""An examination as text: a line for each check, and remedies for missing things."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from udogen.doctor.examination import Examination
from udogen.doctor.model import FOUND, MISSING, UNSET, WRONG, CheckResult
from udogen.opdef.problems import wrapped

Paint = Callable[[str, str], str]  # (text, state) -> the text as it is shown

MARKS = {FOUND: "+", MISSING: "-", WRONG: "x", UNSET: "."}
_WORDS = {MISSING: "", WRONG: "wrong"}
_SHORT = 30  # a message up to this length is printed beside the name, a longer one below it
_LEAST = 14  # the width of names; wider ones get a width of their own


def lines(found: Examination, *, width: int, paint: Paint = lambda text, _state: text) -> Iterator[str]:
    """The report, line by line."""
    for title, rows in groupby((*found.rows, *found.packages), key=lambda row: row.check.group):
        yield title
        yield from _group(list(rows), width, paint)
        yield ""
    if found.works:
        yield "The open path works: generate, build for this machine, run in the CPU runtime."
    else:
        names = ", ".join(row.check.id for row in found.rows if row.fails)
        yield from textwrap.wrap(f"The open path does not work: see {names} above.", width)
    wrong = [row for row in found.packages if row.outcome.state == WRONG]
    if wrong:
        yield f"{len(wrong)} problem{'s' if len(wrong) > 1 else ''} with the packages."


def _group(rows: Sequence[CheckResult], width: int, paint: Paint) -> Iterator[str]:
    named = max([_LEAST, *(len(row.check.id) for row in rows)])
    numbered = max(len(row.outcome.version) for row in rows if row.outcome.state == FOUND) if _any_found(rows) else 0
    for row in rows:
        state = WRONG if row.fails else row.outcome.state
        head = f"  {paint(MARKS[row.outcome.state], state)} {row.check.id:<{named}}"
        if row.outcome.state == FOUND:
            before = f"{head}  {row.outcome.version:<{numbered}}  " if numbered else f"{head}  "
            yield (before + _fitted(row.outcome.where, width - named - numbered - 8)).rstrip()
        elif row.outcome.state == UNSET:
            yield f"{head}  {_fitted(f'not set: {row.check.purpose}', width - named - 6)}"
        else:
            short = row.outcome.message if len(row.outcome.message) <= _SHORT else ""
            yield f"{head}  {paint(short or _WORDS[row.outcome.state], state)}".rstrip()
            yield from _more(row, "" if short else row.outcome.message, width)


def _more(row: CheckResult, message: str, width: int) -> Iterator[str]:
    for label, text in (("", message), ("for: ", row.check.purpose), ("get: ", row.outcome.get or row.check.get)):
        if text:
            yield from wrapped(" " * 8 + label, text, width)


def _any_found(rows: Sequence[CheckResult]) -> bool:
    return any(row.outcome.state == FOUND for row in rows)


def _fitted(text: str, width: int) -> str:
    """A path keeps its end, the more useful part."""
    limit = max(width, 12)
    if len(text) <= limit:
        return text
    return "…" + text[1 - limit :] if text.startswith("/") else text[: limit - 1] + "…"
