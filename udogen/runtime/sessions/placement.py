"""Places layers on sessions: in order, within what each may map, the fullest one as empty as can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import lcm

from udogen.errors import UsageError
from udogen.runtime.sessions.plan import (
    DEFAULT_LIMIT,
    MIB,
    Layer,
    SessionPlan,
    Share,
    Slot,
    handovers_of,
    lines,
    sizes_of,
)


def make_slots(
    count: int, *, limit: int = DEFAULT_LIMIT, limits: Mapping[str, int] | None = None, devices: Sequence[int] = ()
) -> tuple[Slot, ...]:
    """Sessions HTP0, HTP1 …, one on each device unless `devices` says otherwise; `limits` overrides `limit` by name."""
    given = dict(limits or {})
    made = tuple(
        Slot(f"HTP{index}", devices[index] if index < len(devices) else index, given.pop(f"HTP{index}", limit))
        for index in range(count)
    )
    if given:
        raise UsageError(
            f"there is a limit for {', '.join(sorted(given))}, and no such session",
            hint="sessions are called " + (", ".join(slot.name for slot in made) or "HTP0, HTP1 …"),
        )
    return made


def place(
    layers: Sequence[Layer],
    slots: Sequence[Slot],
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
    _check(layers, slots, fixed, exactly)
    if layers and all(layer.name in fixed for layer in layers):
        return _placed(layers, slots, fixed, shared_spill_fill)
    table = _Table(layers, slots, fixed, shared_spill_fill)
    least = max((_index(slots, name) + 1 for name in fixed.values()), default=1)
    counts = [exactly] if exactly else range(least, min(len(slots), len(layers)) + 1)
    for count in counts:
        cuts = table.cut(count, within_limits=True)
        if cuts:
            return _plan(layers, slots, _runs(layers, slots, cuts), shared_spill_fill)
    raise _too_much(table, exactly or len(slots))


def _placed(
    layers: Sequence[Layer], slots: Sequence[Slot], pins: Mapping[str, str], shared_spill_fill: bool
) -> SessionPlan:
    runs = [(slot, tuple(layer for layer in layers if pins[layer.name] == slot.name)) for slot in slots]
    plan = _plan(layers, slots, [run for run in runs if run[1]], shared_spill_fill)
    over = [share for share in plan.shares if share.free < 0]
    if over:
        raise UsageError(
            "; ".join(
                f"{share.slot.name} would map {_mib(share.sizes.total)}, {_mib(-share.free)} more than it may"
                for share in over
            ),
            hint="place layers on another session, or leave some to be placed",
            details=lines(plan),
        )
    return plan


def _plan(
    layers: Sequence[Layer],
    slots: Sequence[Slot],
    runs: Sequence[tuple[Slot, tuple[Layer, ...]]],
    shared_spill_fill: bool,
) -> SessionPlan:
    where = {layer.name: slot for slot, run in runs for layer in run}
    return SessionPlan(
        layers=tuple(layers),
        shares=tuple(
            Share(slot, tuple(layer.name for layer in run), sizes_of(run, shared_spill_fill=shared_spill_fill))
            for slot, run in runs
        ),
        handovers=handovers_of(layers, where),
        shared_spill_fill=shared_spill_fill,
    )


def _runs(layers: Sequence[Layer], slots: Sequence[Slot], cuts: Sequence[int]) -> list[tuple[Slot, tuple[Layer, ...]]]:
    return [(slot, tuple(layers[first:last])) for slot, (first, last) in zip(slots, pairwise(cuts), strict=False)]


# --- the search -------------------------------------------------------------------------------------------------


class _Table:
    """What every run of layers maps, and the best cuts: dynamic programming over where the last run begins."""

    def __init__(
        self, layers: Sequence[Layer], slots: Sequence[Slot], pins: Mapping[str, str], shared_spill_fill: bool
    ) -> None:
        self.layers, self.slots, self.shared_spill_fill = layers, slots, shared_spill_fill
        self.pins = [_index(slots, pins[layer.name]) if layer.name in pins else None for layer in layers]
        self.totals = [_growing(layers[first:], shared_spill_fill) for first in range(len(layers))]
        # Loads are parts of a limit, as whole numbers: bytes * scale.
        self.scales = [lcm(*(slot.limit for slot in slots)) // slot.limit for slot in slots]

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
                    if (within_limits and total > self.slots[run].limit) or (cap is not None and load > cap):
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


def _check(layers: Sequence[Layer], slots: Sequence[Slot], pins: Mapping[str, str], exactly: int) -> None:
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
    faults += [f"session {slot.name} may map {slot.limit} bytes" for slot in slots if slot.limit < 1]
    known = {slot.name for slot in slots}
    faults += [f"`{name}` is placed, and is no layer" for name in sorted(set(pins) - set(names))]
    faults += [
        f"layer `{name}` is placed on `{slot}`, which is no session"
        for name, slot in sorted(pins.items())
        if slot not in known
    ]
    faults += _shortages(layers, slots, exactly)
    if not faults and not all(name in pins for name in names):
        faults += _disorder(names, slots, pins)
    if faults:
        raise UsageError(
            faults[0] if len(faults) == 1 else f"{len(faults)} things are wrong with what is to be placed",
            details=faults if len(faults) > 1 else (),
            hint="sessions: " + (", ".join(slot.name for slot in slots) or "none"),
        )


def _shortages(layers: Sequence[Layer], slots: Sequence[Slot], exactly: int) -> list[str]:
    faults = [] if layers else ["there is no layer to place"]
    faults += [] if slots else ["there is no session to place layers on"]
    if exactly < 0 or exactly > len(slots):
        faults.append(f"{exactly} sessions are asked for, {len(slots)} may be opened")
    elif layers and exactly > len(layers):
        faults.append(f"{exactly} sessions are asked for, and {len(layers)} layers: some would be empty")
    return faults


def _disorder(names: Sequence[str], slots: Sequence[Slot], pins: Mapping[str, str]) -> list[str]:
    fixed = [(name, _index(slots, pins[name])) for name in names if name in pins]
    return [
        f"layer `{after}` is placed on {slots[later].name}, `{before}` before it on {slots[earlier].name}: "
        "what lies between them cannot be placed in order"
        for (before, earlier), (after, later) in pairwise(fixed)
        if later < earlier
    ]


def _too_much(table: _Table, count: int) -> UsageError:
    layers, slots = table.layers, table.slots[:count]
    widest = max(slot.limit for slot in slots)
    alone = [(layer, table.total(index, index + 1)) for index, layer in enumerate(layers)]
    large = [(layer, total) for layer, total in alone if total > widest]
    if large:
        parts = max(-(-total // widest) for _, total in large)
        return UsageError(
            "; ".join(f"layer `{layer.name}` maps {_mib(total)}" for layer, total in large)
            + f": a session may map {_mib(widest)}",
            hint=f"split the model into smaller shards: this one into {parts} or more",
        )
    everything = table.total(0, len(layers))
    cuts = table.cut(min(count, len(layers)), within_limits=False)
    details = []
    if cuts:
        runs = _runs(layers, slots, cuts)
        loads = [(slot, table.total(first, last)) for slot, (first, last) in zip(slots, pairwise(cuts), strict=False)]
        over = [(slot, total - slot.limit) for slot, total in loads if total > slot.limit]
        details = [
            *(f"in the most even way {slot.name} would map {_mib(more)} more than it may" for slot, more in over),
            *lines(_plan(layers, slots, runs, table.shared_spill_fill)),
        ]
    return UsageError(
        f"{len(layers)} layers that map {_mib(everything)} do not fit into {_sessions(slots)}",
        hint=_remedy(table, count),
        details=details,
    )


def _remedy(table: _Table, count: int) -> str:
    """How many sessions would do, each with the smallest limit of those that there are."""
    limit, needed, first = min(slot.limit for slot in table.slots), 1, 0
    for last in range(1, len(table.layers) + 1):
        if table.total(first, last) > limit:
            needed, first = needed + 1, last - 1
            if table.total(first, last) > limit:
                return "split the model into smaller shards"
    if needed > count:
        return f"{needed} sessions are enough; or split the model into smaller shards"
    return "split the model into smaller shards, or place fewer layers by hand"


def _sessions(slots: Sequence[Slot]) -> str:
    limits = {slot.limit for slot in slots}
    if len(slots) == 1:
        return f"one session that may map {_mib(slots[0].limit)}"
    each = _mib(limits.pop()) + " each" if len(limits) == 1 else " + ".join(_mib(slot.limit) for slot in slots)
    return f"{len(slots)} sessions that may map {each}"


def _index(slots: Sequence[Slot], name: str) -> int:
    return next(index for index, slot in enumerate(slots) if slot.name == name)


def _mib(size: int) -> str:
    return f"{size / MIB:.2f} MiB"
