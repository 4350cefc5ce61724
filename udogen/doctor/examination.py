"""Runs all checks, and reports the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from udogen import process
from udogen.doctor.checks import ALL
from udogen.doctor.model import FOUND, MISSING, UNSET, WRONG, CheckResult, Machine
from udogen.errors import ToolMissing
from udogen.tables import table

_AT_ONCE = 8  # checks mostly wait for programs


@dataclass(frozen=True)
class Examination:
    """The results of all checks."""

    rows: tuple[CheckResult, ...]

    @property
    def works(self) -> bool:
        """Whether the open path works: generate, build for this machine, run in the CPU runtime."""
        return not any(row.fails for row in self.rows)

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return 0 if self.works else ToolMissing.exit_code


def examine(machine: Machine) -> Examination:
    """Check the machine."""
    outcomes = process.at_once([partial(check.look, machine) for check in ALL], _AT_ONCE)
    return Examination(tuple(CheckResult(*row) for row in zip(ALL, outcomes, strict=True)))


# --- as text -------------------------------------------------------------------------------------------------------


Paint = Callable[[str, str], str]  # (text, state) -> the text to print

MARKS = {FOUND: "+", MISSING: "-", WRONG: "x", UNSET: "."}


def lines(found: Examination, *, width: int, paint: Paint = lambda text, _state: text) -> Iterator[str]:
    """The report, line by line."""
    states = {mark: state for state, mark in MARKS.items()}
    for title, group in groupby(found.rows, key=lambda row: row.check.group):
        rows = [(f"{MARKS[row.outcome.state]} {row.check.id}", row.outcome.version, _text(row)) for row in group]
        for number, line in enumerate(table((title, "version", ""), rows, width)):
            mark = line[:1] if number > 1 else ""
            yield paint(mark, states[mark]) + line[1:] if mark in states else line
        yield ""
    if found.works:
        yield "The open path works: generate, build for this machine, run in the CPU runtime."
    else:
        yield f"The open path does not work: see {', '.join(row.check.id for row in found.rows if row.fails)} above."


def _text(row: CheckResult) -> str:
    """Its place; if there is none, the error, its purpose and how to get it."""
    if row.outcome.state == FOUND:
        return row.outcome.where
    if row.outcome.state == UNSET:
        return f"not set: {row.check.purpose}"
    return "; ".join(filter(None, (row.outcome.message, row.check.purpose, row.get)))
