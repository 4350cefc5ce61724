"""Op and data type by backend, and where each backend's cases ran, or why they did not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from udogen.verify.report import words
from udogen.verify.report.failures import chip
from udogen.verify.results import STATUSES, BackendState, Outcome, TestRun

LABELS = {
    "failed": "wrong",
    "error": "without numbers",
    "skipped": "not run",
    "ran": "not checked",
    "passed": "passed",
}
STATES = {"missing": "not there", "unbuilt": "not built", "left out": "left out"}


class Line(NamedTuple):
    """One line of a cell."""

    kind: str
    words: str
    href: str = ""


class Cell(NamedTuple):
    """An op of one data type on one backend."""

    backend: str
    kind: str
    lines: Sequence[Line]
    why: str = ""


class MatrixRow(NamedTuple):
    """An op of one data type."""

    op: str
    dtype: str
    cells: Sequence[Cell]


class Column(NamedTuple):
    """A backend, as the head of a column."""

    name: str
    title: str
    kind: str  # real, stand-in, absent
    note: str
    reason: words.Html
    hint: words.Html
    details: Sequence[str]
    href: str


class Matrix(NamedTuple):
    """Op and data type by backend."""

    columns: Sequence[Column]
    rows: Sequence[MatrixRow]


def matrix(run: TestRun) -> Matrix:
    """Every backend that was asked for has its column, also where it is not there."""
    cells = run.matrix()
    known = {each.backend for each in run.states}
    ran = dict.fromkeys(each.backend for each in run.outcomes)
    # Those that nobody asked for would be columns of nothing; they are listed below it.
    states = [
        *(each for each in run.states if each.state != "left out" or each.backend in ran),
        *(BackendState(name, name, "ran") for name in ran if name not in known),
    ]
    numbers = {id(outcome): number for number, outcome in enumerate(run.outcomes)}
    rows = [
        MatrixRow(
            op,
            dtype or "type not known",
            [_cell(state, cells.get((op, state.backend, dtype), ()), numbers) for state in states],
        )
        for op, dtype in by_op(cells)
    ]
    return Matrix([_column(each) for each in states], rows)


def by_op(cells: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Op and data type, the types of one op together."""
    pairs = dict.fromkeys((op, dtype) for op, _, dtype in cells)
    ops = list(dict.fromkeys(op for op, _ in pairs))
    return sorted(pairs, key=lambda pair: ops.index(pair[0]))


def _cell(state: BackendState, outcomes: Sequence[Outcome], numbers: dict[int, int]) -> Cell:
    name = words.backend(state.backend)
    if not outcomes:
        if state.state == "ran":
            return Cell(name, "none", [Line("none", "no case")])
        return Cell(name, "absent", [Line("skipped", STATES[state.state], f"#backend-{state.backend}")])
    counts = Counter(each.status for each in outcomes)
    lines, why = [], ""
    for status in STATUSES:
        if not counts[status]:
            continue
        first = next(each for each in outcomes if each.status == status)
        href = f"#case-{numbers[id(first)]}" if status in ("failed", "error") else ""
        lines.append(Line(status, f"{counts[status]:,} {_said(first, outcomes)}", href))
        if status == "skipped" and first.trouble:
            why = words.cut(first.trouble.message, 120)
    return Cell(name, lines[0].kind, lines, why)


def _said(first: Outcome, outcomes: Sequence[Outcome]) -> str:
    """`crashed` where all of its errors did."""
    same = {chip(each) for each in outcomes if each.status == first.status}
    return same.pop() if first.status == "error" and len(same) == 1 else LABELS[first.status]


def _column(state: BackendState) -> Column:
    kind = "absent" if state.state != "ran" else "real" if state.real else "stand-in"
    return Column(
        name=words.backend(state.backend),
        title=state.title,
        kind=kind,
        note=_absence(state) or _whose(state),
        reason=words.rich(state.reason),
        hint=words.rich(state.hint),
        details=[words.cut(each, 400) for each in state.details[:16]],
        href=f"backend-{state.backend}",
    )


def _whose(state: BackendState) -> str:
    if state.real:
        return "Qualcomm's own"
    if state.runtime is None:
        return "stand-in"
    # Instructions of Hexagon under QEMU: the name says it all.
    return "udogen's emulator" if state.runtime.emulator else words.cut(state.runtime.name, 60)


class Runtime(NamedTuple):
    """Where a backend's cases ran."""

    name: str
    title: str
    whose: str
    runtime: str
    build: str
    versions: str
    path: str


def _absence(state: BackendState) -> str:
    said = STATES.get(state.state, "")
    return f"{said}, {words.many(state.cases, 'case')}" if said and state.cases else said


def runtimes(run: TestRun) -> list[Runtime]:
    """Of every backend where something ran; an emulator is called one."""
    return [_runtime(state, _column(state)) for state in run.states if state.state == "ran" or state.runtime]


def absent(run: TestRun) -> list[Column]:
    """The backends that did not run, or not with everything."""
    return [_column(state) for state in run.states if state.state != "ran"]


def _runtime(state: BackendState, column: Column) -> Runtime:
    found = state.runtime
    if found is None:
        return Runtime(column.name, state.title, column.note, "", "", "", "")
    # What has no runtime has a name that says whose it is.
    whose = "" if column.note == found.name else column.note
    versions = ", ".join(part for part in (found.api_version, found.backend_version) if part)
    return Runtime(column.name, state.title, whose, found.name, found.build_id, versions, found.path)
