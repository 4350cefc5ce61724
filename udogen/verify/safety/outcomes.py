"""The safety of a case: what the checks find joins what its numbers showed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from udogen.errors import BuildFailed, RunFailed, ToolMissing
from udogen.opdef.model import Op
from udogen.runtime.built import Built
from udogen.runtime.request import Wishes, make_call
from udogen.verify.places import Place
from udogen.verify.results import Outcome, Trouble
from udogen.verify.safety.checks import Safety, Wanted


def examined(outcome: Outcome, safety: Safety, built: Built, op: Op | None) -> Outcome:
    """The outcome of a case that was run, with the findings of its safety; each of them makes it fail."""
    case = outcome.case
    if case.refusal or outcome.status == "skipped" or case.trouble is not None:
        return outcome
    wishes = Wishes(
        inputs=case.inputs, params=case.params, quants=case.quants, dtypes=case.dtypes, shapes=case.output_shapes
    )
    try:
        found = safety.check(make_call(op, built, case.op, wishes))
    except (ToolMissing, BuildFailed):
        raise
    except RunFailed as fault:
        if outcome.status == "error":  # it did not run without the checks either, and that was told
            return outcome
        trouble = Trouble(fault.kind, fault.message, fault.hint, fault.details)
        return replace(outcome, status="error", trouble=trouble)
    if not found:
        return outcome
    status = "error" if outcome.status == "error" else "failed"
    return replace(outcome, status=status, findings=(*outcome.findings, *found))  # type: ignore[arg-type]


def unchecked(wanted: Wanted, places: Iterable[Place]) -> tuple[str, ...]:
    """What no check looks at, in words: nothing may seem to be safe that was not looked at."""
    if not wanted.anything:
        return ()
    instructions = [place.id for place in places if place.instructions]
    options = [f"--{name}" for name in ("heap", "guard", "leaks", "sanitize") if getattr(wanted, name)]
    if not instructions:
        return ()
    return (
        f"{', '.join(options)}: not looked at on {', '.join(dict.fromkeys(instructions))}, "
        "where code for another processor runs",
    )
