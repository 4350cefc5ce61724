"""Why a case is wrong: the diagnosis, with all that the session and the reference can tell, and the smallest shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from udogen.backends.backend import Place
from udogen.errors import UdogenError
from udogen.opdef.model import Op
from udogen.runtime.built import Built
from udogen.verify.cases import Case
from udogen.verify.diagnosis import Again, Evidence, diagnose, shrink
from udogen.verify.places import Session
from udogen.verify.results import Finding, Outcome

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_MOST_EXPLAINED = 3  # of one op and data type in one place: the others are wrong for the same reason
_MOST_SHRUNK = 1
_RUNS = 60
_RUNS_OF_PROGRAMS = 20  # where each run is a process under QEMU
_CRASHED = "op-crashed"


class Explainer:
    """Explains outcomes as they come; the first ones of each kind, for asking takes time."""

    def __init__(self, run: Callable[[Case], Outcome], session: Session, place: Place, built: Built) -> None:
        self._run, self._session, self._place, self._built = run, session, place, built
        self._explained: Counter[tuple[str, str, str]] = Counter()
        self._shrunk: Counter[tuple[str, str, str]] = Counter()

    def __call__(self, outcome: Outcome, op: Op | None, *, loops: int) -> Outcome:
        """The outcome with its findings, and the smallest case that fails like it; after `loops` executions."""
        key = (outcome.case.op, outcome.dtype, outcome.status)
        if outcome.status == "failed" and outcome.tensors and self._explained[key] < _MOST_EXPLAINED:
            self._explained[key] += 1
            outcome = replace(outcome, findings=(*outcome.findings, *self._findings(outcome, op, loops)))
        crashed = outcome.trouble is not None and outcome.trouble.kind == _CRASHED
        if (crashed or outcome.status == "failed") and self._shrunk[key] < _MOST_SHRUNK:
            self._shrunk[key] += 1
            outcome = replace(outcome, smallest=self._smallest(outcome))
        return outcome

    def _findings(self, outcome: Outcome, op: Op | None, loops: int) -> tuple[Finding, ...]:
        case = outcome.case
        found: Mapping[str, Array] = {each.name: each.found for each in outcome.tensors}
        # In real numbers where it can: then it also tells what another way of storing them would give.
        reference = case.origin.answer or case.origin.reference if case.origin else None
        again = Again(
            run=self._session.run,
            built=self._built,
            op_type=case.op,
            op=op,
            inputs=case.inputs,
            expected=case.expected,
            params=case.params,
            quants=case.quants,
            dtypes=case.dtypes,
            reference=reference,
        )
        evidence = Evidence(
            inputs=case.inputs,
            expected=case.expected,
            found=found,
            params=case.params,
            quants=case.quants,
            defaults={each.name: each.default for each in op.params if each.default is not None} if op else {},
            tolerances={name: case.tolerance_of(name) for name in case.expected},
            loops=loops,
            reference=reference,
            rerun=again,
        )
        try:
            return diagnose(evidence)
        except UdogenError:  # asking may end the process, as the op itself may
            return ()

    def _smallest(self, outcome: Outcome) -> Case | None:
        origin = outcome.case.origin
        if origin is None:
            return None
        made: dict[tuple[tuple[str, tuple[int, ...]], ...], Case] = {}

        def fails(shapes: Mapping[str, tuple[int, ...]]) -> bool:
            case = origin.reshaped(shapes)
            if case is None:
                return False
            made[tuple(shapes.items())] = case
            now = self._run(case)
            if outcome.trouble is not None:
                return now.trouble is not None and now.trouble.kind == outcome.trouble.kind
            return now.status == "failed"

        given = {name: tuple(array.shape) for name, array in outcome.case.inputs.items()}
        best = shrink(given, fails, runs=_RUNS_OF_PROGRAMS if self._place.instructions else _RUNS)
        return None if best == given else made.get(tuple(best.items()))
