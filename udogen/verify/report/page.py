"""A test run as one self-contained HTML file: facts of the run, rendered by templates/report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mako.template import Template

from udogen import __version__, resources
from udogen.errors import write_file
from udogen.tables import many
from udogen.verdict import LABELS, STATUSES, Status, counted
from udogen.verify import test_run
from udogen.verify.baseline import Baseline, CostChange
from udogen.verify.report import terminal, text
from udogen.verify.report.problems import Fact, chip, places, problems
from udogen.verify.results import BackendState, Cost, NetworkOutcome, Outcome, TestRun


def write(run: TestRun, file: Path, changes: Sequence[CostChange] = (), baseline: Baseline | None = None) -> None:
    """Write the report to a file."""
    write_file(file, render(run, changes, baseline))


def write_report(folder: Path, outcomes: Sequence[Outcome], file: Path) -> None:
    """Write the outcomes of `run_cases` as an HTML report: `write_report(folder, outcomes, Path("report.html"))`."""
    write(test_run.run_of(folder, outcomes), file)


def render(run: TestRun, changes: Sequence[CostChange] = (), baseline: Baseline | None = None) -> str:
    """The report; the same run gives the same text.  `changes` are its costs compared with a baseline."""
    kind, sentence = headline(run, worse=sum(change.worse for change in changes))
    page: str = _template().render_unicode(
        style=text.Html((resources.templates() / "report" / "report.css").read_text("utf-8")),
        title=_title(run, sentence),
        folder=run.folder,
        version=__version__,
        kind=kind,
        sentence=sentence,
        warnings=[text.rich(warning) for warning in (*run.warnings, *run.verdict.reasons, *run.not_executed)],
        problems=problems(run),
        matrix=_matrix(run),
        absent=[_column(state) for state in run.states if state.state != "ran"],
        networks=_networks(run),
        costs=_costs(run),
        compared=_compared(changes, baseline, run),
        runtimes=_runtimes([state for state in run.states if state.state == "ran" or state.runtime]),
        environment=_environment(run),
        cases=_cases(run),
    )
    return page


@cache
def _template() -> Template:
    """The template; it escapes all values except `Html`."""
    return Template(
        (resources.templates() / "report" / "report.html.mako").read_text("utf-8"),
        strict_undefined=True,
        default_filters=["escaped"],
        imports=["from udogen.verify.report.text import escape as escaped"],
    )


def _title(run: TestRun, sentence: str) -> str:
    """The title of the window: the op and place of the first failure, the sentence, the folder."""
    first = next(iter(run.failure_groups), ())
    about = f"{run.op(first[0])} on {places(first)}: " if first else ""
    return f"{about}{sentence} {run.folder.name}".strip()


# --- summary, environment, all cases ----------------------------------------------------------------------------------


def headline(run: TestRun, *, worse: int = 0) -> tuple[str, str]:
    """The kind of result and its sentence; `worse` is the number of costs that are higher than in an earlier run."""
    sentence = terminal.summary(run) + (f"; {many(worse, 'cost')} more than in the earlier run" if worse else "")
    verdict = run.verdict
    if verdict.is_bad or worse:
        return "failed" if verdict.failed else "error", sentence
    return "passed" if verdict.ok else "ran" if verdict.ran else "skipped", sentence


def _environment(run: TestRun) -> list[Fact]:
    """What the numbers depend on."""
    facts = [] if any(name == "udogen" for name, _ in run.environment) else [Fact("udogen", __version__)]
    facts += [Fact(name, text.cut(value, 400)) for name, value in run.environment]
    return [*facts, *([Fact("the run took", text.seconds(run.seconds))] if run.seconds else [])]


# --- every case -----------------------------------------------------------------------------------


def _cases(run: TestRun) -> text.Html:
    """The cases that are not among the failures."""
    rows = [
        (
            text.cut(outcome.case.name, 120),
            text.cut(run.op(outcome), 120),
            text.where(outcome.backend, outcome.dtype),
            LABELS[outcome.status],
            text.cut(text.shapes(outcome.case), 120),
            text.cut(outcome.error.message, 200) if outcome.error else _error(outcome),
            _time(outcome.cost),
        )
        for outcome in run.outcomes
        if outcome.status not in ("failed", "error")
    ]
    heads = ("case", "op", "on", "result", "inputs", "largest error, or why not", "cost")
    return text.table("All other cases", heads, rows) if rows else text.Html()


def _error(outcome: Outcome) -> str:
    worst = outcome.worst
    if worst is None:
        return "refused, as it must be" if outcome.case.refusal else ""
    return text.largest_error(worst) if worst.max_error else "exact"


def _time(cost: Cost) -> str:
    if cost.execute:
        return text.seconds(cost.execute.median)
    return f"{cost.packets:,} packets" if cost.packets is not None else ""


# --- op and data type by backend --------------------------------------------------------------------------------------


STATES = {"missing": "missing", "unbuilt": "not built", "skipped": "skipped"}


class Line(NamedTuple):
    """One line of a cell."""

    kind: str
    text: str
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
    reason: text.Html
    hint: text.Html
    details: Sequence[str]
    href: str


class Matrix(NamedTuple):
    """Op and data type by backend."""

    columns: Sequence[Column]
    rows: Sequence[MatrixRow]


def _matrix(run: TestRun) -> Matrix:
    """Every requested backend has a column, even if it is missing."""
    cells = run.matrix()
    known = {state.backend for state in run.states}
    ran = dict.fromkeys(outcome.backend for outcome in run.outcomes)
    # Backends that were not chosen would be empty columns; they are listed below the matrix.
    states = [
        *(state for state in run.states if state.state != "skipped" or state.backend in ran),
        *(BackendState(name, name, "ran") for name in ran if name not in known),
    ]
    numbers = {id(outcome): number for number, outcome in enumerate(run.outcomes)}
    rows = [
        MatrixRow(
            op,
            dtype or "type not known",
            [_cell(state, cells.get((op, state.backend, dtype), ()), numbers) for state in states],
        )
        for op, dtype in run.rows()
    ]
    return Matrix([_column(state) for state in states], rows)


def _cell(state: BackendState, outcomes: Sequence[Outcome], numbers: dict[int, int]) -> Cell:
    name = text.backend(state.backend)
    if not outcomes:
        if state.state == "ran":
            return Cell(name, "none", [Line("none", "no case")])
        return Cell(name, "absent", [Line("skipped", STATES[state.state], f"#backend-{state.backend}")])
    counts = Counter(outcome.status for outcome in outcomes)
    lines, why = [], ""
    for status in STATUSES:
        if not counts[status]:
            continue
        first = next(outcome for outcome in outcomes if outcome.status == status)
        href = f"#case-{numbers[id(first)]}" if status in ("failed", "error") else ""
        lines.append(Line(status, _count(status, [outcome for outcome in outcomes if outcome.status == status]), href))
        if status == "skipped" and first.error:
            why = text.cut(first.error.message, 120)
    return Cell(name, lines[0].kind, lines, why)


def _count(status: Status, outcomes: Sequence[Outcome]) -> str:
    """`3 crashed`, if all its errors are crashes; otherwise `3 errors`."""
    chips = {chip(outcome) for outcome in outcomes}
    if status == "error" and len(chips) == 1 and LABELS["error"] not in chips:
        return f"{len(outcomes):,} {chips.pop()}"
    return counted(status, len(outcomes))


def _column(state: BackendState) -> Column:
    kind = "absent" if state.state != "ran" else "real" if state.real else "stand-in"
    return Column(
        name=text.backend(state.backend),
        title=state.title,
        kind=kind,
        note=_absence(state) or _owner(state),
        reason=text.rich(state.reason),
        hint=text.rich(state.hint),
        details=[text.cut(detail, 400) for detail in state.details[:16]],
        href=f"backend-{state.backend}",
    )


def _owner(state: BackendState) -> str:
    if state.real:
        return "Qualcomm's own"
    if state.runtime is None:
        return "stand-in"
    # Hexagon instructions run under QEMU; there is no other owner to show.
    return "udogen's emulator" if state.runtime.emulator else text.cut(state.runtime.name, 60)


def _absence(state: BackendState) -> str:
    label = STATES.get(state.state, "")
    return f"{label}, {many(state.cases, 'case')}" if label and state.cases else label


def _runtimes(states: Sequence[BackendState]) -> text.Html:
    """Where the cases of each backend ran; empty if none did."""
    heads = ("backend", "owner", "runtime", "build", "versions", "file")
    rows = []
    for state in states:
        runtime, column = state.runtime, _column(state)
        name = text.Html(f"{text.escape(column.name)}<small>{text.escape(state.title)}</small>")
        if runtime is None:
            rows.append((name, column.note, "", "", "", ""))
            continue
        # Without a library, the name already shows the owner.
        owner = "" if column.note == runtime.name else column.note
        versions = ", ".join(part for part in (runtime.api_version, runtime.backend_version) if part)
        rows.append((name, owner, runtime.name, runtime.build_id, versions, runtime.path))
    styles = {"versions": "plain", "file": "path"}
    return text.table("Runtimes", heads, rows, kind="runtimes stack", styles=styles) if rows else text.Html()


# --- networks ---------------------------------------------------------------------------------------------------------


class NetworkCard(NamedTuple):
    """A network on one backend."""

    kind: str
    title: str
    label: str
    lines: Sequence[str]  # as in the terminal

    @property
    def unfolded(self) -> bool:
        """Whether the card is open when the page loads."""
        return self.kind != "passed"


def _networks(run: TestRun) -> list[NetworkCard]:
    """The networks, by status, failures first."""
    return [_network(network) for status in STATUSES for network in run.networks if network.status == status]


def _network(outcome: NetworkOutcome) -> NetworkCard:
    title = f"{outcome.name} on {text.backend(outcome.backend)}, {outcome.title.rpartition(', ')[2]}"
    return NetworkCard(outcome.status, title, LABELS[outcome.status], terminal.network_lines(outcome)[1:])


# --- costs ------------------------------------------------------------------------------------------------------------


def _costs(run: TestRun) -> text.Html:
    """For each cell of the matrix, the case that moves the most bytes; empty if nothing was measured."""
    chosen = []
    for outcomes in run.matrix().values():
        measured = [outcome for outcome in outcomes if outcome.cost.execute or outcome.cost.packets is not None]
        chosen += [max(measured, key=lambda outcome: outcome.cost.bytes_moved)] if measured else []
    rows = [[text.cut(cell, 80) for cell in terminal.cost_row(run.op(outcome), outcome)] for outcome in chosen]
    used = [n for n, _ in enumerate(terminal.COST_HEADS) if any(row[n] != "-" for row in rows)]
    heads = [terminal.COST_HEADS[n] for n in used]
    return (
        text.table("Costs", heads, [[row[n] for n in used] for row in rows], kind="costs stack")
        if rows
        else text.Html()
    )


class BaselineComparison(NamedTuple):
    """The costs of a run compared with those of an earlier one."""

    path: str
    sentence: str
    elsewhere: Sequence[Fact]  # differences that make times hard to compare
    table: text.Html


def _compared(changes: Sequence[CostChange], baseline: Baseline | None, run: TestRun) -> BaselineComparison | None:
    """None without an earlier run."""
    if baseline is None:
        return None
    worse = sum(change.worse for change in changes)
    sentence = "it has none of these cases."
    if changes:
        verb = "are" if worse > 1 else "is"
        sentence = f"{f'{worse:,}' if worse else 'none'} of {many(len(changes), 'cost')} {verb} worse than then."
    rows = [[text.cut(cell, 120) for cell in row] for row in terminal.change_rows(changes)]
    return BaselineComparison(
        str(baseline.path),
        sentence,
        [Fact(name, f"{then} then, {now} now") for name, then, now in baseline.differences(run)],
        text.table("Costs compared", terminal.CHANGE_HEADS, rows, kind="costs stack") if rows else text.Html(),
    )
