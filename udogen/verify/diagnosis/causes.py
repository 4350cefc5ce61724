"""The causes that can be named, and how they are looked for: a new cause is a function and a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from udogen.verify.diagnosis import arithmetic, encodings, memory, positions, sums
from udogen.verify.diagnosis.evidence import PATTERN, Clue, Evidence, Suspect
from udogen.verify.results import Finding

MOST = 3  # findings that are shown


class Cause(NamedTuple):
    """What is looked for, and how."""

    title: str
    detect: Callable[[Suspect], Iterator[Clue]]


# Of equally sure ones the first is named first.  What the op shows when it is run again comes before all predictions:
# elements that it explains are left out of them.
CAUSES = (
    Cause("results differ between runs", memory.race),
    Cause("memory of the output that is not written, or read", memory.unwritten),
    Cause("something is kept between executions", memory.state),
    Cause("NaN and denormals", encodings.special_values),
    Cause("a parameter that does not arrive", arithmetic.missing_param),
    Cause("two parameters exchanged", arithmetic.swapped_params),
    Cause("two inputs exchanged", positions.swapped_inputs),
    Cause("another way of rounding", encodings.rounding),
    Cause("limits of a type", encodings.saturation),
    Cause("an offset", encodings.zero_point),
    Cause("a scale", encodings.scale),
    Cause("another axis", positions.axis),
    Cause("another order of axes", positions.layout),
    Cause("an input broadcast in another way", positions.broadcast),
    Cause("rows for columns", positions.transposed),
    Cause("one element off", positions.shift),
    Cause("a factor", arithmetic.factor),
    Cause("too few bits", encodings.precision),
    Cause("sums in half precision", sums.half_sums),
    Cause("nothing computed", arithmetic.copy),
)


def diagnose(evidence: Evidence) -> tuple[Finding, ...]:
    """The causes that explain what was found, surest first, at most three; none where nothing explains it."""
    clues: list[Clue] = []
    for name, expected in evidence.expected.items():
        found = evidence.found.get(name)
        if found is None or found.shape != expected.shape or found.size == 0:
            continue
        suspect = Suspect(evidence, name)
        if suspect.wrong.any():
            clues += _clues(suspect)
    clues.sort(key=lambda clue: -clue.strength)
    if clues and clues[0].strength > PATTERN:
        clues = [clue for clue in clues if clue.strength > PATTERN]
    first = {clue.finding.cause: clue.finding for clue in reversed(clues)}
    ordered = dict.fromkeys(clue.finding.cause for clue in clues)
    return tuple(first[cause] for cause in ordered)[:MOST]


def _clues(suspect: Suspect) -> Iterator[Clue]:
    for cause in CAUSES:
        if not suspect.open.any():
            return
        yield from cause.detect(suspect)
