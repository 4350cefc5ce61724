"""The causes of wrong numbers, in order.  A new cause is a function here and a row in data/number_causes.toml."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from udogen.findings import Finding
from udogen.verify.diagnosis import encodings, memory, positions, slips
from udogen.verify.diagnosis.wrong_output import Cause, FailedCase, WrongOutput

MOST = 3  # findings that are shown

# What running the op again shows; elements that it explains are excluded from predictions.
OBSERVATIONS: tuple[Callable[[WrongOutput], Iterator[Finding]], ...] = (memory.varying, memory.unwritten)
PREDICTIONS: tuple[Callable[[WrongOutput], Iterator[Cause]], ...] = (
    positions.missing_param,
    positions.swapped_inputs,
    encodings.rounding,
    encodings.saturation,
    encodings.stored,
    encodings.zero_point,
    positions.axis,
    positions.layout,
    positions.left_out,
    encodings.floats,
    positions.copy,
    slips.slips,
)


def diagnose(failed: FailedCase) -> tuple[Finding, ...]:
    """The causes that reproduce wrong outputs, at most three; empty if none does."""
    findings: dict[str, Finding] = {}
    for name, expected in failed.case.expected.items():
        found = failed.found.get(name)
        if found is None or found.shape != expected.shape or found.size == 0:
            continue
        output = WrongOutput(failed, name)
        if output.wrong.any():
            for finding in _findings(output):
                findings.setdefault(finding.kind, finding)
    return tuple(findings.values())[:MOST]


def _findings(output: WrongOutput) -> Iterator[Finding]:
    for observe in OBSERVATIONS:
        yield from observe(output)
    explained = 0
    for predict in PREDICTIONS:
        if not (output.wrong & ~output.known).any() or explained == MOST:
            return
        if predict is slips.slips and explained:
            return  # a slip in one operation may be the same fault in other words
        for cause in predict(output):
            if finding := output.finding(cause):
                explained += 1
                yield finding
                break
