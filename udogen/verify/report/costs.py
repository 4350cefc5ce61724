"""What cases cost: times against numpy, the vendor's own op and an earlier run, packets, bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from udogen.verify.report import words
from udogen.verify.report.failures import Fact
from udogen.verify.report.matrix import by_op
from udogen.verify.results import Outcome, Spread, TestRun

if TYPE_CHECKING:
    from udogen.verify.baseline import Baseline, Change


class Against(NamedTuple):
    """How fast it is beside something else."""

    speed: str = ""
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
    for op, dtype in by_op(cells):
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
    ops = words.ops(run)
    rows = [_cost_row(each, ops[id(each)], slowest.get(each.case.op, 0.0)) for each in chosen]
    return Costs(
        rows,
        times=any(row.time for row in rows),
        numpy=any(row.numpy.speed for row in rows),
        builtin=any(row.builtin.note for row in rows),
        packets=any(row.packets for row in rows),
        intensity=any(row.intensity for row in rows),
    )


def _cost_row(outcome: Outcome, op: str, slowest: float) -> CostRow:
    cost = outcome.cost
    spread = cost.execute
    scale = 100 / slowest if slowest else 0.0
    return CostRow(
        op=words.cut(op, 120),
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
    return Against(words.speed(spread.median, other.median), f"{name}: {words.seconds(other.median)}")


class ChangeRow(NamedTuple):
    """A cost, before and now."""

    op: str
    case: str
    where: str
    what: str
    before: str
    now: str
    ratio: str


class Comparison(NamedTuple):
    """A run's costs against those of an earlier one."""

    path: str
    sentence: str
    elsewhere: Sequence[Fact]  # what is not the same as then, so that times mean little
    worse: Sequence[ChangeRow]
    others: Sequence[ChangeRow]


def compare(changes: Sequence[Change], baseline: Baseline | None, run: TestRun) -> Comparison | None:
    """None where there is nothing to compare with."""
    if baseline is None:
        return None
    worse = [_change(each) for each in changes if each.worse]
    known = baseline.environment
    return Comparison(
        str(baseline.path),
        _compared(changes),
        [
            Fact(name, f"{known[name]} then, {value} now")
            for name, value in run.environment
            if known.get(name, value) != value
        ],
        worse,
        [_change(each) for each in changes if not each.worse],
    )


def _compared(changes: Sequence[Change]) -> str:
    worse = sum(each.worse for each in changes)
    if not changes:
        return "it has none of these cases."
    verb = "are" if worse > 1 else "is"
    return f"{f'{worse:,}' if worse else 'none'} of {words.many(len(changes), 'cost')} {verb} worse than then."


def _change(each: Change) -> ChangeRow:
    before, now = (
        words.seconds(value) if each.what == "time" else f"{int(value):,}" for value in (each.before, each.now)
    )
    return ChangeRow(
        op=words.cut(each.op, 120),
        case=words.cut(each.case, 120),
        where=", ".join(part for part in (words.backend(each.backend), each.dtype) if part),
        what=each.what,
        before=before,
        now=now,
        ratio=f"{each.ratio:.2f}x",
    )
