"""What a cause is found from: the case, what came out, and two ways of asking "what if": the reference, and the op.

A detector is given a `Suspect`: one output that is wrong.  It predicts what a kernel with one certain fault would
answer, and names that fault where the prediction holds for every element: a wrong name is worse than none.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from udogen.errors import UdogenError
from udogen.runtime.op.calls import POISON
from udogen.verify.diagnosis import storing
from udogen.verify.results import Finding
from udogen.verify.tolerances import EXACT, Tolerance, differences

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

Arrays = Mapping[str, "Array"]
Params = Mapping[str, object]
Quants = Mapping[str, tuple[float, int]]

# (inputs as stored, params, quants) -> outputs.  Of a fixed-point output it returns floats, the real numbers, where it
# has them (we store them), or the stored whole numbers.
Reference = Callable[[Arrays, Params, Quants], Arrays]


class Rerun(Protocol):
    """Executes the op again, in a new graph: other inputs (of whatever shape the reference takes), other params."""

    def __call__(
        self, *, poison: int = 0, loops: int = 1, inputs: Arrays | None = None, params: Params | None = None
    ) -> Arrays:
        """What it answers; a `UdogenError` where it does not."""


@dataclass(frozen=True)
class Evidence:
    """A case that failed, and what can still be asked about it."""

    inputs: Arrays
    expected: Arrays
    found: Arrays
    params: Params = field(default_factory=dict)
    quants: Quants = field(default_factory=dict)
    defaults: Params = field(default_factory=dict)  # what the config says of params that are not given
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)  # of outputs; exact where there is none
    loops: int = 1  # how often the op had been executed when `found` was read
    reference: Reference | None = None
    rerun: Rerun | None = None
    patience: float = 20.0  # seconds for the questions of one output


class Clue(NamedTuple):
    """A finding, and how sure it is."""

    finding: Finding
    strength: int


# How sure: the op itself was asked; a prediction holds for every element; the pattern of what is wrong is telling.
SEEN, PREDICTED, PATTERN = 3, 2, 1

_FEWEST = 4  # elements that must tell a prediction from what was expected
_DISTINCT = 3  # values among them
_OFTEN_OFF = 0.25  # the share of stored numbers that may be off by a step; more is no prediction, but something near it


class Suspect:
    """One output that is wrong, with what detectors ask about it."""

    def __init__(self, evidence: Evidence, name: str) -> None:
        self.evidence, self.name = evidence, name
        self.found, self.expected = evidence.found[name], evidence.expected[name]
        self.quant, self.tolerance = evidence.quants.get(name), evidence.tolerances.get(name, EXACT)
        self.settled = np.zeros(self.found.shape, bool)  # elements whose cause is known
        self.error = differences(self.found, self.expected)
        self.wrong = self.beyond(self.error, self.expected)
        self.unsteady = False  # runs of the same input differ
        self._spent = 0.0
        self.real: Array | None = None  # the result before it is stored
        if evidence.reference is not None:
            answer = self.answer()
            stored = None if answer is None else self.store(answer)
            fits = stored is not None and not self.beyond(differences(stored, self.expected), self.expected).any()
            if not fits:
                self._spent = float("inf")  # the numbers are from elsewhere: it cannot say what would follow
            elif answer is not None and answer.dtype.kind == "f":
                self.real = answer

    @property
    def open(self) -> Array:
        """The wrong elements whose cause is not known."""
        return np.asarray(self.wrong & ~self.settled)

    @property
    def whole(self) -> bool:
        """It stores whole numbers: fixed point, or integers."""
        return self.found.dtype.kind in "iu"

    def beyond(self, error: Array, expected: Array) -> Array:
        """Which elements are wrong, by the tolerance of the case."""
        return np.asarray(error > self.tolerance.allowed(expected))

    # --- questions -----------------------------------------------------------------------------------

    def answer(
        self,
        *,
        inputs: Arrays | None = None,
        params: Params | None = None,
        quants: Quants | None = None,
        any_shape: bool = False,
    ) -> Array | None:
        """What the reference answers for this output; None where it has no answer of its shape, or no time is left."""
        case = self.evidence
        if case.reference is None or self._spent > case.patience:
            return None
        started = time.monotonic()
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answers = case.reference(
                    {**case.inputs, **(inputs or {})},
                    case.params if params is None else params,
                    {**case.quants, **(quants or {})},
                )
            answer = np.asarray(answers[self.name])
        except Exception:  # a user's function, asked about what it was not written for
            return None
        finally:
            self._spent += time.monotonic() - started
        fits = any_shape or answer.shape == self.found.shape
        return answer if fits and answer.dtype.kind in "fiub" else None

    def ask(
        self, *, inputs: Arrays | None = None, params: Params | None = None, quants: Quants | None = None
    ) -> Array | None:
        """`answer`, stored as the output is."""
        answer = self.answer(inputs=inputs, params=params, quants=quants)
        return None if answer is None else self.store(answer, (quants or {}).get(self.name, self.quant))

    def store(self, answer: Array, quant: tuple[float, int] | None = None) -> Array:
        """An answer of the reference, as the output stores it."""
        if answer.dtype.kind != "f":
            return storing.store(answer, self.found.dtype, None)
        return storing.store(answer, self.found.dtype, quant or self.quant)

    def run(self, **how: Any) -> Array | None:
        """What the op answers when it is executed again, mostly in poisoned memory; None where that fails."""
        if self.evidence.rerun is None:
            return None
        try:
            found = self.evidence.rerun(**{"poison": POISON, **how})[self.name]
        except UdogenError:
            return None
        return found

    # --- answers -------------------------------------------------------------------------------------

    def explains(self, predicted: Array | None, *, ignore: Array | None = None, distinct: int = _DISTINCT) -> int:
        """How many elements tell that a prediction is right and the expectation is not; 0 where it does not hold.

        It must hold everywhere, but for what is known to be unwritten and for `ignore`, and it must be told by
        `distinct` different numbers.
        """
        if predicted is None or predicted.shape != self.found.shape:
            return 0
        left = ~self.settled if ignore is None else ~self.settled & ~ignore
        found, expected, predicted = self.found[left], self.expected[left], predicted[left]
        if found.size * 2 < self.found.size:
            return 0
        off, before = differences(found, predicted), self.error[left]
        telling = self.beyond(differences(predicted, expected), expected) & self.beyond(before, expected)
        count = int(telling.sum())
        # Of equal numbers each could be explained by anything.
        if count < _FEWEST or np.unique(found[telling]).size < distinct:
            return 0
        return count if self._holds(off, predicted) and _is_closer(off, before) else 0

    def _holds(self, off: Array, predicted: Array) -> bool:
        # A fault in a kernel that also rounds a little otherwise than numpy.
        if self.whole and np.count_nonzero(off) > _OFTEN_OFF * off.size:
            return False
        missed = off > 2 * self.tolerance.allowed(predicted)
        if not missed.any():
            return True
        return self.whole and bool((off[missed] <= 2 * self.tolerance.absolute + 1).all()) and missed.mean() <= 0.05


def _is_closer(off: Array, before: Array) -> bool:
    """By far: what is a little off in each case has explained nothing."""
    known = np.isfinite(off) & np.isfinite(before)
    if np.isinf(off[~known]).any():
        return False
    largest = float(before[known].max(initial=0.0))
    if largest == 0.0:
        return True
    return bool(np.square(off[known] / largest).sum() <= np.square(before[known] / largest).sum() / 16)


def clue(cause: str, sentence: str, *, evidence: str, hint: str, strength: int = PREDICTED) -> Clue:
    """A finding with its strength."""
    return Clue(Finding(cause, sentence, evidence, hint), strength)


def proof(count: int, suspect: Suspect) -> str:
    """By what a prediction is known to be right."""
    total = suspect.found.size
    return f"a kernel with this fault would write exactly what was found: {count} of {total} elements tell"
