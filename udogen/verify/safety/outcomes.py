"""The safety of a case: what the checks find joins what its numbers showed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from udogen.backends.backend import Place
from udogen.errors import BuildFailed, RunFailed, ToolMissing
from udogen.opdef.model import Op
from udogen.runtime.built import Built
from udogen.runtime.op.request import Wishes, make_call
from udogen.verify.results import Outcome, Trouble
from udogen.verify.safety.checks import PageGuards, Safety, Wanted


def examined(outcome: Outcome, safety: Safety | PageGuards, built: Built, op: Op | None) -> Outcome:
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
    asked = [name for name in ("heap", "guard", "leaks", "sanitize") if getattr(wanted, name)]
    names = [*asked, *(f"sanitize {name}" for variant in wanted.sanitize for name in variant.sanitizers)]
    there = list(dict.fromkeys(places))
    blind = [f"--{name}: {why}" for place in there for name, why in place.blind.items() if name in names]
    instructions = _ids(place for place in there if place.instructions)
    if (others := [name for name in asked if name != "guard"]) and instructions:
        options = ", ".join(f"--{name}" for name in others)
        blind.append(f"{options}: not looked at on {', '.join(instructions)}, where code for another processor runs")
    clients = _ids(place for place in there if place.client)
    if names and clients:
        options = ", ".join(f"--{name}" for name in names)
        blind.append(f"{options}: not looked at on {', '.join(clients)}, where another program runs the op")
    return tuple(blind)


def _ids(places: Iterable[Place]) -> list[str]:
    return [place.id for place in places]
