"""The detectors of causes, in order.  A new cause is a detector here and a row in data/number_causes.toml."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from udogen.verify.diagnosis import arithmetic, encodings, memory, positions
from udogen.verify.diagnosis.wrong_output import PATTERN, Clue, FailedCase, WrongOutput
from udogen.verify.results import Finding

MOST = 3  # findings that are shown

# Equally certain causes are reported in this order.  Observations from running the op again precede all predictions:
# elements that they explain are excluded from predictions.
DETECTORS: tuple[Callable[[WrongOutput], Iterator[Clue]], ...] = (
    memory.race,
    memory.unwritten,
    memory.state,
    encodings.special_values,
    arithmetic.missing_param,
    arithmetic.swapped_params,
    positions.swapped_inputs,
    encodings.rounding,
    encodings.saturation,
    encodings.stored,
    encodings.zero_point,
    encodings.scale,
    positions.axis,
    positions.layout,
    positions.broadcast,
    positions.transposed,
    positions.shift,
    arithmetic.factor,
    encodings.precision,
    arithmetic.half_sums,
    arithmetic.copy,
)


def diagnose(failed: FailedCase) -> tuple[Finding, ...]:
    """The causes that explain wrong outputs, most certain first, at most three; empty if nothing explains them."""
    clues: list[Clue] = []
    for name, expected in failed.case.expected.items():
        found = failed.found.get(name)
        if found is None or found.shape != expected.shape or found.size == 0:
            continue
        output = WrongOutput(failed, name)
        if output.wrong.any():
            clues += _clues(output)
    clues.sort(key=lambda clue: -clue.strength)
    if clues and clues[0].strength > PATTERN:
        clues = [clue for clue in clues if clue.strength > PATTERN]
    first = {clue.finding.cause: clue.finding for clue in reversed(clues)}
    ordered = dict.fromkeys(clue.finding.cause for clue in clues)
    return tuple(first[cause] for cause in ordered)[:MOST]


def _clues(output: WrongOutput) -> Iterator[Clue]:
    for detect in DETECTORS:
        if not output.unexplained.any():
            return
        yield from detect(output)
