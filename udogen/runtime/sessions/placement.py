"""Places layers on sessions: in order, within what each may map, the fullest one as empty as can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import lcm

from udogen.errors import UsageError
from udogen.runtime.sessions.plan import (
    DEFAULT_LIMIT,
    Layer,
    SessionPlan,
    SessionSpec,
    Share,
    handovers_of,
    lines,
    size_text,
    sizes_of,
)


def session_specs(
    count: int, *, limit: int = DEFAULT_LIMIT, limits: Mapping[str, int] | None = None, devices: Sequence[int] = ()
) -> tuple[SessionSpec, ...]:
    """Sessions HTP0, HTP1 …, one on each device unless `devices` says otherwise; `limits` overrides `limit` by name."""
    given = dict(limits or {})
    made = tuple(
        SessionSpec(f"HTP{index}", devices[index] if index < len(devices) else index, given.pop(f"HTP{index}", limit))
        for index in range(count)
    )
    if given:
        raise UsageError(
            f"there is a limit for {', '.join(sorted(given))}, and no such session",
            hint="sessions are called " + (", ".join(session.name for session in made) or "HTP0, HTP1 …"),
        )
    return made


def place(
    layers: Sequence[Layer],
    sessions: Sequence[SessionSpec],
    *,
    exactly: int = 0,
    pins: Mapping[str, str] | None = None,
    shared_spill_fill: bool = False,
) -> SessionPlan:
    """Runs of layers on the first of these sessions: on as few as will do, or on `exactly` so many.

    `pins` (layer -> session) fixes some layers; the others go between them.  With all of them fixed any order will do.
    Of all ways with that many sessions the one is taken whose fullest session is least full, then the most even one.
    """
    fixed = dict(pins or {})
    _check(layers, sessions, fixed, exactly)
    if layers and all(layer.name in fixed for layer in layers):
        return _placed(layers, sessions, fixed, shared_spill_fill)
    table = _Table(layers, sessions, fixed, shared_spill_fill)
    least = max((_index(sessions, name) + 1 for name in fixed.values()), default=1)
    counts = [exactly] if exactly else range(least, min(len(sessions), len(layers)) + 1)
    for count in counts:
        cuts = table.cut(count, within_limits=True)
        if cuts:
            return _plan(layers, sessions, _runs(layers, sessions, cuts), shared_spill_fill)
    raise _too_much(table, exactly or len(sessions))


def _placed(
    layers: Sequence[Layer], sessions: Sequence[SessionSpec], pins: Mapping[str, str], shared_spill_fill: bool
) -> SessionPlan:
    runs = [(session, tuple(layer for layer in layers if pins[layer.name] == session.name)) for session in sessions]
    plan = _plan(layers, sessions, [run for run in runs if run[1]], shared_spill_fill)
    over = [(share.session.name, share.sizes.total, -share.free) for share in plan.shares if share.free < 0]
    if over:
        raise UsageError(
            "; ".join(
                f"{name} would map {size_text(total)}, {size_text(more)} more than it may" for name, total, more in over
            ),
            hint="place layers on another session, or leave some to be placed",
            details=lines(plan),
        )
    return plan


def _plan(
    layers: Sequence[Layer],
    sessions: Sequence[SessionSpec],
    runs: Sequence[tuple[SessionSpec, tuple[Layer, ...]]],
    shared_spill_fill: bool,
) -> SessionPlan:
    where = {layer.name: session for session, run in runs for layer in run}
    return SessionPlan(
        layers=tuple(layers),
        shares=tuple(
            Share(session, tuple(layer.name for layer in run), sizes_of(run, shared_spill_fill=shared_spill_fill))
            for session, run in runs
        ),
        handovers=handovers_of(layers, where),
        shared_spill_fill=shared_spill_fill,
    )


def _runs(
    layers: Sequence[Layer], sessions: Sequence[SessionSpec], cuts: Sequence[int]
) -> list[tuple[SessionSpec, tuple[Layer, ...]]]:
    return [
        (session, tuple(layers[first:last])) for session, (first, last) in zip(sessions, pairwise(cuts), strict=False)
    ]


# --- the search -------------------------------------------------------------------------------------------------


class _Table:
    """What every run of layers maps, and the best cuts: dynamic programming over where the last run begins."""

    def __init__(
        self, layers: Sequence[Layer], sessions: Sequence[SessionSpec], pins: Mapping[str, str], shared_spill_fill: bool
    ) -> None:
        self.layers, self.sessions, self.shared_spill_fill = layers, sessions, shared_spill_fill
        self.pins = [_index(sessions, pins[layer.name]) if layer.name in pins else None for layer in layers]
        self.totals = [_growing(layers[first:], shared_spill_fill) for first in range(len(layers))]
        # Loads are parts of a limit, as whole numbers: bytes * scale.
        self.scales = [lcm(*(session.limit for session in sessions)) // session.limit for session in sessions]

    def total(self, first: int, last: int) -> int:
        """What the layers first … last - 1 map in one session."""
        return self.totals[first][last - first - 1]

    def cut(self, count: int, *, within_limits: bool) -> list[int]:
        """Where `count` runs begin, and the end; empty where there is no way."""
        cap, _ = self._search(count, within_limits, cap=None, join=max, weigh=lambda load: load)
        if cap is None:
            return []
        _, cuts = self._search(
            count, within_limits, cap=cap, join=lambda one, other: one + other, weigh=lambda load: load * load
        )
        return cuts

    def _search(
        self,
        count: int,
        within_limits: bool,
        *,
        cap: int | None,
        join: Callable[[int, int], int],
        weigh: Callable[[int], int],
    ) -> tuple[int | None, list[int]]:
        """The least cost of `count` runs, and their cuts; `cap` leaves out runs with a greater load."""
        size = len(self.layers)
        best: list[dict[int, tuple[int, int]]] = [{0: (0, 0)}]  # by number of runs: end -> cost, where the last begins
        for run in range(count):
            found: dict[int, tuple[int, int]] = {}
            for first, (before, _) in best[run].items():
                for last in range(first + 1, size - (count - run - 1) + 1):
                    if self.pins[last - 1] not in (None, run):
                        break
                    total = self.total(first, last)
                    load = total * self.scales[run]
                    if (within_limits and total > self.sessions[run].limit) or (cap is not None and load > cap):
                        break  # longer runs map more
                    cost = join(before, weigh(load))
                    if last not in found or cost <= found[last][0]:  # of equal ways the one with the later cut
                        found[last] = (cost, first)
            best.append(found)
        if size not in best[count]:
            return None, []
        cuts = [size]
        for run in range(count, 0, -1):
            cuts.append(best[run][cuts[-1]][1])
        return best[count][size][0], cuts[::-1]


def _growing(layers: Sequence[Layer], shared_spill_fill: bool) -> list[int]:
    """What the first, the first two, the first three … of these layers map."""
    totals, plain, spill = [], 0, 0
    seen: set[str] = set()
    for layer in layers:
        plain += layer.weights + layer.cache + layer.compute
        spill = max(spill, layer.spill_fill) if shared_spill_fill else spill + layer.spill_fill
        for each in layer.activations:
            plain += each.size if each.name not in seen else 0
            seen.add(each.name)
        totals.append(plain + spill)
    return totals


# --- what is refused --------------------------------------------------------------------------------------------


def _check(layers: Sequence[Layer], sessions: Sequence[SessionSpec], pins: Mapping[str, str], exactly: int) -> None:
    names = [layer.name for layer in layers]
    faults = [f"layer `{name}` is there twice" for name in sorted({name for name in names if names.count(name) > 1})]
    sizes: dict[str, tuple[str, int]] = {}
    for layer in layers:
        for what in ("weights", "cache", "compute", "spill_fill"):
            if getattr(layer, what) < 0:
                faults.append(f"layer `{layer.name}` has {getattr(layer, what)} bytes of {what}")
        for each in layer.activations:
            first, size = sizes.setdefault(each.name, (layer.name, each.size))
            if size != each.size:
                faults.append(
                    f"activation `{each.name}` has {size} bytes in layer `{first}`, {each.size} in `{layer.name}`"
                )
    faults += [f"session {session.name} may map {session.limit} bytes" for session in sessions if session.limit < 1]
    known = {session.name for session in sessions}
    faults += [f"`{name}` is placed, and is no layer" for name in sorted(set(pins) - set(names))]
    faults += [
        f"layer `{name}` is placed on `{session}`, which is no session"
        for name, session in sorted(pins.items())
        if session not in known
    ]
    faults += _shortages(layers, sessions, exactly)
    disorder = [] if faults or all(name in pins for name in names) else _disorder(names, sessions, pins)
    faults += disorder
    if faults:
        out_of_order = "place layers in the order of the sessions, or every layer by hand: then any order will do"
        raise UsageError(
            faults[0] if len(faults) == 1 else f"{len(faults)} things are wrong with what is to be placed",
            details=faults if len(faults) > 1 else (),
            hint=out_of_order
            if disorder
            else f"sessions: {', '.join(session.name for session in sessions) or 'none'}; layers: {_listed(names)}",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 7 else f"{', '.join(names[:3])} … {names[-1]} ({len(names)})"


def _shortages(layers: Sequence[Layer], sessions: Sequence[SessionSpec], exactly: int) -> list[str]:
    faults = [] if layers else ["there is no layer to place"]
    faults += [] if sessions else ["there is no session to place layers on"]
    if exactly < 0 or exactly > len(sessions):
        faults.append(f"{exactly} sessions are asked for, {len(sessions)} may be opened")
    elif layers and exactly > len(layers):
        faults.append(f"{exactly} sessions are asked for, and {len(layers)} layers: some would be empty")
    return faults


def _disorder(names: Sequence[str], sessions: Sequence[SessionSpec], pins: Mapping[str, str]) -> list[str]:
    fixed = [(name, _index(sessions, pins[name])) for name in names if name in pins]
    return [
        f"layer `{after}` is placed on {sessions[later].name}, `{before}` before it on {sessions[earlier].name}: "
        "what lies between them cannot be placed in order"
        for (before, earlier), (after, later) in pairwise(fixed)
        if later < earlier
    ]


def _too_much(table: _Table, count: int) -> UsageError:
    layers, sessions = table.layers, table.sessions[:count]
    widest = max(session.limit for session in sessions)
    alone = [(layer, table.total(index, index + 1)) for index, layer in enumerate(layers)]
    large = [(layer, total) for layer, total in alone if total > widest]
    if large:
        parts = max(-(-total // widest) for _, total in large)
        return UsageError(
            "; ".join(f"layer `{layer.name}` maps {size_text(total)}" for layer, total in large)
            + f": a session may map {size_text(widest)}",
            hint=f"split the model into smaller shards: this one into {parts} or more",
        )
    everything = table.total(0, len(layers))
    cuts = table.cut(min(count, len(layers)), within_limits=False)
    details = []
    if cuts:
        runs = _runs(layers, sessions, cuts)
        loads = [
            (session, table.total(first, last))
            for session, (first, last) in zip(sessions, pairwise(cuts), strict=False)
        ]
        over = [(session, total - session.limit) for session, total in loads if total > session.limit]
        details = [
            *(
                f"in the most even way {session.name} would map {size_text(more)} more than it may"
                for session, more in over
            ),
            *lines(_plan(layers, sessions, runs, table.shared_spill_fill)),
        ]
    return UsageError(
        f"{len(layers)} layers that map {size_text(everything)} do not fit into {_sessions(sessions)}",
        hint=_remedy(table, count),
        details=details,
    )


def _remedy(table: _Table, count: int) -> str:
    """How many sessions would do, each with the smallest limit of those that there are."""
    pinned = [layer.name for layer, pin in zip(table.layers, table.pins, strict=True) if pin is not None]
    if pinned:
        free = _Table(table.layers, table.sessions, {}, table.shared_spill_fill)
        if any(free.cut(each, within_limits=True) for each in range(1, min(count, len(table.layers)) + 1)):
            return f"they fit if {_listed([f'`{name}`' for name in pinned])} need not be where it is placed by hand"
    limit, needed, first = min(session.limit for session in table.sessions), 1, 0
    for last in range(1, len(table.layers) + 1):
        if table.total(first, last) > limit:
            needed, first = needed + 1, last - 1
            if table.total(first, last) > limit:
                return "split the model into smaller shards"
    if needed > count:
        return f"{needed} sessions are enough; or split the model into smaller shards"
    return "split the model into smaller shards, or place fewer layers by hand"


def _sessions(sessions: Sequence[SessionSpec]) -> str:
    limits = {session.limit for session in sessions}
    if len(sessions) == 1:
        return f"one session that may map {size_text(sessions[0].limit)}"
    each = (
        size_text(limits.pop()) + " each"
        if len(limits) == 1
        else " + ".join(size_text(session.limit) for session in sessions)
    )
    return f"{len(sessions)} sessions that may map {each}"


def _index(sessions: Sequence[SessionSpec], name: str) -> int:
    return next(index for index, session in enumerate(sessions) if session.name == name)
