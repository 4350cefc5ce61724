"""What the report says of a run as a whole: the verdict, what it depends on, every case that is not wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from udogen.verify.report import words
from udogen.verify.report.failures import Fact
from udogen.verify.report.matrix import LABELS
from udogen.verify.results import STATUSES, Cost, Outcome, TensorResult, TestRun


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


def verdict(run: TestRun, *, worse: int = 0) -> Verdict:
    """Nothing that did not run is counted in it; `worse` costs are more than in an earlier run."""
    kind, sentence = _judged(run, worse)
    total = len(run.outcomes) or 1
    counts = Counter(each.status for each in run.outcomes)
    tiles = [
        Tile(status, f"{counts[status]:,}", LABELS[status], f"{100 * counts[status] / total:.4g}")
        for status in STATUSES
        if counts[status] or status in ("passed", "failed")
    ]
    return Verdict(kind, sentence, list(_beside(run, worse)), tiles)


def _judged(run: TestRun, worse: int) -> tuple[str, str]:
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
    if worse:
        return "error", f"{every} right, on {on}; {words.many(worse, 'cost')} more than in the earlier run."
    return "passed", f"{every} right, on {on}."


def _beside(run: TestRun, worse: int) -> Iterator[str]:
    by_status = Counter(each.status for each in run.outcomes)
    if by_status["failed"] and by_status["error"]:
        yield f"{by_status['failed']:,} with wrong numbers, {by_status['error']:,} with none at all."
    if worse and run.bad:
        yield f"{words.many(worse, 'cost')} more than in the earlier run."
    absent = [each for each in run.states if each.state in ("missing", "unbuilt")]
    some = {each.backend for each in run.outcomes}
    for said, found in (
        ("Not tested", [each for each in absent if each.backend not in some]),
        ("Tested in part", [each for each in absent if each.backend in some]),
    ):
        if found:
            cases = sum(each.cases for each in found)
            much = f" ({words.many(cases, 'case')})" if cases and said == "Not tested" else ""
            names = words.listed(words.backend(each.backend) for each in found)
            yield f"{said}: {names}{much}. Nothing is claimed of what did not run."
    if skipped := by_status["skipped"]:
        yield f"{words.many(skipped, 'case')} not run: {'it counts' if skipped == 1 else 'they count'} neither way."
    if by_status["ran"] and by_status["passed"]:
        yield f"{words.many(by_status['ran'], 'case')} ran without a reference to be held against."


def environment(run: TestRun, version: str) -> list[Fact]:
    """What the numbers depend on."""
    known = {name for name, _ in run.environment}
    facts = [] if "udogen" in known else [Fact("udogen", version)]
    facts += [Fact(name, words.cut(value, 400)) for name, value in run.environment]
    return [*facts, *([Fact("the run took", words.seconds(run.seconds))] if run.seconds else [])]


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
    ops = words.ops(run)
    return [_case_row(each, ops[id(each)]) for each in run.outcomes if each.status in statuses]


def _case_row(outcome: Outcome, op: str) -> CaseRow:
    worst = outcome.worst
    return CaseRow(
        op=words.cut(op, 120),
        name=words.cut(outcome.case.name, 120),
        where=f"{words.backend(outcome.backend)}, {outcome.dtype}" if outcome.dtype else words.backend(outcome.backend),
        shapes=words.cut(words.shapes(outcome.case), 120),
        error=_error(worst) if worst else "refused, as it must" if outcome.case.refusal else "",
        time=_time(outcome.cost),
        why=words.cut(outcome.trouble.message, 200) if outcome.trouble else "",
    )


def _error(worst: TensorResult) -> str:
    if not worst.max_error:
        return "exact"
    return f"{words.number(worst.max_error, 3)}{' ' + worst.unit + 's' if worst.unit else ''}"


def _time(cost: Cost) -> str:
    if cost.execute:
        return words.seconds(cost.execute.median)
    return f"{cost.packets:,} packets" if cost.packets is not None else ""
