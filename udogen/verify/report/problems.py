"""Failed cases in the HTML report: grouped by cause, the first ones of each group in full."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, log1p
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from udogen.findings import Finding
from udogen.tables import many
from udogen.verdict import LABELS
from udogen.verify.report import text
from udogen.verify.results import Outcome, TensorResult, TestRun
from udogen.verify.tolerances import Tolerance, differences

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_OF_A_KIND = 1  # cases of one cause that are shown in full; the others are rows of a table
_UNFOLDED = 3  # problems whose first case is open when the page loads
_CAUSES = 40  # causes that have a separate section
_FIRST_WRONG = 6  # wrong elements that are listed
_MOST_BINS = 11  # of a histogram
_IN_FULL = 48  # cases shown in full, of all causes together: a page with every case in full opens slowly

# `CaseError.kind` in headings.
ERROR_LABELS = {
    "op-crashed": "crashed",
    "op-refused": "refused",
    "op-failed": "returned an error",
    "op-timed-out": "did not return",
    "registration-failed": "could not be registered",
    "reference": "no reference",
}


class Fact(NamedTuple):
    """A name and its value."""

    name: str
    value: str | text.Html


class CauseText(NamedTuple):
    """A finding as shown in the report."""

    name: str
    sentence: text.Html
    evidence: text.Html
    hint: text.Html


class Card(NamedTuple):
    """A failed case in full."""

    id: str
    kind: str  # failed, error
    unfolded: bool
    name: str
    where: str
    chip: str
    lead: text.Html
    findings: Sequence[CauseText]
    case: Sequence[Fact]
    again: str
    details: Sequence[str] = ()  # of an error
    hint: text.Html = text.Html()
    numbers: Sequence[Fact] = ()  # of the worst output, if its numbers are wrong
    first: text.Html = text.Html()  # its first wrong elements
    histogram: text.Html = text.Html()


class ProblemGroup(NamedTuple):
    """All cases that fail for the same cause."""

    id: str
    kind: str
    op: text.Html
    cause: str
    scope: str
    sentence: text.Html  # empty if an open case already shows it
    cards: Sequence[Card]
    rows: text.Html  # the other cases
    more: str


def problems(run: TestRun) -> list[ProblemGroup]:
    """Failed cases by cause, in the order of the run; causes beyond `_CAUSES` form one group at the end."""
    anchors = {id(outcome): f"case-{number}" for number, outcome in enumerate(run.outcomes)}
    left = _IN_FULL
    shown = []
    for number, outcomes in enumerate(run.failure_groups[:_CAUSES]):
        full = min(len(outcomes), _OF_A_KIND, left)
        left -= full
        cards = [
            _card(outcome, anchors[id(outcome)], run, unfolded=position == 0 and number < _UNFOLDED)
            for position, outcome in enumerate(outcomes[:full])
        ]
        more = many(len(outcomes) - full, "more case" if cards else "case") + " of this kind"
        first = outcomes[0]
        shown.append(
            ProblemGroup(
                id=f"problem-{number}",
                kind=first.status,
                op=text.op_name(f"{text.cut(run.op(first), 160)} on {places(outcomes)}"),
                cause=_cause(first),
                scope=_scope(outcomes),
                sentence=text.rich(_sentence(first) if number >= _UNFOLDED or not cards else ""),
                cards=cards,
                rows=_rows(outcomes[full:], anchors, more),
                more=more,
            )
        )
    others = run.failure_groups[_CAUSES:]
    return [*shown, _other_problems(others, run, anchors)] if others else shown


def _other_problems(groups: Sequence[Sequence[Outcome]], run: TestRun, anchors: Mapping[int, str]) -> ProblemGroup:
    outcomes = [outcome for group in groups for outcome in group]
    more = many(len(outcomes), "case")
    return ProblemGroup(
        id="problem-others",
        kind=outcomes[0].status,  # wrong numbers come before errors
        op=text.op_name(f"{text.cut(text.listed(map(run.op, outcomes)), 160)} on {places(outcomes)}"),
        cause=many(len(groups), "other cause"),
        scope=_scope(outcomes),
        sentence=text.Html(),
        cards=[],
        rows=_rows(outcomes, anchors, more),
        more=more,
    )


def _cause(outcome: Outcome) -> str:
    if outcome.findings:
        return outcome.findings[0].kind.replace("-", " ")
    if outcome.error:
        return ERROR_LABELS.get(outcome.error.kind, outcome.error.kind.replace("-", " "))
    return "wrong numbers, cause not known"


def _sentence(outcome: Outcome) -> str:
    return text.cut(outcome.findings[0].message if outcome.findings else _lead(outcome), 400)


def _scope(outcomes: Sequence[Outcome]) -> str:
    types = text.listed(outcome.dtype for outcome in outcomes if outcome.dtype)
    return many(len(outcomes), "case") + (f", {types}" if types else "")


def places(outcomes: Sequence[Outcome]) -> str:
    """`CPU and GPU`."""
    return text.listed(text.backend(outcome.backend) for outcome in outcomes)


def chip(outcome: Outcome) -> str:
    """The status of a case in one or two words."""
    if outcome.status == "error":
        return ERROR_LABELS.get(outcome.error.kind, "error") if outcome.error else "error"
    if outcome.status == "failed" and outcome.findings and all(tensor.passed for tensor in outcome.tensors):
        return outcome.findings[0].kind.replace("-", " ")  # its numbers are right: it failed for another reason
    return "wrong numbers" if outcome.status == "failed" else LABELS[outcome.status]


# --- one case -------------------------------------------------------------------------------------


def _card(outcome: Outcome, anchor: str, run: TestRun, *, unfolded: bool) -> Card:
    worst = outcome.worst if outcome.status == "failed" else None
    card = Card(
        id=anchor,
        kind=outcome.status,
        unfolded=unfolded,
        name=text.cut(outcome.case.name, 160),
        where=text.where(outcome.backend, outcome.dtype),
        chip=chip(outcome),
        lead=text.rich(_lead(outcome)),
        findings=[_shown(finding) for finding in outcome.findings],
        case=list(_case_facts(outcome)),
        again=_again(outcome, run),
    )
    if error := outcome.error:
        details = [text.cut(detail, 400) for detail in error.details[:16]]
        card = card._replace(details=details, hint=text.rich(text.cut(error.hint, 600)))
    return card if worst is None or worst.passed else _with_numbers(card, outcome, worst)


def _with_numbers(card: Card, outcome: Outcome, worst: TensorResult) -> Card:
    """The card with the measures of its worst output, a histogram of its errors and its first wrong elements."""
    card = card._replace(numbers=list(_measures(worst)))
    if worst.found.shape != worst.expected.shape:
        return card
    return card._replace(first=_first(outcome, worst), histogram=_histogram(outcome, worst))


def _first(outcome: Outcome, tensor: TensorResult) -> text.Html:
    tolerance = outcome.case.tolerance_of(tensor.name)
    error = differences(tensor.found, tensor.expected)
    wrong = np.argwhere(error > tolerance.allowed(tensor.expected))[:_FIRST_WRONG]
    rows = [
        (
            text.index_of("", index) or "scalar",
            text.number(tensor.expected[index].item(), 7),
            text.number(tensor.found[index].item(), 7),
            text.number(float(error[index])),
            text.given_at(outcome, tensor, index),
        )
        for index in (tuple(row.tolist()) for row in wrong)
    ]
    heads = (tensor.name, "expected", "found", f"off by ({tensor.unit}s)" if tensor.unit else "off by", "computed from")
    return text.table("The first wrong elements", heads, rows, kind="numbers")


def _histogram(outcome: Outcome, tensor: TensorResult) -> text.Html:
    bins = error_bins(tensor, outcome.case.tolerance_of(tensor.name))
    most = max(row.elements for row in bins)
    rows = []
    for row in bins:
        kind, percent = "wrong" if row.wrong else "right", 100 * log1p(row.elements) / log1p(most)
        bar = f'<span class="track" aria-hidden="true"><i class="{kind}" style="width:{percent:.3g}%"></i></span>'
        rows.append((row.name, f"{row.elements:,}", f"{row.wrong:,}" if row.wrong else "", text.Html(bar)))
    heads = (f"error ({tensor.unit}s)" if tensor.unit else "error", "elements", "wrong", "")
    return text.table("Errors by size", heads, rows, kind="numbers histogram")


def _shown(finding: Finding) -> CauseText:
    return CauseText(
        finding.kind.replace("-", " "),
        text.rich(text.cut(finding.message, 800)),
        text.rich(text.cut(finding.evidence, 1600)),
        text.rich(text.cut(finding.hint, 800)),
    )


def _lead(outcome: Outcome) -> str:
    if outcome.error:
        return text.cut(outcome.error.message, 800)
    return " ".join(_wrong(tensor) for tensor in outcome.tensors if not tensor.passed)


def _wrong(tensor: TensorResult) -> str:
    if tensor.found.shape != tensor.expected.shape:
        shapes = (text.shape(tensor.expected.shape), text.shape(tensor.found.shape))
        return f"{tensor.name} should be {shapes[0]}, and is {shapes[1]}."
    wrong = f"{text.share(tensor.wrong, tensor.expected.size)} elements of {tensor.name} are wrong: "
    if not isfinite(tensor.max_error):
        return f"{wrong}one of them is not finite, or should not be finite; allowed is {tensor.tolerance}."
    off = f"the largest error is {text.with_unit(tensor.max_error, tensor.unit)}"
    # The exact value of a large ratio has no meaning.
    much = f"{text.ratio(tensor.worst)} the tolerance" if tensor.worst < 1000 else "far above the tolerance"
    return f"{wrong}{off}, {much} ({tensor.tolerance})."


def _measures(tensor: TensorResult) -> Iterator[Fact]:
    """Measures of a wrong output; those that are not available are left out."""
    yield Fact("wrong elements", text.share(tensor.wrong, tensor.expected.size))
    yield Fact("largest error", text.with_unit(tensor.max_error, tensor.unit))
    if tensor.found.shape != tensor.expected.shape:
        return
    measured = measure(tensor.found, tensor.expected)
    yield Fact("mean error", text.with_unit(measured.mean, tensor.unit))
    if measured.cosine is not None:
        yield Fact("cosine", text.number(measured.cosine, 6))
    if measured.snr is not None and isfinite(measured.snr):
        yield Fact("signal to noise", f"{measured.snr:.1f} dB")


def _case_facts(outcome: Outcome) -> Iterator[Fact]:
    case = outcome.case
    for name, array in case.inputs.items():
        dtype = case.dtypes.get(name) or str(array.dtype)
        yield Fact(f"input {name}" if name != "input" else name, f"{text.shape(array.shape)} {dtype}")
    for name, quant in case.quants.items():
        yield Fact(f"quantization of {name}", f"scale {text.number(quant[0], 6)}, offset {quant[1]}")
    for name, value in case.params.items():
        yield Fact(f"param {name}", text.value_of(value))
    if outcome.cost.kernel:
        yield Fact("kernel", outcome.cost.kernel)
    if outcome.smallest is not None:
        yield Fact("smallest failing shape", text.shapes(outcome.smallest))
    if case.origin is not None and case.origin.location:
        file, colon, line = case.origin.location.rpartition(":")
        yield Fact("defined in", text.rich(f"{Path(file).resolve()}{colon}{line}"))


def _again(outcome: Outcome, run: TestRun) -> str:
    arguments = [str(run.folder), "--backend", outcome.backend, "--case", f"{outcome.case.op}/{outcome.case.name}"]
    return "udogen test " + " ".join(shlex.quote(text.cut(argument, 300)) for argument in arguments)


def _rows(outcomes: Sequence[Outcome], anchors: Mapping[int, str], label: str) -> text.Html:
    """A table of failed cases, one row each."""
    rows = []
    for outcome in outcomes:
        worst = outcome.worst
        if outcome.error or worst is None or worst.passed:
            what, first, given = _sentence(outcome), "", ""
        else:
            off = text.with_unit(worst.max_error, worst.unit)
            what = f"{text.share(worst.wrong, worst.expected.size)} wrong, off by {off}"
            first = text.index_of(worst.name, worst.first)
            given = text.given_at(outcome, worst, worst.first) if worst.first is not None else ""
        smallest = text.shapes(outcome.smallest) if outcome.smallest else ""
        where = text.where(outcome.backend, outcome.dtype)
        rows.append((text.cut(outcome.case.name, 160), where, text.cut(what, 200), first, given, smallest))
    heads = ("case", "on", "what", "first wrong", "computed from", "smallest failing shape")
    ids = [anchors[id(outcome)] for outcome in outcomes]
    return text.table(label, heads, rows, kind="list failing stack", ids=ids) if rows else text.Html()


# --- the errors of one output as numbers ---------------------------------------------------------------------


class ErrorBin(NamedTuple):
    """The number of elements whose error is in one range, and how many of them are beyond the tolerance."""

    name: str
    elements: int
    wrong: int


def error_bins(tensor: TensorResult, tolerance: Tolerance) -> list[ErrorBin]:
    """The nonempty bins, from exact to not finite; smaller errors than those of the lowest bin are counted in it."""
    error = differences(tensor.found, tensor.expected)
    wrong = error > tolerance.allowed(tensor.expected)
    counted = np.isfinite(error) & (error > 0)
    powers = np.zeros(error.shape, np.int64)
    powers[counted] = np.floor(np.log10(error[counted]))
    lowest = int(powers[counted].max()) - _MOST_BINS + 1 if counted.any() else 0
    powers = np.maximum(powers, lowest)
    members: dict[str, Any] = {"exact": error == 0}
    for power in np.unique(powers[counted]).tolist():
        members[f"{'≥ ' if power > lowest else ''}{text.number(10.0**power)}"] = counted & (powers == power)
    members["∞, NaN"] = np.isinf(error)
    bins = [ErrorBin(name, int(mask.sum()), int((mask & wrong).sum())) for name, mask in members.items()]
    return [row for row in bins if row.elements]


class Measures(NamedTuple):
    """Measures of the difference of two arrays, of elements that are finite in both; None if not defined."""

    mean: float  # of the absolute errors, in units of the arrays: steps for fixed point
    cosine: float | None
    snr: float | None  # signal to noise in decibels; infinite where both are equal


def measure(found: Array, expected: Array) -> Measures:
    """Compare two nonempty arrays of the same shape."""
    both = np.isfinite(found) & np.isfinite(expected)
    a, b = found[both].astype(np.float64), expected[both].astype(np.float64)
    if not b.any():
        return Measures(float(np.abs(a - b).mean()) if a.size else 0.0, None, None)
    with np.errstate(all="ignore"):  # differences and squares of large values overflow
        mean = np.abs(a - b).mean()
        a, b = (array / max(np.abs(a).max(), np.abs(b).max()) for array in (a, b))
        cosine = a @ b / np.sqrt((a @ a) * (b @ b))
        snr = 10 * np.log10(b @ b / ((a - b) @ (a - b)))
    return Measures(
        float(mean),
        float(np.clip(cosine, -1.0, 1.0)) if np.isfinite(cosine) else None,
        float(snr) if not np.isnan(snr) else None,
    )
