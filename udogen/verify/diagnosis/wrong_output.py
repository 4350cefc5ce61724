"""A wrong output, and the test of a prediction: what a kernel with one fault writes, for these inputs and for others.

A cause is reported only if its prediction agrees with every element of the output (`agrees`), and again with the
output of the op for new inputs: a wrong cause is worse than none.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from udogen import error_tables
from udogen.errors import UdogenError
from udogen.findings import Finding
from udogen.runtime.built import Built
from udogen.runtime.op.calls import POISON
from udogen.verify.cases import Arrays, Case, Quants
from udogen.verify.test_files.values import saturated
from udogen.verify.tolerances import differences

if TYPE_CHECKING:
    from udogen.opdef.model import Op
    from udogen.runtime.op.calls import Array
    from udogen.verify.places import Session

Params = Mapping[str, object]

# Executes the op again in a new graph, optionally with another `poison` or `inputs` (of the same shapes), and returns
# the outputs; raises a `UdogenError` if the op fails.
Rerun = Callable[..., Arrays]


@dataclass(frozen=True)
class OpRerun:
    """A `Rerun` of the op of a case, in the session of the case."""

    session: Session
    built: Built
    op: Op | None
    case: Case

    def __call__(self, *, poison: int = 0, inputs: Arrays | None = None) -> Arrays:
        """The outputs of the op."""
        given = self.case.inputs if inputs is None else inputs
        case = replace(
            self.case,
            inputs={name: np.ascontiguousarray(array) for name, array in given.items()},
            expected={},
            shapes={name: array.shape for name, array in self.case.expected.items()},
        )
        return self.session.run(replace(case.call(self.op, self.built), poison=poison)).outputs


@dataclass(frozen=True)
class FailedCase:
    """A case that failed, with its outputs."""

    case: Case
    found: Arrays
    defaults: Params = field(default_factory=dict)  # of the config, for parameters that are not given
    rerun: Rerun | None = None
    time_limit: float = 20.0  # seconds that the reference may take for one output


_FEWEST = 4  # wrong elements that a prediction must explain
_DISTINCT = 3  # distinct numbers in the output or in what is expected: equal numbers have too many explanations

# --- when a prediction agrees with an output --------------------------------------------------------------------------

_ULPS = {2: 2, 4: 16, 8: 16}  # by bytes: how much an order of summation, or another library's exp, changes a float
_NOISE = 2e-6  # the relative error of a real number before it is stored as an integer


def agrees(numbers: Array, predicted: Prediction) -> Array:
    """The numbers that are the predicted ones, bit by bit or, for floats, within the rounding of their type."""
    first = predicted[0]
    off = differences(numbers, first)
    if numbers.dtype.kind != "f":
        return np.asarray(np.any([off == 0, *(numbers == other for other in predicted[1:])], axis=0))
    with np.errstate(all="ignore"):
        size = np.abs(np.where(np.isfinite(first), first, 0).astype(np.float64))
    allowed = _ULPS[numbers.dtype.itemsize] * float(np.finfo(numbers.dtype).eps) * np.maximum(size, size.mean())
    return np.asarray(off <= allowed)


Prediction = Sequence["Array"]  # the predicted output; for integers also from real numbers that are slightly off


class Cause(NamedTuple):
    """A possible cause: a row of data/number_causes.toml, the names in its text, and the output that it predicts."""

    row: str
    names: Mapping[str, object]
    predict: Callable[..., Prediction | None]  # called with an `OpExecution`


class OpExecution:
    """One execution of the op: its inputs, its output, and the reference for it."""

    def __init__(self, output: WrongOutput, inputs: Arrays, found: Array, expected: Array | None = None) -> None:
        self._output, self.case, self.name = output, output.case, output.name
        self.inputs, self.found = inputs, found
        stored = self.predict() if expected is None else None
        self.expected = expected if expected is not None else stored[0] if stored else None

    def reference(
        self,
        *,
        inputs: Arrays | None = None,
        params: Params | None = None,
        quants: Quants | None = None,
        any_shape: bool = False,
        tape: AbstractContextManager[object] = nullcontext(),  # noqa: B008  (stateless)
    ) -> Array | None:
        """The reference's result for this output; None if it fails, has another shape, or no time is left."""
        case = self.case
        if case.origin is None or self._output.time_left < 0:
            return None
        begun = time.monotonic()
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings(), tape:
                warnings.simplefilter("ignore")
                outputs = case.origin.reference(
                    {**self.inputs, **(inputs or {})},
                    case.params if params is None else params,
                    {**case.quants, **(quants or {})},
                )
            result = np.asarray(outputs[self.name])
        except Exception:  # a user's function, called with arguments that it was not written for
            return None
        finally:
            self._output.time_left -= time.monotonic() - begun
        fits = any_shape or result.shape == self.found.shape
        return result if fits and result.dtype.kind in "fiub" else None

    def predict(self, *, quants: Quants | None = None, **options: Any) -> Prediction | None:
        """The result of `reference`, as the output stores it."""
        real = self.reference(quants=quants, **options)
        return (
            None if real is None else self.store(real, (quants or {}).get(self.name, self.case.quants.get(self.name)))
        )

    def store(self, real: Array, quant: tuple[float, int] | None, *, noise: float = _NOISE, **how: Any) -> Prediction:
        """Real numbers as the output stores them."""
        dtype = self.found.dtype
        if real.dtype.kind != "f" or dtype.kind == "f":
            return [store(real, dtype, None, **how)]
        return [store(real * factor, dtype, quant, **how) for factor in (1, 1 - noise, 1 + noise)]


class WrongOutput:
    """One wrong output of a case, with the means to run the op and the reference again."""

    def __init__(self, failed: FailedCase, name: str) -> None:
        case = failed.case
        self.case, self.name, self.defaults = case, name, failed.defaults
        self.found, expected = failed.found[name], case.expected[name]
        self._rerun, self.time_left = failed.rerun, failed.time_limit
        self.known = np.zeros(self.found.shape, bool)  # elements whose cause is observed
        self.wrong = self.exceeds(self.found, expected)
        self.given = OpExecution(self, case.inputs, self.found, expected)
        self.real = self.given.reference()  # the result before it is stored
        stored = self.given.predict()
        if stored is None or self.exceeds(stored[0], expected).any():
            self.time_left = -1.0  # the expected numbers have another source: this reference predicts nothing
        self._other: OpExecution | None = None

    def exceeds(self, found: Array, expected: Array) -> Array:
        """The elements that exceed the tolerance of the case, as a mask."""
        return np.asarray(differences(found, expected) > self.case.tolerance_of(self.name).allowed(expected))

    def rerun(self, **options: Any) -> Array | None:
        """The output of another execution of the op, in poisoned memory by default; None if that fails."""
        if self._rerun is None:
            return None
        try:
            return self._rerun(**{"poison": POISON, **options})[self.name]
        except UdogenError:
            return None

    def finding(self, cause: Cause) -> Finding | None:
        """The cause as a finding, if its prediction agrees with the output, and with that for new inputs."""
        expected = self.case.expected[self.name]
        if max(np.unique(array).size for array in (self.found, expected)) < _DISTINCT:
            return None
        predicted = self._agreeing(cause, self.given)
        if predicted is None:
            return None
        shown = self.wrong & ~self.known & ~agrees(expected, predicted)
        if shown.sum() < _FEWEST or (self._rerun and not self._agrees_again(cause)):
            return None
        evidence = f"simulating this fault reproduces the output ({shown.sum()} wrong of {shown.size} elements), "
        evidence += "also for new inputs" if self._rerun else "not tried with other inputs"
        return finding(cause.row, evidence=evidence, **cause.names)

    def _agreeing(self, cause: Cause, execution: OpExecution) -> Prediction | None:
        predicted = cause.predict(execution) if execution.expected is not None else None
        if predicted is None or predicted[0].shape != execution.found.shape:
            return None
        return predicted if (agrees(execution.found, predicted) | self.known).all() else None

    def _agrees_again(self, cause: Cause) -> bool:
        if self._other is None:
            inputs = {name: _new(array, seed) for seed, (name, array) in enumerate(self.case.inputs.items())}
            again = self.rerun(inputs=inputs)
            if again is None or again.shape != self.found.shape:
                return False
            self._other = OpExecution(self, inputs, again)
        return self._agreeing(cause, self._other) is not None


def _new(array: Array, seed: int) -> Array:
    """Other numbers between the smallest and the largest; NaN and infinity stay where they are."""
    random = np.random.default_rng(seed)
    finite = np.isfinite(array)
    if array.dtype.kind == "b" or not finite.any():
        return np.asarray(random.permutation(array.ravel()).reshape(array.shape))
    low, high = array[finite].min(), array[finite].max()
    if array.dtype.kind in "iu":
        return np.asarray(random.integers(int(low), int(high), array.shape, array.dtype.type, endpoint=True))
    return np.where(finite, random.uniform(low, high, array.shape), array).astype(array.dtype)


def finding(row: str, *, evidence: str, **names: object) -> Finding:
    """The finding of a row of data/number_causes.toml; `names` fill in its text."""
    cause = error_tables.number_causes()[row]
    return Finding(cause.text.format(**names), cause.remedy, kind=cause.name, evidence=evidence)


# --- real numbers as tensors store them ----------------------------------------------------------------------


Rounding = Callable[["Array"], "Array"]


def half_away(x: Array) -> Array:
    """Round to the nearest integer; ties away from zero, like C's `round`."""
    return np.asarray(np.trunc(x + np.copysign(0.5, x)))


def half_up(x: Array) -> Array:
    """Round to the nearest integer; ties up, like adding a half and rounding down."""
    return np.floor(x + 0.5)


ROUNDINGS: dict[str, Rounding] = {
    "toward zero": np.trunc,
    "down": np.floor,
    "up": np.ceil,
    "half away from zero": half_away,
    "half up": half_up,
}


def store(
    real: Array,
    dtype: np.dtype[np.generic],
    quant: tuple[float, int] | None,
    *,
    rounding: Rounding = np.rint,
    wrap: bool = False,
) -> Array:
    """Real numbers as a tensor of this type stores them: rounded, and clipped or wrapped if they do not fit."""
    real = np.asarray(real)
    if dtype.kind not in "iu":
        with np.errstate(all="ignore"):
            return real.astype(dtype)
    if real.dtype.kind in "iub" and quant is None:
        return fit(real, dtype, wrap=wrap)
    scale, offset = quant or (1.0, 0)
    with np.errstate(all="ignore"):
        return fit(rounding(np.asarray(real, np.float64) / scale) - offset, dtype, wrap=wrap)


def fit(numbers: Array, dtype: np.dtype[np.generic], *, wrap: bool = False) -> Array:
    """Convert integers to a type with fewer bits: clipped, or wrapped."""
    limits = np.iinfo(dtype.name)
    if not wrap:
        return saturated(numbers, int(limits.min), int(limits.max), dtype)
    clipped = np.clip(np.nan_to_num(numbers, nan=0.0), -(2.0**62), 2.0**62).astype(np.int64)
    return np.asarray(clipped.astype(dtype))  # numpy keeps the low bits


def halves(real: Array, *, rounding: str) -> Array:
    """Convert float32 to half precision or bfloat16 and back."""
    x = np.asarray(real, np.float32)
    with np.errstate(all="ignore"):
        if rounding == "half":
            return x.astype(np.float16).astype(np.float32)
        bits = np.ascontiguousarray(x).view(np.uint32)
        if rounding == "bfloat16":
            bits = bits + 0x7FFF + ((bits >> 16) & 1)
        return np.asarray(bits & np.uint32(0xFFFF0000)).view(np.float32).reshape(x.shape)
