"""A wrong output, and two ways to test a hypothesis: call the reference, or run the op again.

A detector gets a `WrongOutput`. It predicts what a kernel with one specific fault would write, and reports that fault
if the prediction holds for every element: a wrong cause is worse than none.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from udogen import error_tables
from udogen.errors import RunFailed, UdogenError
from udogen.runtime.built import Built
from udogen.runtime.op.calls import POISON, OpCall, OpResult
from udogen.verify.cases import Arrays, Case, Quants
from udogen.verify.diagnosis import arrays
from udogen.verify.results import Finding
from udogen.verify.tolerances import differences

if TYPE_CHECKING:
    from udogen.opdef.model import Op
    from udogen.runtime.op.calls import Array

Params = Mapping[str, object]

# Executes the op again in a new graph, optionally with other `poison`, `loops`, `inputs` (of any shape that the
# reference accepts) or `params`, and returns the outputs; raises a `UdogenError` if the op fails.
Rerun = Callable[..., Arrays]


@dataclass(frozen=True)
class OpRerun:
    """A `Rerun` of the op of a case, in the session of the case."""

    run: Callable[[OpCall], OpResult]
    built: Built
    op: Op | None
    case: Case

    def __call__(
        self, *, poison: int = 0, loops: int = 1, inputs: Arrays | None = None, params: Params | None = None
    ) -> Arrays:
        """The outputs of the op."""
        inputs = self.case.inputs if inputs is None else inputs
        params = self.case.params if params is None else params
        case = replace(
            self.case,
            inputs={name: np.ascontiguousarray(array) for name, array in inputs.items()},
            params=params,
            expected={},
            shapes=self._shapes(inputs, params),
        )
        return self.run(replace(case.call(self.op, self.built, loops=loops), poison=poison)).outputs

    def _shapes(self, inputs: Arrays, params: Params) -> dict[str, tuple[int, ...]]:
        case = self.case
        if all(array.shape == case.inputs[name].shape for name, array in inputs.items()):
            return {name: array.shape for name, array in case.expected.items()}
        if case.origin is None:
            raise RunFailed(f"nothing defines the output shapes of op `{case.op}` for other inputs")
        try:
            outputs = case.origin.reference(inputs, params, case.quants)
        except Exception as error:  # a user's function, called with shapes that it was not written for
            raise RunFailed(f"the reference of op `{case.op}` does not accept these inputs: {error}") from error
        return {name: np.shape(array) for name, array in outputs.items()}


@dataclass(frozen=True)
class FailedCase:
    """A case that failed, with its outputs."""

    case: Case
    found: Arrays
    defaults: Params = field(default_factory=dict)  # of the config, for parameters that are not given
    loops: int = 1  # number of executions before `found` was read
    rerun: Rerun | None = None
    time_limit: float = 20.0  # seconds that the reference may take for one output


class Clue(NamedTuple):
    """A finding, and how certain it is."""

    finding: Finding
    strength: int


# Strengths: the op itself shows it; a prediction holds for every element; the pattern of wrong elements shows it.
OBSERVED, PREDICTED, PATTERN = 3, 2, 1

_FEWEST = 4  # elements that must distinguish a prediction from what was expected
_DISTINCT = 3  # distinct values among them
_OFTEN_OFF = 0.25  # share of stored numbers that may be off by a step; above that, a prediction does not hold


class WrongOutput:
    """One wrong output, with the queries that detectors need."""

    def __init__(self, failed: FailedCase, name: str) -> None:
        case = failed.case
        self.case, self.name, self.defaults, self.loops = case, name, failed.defaults, failed.loops
        self.found, self.expected = failed.found[name], case.expected[name]
        self.quant, self.tolerance = case.quants.get(name), case.tolerance_of(name)
        self.explained = np.zeros(self.found.shape, bool)  # elements whose cause is known
        self.error = differences(self.found, self.expected)
        self.wrong = self.exceeds(self.error, self.expected)
        self.varies = False  # runs of the same input differ
        self.real: Array | None = None  # the result before it is stored
        self._rerun, self._time_left = failed.rerun, failed.time_limit
        if case.origin is not None:
            output = self.reference()
            stored = None if output is None else self.store(output)
            fits = stored is not None and not self.exceeds(differences(stored, self.expected), self.expected).any()
            if not fits:
                self._time_left = -1.0  # the expected numbers have another source: this reference predicts nothing
            elif output is not None and output.dtype.kind == "f":
                self.real = output

    @property
    def unexplained(self) -> Array:
        """The wrong elements whose cause is not known."""
        return np.asarray(self.wrong & ~self.explained)

    @property
    def is_integer(self) -> bool:
        """Whether it stores integers: fixed point, or an integer type."""
        return self.found.dtype.kind in "iu"

    def exceeds(self, error: Array, expected: Array) -> Array:
        """The elements that exceed the tolerance of the case, as a mask."""
        return np.asarray(error > self.tolerance.allowed(expected))

    # --- queries -------------------------------------------------------------------------------------

    def reference(
        self,
        *,
        inputs: Arrays | None = None,
        params: Params | None = None,
        quants: Quants | None = None,
        any_shape: bool = False,
    ) -> Array | None:
        """The reference's result for this output; None if it fails, has another shape, or no time is left."""
        case = self.case
        if case.origin is None or self._time_left < 0:
            return None
        begun = time.monotonic()
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outputs = case.origin.reference(
                    {**case.inputs, **(inputs or {})},
                    case.params if params is None else params,
                    {**case.quants, **(quants or {})},
                )
            output = np.asarray(outputs[self.name])
        except Exception:  # a user's function, called with arguments that it was not written for
            return None
        finally:
            self._time_left -= time.monotonic() - begun
        fits = any_shape or output.shape == self.found.shape
        return output if fits and output.dtype.kind in "fiub" else None

    def predict(
        self, *, inputs: Arrays | None = None, params: Params | None = None, quants: Quants | None = None
    ) -> Array | None:
        """The result of `reference`, as the output stores it."""
        output = self.reference(inputs=inputs, params=params, quants=quants)
        return None if output is None else self.store(output, (quants or {}).get(self.name, self.quant))

    def store(self, real: Array, quant: tuple[float, int] | None = None) -> Array:
        """A result of the reference, as the output stores it."""
        if real.dtype.kind != "f":
            return arrays.store(real, self.found.dtype, None)
        return arrays.store(real, self.found.dtype, quant or self.quant)

    def rerun(self, **options: Any) -> Array | None:
        """The output of another execution of the op, in poisoned memory by default; None if that fails."""
        if self._rerun is None:
            return None
        try:
            return self._rerun(**{"poison": POISON, **options})[self.name]
        except UdogenError:
            return None

    # --- predictions ---------------------------------------------------------------------------------

    def explains(self, predicted: Array | None, *, ignore: Array | None = None, distinct: int = _DISTINCT) -> int:
        """The number of elements that match a prediction and not the expected value; 0 if it does not hold.

        It must hold everywhere, except for elements that are already explained and for `ignore`, and at least
        `distinct` different numbers must show it.
        """
        if predicted is None or predicted.shape != self.found.shape:
            return 0
        left = ~self.explained if ignore is None else ~self.explained & ~ignore
        found, expected, predicted = self.found[left], self.expected[left], predicted[left]
        if found.size * 2 < self.found.size:
            return 0
        off, before = differences(found, predicted), self.error[left]
        decisive = self.exceeds(differences(predicted, expected), expected) & self.exceeds(before, expected)
        count = int(decisive.sum())
        # If all numbers are equal, many causes could explain them.
        if count < _FEWEST or np.unique(found[decisive]).size < distinct:
            return 0
        return count if self._holds(off, predicted) and _is_closer(off, before) else 0

    def _holds(self, off: Array, predicted: Array) -> bool:
        # The kernel may also round slightly differently than numpy.
        if self.is_integer and np.count_nonzero(off) > _OFTEN_OFF * off.size:
            return False
        missed = off > 2 * self.tolerance.allowed(predicted)
        if not missed.any():
            return True
        return (
            self.is_integer and bool((off[missed] <= 2 * self.tolerance.absolute + 1).all()) and missed.mean() <= 0.05
        )

    def clues_of(
        self,
        cause: str,
        predicted: Array | None,
        *,
        ignore: Array | None = None,
        because: str = "",
        but: str = "",
        **names: Any,
    ) -> Iterator[Clue]:
        """The clue to a cause if its prediction holds; `because` begins the evidence, `but` ends it."""
        if count := self.explains(predicted, ignore=ignore):
            yield clue(cause, evidence=because + self.confirmed(count) + but, **names)

    def confirmed(self, count: int) -> str:
        """The evidence of a prediction that `count` elements show."""
        return f"simulating this fault reproduces the output ({count} of {self.found.size} elements)"


def _is_closer(off: Array, before: Array) -> bool:
    """Whether the prediction is much closer: one that is slightly off everywhere explains nothing."""
    known = np.isfinite(off) & np.isfinite(before)
    if np.isinf(off[~known]).any():
        return False
    largest = float(before[known].max(initial=0.0))
    if largest == 0.0:
        return True
    return bool(np.square(off[known] / largest).sum() <= np.square(before[known] / largest).sum() / 16)


def clue(cause: str, *, evidence: str, strength: int = PREDICTED, **names: object) -> Clue:
    """The clue of a row of data/number_causes.toml; `names` fill in its text."""
    row = error_tables.number_causes()[cause]
    return Clue(Finding(row.name, row.text.format(**names), evidence, row.remedy), strength)
