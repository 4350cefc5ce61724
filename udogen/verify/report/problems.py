"""Failed cases in the HTML report: grouped by their cause, the first ones of each in full."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import NamedTuple

from udogen.verify.diagnosis.arrays import compare
from udogen.verify.report import pictures, text
from udogen.verify.report.pictures import CloseUp, WrongElement, look
from udogen.verify.results import Finding, Outcome, TensorResult, TestRun

_OF_A_KIND = 4  # cases of one cause that are shown in full; the others are rows of a table
_UNFOLDED = 3  # problems whose first case is open when the page is
_CAUSES = 40  # that have a section of their own
_IN_FULL = 48  # of all causes together: nobody reads a page of everything, and it opens slowly

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
    """A name and what it is."""

    name: str
    value: str


class Picture(NamedTuple):
    """An SVG with its caption."""

    title: str
    svg: text.Html


class CauseText(NamedTuple):
    """A finding, as it is shown."""

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
    details: Sequence[str]
    hint: text.Html
    numbers: Sequence[Fact]
    case: Sequence[Fact]
    first: Sequence[WrongElement]
    output: str
    unit: str
    where_slice: str
    axes: str
    panels: Sequence[Picture]
    spread: Picture | None
    again: str


class ProblemRow(NamedTuple):
    """A failed case in one line."""

    id: str
    kind: str
    name: str
    where: str
    what: str
    first: str
    smallest: str


class ProblemGroup(NamedTuple):
    """All cases that fail for one cause."""

    id: str
    kind: str
    op: text.Html
    cause: str
    scope: str
    sentence: text.Html  # if no case of it is open and shows it
    cards: Sequence[Card]
    rows: Sequence[ProblemRow]
    more: str


def problems(run: TestRun) -> list[ProblemGroup]:
    """By cause, in the order in which they came."""
    numbers = {id(outcome): number for number, outcome in enumerate(run.outcomes)}
    groups: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in run.bad:
        groups.setdefault((run.op(outcome), *_key(outcome)), []).append(outcome)
    found, left = [], _IN_FULL
    every = list(groups.values())
    for place, outcomes in enumerate(every[:_CAUSES]):
        full = min(len(outcomes), _OF_A_KIND, left)
        left -= full
        cards = [
            _card(each, f"case-{numbers[id(each)]}", run, unfolded=number == 0 and place < _UNFOLDED)
            for number, each in enumerate(outcomes[:full])
        ]
        rows = [_row(each, f"case-{numbers[id(each)]}") for each in outcomes[full:]]
        first = outcomes[0]
        found.append(
            ProblemGroup(
                id=f"problem-{place}",
                kind=first.status,
                op=text.op_name(text.cut(run.op(first), 160)),
                cause=_cause(first),
                scope=_scope(outcomes),
                sentence=text.rich(_sentence(first) if place >= _UNFOLDED or not cards else ""),
                cards=cards,
                rows=rows,
                more=text.many(len(rows), "more case" if cards else "case") + " of this kind",
            )
        )
    if others := [outcome for outcomes in every[_CAUSES:] for outcome in outcomes]:
        found.append(
            ProblemGroup(
                id="problem-others",
                kind="failed" if any(each.status == "failed" for each in others) else "error",
                op=text.op_name(text.cut(text.listed(run.op(each) for each in others), 160)),
                cause=text.many(len(every) - _CAUSES, "other cause"),
                scope=_scope(others),
                sentence=text.Html(),
                cards=[],
                rows=[_row(each, f"case-{numbers[id(each)]}") for each in others],
                more=text.many(len(others), "case"),
            )
        )
    return found


def _key(outcome: Outcome) -> tuple[str, ...]:
    """Cases of one cause; without a known cause, cases of one backend and data type."""
    if outcome.findings:
        return (outcome.status, outcome.findings[0].cause)
    if outcome.error:
        return (outcome.status, outcome.error.kind, outcome.error.message[:60])
    return (outcome.status, outcome.backend, outcome.dtype)


def _cause(outcome: Outcome) -> str:
    if outcome.findings:
        return outcome.findings[0].cause.replace("-", " ")
    if outcome.error:
        return ERROR_LABELS.get(outcome.error.kind, outcome.error.kind.replace("-", " "))
    return "wrong numbers, cause not known"


def _sentence(outcome: Outcome) -> str:
    return text.cut(outcome.findings[0].sentence if outcome.findings else _lead(outcome), 400)


def _scope(outcomes: Sequence[Outcome]) -> str:
    backends = text.listed(text.backend(each.backend) for each in outcomes)
    types = text.listed(each.dtype for each in outcomes if each.dtype)
    return f"{text.many(len(outcomes), 'case')} on {backends}" + (f", {types}" if types else "")


def chip(outcome: Outcome) -> str:
    """The status of a case in a word or two."""
    if outcome.status == "error":
        return ERROR_LABELS.get(outcome.error.kind, "no numbers") if outcome.error else "no numbers"
    if outcome.status == "failed" and outcome.findings and all(each.passed for each in outcome.tensors):
        return outcome.findings[0].cause.replace("-", " ")  # its numbers are right, and something else is wrong
    return {"failed": "wrong numbers", "skipped": "not run", "ran": "ran, not checked"}.get(
        outcome.status, outcome.status
    )


# --- one case -------------------------------------------------------------------------------------


def _card(outcome: Outcome, anchor: str, run: TestRun, *, unfolded: bool) -> Card:
    worst = outcome.worst if outcome.status == "failed" else None
    worst = None if worst is None or worst.passed else worst
    seen = look(worst, outcome.case.tolerance_of(worst.name)) if worst else None
    error = outcome.error
    return Card(
        id=anchor,
        kind=outcome.status,
        unfolded=unfolded,
        name=text.cut(outcome.case.name, 160),
        where=_where(outcome),
        chip=chip(outcome),
        lead=text.rich(_lead(outcome)),
        findings=[_shown(each) for each in outcome.findings],
        details=[text.cut(each, 400) for each in error.details[:16]] if error else [],
        hint=text.rich(text.cut(error.hint, 600) if error else ""),
        numbers=list(_measures(worst)) if worst else [],
        case=list(_case_facts(outcome)),
        first=seen.first if seen else (),
        output=worst.name if worst else "",
        unit=f" ({worst.unit}s)" if worst and worst.unit else "",
        where_slice=_where_slice(seen) if seen else "",
        axes=_axes(seen) if seen else "",
        panels=_panels(seen, outcome) if seen else [],
        spread=Picture(f"How the errors are spread: {seen.unit}", pictures.spread(seen.spread, seen.unit))
        if seen
        else None,
        again=_again(outcome, run),
    )


def _shown(finding: Finding) -> CauseText:
    return CauseText(
        finding.cause.replace("-", " "),
        text.rich(text.cut(finding.sentence, 800)),
        text.rich(text.cut(finding.evidence, 1600)),
        text.rich(text.cut(finding.hint, 800)),
    )


def _where(outcome: Outcome) -> str:
    return ", ".join(part for part in (text.backend(outcome.backend), outcome.dtype) if part)


def _lead(outcome: Outcome) -> str:
    if outcome.error:
        return text.cut(outcome.error.message, 800)
    return " ".join(_wrong(each) for each in outcome.tensors if not each.passed)


def _wrong(tensor: TensorResult) -> str:
    if tensor.found.shape != tensor.expected.shape:
        shapes = (text.shape(tensor.expected.shape), text.shape(tensor.found.shape))
        return f"{tensor.name} should be {shapes[0]}, and is {shapes[1]}."
    wrong = f"{text.share(tensor.wrong, tensor.expected.size)} elements of {tensor.name} are wrong: "
    if not isfinite(tensor.max_error):
        return f"{wrong}one of them is not finite, or should not be finite; allowed is {tensor.tolerance}."
    off = f"the worst is off by {text.with_unit(tensor.max_error, tensor.unit)}"
    # A large ratio means no more than that it is wrong.
    much = f"{text.ratio(tensor.worst)} what is allowed" if tensor.worst < 1000 else "far more than what is allowed"
    return f"{wrong}{off}, {much} ({tensor.tolerance})."


def _measures(tensor: TensorResult) -> Iterator[Fact]:
    """Measures of a wrong output; those that do not exist are left out."""
    yield Fact("wrong elements", text.share(tensor.wrong, tensor.expected.size))
    yield Fact("largest error", text.with_unit(tensor.max_error, tensor.unit))
    if tensor.found.shape != tensor.expected.shape:
        return
    measured = compare(tensor.found, tensor.expected, quant=tensor.quant)
    if measured.max_real is not None:
        yield Fact("as a real number", text.number(measured.max_real))
    yield Fact("mean error", text.with_unit(measured.mean_abs, tensor.unit))
    if measured.max_relative and isfinite(measured.max_relative):
        yield Fact("largest relative error", text.number(measured.max_relative))
    if measured.max_ulp is not None:
        yield Fact("largest error in ulp", text.number(measured.max_ulp))
    if measured.not_finite:
        yield Fact("not finite in one of them", text.many(measured.not_finite, "element"))
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
        yield Fact("smallest that still fails", text.shapes(outcome.smallest))
    if case.origin is not None and case.origin.location:
        yield Fact("written in", case.origin.location)


def _where_slice(seen: CloseUp) -> str:
    worst = seen.slice
    return f"{worst.where}: {text.share(worst.wrong, worst.count)} elements of it are wrong."


def _axes(seen: CloseUp) -> str:
    axes = f"Downward: {seen.slice.rows}. To the right: {seen.slice.columns}."
    if seen.slice.each:
        axes += f" Each square stands for {seen.slice.each}."
    return axes + (" The frame is around the first one that is wrong." if seen.slice.mark else "")


def _panels(seen: CloseUp, outcome: Outcome) -> list[Picture]:
    label = f"{outcome.case.op}, {text.cut(outcome.case.name, 60)}, {text.backend(outcome.backend)}"
    return [
        Picture(panel.title.capitalize(), pictures.heatmap(seen.slice, panel, label)) for panel in seen.slice.panels
    ]


def _again(outcome: Outcome, run: TestRun) -> str:
    arguments = [str(run.folder), "--backend", outcome.backend, "--case", outcome.case.name]
    return "udogen test " + " ".join(shlex.quote(text.cut(each, 300)) for each in arguments)


def _row(outcome: Outcome, anchor: str) -> ProblemRow:
    worst = outcome.worst
    if outcome.error or worst is None or worst.passed:
        what, first = _sentence(outcome), ""
    else:
        off = text.with_unit(worst.max_error, worst.unit)
        what = f"{text.share(worst.wrong, worst.expected.size)} wrong, off by {off}"
        first = text.index_of(worst.name, worst.first)
    return ProblemRow(
        anchor,
        outcome.status,
        text.cut(outcome.case.name, 160),
        _where(outcome),
        text.cut(what, 200),
        first,
        text.shapes(outcome.smallest) if outcome.smallest else "",
    )
