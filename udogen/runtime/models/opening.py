"""What a model needs before it is opened: the wiring of its contexts, their sessions, and a runtime."""

from __future__ import annotations

import os
from collections.abc import Sequence

from udogen.backends import htp
from udogen.errors import UsageError
from udogen.qnn import socs
from udogen.runtime.contexts.binaries import StoredContext
from udogen.runtime.contexts.runtime import Runtime
from udogen.runtime.models.description import ModelDescription, resolved
from udogen.runtime.models.wiring import Wiring, wire
from udogen.runtime.sessions import SessionPlan, SessionSpec, layer_of, place_layers, sessions_of


def wire_contexts(description: ModelDescription, stored: Sequence[StoredContext]) -> Wiring:
    """The wiring of the contexts of a model, up to the last one that runs."""
    names = [each.name for each in stored]
    unique = [name if names.count(name) == 1 else f"{number}_{name}" for number, name in enumerate(names)]
    return wire(
        [(name, each.info) for name, each in zip(unique, stored, strict=True)],
        graphs=description.graphs,
        links=description.links,
        state=description.state,
        until=description.until,
        place=description.place,
    )


def plan_sessions(
    description: ModelDescription, wiring: Wiring, stored: Sequence[StoredContext], runtime: Runtime
) -> SessionPlan:
    """The session of each context of a model; raises if the sessions cannot map them."""
    pairs = zip(wiring.contexts, stored, strict=False)  # `until` omits the last ones
    states = {*wiring.state, *wiring.state.values()}
    layers = [layer_of(name, each.info, len(each.data), is_state=states.__contains__) for name, each in pairs]
    count = min(description.sessions, len(layers)) if description.until else description.sessions
    if runtime.backend == htp.BACKEND.id:
        specs = sessions_of(runtime, count, limit=description.session_limit)
    elif description.sessions > 1:
        raise UsageError(
            f"{description.place('sessions')}a model on {runtime.backend} has one session, not {description.sessions}",
            hint="choose the backend htp, or leave sessions out",
        )
    else:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        specs = (SessionSpec(runtime.backend.upper(), 0, memory),)
    try:
        return place_layers(layers, specs, exactly=count)
    except UsageError as fault:
        where = description.place("sessions" if count > min(len(layers), len(specs)) else "session_limit")
        raise UsageError(where + fault.message, hint=fault.hint, details=fault.details) from fault


def open_runtime(description: ModelDescription) -> Runtime:
    """The runtime of a model, with its op packages."""
    description = resolved(description)
    soc = socs.model_of(description.soc) if description.soc else 0
    if soc is None:
        raise UsageError(
            f"{description.place('soc')}the soc of the model, {description.soc!r}, is unknown",
            hint=f"one of {', '.join(socs.ALL)}",
        )
    made = Runtime(description.backend, kind=description.runtime, soc=soc)
    try:
        for each in description.packages:
            made.register(each.path, each.provider, each.target or None)
    except BaseException:
        made.close()
        raise
    return made
