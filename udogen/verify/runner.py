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
from udogen.errors import UdogenError
from udogen.opdef import datatypes
from udogen.opdef.model import Op
from udogen.runtime.built import Built
from udogen.runtime.calls import OpCall, OpResult
from udogen.runtime.failures import OpRefused
from udogen.runtime.request import Wishes, make_call
from udogen.verify import costs, tolerances
from udogen.verify.cases import Case
from udogen.verify.explain import Explainer
from udogen.verify.places import Place, Session, open_session, place_of
from udogen.verify.results import Finding, Outcome, TensorResult, Trouble

if TYPE_CHECKING:
    from udogen.runtime.calls import Array

_LOOPS = 5  # enough for a first impression of the time, too few to make a slow op a burden

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
    on_case: OnCase = lambda _outcome: None,
    on_step: Callable[[str], None] = lambda _line: None,
) -> list[Outcome]:
    """Every case, in one process; where instructions are run each in its own, `jobs` of them at once.

    Raises only where the package cannot be registered at all; what a case does is its outcome.
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

        def once(case: Case) -> Outcome:
            return run_case(session, place, built, ops[case.op], case, loops=1)

        explainer = Explainer(once, session, place, built) if explain else None

        def run(case: Case) -> Outcome:
            outcome = run_case(session, place, built, ops[case.op], case, loops=loops, measure=measure)
            outcome = explainer(outcome, ops[case.op]) if explainer else outcome
            on_case(outcome)
            return outcome

        return process.at_once([partial(run, case) for case in cases], jobs if place.instructions else 1)


def run_case(
    session: Session, place: Place, built: Built, op: Op | None, case: Case, *, loops: int = 0, measure: bool = False
) -> Outcome:
    """One case, whatever happens."""
    begun = time.perf_counter()
    outcome = Outcome(case=case, backend=place.id, dtype=data_type(case), status="error", package=built.package)
    outcome = replace(outcome, runtime=session.runtime)
    try:
        outcome = _attempt(outcome, session, place, built, op, loops, measure)
    except UdogenError as fault:
        if case.refusal and isinstance(fault, OpRefused):
            outcome = replace(outcome, status="passed")
        else:
            outcome = replace(outcome, trouble=Trouble(fault.kind, fault.message, fault.hint, fault.details))
    return replace(outcome, seconds=time.perf_counter() - begun)


def data_type(case: Case) -> str:
    """The types of the outputs, as far as they are known before a call."""
    names = [case.dtypes[name] for name in case.expected if name in case.dtypes] or list(case.dtypes.values())[-1:]
    return " ".join(dict.fromkeys(names))


def _attempt(
    outcome: Outcome, session: Session, place: Place, built: Built, op: Op | None, loops: int, measure: bool
) -> Outcome:
    case = outcome.case
    if case.trouble is not None:
        return replace(outcome, trouble=case.trouble)
    odd = next((array for array in case.inputs.values() if array.ndim not in place.ranks), None)
    if odd is not None and not case.refusal:
        why = f"tensors of {odd.ndim} axes do not exist there"
        return replace(outcome, status="skipped", trouble=Trouble("rank", why))
    times = 1 if place.instructions else loops or case.loops or _LOOPS
    wishes = Wishes(
        inputs=case.inputs,
        params=case.params,
        quants=case.quants,
        dtypes=case.dtypes,
        shapes=case.output_shapes,
        loops=times,
    )
    call = make_call(op, built, case.op, wishes)
    dtype = " ".join(dict.fromkeys(tensor.dtype for tensor in call.outputs))
    result = session.run(call)
    outcome = replace(outcome, dtype=dtype, runtime=result.runtime, cost=costs.of(case, call, result, place))
    if case.refusal:
        return replace(outcome, status="failed", findings=(_NOT_REFUSED,))
    tensors = tuple(_hold(case, call, result, name) for name in case.expected)
    status = "failed" if any(not each.passed for each in tensors) else "passed" if tensors else "ran"
    outcome = replace(outcome, tensors=tensors, status=status)  # type: ignore[arg-type]
    return replace(outcome, cost=costs.measure(outcome, session, call, place)) if measure else outcome


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
