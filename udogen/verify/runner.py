"""Runs cases in a session and holds what comes out against what was expected."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from udogen import process
from udogen.clients.ort.op_session import OrtSession
from udogen.errors import UdogenError
from udogen.opdef import datatypes
from udogen.opdef.model import Op
from udogen.runtime.built import Built
from udogen.runtime.failures import NotExpressible, OpFailed, OpRefused, OutOfBounds
from udogen.runtime.hexagon.session import HexagonSession
from udogen.runtime.library import BACKENDS
from udogen.runtime.op.calls import POISON, OpCall, OpResult
from udogen.runtime.op.request import CallOptions, make_call
from udogen.verify import runner, tolerances
from udogen.verify.cases import Case
from udogen.verify.diagnosis.explain import Explainer
from udogen.verify.places import Place, Session, open_session, place_of
from udogen.verify.results import Cost, Finding, Outcome, TensorResult, Trouble
from udogen.verify.safety.checks import NOTHING, PageGuards, Safety, Wanted, examined

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

# Numbers are those of the second execution, so that what an op keeps from the first shows; and guards differ in it.
_CHECKED = 2
_TIMED = 5  # enough for a first impression of the time
_SLOW = 1.0  # seconds of one execution, from which on it is not executed again for its time

OnCase = Callable[[Outcome], None]


def run_cases(
    built: Built,
    cases: Sequence[Case],
    *,
    backend: str = "cpu",
    runtime: Path | None = None,
    loops: int = 0,
    timeout: float = 60.0,
    force: bool = False,
    measure: bool = False,
    explain: bool = False,
    jobs: int = 1,
    safety: Wanted = NOTHING,
    on_case: OnCase = lambda _outcome: None,
    on_step: Callable[[str], None] = lambda _line: None,
) -> list[Outcome]:
    """Every case, in one process; where instructions are run each in its own, `jobs` of them at once.

    Raises only where the package cannot be registered at all; what a case does is its outcome.
    `safety`: what is checked besides the numbers, in processes of its own; where instructions are run, its guard.
    `measure`: times and packets are measured with care, and compared with numpy and the vendor's own op.
    `explain`: what is wrong is diagnosed, and made smaller.
    """
    place = place_of(backend)
    session = open_session(
        place,
        built,
        timeout=timeout,
        runtime=runtime,
        force=force,
        count=measure and place.instructions,
        on_step=on_step,
    )
    ops: dict[str, Op | None] = {}  # the config is read once for each op, not for each case
    for name in dict.fromkeys(case.op for case in cases):
        ops[name] = built.op(name, place.config)
    with ExitStack() as stack:
        stack.enter_context(session)
        checks: Safety | PageGuards | None = None
        if isinstance(session, HexagonSession):
            checks = PageGuards(session) if safety.guard else None
        elif safety.anything and place.watched:
            room = Safety(
                built,
                safety,
                backend=place.config,
                runtime=runtime,
                runtime_kind=place.kind if runtime is None else "auto",
                timeout=timeout,
                on_step=on_step,
            )
            checks = stack.enter_context(room)

        executions = _executions(session)

        if isinstance(session, OrtSession):
            session.prepare([calls for case in cases if (calls := _beside(case, ops[case.op], built, place))])

        def once(case: Case) -> Outcome:
            return run_case(session, place, built, ops[case.op], case, loops=1)

        explainer = Explainer(once, session, place, built) if explain else None
        # Where memory stays poisoned for the life of a process, times are measured in another one.
        clean = measure and place.watched and BACKENDS[place.config].keeps_memory
        clock = open_session(place, built, timeout=timeout, runtime=runtime, force=force) if clean else session
        if clean:
            stack.enter_context(clock)

        def run(case: Case) -> Outcome:
            outcome = run_case(session, place, built, ops[case.op], case, loops=loops, measure=measure, clock=clock)
            if explainer and not case.before:  # of a chain it would look at the last op alone
                outcome = explainer(outcome, ops[case.op], loops=executions)
            if checks is not None:
                outcome = examined(outcome, checks, built, ops[case.op])
            on_case(outcome)
            return outcome

        return process.at_once([partial(run, case) for case in cases], jobs if place.instructions else 1)


def run_case(
    session: Session,
    place: Place,
    built: Built,
    op: Op | None,
    case: Case,
    *,
    loops: int = 0,
    measure: bool = False,
    clock: Session | None = None,
) -> Outcome:
    """One case, whatever happens; `clock` is where times are measured with care, if it is not the same session."""
    begun = time.perf_counter()
    outcome = Outcome(case=case, backend=place.id, dtype=data_type(case), status="error", package=built.package)
    outcome = replace(outcome, runtime=session.runtime)
    try:
        outcome, call = _attempt(outcome, session, place, built, op)
        if call is not None and place.watched:
            outcome = replace(outcome, cost=_timed(outcome, session, call, loops, place))
        if call is not None and measure:
            outcome = replace(outcome, cost=runner.measure(outcome, clock or session, call, place))
    except NotExpressible as fault:
        outcome = replace(outcome, status="skipped", trouble=Trouble(fault.kind, fault.message, fault.hint))
    except UdogenError as fault:
        if case.refusal and _refuses(fault):
            outcome = replace(outcome, status="passed")
        else:
            outcome = replace(outcome, trouble=Trouble(fault.kind, fault.message, fault.hint, fault.details))
    return replace(outcome, seconds=time.perf_counter() - begun)


def _executions(session: Session) -> int:
    """How often an op is executed in a graph; packets are counted of one execution alone."""
    return 1 if isinstance(session, HexagonSession) and session.counts else _CHECKED


def _refuses(fault: UdogenError) -> bool:
    """The op answered with an error, in validation or later; what it must not do is no answer."""
    return isinstance(fault, OpRefused) or (isinstance(fault, OpFailed) and not isinstance(fault, OutOfBounds))


def data_type(case: Case) -> str:
    """The types of the outputs, as far as they are known before a call."""
    names = [case.dtypes[name] for name in case.expected if name in case.dtypes] or list(case.dtypes.values())[-1:]
    return " ".join(dict.fromkeys(names))


def _attempt(
    outcome: Outcome, session: Session, place: Place, built: Built, op: Op | None
) -> tuple[Outcome, OpCall | None]:
    """The outcome, and the call where it can be repeated for its time."""
    case = outcome.case
    if case.trouble is not None:
        return replace(outcome, trouble=case.trouble), None
    odd = next((array for array in case.inputs.values() if array.ndim not in place.ranks), None)
    if odd is not None and not case.refusal:
        why = f"tensors of {odd.ndim} axes do not exist there"
        return replace(outcome, status="skipped", trouble=Trouble("rank", why)), None
    calls = _calls(case, op, built, place)
    call = calls[-1]
    dtype = " ".join(dict.fromkeys(tensor.dtype for tensor in call.outputs))
    # Memory that an op does not write must not look as if zeros were its answer.
    if isinstance(session, OrtSession) and case.before:
        result = session.run_chain(calls)
    else:
        result = session.run(replace(call, poison=POISON, loops=_executions(session)))
    # Numbers of another kernel say nothing of ours.  What a rewrite in HTP's C++ style replaces, nobody counts.
    if result.proof is not None and not case.refusal and (built.folder is None or built.folder.api != "core"):
        result.proof.check()
    outcome = replace(outcome, dtype=dtype, runtime=result.runtime, cost=runner.of(case, call, result, place))
    if case.refusal:
        return replace(outcome, status="failed", findings=(_NOT_REFUSED,)), None
    tensors = tuple(_hold(case, call, result, name) for name in case.expected)
    status = "failed" if any(not each.passed for each in tensors) else "passed" if tensors else "ran"
    return replace(outcome, tensors=tensors, status=status), call  # type: ignore[arg-type]


def _calls(case: Case, op: Op | None, built: Built, place: Place) -> list[OpCall]:
    """The call of a case; before it those that a chain begins with."""

    def call(each: Case) -> OpCall:
        options = CallOptions(
            inputs=each.inputs,
            params=each.params,
            quants=each.quants,
            dtypes=each.dtypes,
            shapes=each.output_shapes,
            loops=1 if place.instructions else _CHECKED,
            by_name=place.client,
        )
        return make_call(op, built, each.op, options)

    return [call(each) for each in (*case.before, case)]


def _beside(case: Case, op: Op | None, built: Built, place: Place) -> list[OpCall]:
    """The calls of a case that may run beside others; none where it is to be refused, or cannot be made."""
    if case.trouble is not None or case.refusal:
        return []
    try:
        return _calls(case, op, built, place)
    except UdogenError:  # that is told when the case is run
        return []


def _timed(outcome: Outcome, session: Session, call: OpCall, loops: int, place: Place) -> Cost:
    """The cost with the times of more executions; on CPU without poison, whose hook takes time too."""
    if outcome.execute > _SLOW and not loops:
        return outcome.cost
    poison = POISON if BACKENDS[place.config].keeps_memory else 0
    again = replace(call, loops=loops or outcome.case.loops or _TIMED, poison=poison)
    times = session.run(again).times
    return replace(outcome.cost, execute=runner.spread(times.samples), finalize=times.finalize)


_NOT_REFUSED = Finding(
    "not-refused",
    "the op took what it must refuse",
    hint="let its `validate` answer with an error, or take `expect = \"refusal\"` out of the test file",
)  # fmt: skip


def _hold(case: Case, call: OpCall, result: OpResult, name: str) -> TensorResult:
    tensor = next(each for each in call.outputs if each.name == name)
    found, expected = result.outputs[name], case.expected[name]
    tolerance = case.tolerance_of(name)
    verdict = tolerances.judge(found, expected, tolerance)
    row = datatypes.parse(tensor.dtype)
    unit = "" if row is None or row.kind == "float" else "step" if row.quantized else "unit"
    return TensorResult(
        name=name,
        dtype=tensor.dtype,
        expected=expected,
        found=found,
        quant=tensor.quant,
        tolerance=tolerance.words(unit),
        unit=unit,
        max_error=verdict.max_error,
        worst=verdict.worst,
        wrong=verdict.wrong,
        first=verdict.first,
    )


def max_error(found: Array, expected: Array) -> float:
    """The largest absolute difference; infinite where the shapes differ or one is no number and the other is."""
    return tolerances.judge(found, expected, tolerances.EXACT).max_error
