"""The safety of a case: what the checks find joins what its numbers showed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from udogen.errors import BuildFailed, RunFailed, ToolMissing
from udogen.opdef.model import Op
from udogen.runtime.built import Built
from udogen.runtime.op.request import CallOptions, make_call
from udogen.verify.places import Place
from udogen.verify.results import Outcome, Trouble
from udogen.verify.safety.checks import PageGuards, Safety, Wanted


def examined(outcome: Outcome, safety: Safety | PageGuards, built: Built, op: Op | None) -> Outcome:
    """The outcome of a case that was run, with the findings of its safety; each of them makes it fail."""
    case = outcome.case
    if case.refusal or outcome.status == "skipped" or case.trouble is not None:
        return outcome
    options = CallOptions(
        inputs=case.inputs, params=case.params, quants=case.quants, dtypes=case.dtypes, shapes=case.output_shapes
    )
    try:
        found = safety.check(make_call(op, built, case.op, options))
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


# What a check cannot see in a place, and what can; of HTP measured with kernels that have exactly these faults.
_SIDE_BY_SIDE = (
    "on htp tensors lie side by side in memory of the runtime, and steps beside them are not seen "
    "(--backend hexagon sees them, and --backend htp-emulator what is written)"
)
_HANGS = (
    "not looked at on htp, whose runtime often does not come back where two graphs are executed at the same time, "
    "whatever the op (--backend htp-emulator runs them)"
)
_OPENCL = "on gpu this looks at the package's C++, not at its OpenCL kernels"
_BLIND = (
    ("htp", "guard", _SIDE_BY_SIDE),
    ("htp", "sanitize address", _SIDE_BY_SIDE),
    ("htp", "sanitize thread", _HANGS),
    ("gpu", "guard", _OPENCL),
    ("gpu", "sanitize address", _OPENCL),
)


def unchecked(wanted: Wanted, places: Iterable[Place]) -> tuple[str, ...]:
    """What no check looks at, in words: nothing may seem to be safe that was not looked at."""
    asked = [name for name in ("heap", "guard", "leaks", "sanitize") if getattr(wanted, name)]
    names = [*asked, *(f"sanitize {name}" for variant in wanted.sanitize for name in variant.sanitizers)]
    there = list(dict.fromkeys(places))
    blind = [f"--{name}: {said}" for place, name, said in _BLIND if name in names and place in _ids(there)]
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
