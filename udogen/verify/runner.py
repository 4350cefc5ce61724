"""Runs cases of one package on one backend: compares outputs with the reference, measures costs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial

import numpy as np

from udogen import process
from udogen.backends import RUNTIMES
from udogen.backends.backend import Place
from udogen.clients.scripts.device_session import DeviceSession
from udogen.errors import UdogenError, UsageError
from udogen.findings import Finding
from udogen.opdef import datatypes
from udogen.opdef.model import Op
from udogen.python_files import user_code
from udogen.qnn.handles import Closing
from udogen.runtime.built import Built
from udogen.runtime.failures import NotExpressible, OpFailed, OpRefused, OutOfBounds
from udogen.runtime.hexagon.session import HexagonSession
from udogen.runtime.op.calls import POISON, CallParam, OpCall, OpResult, param_of
from udogen.runtime.op.session import OpSession
from udogen.verdict import Status
from udogen.verify.cases import Case, CaseError
from udogen.verify.diagnosis.explain import Explainer
from udogen.verify.options import TestOptions
from udogen.verify.places import ProgramSession, Session, open_session, place_of
from udogen.verify.results import Cost, Outcome, Spread, TensorResult
from udogen.verify.safety.checks import PageGuards, SafetyChecks, check_case
from udogen.verify.test_files.model import Builtin

# Outputs are those of the second execution: it exposes state that an op keeps from the first; guard bytes differ in it.
_EXECUTIONS = 2
_TIMED = 5  # executions by default: enough for a rough estimate of the time
_SLOW = 1.0  # if one execution takes more seconds, it is not executed again for timing
_SECONDS = 0.1  # for one precise measurement
_FEWEST, _MOST = 10, 2000  # executions of one precise measurement

OnCase = Callable[[Outcome], None]
OnStep = Callable[[str], None]


def run_cases(
    built: Built,
    cases: Sequence[Case],
    *,
    backend: str = "cpu",
    options: TestOptions = TestOptions(),  # noqa: B008  (immutable)
    on_case: OnCase = lambda _outcome: None,
    on_step: OnStep = lambda _line: None,
) -> list[Outcome]:
    """Run every case in one process; on places that run instructions, each in a separate process, several at once.

    Raises only if the package cannot be registered at all; errors of a case are in its outcome.

    `outcomes = run_cases(find_built(folder), example.cases, options=TestOptions(loops=5))`
    """
    place = place_of(backend)
    with CaseRunner(built, place, options, on_step=on_step) as runner:
        runner.prepare(cases)

        def run(case: Case) -> Outcome:
            outcome = runner.run(case)
            on_case(outcome)
            return outcome

        jobs = options.jobs or os.cpu_count() or 1
        return process.at_once([partial(run, case) for case in cases], jobs if place.instructions else 1)


class CaseRunner(Closing):
    """A session with one package on one backend, and the checks of its cases; use it as a context manager."""

    def __init__(
        self, built: Built, place: Place, options: TestOptions, *, on_step: OnStep = lambda _line: None
    ) -> None:
        self._built, self._place, self._options, self._on_step = built, place, options, on_step
        self._ops: dict[str, Op | None] = {}  # the config is read once for each op, not for each case
        self._checks: SafetyChecks | PageGuards | None = None
        self._twin: CaseRunner | None = None  # for a place on a device: a runner of the same place on this machine

    def __enter__(self) -> CaseRunner:
        options, place = self._options, self._place
        with ExitStack() as stack:
            self._session = self._open(count=options.measure and place.instructions)
            stack.enter_context(self._session)
            if isinstance(self._session, HexagonSession):
                self._checks = PageGuards(self._session) if options.safety.guard else None
            elif options.safety.any and place.watched:
                kind = place.kind if options.qnn_lib is None else "auto"
                checks = SafetyChecks(self._built, options, backend=place.config, runtime=kind, on_step=self._on_step)
                self._checks = stack.enter_context(checks)
            # If memory stays poisoned for the lifetime of a process, times are measured in another process.
            clean = options.measure and place.watched and RUNTIMES[place.config].keeps_memory
            self._clock = self._open() if clean else self._session
            if clean:
                stack.enter_context(self._clock)
            self._explainer = Explainer(self._run_once, self._session, place, self._built) if options.explain else None
            self._stack = stack.pop_all()
        return self

    def close(self) -> None:
        """End its sessions."""
        self._stack.close()

    def _open(self, *, count: bool = False) -> Session:
        return open_session(self._place, self._built, self._options, count=count, on_step=self._on_step)

    def prepare(self, cases: Sequence[Case]) -> None:
        """Let a client run as many of these cases together as it can."""
        if not isinstance(self._session, (ProgramSession, DeviceSession)):
            return
        calls = []
        for case in cases:
            if case.error is None and not case.refusal:
                try:
                    calls.append(self._calls(case))
                except UdogenError:  # reported when the case is run
                    continue
        self._session.prepare(calls)

    def run(self, case: Case) -> Outcome:
        """The outcome of one case: compared, measured, explained and checked, as the options request."""
        outcome = self._run(case, loops=self._options.loops, measure=self._options.measure)
        op = self._op(case)
        if self._explainer and not case.before:  # in a chain it would see only the last op
            outcome = self._explained(self._explainer, outcome, op)
        if self._checks is not None:
            outcome = check_case(outcome, self._checks, self._built, op)
        return outcome

    def _explained(self, explainer: Explainer, outcome: Outcome, op: Op | None) -> Outcome:
        """The outcome with causes; failures on a device that occur here too are explained here, with memory checks."""
        if self._place.device and outcome.status in ("failed", "error"):
            if self._twin is None:
                twin = CaseRunner(self._built, place_of(self._place.base), replace(self._options, measure=False))
                self._twin = self._stack.enter_context(twin)
            here = self._twin._run_once(outcome.case)
            if _kind(here) == _kind(outcome) and self._twin._explainer is not None:
                here = self._twin._explainer(here, op)
                return replace(outcome, findings=(*outcome.findings, *here.findings), smallest=here.smallest)
        return explainer(outcome, op)

    def _run_once(self, case: Case) -> Outcome:
        return self._run(case, loops=1, measure=False)

    def _run(self, case: Case, *, loops: int, measure: bool) -> Outcome:
        begun = time.perf_counter()
        outcome = Outcome(
            case=case,
            backend=self._place.id,
            dtype=case.output_types,
            status="error",
            package=self._built.package,
            runtime=self._session.runtime,
        )
        try:
            outcome, call = self._attempt(outcome)
            if call is not None and self._place.watched:
                outcome = replace(outcome, cost=self._time(outcome, call, loops))
            if call is not None and measure:
                outcome = replace(outcome, cost=_measure(outcome, self._clock, call))
        except NotExpressible as error:
            outcome = replace(outcome, status="skipped", error=CaseError(error.kind, error.message, error.hint))
        except UdogenError as error:
            if case.refusal and is_refusal(error):
                outcome = replace(outcome, status="passed")
            else:
                outcome = replace(outcome, error=CaseError.of(error))
        return replace(outcome, seconds=time.perf_counter() - begun)

    @property
    def _executions(self) -> int:
        """The number of executions in a graph; packets are counted for a single execution."""
        return 1 if isinstance(self._session, HexagonSession) and self._session.counts else _EXECUTIONS

    def _op(self, case: Case) -> Op | None:
        if case.op not in self._ops:
            self._ops[case.op] = self._built.op(case.op, self._place.config)
        return self._ops[case.op]

    def _attempt(self, outcome: Outcome) -> tuple[Outcome, OpCall | None]:
        """The outcome, and the call if it can be repeated for timing."""
        case, place = outcome.case, self._place
        if case.error is not None:
            return replace(outcome, error=case.error), None
        if (reason := _not_possible(case, place)) is not None:
            return replace(outcome, status="skipped", error=reason), None
        call, result = self._execute(case)
        dtype = " ".join(dict.fromkeys(tensor.dtype for tensor in call.outputs))
        outcome = replace(outcome, dtype=dtype, runtime=result.runtime, cost=_cost_of(case, call, result, place))
        if case.refusal:
            return replace(outcome, status="failed", findings=(_NOT_REFUSED,)), None
        tensors = tuple(_compare(case, call, result, name) for name in case.expected)
        if tensors and (missing := sorted({output.name for output in call.outputs} - {*case.expected})):
            raise UsageError(
                f"the case expects no `{missing[0]}`, so it would not be compared", hint="expect each output"
            )
        is_compared = any(array.size for array in case.expected.values())
        status: Status = "failed" if any(not row.passed for row in tensors) else "passed" if is_compared else "ran"
        return replace(outcome, tensors=tensors, status=status), call

    def _execute(self, case: Case) -> tuple[OpCall, OpResult]:
        """The last call of the case, and its result; raises if another kernel ran."""
        calls = self._calls(case)
        if isinstance(self._session, ProgramSession) and case.before:
            result = self._session.run_chain(calls)
        else:
            # Without poison, memory that an op does not write would look like a result of zeros.
            result = self._session.run(replace(calls[-1], poison=POISON, loops=self._executions))
        # In HTP's C++ style, executions of a rewrite are not counted.
        folder = self._built.folder
        if result.proof is not None and not case.refusal and (folder is None or folder.api != "core"):
            result.proof.check()
        return calls[-1], result

    def _calls(self, case: Case) -> list[OpCall]:
        """The calls of a chain; otherwise the one call of the case."""
        loops = 1 if self._place.instructions else _EXECUTIONS
        op = self._op(case)
        return [
            called.call(op, self._built, loops=loops, by_name=self._place.client) for called in (*case.before, case)
        ]

    def _time(self, outcome: Outcome, call: OpCall, loops: int) -> Cost:
        """The cost with the times of more executions; on CPU without poison, because its hook takes time too."""
        if outcome.execute > _SLOW and not loops:
            return outcome.cost
        poison = POISON if self._place.config and RUNTIMES[self._place.config].keeps_memory else 0
        loops = loops or outcome.case.loops or _TIMED
        times = self._session.run(replace(call, loops=loops, poison=poison)).times
        return replace(outcome.cost, execute=_spread(times.samples), finalize=times.finalize)


def _not_possible(case: Case, place: Place) -> CaseError | None:
    """The reason why a case cannot be run in a place; None if it can."""
    if case.refusal:
        reason = "an op refuses a graph where it is made, which is not on the device"
        return CaseError("refusal", reason) if place.device else None
    odd = next((array.ndim for array in case.inputs.values() if array.ndim not in place.ranks), None)
    return None if odd is None else CaseError("rank", f"tensors of {odd} axes do not exist there")


def _kind(outcome: Outcome) -> str:
    """The kind of error of a case, or its status."""
    return outcome.error.kind if outcome.error else outcome.status


def is_refusal(error: UdogenError) -> bool:
    """Whether the op returned an error, in validation or later; an access out of bounds is not a refusal."""
    return isinstance(error, OpRefused) or (isinstance(error, OpFailed) and not isinstance(error, OutOfBounds))


_NOT_REFUSED = Finding(
    "the op accepted a case that it must refuse",
    kind="not-refused",
    hint="return an error from its `validate`, or remove `expect = \"refusal\"` from the test file",
)  # fmt: skip


def _compare(case: Case, call: OpCall, result: OpResult, name: str) -> TensorResult:
    tensor = next(output for output in call.outputs if output.name == name)
    return TensorResult.judged(
        name,
        tensor.dtype,
        expected=case.expected[name],
        found=result.outputs[name],
        tolerance=case.tolerance_of(name),
        quant=tensor.scale_offset,
    )


# --- costs ----------------------------------------------------------------------------------------------------


def _cost_of(case: Case, call: OpCall, result: OpResult, place: Place) -> Cost:
    """The cost that every run measures."""
    outputs = result.outputs.values()
    given = [tensor.data.nbytes for tensor in call.inputs if tensor.data is not None]
    elements = sum(array.size for array in outputs)
    return Cost(
        execute=None if place.instructions else _spread(result.times.samples),  # times under QEMU are meaningless
        finalize=result.times.finalize if place.watched else None,
        packets=result.packets.total if result.packets else None,
        kernel=result.kernel,
        bytes_moved=sum(given) + sum(array.nbytes for array in outputs),
        operations=None if case.operations is None else case.operations * elements,
    )


def _spread(samples: Sequence[float]) -> Spread | None:
    """The median and the 10th and 90th percentile; None without samples."""
    if not samples:
        return None
    low, middle, high = np.percentile(samples, (10, 50, 90)).tolist()
    return Spread(middle, low, high, len(samples))


def _measure(outcome: Outcome, session: Session, call: OpCall) -> Cost:
    """The cost from enough executions, with numpy and the vendor's own op (if one is named) in the same process."""
    cost, case = outcome.cost, outcome.case
    if case.origin is not None:
        with (
            suppress(Exception),
            user_code(case.op),
        ):  # a user's function, called with float32: if it fails, it has no time
            cost = replace(cost, numpy=_spread(_time_function(case.origin.baseline)))
    if not isinstance(session, OpSession):
        return cost
    seconds = outcome.execute
    loops = case.loops or max(_FEWEST, min(_MOST, int(_SECONDS / seconds) if seconds > 0 else _MOST))
    session.run(replace(call, loops=1))  # on HTP the first graph of a process remains three times as slow as the others
    cost = replace(cost, execute=_spread(session.run(replace(call, loops=loops)).times.samples))
    if isinstance(case.builtin, Builtin):
        name = f"{case.builtin.package}::{case.builtin.op}"
        try:
            times = session.run(_builtin_call(case.builtin, call, loops)).times
            cost = replace(cost, builtin=_spread(times.samples), builtin_name=name)
        except UdogenError as error:
            cost = replace(cost, builtin_name=name, builtin_fault=error.message)
    return cost


def _time_function(function: Callable[[], object]) -> list[float]:
    """Times of a function; the first call is a warm-up, dropped if there is time for more."""
    samples: list[float] = []
    until = time.perf_counter() + _SECONDS
    while len(samples) < _FEWEST or (time.perf_counter() < until and len(samples) < _MOST):
        begun = time.perf_counter()
        function()
        samples.append(time.perf_counter() - begun)
        if len(samples) > 1 and time.perf_counter() > until:
            break
    return samples[1:] or samples


def _builtin_call(builtin: Builtin, call: OpCall, loops: int) -> OpCall:
    """The call of the vendor's own op on the same tensors."""
    params = tuple(_builtin_param(name, value) for name, value in builtin.params.items())
    return replace(call, op_type=builtin.op, package=builtin.package, params=params, loops=loops)


def _builtin_param(name: str, value: object) -> CallParam:
    """A parameter of a built-in op: integers are UINT_32, or INT_32 if one is negative."""
    numbers = np.asarray(value)
    kinds = {"b": "BOOL_8", "f": "FLOAT_32", "i": "INT_32" if (numbers < 0).any() else "UINT_32"}
    if numbers.dtype.kind not in kinds:
        raise UsageError(f"the parameter `{name}` of the built-in op is not a number", hint="leave it out")
    dtype = kinds[numbers.dtype.kind]
    return param_of(name, numbers.astype(datatypes.BY_NAME[dtype].numpy) if numbers.ndim else numbers.item(), dtype)
