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


# What a check cannot see in a place, and what can; of HTP measured with kernels that have exactly these faults.
_BLIND = {
    (
        "htp",
        "guard",
    ): "on htp the runtime lays tensors side by side in memory of its own: steps beside them are not seen "
    "there (writes past an output are with --backend htp-emulator)",
    ("htp", "sanitize"): "on htp sanitizers do not see steps beside tensors, which lie side by side in memory of the "
    "runtime (writes past an output are seen with --backend htp-emulator)",
    ("gpu", "guard"): "on gpu this looks at the package's C++, not at its OpenCL kernels",
    ("gpu", "sanitize"): "on gpu this looks at the package's C++, not at its OpenCL kernels",
}


def unchecked(wanted: Wanted, places: Iterable[Place]) -> tuple[str, ...]:
    """What no check looks at, in words: nothing may seem to be safe that was not looked at."""
    asked = [name for name in ("heap", "guard", "leaks", "sanitize") if getattr(wanted, name)]
    there = list(dict.fromkeys(places))
    blind = [f"--{name}: {said}" for (place, name), said in _BLIND.items() if name in asked and place in _ids(there)]
    instructions = _ids(place for place in there if place.instructions)
    if asked and instructions:
        options = ", ".join(f"--{name}" for name in asked)
        blind.append(f"{options}: not looked at on {', '.join(instructions)}, where code for another processor runs")
    return tuple(blind)


def _ids(places: Iterable[Place]) -> list[str]:
    return [place.id for place in places]
