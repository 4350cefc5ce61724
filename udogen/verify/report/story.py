"""What the report says of a run as a whole: the verdict, the matrix, where it ran and where not, what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from udogen.verify.report import words
from udogen.verify.report.failures import Fact, chip
from udogen.verify.results import STATUSES, BackendState, Cost, Outcome, Spread, TestRun

LABELS = {"failed": "wrong", "error": "without numbers", "skipped": "not run", "ran": "not checked", "passed": "passed"}
_STATES = {"missing": "not there", "unbuilt": "not built", "left out": "left out"}


class Tile(NamedTuple):
    """How many cases ended in one way."""

    kind: str
    number: str
    label: str
    percent: str  # of all


class Verdict(NamedTuple):
    """The run in a sentence, and what must be known beside it."""

    kind: str
    sentence: str
    more: Sequence[str]
    tiles: Sequence[Tile]


def verdict(run: TestRun) -> Verdict:
    """Nothing that did not run is counted in it."""
    kind, sentence = _judged(run)
    total = len(run.outcomes) or 1
    counts = Counter(each.status for each in run.outcomes)
    tiles = [
        Tile(status, f"{counts[status]:,}", LABELS[status], f"{100 * counts[status] / total:.4g}")
        for status in STATUSES
        if counts[status] or status in ("passed", "failed")
    ]
    return Verdict(kind, sentence, list(_beside(run)), tiles)


def _judged(run: TestRun) -> tuple[str, str]:
    counts = Counter(each.status for each in run.outcomes)
    ran = sum(counts[status] for status in ("passed", "failed", "error", "ran"))
    bad = len(run.bad)
    if not ran:
        return "skipped", "Nothing was run, so nothing is known."
    places = words.listed(words.backend(each) for each in dict.fromkeys(o.backend for o in run.bad))
    if bad:
        which = f"{bad:,} of {words.many(ran, 'case')} {'is' if bad == 1 else 'are'} not right, on {places}."
        return "failed" if counts["failed"] else "error", which
    backends = {each.backend for each in run.outcomes if each.status in ("passed", "ran")}
    on = words.many(len(backends), "backend")
    if not counts["passed"]:
        return "ran", f"{words.many(ran, 'case')} ran on {on}; there was nothing to hold the results against."
    checked = counts["passed"]
    every = (
        "The one case that was checked is"
        if checked == 1
        else f"All {words.many(checked, 'case')} that were checked are"
    )
    return "passed", f"{every} right, on {on}."


def _beside(run: TestRun) -> Iterator[str]:
    by_status = Counter(each.status for each in run.outcomes)
    if by_status["failed"] and by_status["error"]:
        yield f"{by_status['failed']:,} with wrong numbers, {by_status['error']:,} with none at all."
    absent = [each for each in run.states if each.state in ("missing", "unbuilt")]
    if absent:
        yield f"Not tested: {words.listed(words.backend(each.backend) for each in absent)}. Nothing is claimed of them."
    if skipped := by_status["skipped"]:
        yield f"{words.many(skipped, 'case')} not run: {'it counts' if skipped == 1 else 'they count'} neither way."
    if by_status["ran"] and by_status["passed"]:
        yield f"{words.many(by_status['ran'], 'case')} ran without a reference to be held against."


# --- the matrix -----------------------------------------------------------------------------------


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
    """Every backend has its column, also those that are not there."""
    cells = run.matrix()
    states = run.states or tuple(
        BackendState(name, name, "ran") for name in dict.fromkeys(each.backend for each in run.outcomes)
    )
    numbers = {id(outcome): number for number, outcome in enumerate(run.outcomes)}
    rows = [
        MatrixRow(
            op,
            dtype or "type not known",
            [_cell(state, cells.get((op, state.backend, dtype), ()), numbers) for state in states],
        )
        for op, dtype in _by_op(run)
    ]
    return Matrix([_column(each) for each in states], rows)


def _by_op(run: TestRun) -> list[tuple[str, str]]:
    """Op and data type, the types of one op together."""
    ops = list(dict.fromkeys(each.case.op for each in run.outcomes))
    pairs = dict.fromkeys((each.case.op, each.dtype) for each in run.outcomes)
    return sorted(pairs, key=lambda pair: ops.index(pair[0]))


def _cell(state: BackendState, outcomes: Sequence[Outcome], numbers: dict[int, int]) -> Cell:
    name = words.backend(state.backend)
    if not outcomes:
        if state.state == "ran":
            return Cell(name, "none", [Line("none", "no case")])
        return Cell(name, "absent", [Line("skipped", _STATES[state.state], f"#backend-{state.backend}")])
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
    ours = state.runtime is not None and state.runtime.emulator
    return Column(
        name=words.backend(state.backend),
        title=state.title,
        kind=kind,
        note=_STATES.get(state.state)
        or ("Qualcomm's own" if state.real else "udogen's emulator" if ours else "stand-in"),
        reason=words.rich(state.reason),
        hint=words.rich(state.hint),
        details=[words.cut(each, 400) for each in state.details[:16]],
        href=f"backend-{state.backend}",
    )


class Runtime(NamedTuple):
    """Where a backend's cases ran."""

    name: str
    title: str
    whose: str
    runtime: str
    build: str
    versions: str
    path: str


def runtimes(run: TestRun) -> list[Runtime]:
    """Of every backend that ran; an emulator is called one."""
    return [
        _runtime(state, column)
        for state, column in zip(run.states, matrix(run).columns, strict=False)
        if state.state == "ran"
    ]


def _runtime(state: BackendState, column: Column) -> Runtime:
    found = state.runtime
    if found is None:
        return Runtime(column.name, state.title, column.note, "", "", "", "")
    versions = ", ".join(part for part in (found.api_version, found.backend_version) if part)
    return Runtime(column.name, state.title, column.note, found.name, found.build_id, versions, found.path)


def environment(run: TestRun) -> list[Fact]:
    """What the numbers depend on."""
    facts = [Fact(name, words.cut(value, 400)) for name, value in run.environment]
    return [*facts, *([Fact("seconds in all", f"{run.seconds:.3g}")] if run.seconds else [])]


# --- what it costs --------------------------------------------------------------------------------


class Against(NamedTuple):
    """How long it takes, in times of something else."""

    ratio: str = ""
    note: str = ""


class CostRow(NamedTuple):
    """The costliest case of an op, a data type and a backend."""

    op: str
    dtype: str
    backend: str
    case: str
    time: str
    spread: str
    percent: str  # the length of its bar, of the slowest of the op
    low: str
    band: str
    numpy: Against
    builtin: Against
    packets: str
    functions: Sequence[Fact]
    moved: str
    intensity: str


class Costs(NamedTuple):
    """The rows, and which of the columns have anything in them."""

    rows: Sequence[CostRow]
    times: bool
    numpy: bool
    builtin: bool
    packets: bool
    intensity: bool


def costs(run: TestRun) -> Costs:
    """For each cell of the matrix the case that moves most bytes, the ops together."""
    cells = run.matrix()
    chosen = []
    for op, dtype in _by_op(run):
        for backend in dict.fromkeys(each for _, each, _ in cells):
            measured = [
                each
                for each in cells.get((op, backend, dtype), ())
                if each.cost.execute or each.cost.packets is not None
            ]
            if measured:
                chosen.append(max(measured, key=lambda each: each.cost.bytes_moved))
    slowest: dict[str, float] = {}
    for each in chosen:
        if each.cost.execute:
            highest = max(each.cost.execute.high, each.cost.execute.median)
            slowest[each.case.op] = max(slowest.get(each.case.op, 0.0), highest)
    rows = [_cost_row(each, slowest.get(each.case.op, 0.0)) for each in chosen]
    return Costs(
        rows,
        times=any(row.time for row in rows),
        numpy=any(row.numpy.ratio for row in rows),
        builtin=any(row.builtin.note for row in rows),
        packets=any(row.packets for row in rows),
        intensity=any(row.intensity for row in rows),
    )


def _cost_row(outcome: Outcome, slowest: float) -> CostRow:
    cost = outcome.cost
    spread = cost.execute
    scale = 100 / slowest if slowest else 0.0
    return CostRow(
        op=outcome.case.op,
        dtype=outcome.dtype,
        backend=words.backend(outcome.backend),
        case=words.cut(outcome.case.name, 80),
        time=words.seconds(spread.median) if spread else "",
        spread=f"{words.seconds(spread.low)} to {words.seconds(spread.high)}, {spread.loops:,} times" if spread else "",
        percent=f"{max(spread.median * scale, 1):.3g}" if spread else "0",
        low=f"{spread.low * scale:.3g}" if spread else "0",
        band=f"{max((spread.high - spread.low) * scale, 0.6):.3g}" if spread else "0",
        numpy=_against(spread, cost.numpy, "numpy"),
        builtin=_against(spread, cost.builtin, cost.builtin_name, cost.builtin_fault),
        packets="" if cost.packets is None else f"{cost.packets:,}",
        functions=[Fact(words.cut(name, 80), f"{count:,}") for name, count in cost.functions[:12]],
        moved=words.size(cost.bytes_moved) if cost.bytes_moved else "",
        intensity="" if cost.intensity is None else words.number(cost.intensity, 3),
    )


def _against(spread: Spread | None, other: Spread | None, name: str, fault: str = "") -> Against:
    if fault:
        return Against("", words.cut(f"{name}: {fault}", 160))
    if spread is None or other is None or not other.median:
        return Against()
    return Against(words.ratio(spread.median / other.median), f"{name}: {words.seconds(other.median)}")


# --- every case -----------------------------------------------------------------------------------


class CaseRow(NamedTuple):
    """A case that is not wrong."""

    op: str
    name: str
    where: str
    shapes: str
    error: str
    time: str
    why: str


def rows(run: TestRun, *statuses: str) -> list[CaseRow]:
    """Those that ended so."""
    return [_case_row(each) for each in run.outcomes if each.status in statuses]


def _case_row(outcome: Outcome) -> CaseRow:
    worst = outcome.worst
    return CaseRow(
        op=outcome.case.op,
        name=words.cut(outcome.case.name, 120),
        where=f"{words.backend(outcome.backend)}, {outcome.dtype}" if outcome.dtype else words.backend(outcome.backend),
        shapes=words.cut(words.shapes(outcome.case), 120),
        error=_error(outcome) if worst else "refused, as it must" if outcome.case.refusal else "",
        time=_time(outcome.cost),
        why=words.cut(outcome.trouble.message, 200) if outcome.trouble else "",
    )


def _error(outcome: Outcome) -> str:
    worst = outcome.worst
    assert worst is not None
    if not worst.max_error:
        return "exact"
    return f"{words.number(worst.max_error, 3)}{' ' + worst.unit + 's' if worst.unit else ''}"


def _time(cost: Cost) -> str:
    if cost.execute:
        return words.seconds(cost.execute.median)
    return f"{cost.packets:,} packets" if cost.packets is not None else ""
