"""The results of a test run as data: the terminal, JUnit, JSON and HTML reports are all made from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from udogen.findings import Finding
from udogen.opdef import datatypes
from udogen.runtime.library import RuntimeInfo
from udogen.verdict import Status, Verdict
from udogen.verify.cases import Case, CaseError
from udogen.verify.test_files.references import ReferenceUnwritten
from udogen.verify.tolerances import Tolerance, judge

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_FEW_NUMBERS = 4  # of an input that are shown with the first wrong element
FEW_ELEMENTS = 8  # outputs with fewer elements are too small to show most causes


@dataclass(frozen=True)
class TensorResult:
    """One output of one case: what was expected, what was found, and how far they are apart."""

    name: str
    dtype: str  # the QNN name: FLOAT_32
    expected: Array  # as stored: fixed point values as integers
    found: Array
    quant: tuple[float, int] | None
    tolerance: str  # as text: `1e-06 + 1e-05 relative`
    unit: str  # of max_error: `step` for fixed point and integers, otherwise empty
    max_error: float  # the largest absolute difference; infinite where a shape or a NaN differs
    worst: float  # the largest difference as a share of what is allowed there; more than 1 is wrong
    wrong: int  # elements beyond the tolerance
    first: tuple[int, ...] | None  # the first of them

    @classmethod
    def judged(
        cls,
        name: str,
        dtype: str,
        *,
        expected: Array,
        found: Array,
        tolerance: Tolerance,
        quant: tuple[float, int] | None = None,
    ) -> TensorResult:
        """The result of comparing an output with what is expected."""
        row = datatypes.parse(dtype)
        unit = "" if row is None or row.kind == "float" else "step" if row.quantized else "unit"
        deviation = judge(found, expected, tolerance)
        return cls(name, dtype, expected, found, quant, tolerance.words(unit), unit, **vars(deviation))

    @property
    def passed(self) -> bool:
        """Whether all elements are within the tolerance."""
        return self.wrong == 0


@dataclass(frozen=True)
class Spread:
    """Seconds of one execution, measured over several."""

    median: float
    low: float  # the 10th percentile
    high: float  # the 90th
    loops: int


@dataclass(frozen=True)
class Cost:
    """The costs of a case; None: not measured."""

    execute: Spread | None = None
    finalize: float | None = None  # seconds
    numpy: Spread | None = None  # the reference, on this machine
    builtin: Spread | None = None  # the vendor's own op, in the same process
    builtin_name: str = ""
    builtin_fault: str = ""  # why it was not measured
    packets: int | None = None  # Hexagon: packets of instructions in one execution
    kernel: str = ""  # which of the package's kernels ran
    bytes_moved: int = 0  # inputs and outputs, once each
    operations: float | None = None  # arithmetic, if the test file declares it

    @property
    def intensity(self) -> float | None:
        """Arithmetic intensity: operations for each byte moved."""
        return self.operations / self.bytes_moved if self.operations is not None and self.bytes_moved else None


@dataclass(frozen=True)
class Outcome:
    """The result of one case on one backend: `print(outcome.status, outcome.max_error)`."""

    case: Case
    backend: str  # a `BackendState.backend`
    dtype: str  # of the outputs: FLOAT_32
    status: Status
    package: str = ""
    runtime: RuntimeInfo | None = None
    tensors: tuple[TensorResult, ...] = ()
    error: CaseError | None = None  # for `error` the error, for `skipped` the reason
    findings: tuple[Finding, ...] = ()
    smallest: Case | None = None  # the smallest case that still fails, if one was searched
    cost: Cost = field(default_factory=Cost)
    seconds: float = 0.0  # total time of the case

    @property
    def passed(self) -> bool:
        """Whether the case ran and all its numbers are within the tolerance."""
        return self.status == "passed"

    @property
    def max_error(self) -> float:
        """The largest absolute difference of all outputs; infinite where there are no numbers."""
        return max((tensor.max_error for tensor in self.tensors), default=float("inf"))

    @property
    def worst(self) -> TensorResult | None:
        """The output with the largest error relative to its tolerance."""
        return max(self.tensors, key=lambda tensor: tensor.worst, default=None)

    def inputs_at(self, tensor: TensorResult, index: tuple[int, ...]) -> dict[str, object]:
        """What an element of an output was computed from: the numbers of each input there, at most four.

        Those are at its index if the input is broadcast to the output, otherwise at its leading indices that both have.
        """
        given: dict[str, object] = {}
        for name, array in self.case.inputs.items():
            whole = _broadcast(array, tensor.found.shape)
            numbers = array if whole is None else whole[index]
            for at, extent in zip(index, tensor.found.shape, strict=True) if whole is None else ():
                if not numbers.ndim or numbers.shape[0] != extent:
                    break
                numbers = numbers[at]
            few = numbers.ravel()[:_FEW_NUMBERS].tolist()
            given[name] = few[0] if numbers.size == 1 else few
        return given

    @property
    def execute(self) -> float:
        """The median time of one execution in seconds; 0 if not measured."""
        return self.cost.execute.median if self.cost.execute else 0.0


def _broadcast(array: Array, shape: tuple[int, ...]) -> Array | None:
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        return None


# ran: its cases were run.  missing: a runtime or tool is missing.  unbuilt: the package has no library for it, or it
# does not build.  skipped: it was not chosen, or has no case.
State = Literal["ran", "missing", "unbuilt", "skipped"]
ABSENT: tuple[State, ...] = ("missing", "unbuilt")


@dataclass(frozen=True)
class BackendState:
    """One backend: where its ops ran, or why they did not."""

    backend: str  # cpu, htp, gpu, hexagon, dsp, cpu-ort, htp-ort, cpu-emulator, htp-emulator
    title: str  # "Qualcomm's CPU runtime"
    state: State
    reason: str = ""  # why it did not run
    hint: str = ""  # what would help
    details: tuple[str, ...] = ()
    real: bool = False  # Qualcomm's own library
    runtime: RuntimeInfo | None = None
    cases: int = 0  # number of cases for it; if it is missing or unbuilt, those that did not run
    build_failed: bool = False  # a package does not compile, which would be the same on any other machine


_WORSE: Sequence[State] = ("skipped", "ran", "missing", "unbuilt")


def joined(states: Iterable[BackendState]) -> dict[str, BackendState]:
    """One state for each backend: the worst one, with the number of cases that ran or did not run."""
    by_backend: dict[str, BackendState] = {}
    for after in states:
        before = by_backend.setdefault(after.backend, after)
        if before is after:
            continue
        worse = max(before, after, key=lambda state: _WORSE.index(state.state))
        counted = [state for state in (before, after) if (state.state in ABSENT) == (worse.state in ABSENT)]
        by_backend[after.backend] = replace(
            worse,
            cases=sum(state.cases for state in counted),
            runtime=before.runtime or after.runtime,
            real=before.real or after.real,
            build_failed=before.build_failed or after.build_failed,
        )
    return by_backend


class NetworkReport(Protocol):
    """The comparison of a network, layer by layer, by the program of a place."""

    @property
    def fault(self) -> str:
        """Why the network is not right; empty if it is."""

    @property
    def layers(self) -> Sequence[Any]:
        """One for each tensor: tensor, op, shape, own, error, steps, wrong, node."""

    def lines(self) -> Iterable[str]:
        """A heading, a line for each layer, an empty line, and notes."""

    def as_json(self) -> dict[str, Any]:
        """The result as `--json` prints it."""


@dataclass(frozen=True)
class NetworkOutcome:
    """The result of one network on one backend, in float or with 8 bits."""

    name: str
    backend: str  # cpu-ort, htp-ort
    bits: str
    status: Status
    location: str  # in the test file
    result: NetworkReport | None = None
    error: CaseError | None = None
    seconds: float = 0.0

    @property
    def title(self) -> str:
        """`net on htp-ort, 8 bits`."""
        return f"{self.name} on {self.backend}, {'float' if self.bits == 'float' else f'{self.bits} bits'}"


def verdict_of(
    rows: Sequence[tuple[Status, str]],
    states: Iterable[BackendState],
    *,
    planned: int | None,
    unwritten: Iterable[str],
    not_executed: tuple[str, ...],
) -> Verdict:
    """The verdict on rows (status, kind of error), on places that are missing, and on references without code."""
    places = list(states)
    absent = sum(state.cases for state in places if state.state in ABSENT)
    return Verdict.of(
        rows,
        planned=len(rows) + absent if planned is None else planned,
        absent=absent,
        build_failed=any(state.build_failed for state in places),
        findings=tuple(Finding(text, kind=ReferenceUnwritten.kind) for text in unwritten),
        not_executed=not_executed,
    )


@dataclass(frozen=True)
class Selection:
    """Which part of which tests a run was: parts can be merged if all their `tests` are equal."""

    part: int
    parts: int
    tests: str  # a digest of the selected cases of all parts, the packages and the version of udogen


@dataclass(frozen=True)
class TestRun:
    """One call of `udogen test`."""

    __test__ = False  # pytest would collect it as a test class because of its name

    folder: Path
    states: tuple[BackendState, ...]
    outcomes: tuple[Outcome, ...]
    seconds: float = 0.0
    environment: tuple[tuple[str, str], ...] = ()  # what the numbers depend on: (name, value)
    warnings: tuple[str, ...] = ()
    networks: tuple[NetworkOutcome, ...] = ()
    unwritten: tuple[str, ...] = ()  # references that are not implemented yet; their cases did not run
    selection: Selection | None = None
    planned: int | None = None  # cases and networks, in all places; None: what has a result, or a reason
    not_executed: tuple[str, ...] = ()  # vector functions for Hexagon that were built, but not executed

    @property
    def results(self) -> tuple[Outcome | NetworkOutcome, ...]:
        """The results of cases and networks; a network on one backend counts as one case."""
        return (*self.outcomes, *self.networks)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether something was compared, nothing failed, all packages compile, and all references are implemented."""
        return verdict_of(
            [(result.status, result.error.kind if result.error else "") for result in self.results],
            self.states,
            planned=self.planned,
            unwritten=self.unwritten,
            not_executed=self.not_executed,
        )

    @property
    def bad(self) -> tuple[Outcome, ...]:
        """The cases with status `failed`, then those with `error`."""
        return tuple(outcome for status in ("failed", "error") for outcome in self.outcomes if outcome.status == status)

    @cached_property
    def failure_groups(self) -> tuple[tuple[Outcome, ...], ...]:
        """The bad cases, grouped by op and cause.

        Only the first cases of an op, data type and backend are diagnosed.  Later ones are assigned to the first cause
        found, as are earlier ones whose outputs have too few elements.
        """
        groups: dict[tuple[str, ...], list[Outcome]] = {}
        first: dict[tuple[str, ...], tuple[str, ...]] = {}
        for outcome in self.bad:
            if outcome.findings:
                first.setdefault(self._kind(outcome), (self.op(outcome), outcome.status, outcome.findings[0].kind))
        passed = set[tuple[str, ...]]()  # kinds whose first cause was found
        for outcome in self.bad:
            kind = key = self._kind(outcome)
            if outcome.findings:
                key = (self.op(outcome), outcome.status, outcome.findings[0].kind)
                passed.add(kind)
            elif outcome.error:
                key = (self.op(outcome), outcome.status, outcome.error.kind, outcome.error.message[:60])
            elif kind in passed or all(tensor.found.size < FEW_ELEMENTS for tensor in outcome.tensors):
                key = first.get(kind, kind)
            groups.setdefault(key, []).append(outcome)
        return tuple(tuple(sorted(group, key=lambda outcome: not outcome.findings)) for group in groups.values())

    def _kind(self, outcome: Outcome) -> tuple[str, ...]:
        return self.op(outcome), outcome.status, outcome.backend, outcome.dtype

    def op(self, outcome: Outcome) -> str:
        """The op's name, with its package if several packages have an op of that name."""
        name = outcome.case.op
        return f"{outcome.package}::{name}" if len(self._packages[name]) > 1 else name

    @cached_property
    def _packages(self) -> dict[str, set[str]]:
        packages: dict[str, set[str]] = {}
        for outcome in self.outcomes:
            packages.setdefault(outcome.case.op, set()).add(outcome.package)
        return packages

    def matrix(self) -> dict[tuple[str, str, str], tuple[Outcome, ...]]:
        """(op, backend, data type) -> its outcomes, in the order of the run."""
        cells: dict[tuple[str, str, str], list[Outcome]] = {}
        for outcome in self.outcomes:
            cells.setdefault((self.op(outcome), outcome.backend, outcome.dtype), []).append(outcome)
        return {key: tuple(outcomes) for key, outcomes in cells.items()}

    def rows(self) -> list[tuple[str, str]]:
        """The rows of the matrix: (op, data type), grouped by op."""
        pairs = dict.fromkeys((self.op(outcome), outcome.dtype) for outcome in self.outcomes)
        ops = list(dict.fromkeys(op for op, _ in pairs))
        return sorted(pairs, key=lambda pair: ops.index(pair[0]))

    def backends(self) -> Sequence[str]:
        """The backends that ran, in their order."""
        return [state.backend for state in self.states if state.state == "ran"]
