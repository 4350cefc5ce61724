"""What the report says of the cases that are wrong: grouped by their cause, the first of each looked at closely."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import NamedTuple

from udogen.verify.diagnosis import compare
from udogen.verify.report import pictures, words
from udogen.verify.report.closeup import CloseUp, Element, look
from udogen.verify.results import Finding, Outcome, TensorResult, TestRun

_OF_A_KIND = 4  # cases of one cause that are told in full; the others are rows of a table
_UNFOLDED = 3  # problems whose first case is open when the page is
_CAUSES = 40  # that have a part of their own
_IN_FULL = 48  # of all causes together: a page of everything is one that nobody reads, and that opens slowly

# What `Trouble.kind` means, for a heading.
TROUBLES = {
    "op-crashed": "crashed",
    "op-refused": "refused",
    "op-failed": "returned an error",
    "op-timed-out": "did not come back",
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
    svg: words.Html


class Cause(NamedTuple):
    """A finding, as it is shown."""

    name: str
    sentence: words.Html
    evidence: words.Html
    hint: words.Html


class Card(NamedTuple):
    """A case that is wrong, told in full."""

    id: str
    kind: str  # failed, error
    unfolded: bool
    name: str
    where: str
    chip: str
    lead: words.Html
    findings: Sequence[Cause]
    details: Sequence[str]
    hint: words.Html
    numbers: Sequence[Fact]
    case: Sequence[Fact]
    first: Sequence[Element]
    output: str
    unit: str
    where_slice: str
    axes: str
    panels: Sequence[Picture]
    spread: Picture | None
    again: str


class Row(NamedTuple):
    """A case that is wrong, in one line."""

    id: str
    kind: str
    name: str
    where: str
    what: str
    first: str
    smallest: str


class Problem(NamedTuple):
    """Everything that is wrong for one cause."""

    id: str
    kind: str
    op: words.Html
    cause: str
    scope: str
    sentence: words.Html  # what it is, where no case of it is open and says so
    cards: Sequence[Card]
    rows: Sequence[Row]
    more: str


def problems(run: TestRun) -> list[Problem]:
    """By cause, in the order in which they came."""
    numbers = {id(outcome): number for number, outcome in enumerate(run.outcomes)}
    ops = words.ops(run)
    groups: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in run.bad:
        groups.setdefault((ops[id(outcome)], *_key(outcome)), []).append(outcome)
    found, left = [], _IN_FULL
    every = list(groups.values())
    for place, outcomes in enumerate(every[:_CAUSES]):
        told = min(len(outcomes), _OF_A_KIND, left)
        left -= told
        cards = [
            _card(each, f"case-{numbers[id(each)]}", run, unfolded=number == 0 and place < _UNFOLDED)
            for number, each in enumerate(outcomes[:told])
        ]
        rows = [_row(each, f"case-{numbers[id(each)]}") for each in outcomes[told:]]
        first = outcomes[0]
        found.append(
            Problem(
                id=f"problem-{place}",
                kind=first.status,
                op=words.op_name(words.cut(ops[id(first)], 160)),
                cause=_cause(first),
                scope=_scope(outcomes),
                sentence=words.rich(_sentence(first) if place >= _UNFOLDED or not cards else ""),
                cards=cards,
                rows=rows,
                more=words.many(len(rows), "more case" if cards else "case") + " of this kind",
            )
        )
    if others := [outcome for outcomes in every[_CAUSES:] for outcome in outcomes]:
        found.append(
            Problem(
                id="problem-others",
                kind="failed" if any(each.status == "failed" for each in others) else "error",
                op=words.op_name(words.cut(words.listed(ops[id(each)] for each in others), 160)),
                cause=words.many(len(every) - _CAUSES, "other cause"),
                scope=_scope(others),
                sentence=words.Html(),
                cards=[],
                rows=[_row(each, f"case-{numbers[id(each)]}") for each in others],
                more=words.many(len(others), "case"),
            )
        )
    return found


def _key(outcome: Outcome) -> tuple[str, ...]:
    """Cases of one cause; where none is known, what is alike."""
    if outcome.findings:
        return (outcome.status, outcome.findings[0].cause)
    if outcome.trouble:
        return (outcome.status, outcome.trouble.kind, outcome.trouble.message[:60])
    return (outcome.status, outcome.backend, outcome.dtype)


def _cause(outcome: Outcome) -> str:
    if outcome.findings:
        return outcome.findings[0].cause.replace("-", " ")
    if outcome.trouble:
        return TROUBLES.get(outcome.trouble.kind, outcome.trouble.kind.replace("-", " "))
    return "wrong numbers, cause not known"


def _sentence(outcome: Outcome) -> str:
    return words.cut(outcome.findings[0].sentence if outcome.findings else _lead(outcome), 400)


def _scope(outcomes: Sequence[Outcome]) -> str:
    backends = words.listed(words.backend(each.backend) for each in outcomes)
    types = words.listed(each.dtype for each in outcomes if each.dtype)
    return f"{words.many(len(outcomes), 'case')} on {backends}" + (f", {types}" if types else "")


def chip(outcome: Outcome) -> str:
    """The status of a case in a word or two."""
    if outcome.status == "error":
        return TROUBLES.get(outcome.trouble.kind, "no numbers") if outcome.trouble else "no numbers"
    if outcome.status == "failed" and outcome.findings and all(each.passed for each in outcome.tensors):
        return outcome.findings[0].cause.replace("-", " ")  # its numbers are right, and something else is not
    return {"failed": "wrong numbers", "skipped": "not run", "ran": "ran, not checked"}.get(
        outcome.status, outcome.status
    )


# --- one case -------------------------------------------------------------------------------------


def _card(outcome: Outcome, anchor: str, run: TestRun, *, unfolded: bool) -> Card:
    worst = outcome.worst if outcome.status == "failed" else None
    worst = None if worst is None or worst.passed else worst
    seen = look(worst, outcome.case.tolerance_of(worst.name)) if worst else None
    trouble = outcome.trouble
    return Card(
        id=anchor,
        kind=outcome.status,
        unfolded=unfolded,
        name=words.cut(outcome.case.name, 160),
        where=_where(outcome),
        chip=chip(outcome),
        lead=words.rich(_lead(outcome)),
        findings=[_shown(each) for each in outcome.findings],
        details=[words.cut(each, 400) for each in trouble.details[:16]] if trouble else [],
        hint=words.rich(words.cut(trouble.hint, 600) if trouble else ""),
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


def _shown(finding: Finding) -> Cause:
    return Cause(
        finding.cause.replace("-", " "),
        words.rich(words.cut(finding.sentence, 800)),
        words.rich(words.cut(finding.evidence, 1600)),
        words.rich(words.cut(finding.hint, 800)),
    )


def _where(outcome: Outcome) -> str:
    return ", ".join(part for part in (words.backend(outcome.backend), outcome.dtype) if part)


def _lead(outcome: Outcome) -> str:
    if outcome.trouble:
        return words.cut(outcome.trouble.message, 800)
    return " ".join(_wrong(each) for each in outcome.tensors if not each.passed)


def _wrong(tensor: TensorResult) -> str:
    if tensor.found.shape != tensor.expected.shape:
        shapes = (words.shape(tensor.expected.shape), words.shape(tensor.found.shape))
        return f"{tensor.name} should be {shapes[0]}, and is {shapes[1]}."
    said = f"{words.share(tensor.wrong, tensor.expected.size)} elements of {tensor.name} are wrong: "
    if not isfinite(tensor.max_error):
        return f"{said}one of them is no finite number, or should be none; allowed is {tensor.tolerance}."
    off = f"the worst is off by {_with_unit(tensor.max_error, tensor.unit)}"
    # A large ratio says no more than that it is wrong.
    much = f"{words.ratio(tensor.worst)} what is allowed" if tensor.worst < 1000 else "far more than what is allowed"
    return f"{said}{off}, {much} ({tensor.tolerance})."


def _with_unit(value: float, unit: str) -> str:
    if not unit:
        return words.number(value)
    return f"{words.number(value)} {unit}{'' if value == 1 else 's'}"


def _measures(tensor: TensorResult) -> Iterator[Fact]:
    """What numbers tell of an output that is wrong; what cannot be said is left out."""
    yield Fact("wrong elements", words.share(tensor.wrong, tensor.expected.size))
    yield Fact("largest error", _with_unit(tensor.max_error, tensor.unit))
    if tensor.found.shape != tensor.expected.shape:
        return
    held = compare(tensor.found, tensor.expected, quant=tensor.quant)
    if held.max_real is not None:
        yield Fact("as a real number", words.number(held.max_real))
    yield Fact("mean error", _with_unit(held.mean_abs, tensor.unit))
    if held.max_relative and isfinite(held.max_relative):
        yield Fact("largest relative error", words.number(held.max_relative))
    if held.max_ulp is not None:
        yield Fact("largest error in ulp", words.number(held.max_ulp))
    if held.not_finite:
        yield Fact("not finite in one of them", words.many(held.not_finite, "element"))
    if held.cosine is not None:
        yield Fact("cosine", words.number(held.cosine, 6))
    if held.snr is not None and isfinite(held.snr):
        yield Fact("signal to noise", f"{held.snr:.1f} dB")


def _case_facts(outcome: Outcome) -> Iterator[Fact]:
    case = outcome.case
    for name, array in case.inputs.items():
        dtype = case.dtypes.get(name) or str(array.dtype)
        yield Fact(f"input {name}" if name != "input" else name, f"{words.shape(array.shape)} {dtype}")
    for name, quant in case.quants.items():
        yield Fact(f"quantization of {name}", f"scale {words.number(quant[0], 6)}, offset {quant[1]}")
    for name, value in case.params.items():
        yield Fact(f"param {name}", words.value_of(value))
    if outcome.cost.kernel:
        yield Fact("kernel", outcome.cost.kernel)
    if outcome.smallest is not None:
        yield Fact("smallest that still fails", words.shapes(outcome.smallest))
    if case.origin is not None and case.origin.location:
        yield Fact("written in", case.origin.location)


def _where_slice(seen: CloseUp) -> str:
    worst = seen.slice
    return f"{worst.where}: {words.share(worst.wrong, worst.count)} elements of it are wrong."


def _axes(seen: CloseUp) -> str:
    axes = f"Downward: {seen.slice.rows}. To the right: {seen.slice.columns}."
    if seen.slice.each:
        axes += f" Each square stands for {seen.slice.each}."
    return axes + (" The frame is around the first one that is wrong." if seen.slice.mark else "")


def _panels(seen: CloseUp, outcome: Outcome) -> list[Picture]:
    label = f"{outcome.case.op}, {words.cut(outcome.case.name, 60)}, {words.backend(outcome.backend)}"
    return [
        Picture(panel.title.capitalize(), pictures.heatmap(seen.slice, panel, label)) for panel in seen.slice.panels
    ]


def _again(outcome: Outcome, run: TestRun) -> str:
    arguments = [str(run.folder), "--backend", outcome.backend, "--case", outcome.case.name]
    return "udogen test " + " ".join(shlex.quote(words.cut(each, 300)) for each in arguments)


def _row(outcome: Outcome, anchor: str) -> Row:
    worst = outcome.worst
    if outcome.trouble or worst is None or worst.passed:
        what, first = _sentence(outcome), ""
    else:
        off = _with_unit(worst.max_error, worst.unit)
        what = f"{words.share(worst.wrong, worst.expected.size)} wrong, off by {off}"
        first = words.index_of(worst.name, worst.first)
    return Row(
        anchor,
        outcome.status,
        words.cut(outcome.case.name, 160),
        _where(outcome),
        words.cut(what, 200),
        first,
        words.shapes(outcome.smallest) if outcome.smallest else "",
    )
