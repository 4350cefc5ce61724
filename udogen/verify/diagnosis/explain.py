"""A case that failed, explained: its causes by name, and the smallest case that still fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from udogen.errors import UdogenError
from udogen.opdef.model import Op
from udogen.runtime.built import Built
from udogen.runtime.calls import OpCall, OpResult
from udogen.verify import tolerances
from udogen.verify.cases import Case
from udogen.verify.diagnosis.again import Again
from udogen.verify.diagnosis.causes import diagnose
from udogen.verify.diagnosis.evidence import POISON, Arrays, Evidence
from udogen.verify.diagnosis.shrinking import Shapes, shrink
from udogen.verify.results import Finding

if TYPE_CHECKING:
    from udogen.verify.diagnosis.evidence import Reference

Run = Callable[[OpCall], OpResult]  # the `run` of a session


def causes_of(
    case: Case, found: Arrays, *, run: Run, built: Built, op: Op | None, loops: int = 1
) -> tuple[Finding, ...]:
    """The causes that explain what was found after so many executions; the op is run again, some twenty times."""
    params = op.params if op is not None else ()
    return diagnose(
        Evidence(
            inputs=case.inputs,
            expected=case.expected,
            found=found,
            params=case.params,
            quants=case.quants,
            defaults={param.name: param.default for param in params if param.default is not None},
            tolerances={name: case.tolerance_of(name) for name in case.expected},
            loops=loops,
            reference=_reference(case),
            rerun=_again(case, run, built, op),
        )
    )


def smallest_of(case: Case, *, run: Run, built: Built, op: Op | None, runs: int = 60) -> Case | None:
    """The case with the smallest shapes that still fails; None where that is not known to be smaller."""
    origin = case.origin
    if origin is None:
        return None
    made: dict[tuple[tuple[str, tuple[int, ...]], ...], Case] = {}

    def fails(shapes: Shapes) -> bool:
        smaller = origin.reshaped(shapes)
        if smaller is None:
            return False
        made[tuple(shapes.items())] = smaller
        return _fails(smaller, run, built, op)

    shapes = {name: tuple(array.shape) for name, array in case.inputs.items()}
    best = shrink(shapes, fails, runs=runs)
    return made.get(tuple(best.items())) if best != shapes else None


def _fails(case: Case, run: Run, built: Built, op: Op | None) -> bool:
    """Wrong numbers; what the op refuses, or does not come back from, is another fault."""
    try:
        found = _again(case, run, built, op)(poison=POISON)
    except UdogenError:
        return False
    judged = [tolerances.judge(found[name], array, case.tolerance_of(name)) for name, array in case.expected.items()]
    return any(each.wrong for each in judged)


def _again(case: Case, run: Run, built: Built, op: Op | None) -> Again:
    return Again(
        run, built, case.op, op, case.inputs, case.expected, case.params, case.quants, case.dtypes, _reference(case)
    )  # fmt: skip


def _reference(case: Case) -> Reference | None:
    """In real numbers where it can: then it also tells what another way of storing them would give."""
    return None if case.origin is None else case.origin.answer or case.origin.reference
