"""The placement of the layers of a model on sessions: sizes, the search, and the table that shows the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

from udogen.errors import UsageError
from udogen.runtime import arguments
from udogen.runtime.sessions.connections import Connection, find_connections, links_of

if TYPE_CHECKING:
    from udogen.qnn.system import BinaryInfo, GraphInfo, TensorInfo

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>B|[KMG]i?B)?", re.IGNORECASE)
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
MIB = 1 << 20
# "Limited to a memory mapping of around 3.5GB" (ggml-hexagon's developer page): read as 10**9, because
# a model that maps too much fails on the device, and one session too many costs little.
DEFAULT_LIMIT = 3_500_000_000


class Activation(NamedTuple):
    """A tensor that one layer passes to the next in shared memory; each session maps it once.

    `Activation("hidden", 8192)`
    """

    name: str
    size: int


@dataclass(frozen=True)
class Layer:
    """The unit of placement, a context or a layer of one; sizes in bytes.

    `Layer("forward_0", weights=1 << 30)`
    """

    name: str
    weights: int
    cache: int = 0
    compute: int = 0  # inputs, outputs and its own memory
    spill_fill: int = 0
    activations: tuple[Activation, ...] = ()


@dataclass(frozen=True)
class SessionSpec:
    """A session that can be opened: name, device, limit of mapped memory.

    `SessionSpec("HTP0", 0, 3_500_000_000)`
    """

    name: str
    device: int
    limit: int = DEFAULT_LIMIT


class Sizes(NamedTuple):
    """The memory that layers map together, in bytes."""

    weights: int = 0
    cache: int = 0
    compute: int = 0  # including spill-fill and activations

    @property
    def total(self) -> int:
        """The sum of all kinds."""
        return self.weights + self.cache + self.compute


@dataclass(frozen=True)
class SessionShare:
    """The layers of one session."""

    session: SessionSpec
    layers: tuple[str, ...]
    sizes: Sizes

    @property
    def free(self) -> int:
        """The bytes that it may still map; negative if it exceeds the limit."""
        return self.session.limit - self.sizes.total


@dataclass(frozen=True)
class Handover:
    """An activation that passes from one session to another."""

    activation: str
    size: int
    source: str
    target: str


@dataclass(frozen=True)
class SessionPlan:
    """The layers of each session; sessions without layers are omitted.

    `print(plan.session_of("forward_0"))`
    """

    layers: tuple[Layer, ...]
    shares: tuple[SessionShare, ...]
    handovers: tuple[Handover, ...]
    shared_spill_fill: bool = False

    def session_of(self, layer: str) -> SessionSpec:
        """The session that a layer is placed in."""
        return next(share.session for share in self.shares if layer in share.layers)

    @property
    def sizes(self) -> Sizes:
        """The memory that all sessions map together."""
        return Sizes(*(sum(share.sizes[each] for share in self.shares) for each in range(3)))

    def as_json(self) -> dict[str, object]:
        """The plan as `--json` prints it; sizes in bytes."""
        return {
            "sessions": [
                {
                    "name": share.session.name,
                    "device": share.session.device,
                    "layers": list(share.layers),
                    **share.sizes._asdict(),
                    "total": share.sizes.total,
                    "limit": share.session.limit,
                    "free": share.free,
                }
                for share in self.shares
            ],
            "handovers": [asdict(each) for each in self.handovers],
            "shared_spill_fill": self.shared_spill_fill,
            "total": self.sizes.total,
        }


def sizes_of(layers: Sequence[Layer], *, shared_spill_fill: bool = False) -> Sizes:
    """The memory that these layers map in one session: each activation once, spill-fill buffers summed or shared."""
    spills = [layer.spill_fill for layer in layers]
    handed = {each.name: each.size for layer in layers for each in layer.activations}
    spill = max(spills, default=0) if shared_spill_fill else sum(spills)
    return Sizes(
        weights=sum(layer.weights for layer in layers),
        cache=sum(layer.cache for layer in layers),
        compute=sum(layer.compute for layer in layers) + spill + sum(handed.values()),
    )


def handovers_of(layers: Sequence[Layer], sessions: Mapping[str, SessionSpec]) -> tuple[Handover, ...]:
    """The activations that layers in different sessions share, in the order of the layers."""
    found: dict[tuple[str, str, str], Handover] = {}
    last: dict[str, SessionSpec] = {}
    for layer in layers:
        here = sessions[layer.name]
        for each in layer.activations:
            source = last.get(each.name, here)
            if source != here:
                made = Handover(each.name, each.size, source.name, here.name)
                found.setdefault((each.name, source.name, here.name), made)
            last[each.name] = here
    return tuple(found.values())


def size_text(size: int) -> str:
    """A size as text."""
    return f"{size / MIB:.2f} MiB" if abs(size) >= MIB / 10 else f"{size} bytes"


def parse_size(text: str) -> int | None:
    """The bytes of a size that a user wrote, such as 3.5GB or 2000MiB; None if it is not a size."""
    found = _SIZE.fullmatch(text)
    return int(float(found["number"]) * _UNITS[(found["unit"] or "B").lower()]) or None if found else None


# --- the table --------------------------------------------------------------------------------------------------

_HEAD = ("session [MiB]", "weights", "cache", "compute", "total", "limit", "free", "layers")


def table_lines(plan: SessionPlan) -> list[str]:
    """A session plan as a table, followed by the activations that pass between sessions.

    `for line in table_lines(plan): print(line)`
    """
    rows = [_row(share) for share in plan.shares]
    count = f"{len(plan.layers)} layer{'s' * (len(plan.layers) != 1)}"
    rows.append(("all", *(_mib(each) for each in (*plan.sizes, plan.sizes.total)), "", "", count))
    table = columns([_HEAD, *rows])
    for source, target in dict.fromkeys((each.source, each.target) for each in plan.handovers):
        handed = [each for each in plan.handovers if (each.source, each.target) == (source, target)]
        names = ", ".join(f"`{each.activation}`" for each in handed)
        table.append(f"{source} -> {target}: {names}: {size_text(sum(each.size for each in handed))} mapped by both")
    return table


def _row(share: SessionShare) -> tuple[str, ...]:
    sizes = share.sizes
    numbers = (*sizes, sizes.total, share.session.limit, share.free)
    return (share.session.name, *(_mib(each) for each in numbers), _listed(share.layers, 1))


def _mib(size: int) -> str:
    return f"{size / MIB:.2f}"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines: the first and the last cell are left-aligned, the numbers between them right-aligned."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    made = []
    for row in rows:
        numbers = "  ".join(text.rjust(width) for text, width in zip(row[1:-1], widths[1:-1], strict=True))
        made.append(f"{row[0].ljust(widths[0])}  {numbers}  {row[-1]}".rstrip())
    return made


def session_specs(
    count: int, *, limit: int = DEFAULT_LIMIT, limits: Mapping[str, int] | None = None, devices: Sequence[int] = ()
) -> tuple[SessionSpec, ...]:
    """Sessions HTP0, HTP1, ..., one on each device or on those in `devices`; `limits` overrides `limit`.

    `specs = session_specs(4, limit=2_000_000_000)`
    """
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


def place_layers(
    layers: Sequence[Layer],
    sessions: Sequence[SessionSpec],
    *,
    exactly: int = 0,
    pins: Mapping[str, str] | None = None,
    shared_spill_fill: bool = False,
) -> SessionPlan:
    """Place layers on sessions: `plan = place_layers(layers_of(shards), sessions_of(runtime, 3), exactly=3)`.

    Layers are placed in order, within limits, on as few sessions as possible, or on `exactly` of them.

    `pins` (layer -> session) fixes layers; the others are placed between them.  If all are fixed, any order is
    possible.  Among the placements with the same number of sessions, the one with the least load on the fullest session
    is chosen, then the most even one.
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
            hint="place layers on another session, or leave some unpinned",
            details=table_lines(plan),
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
            SessionShare(
                session, tuple(layer.name for layer in run), sizes_of(run, shared_spill_fill=shared_spill_fill)
            )
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
    """The sizes of all runs of layers, and the best cuts by dynamic programming over the start of the last run."""

    def __init__(
        self, layers: Sequence[Layer], sessions: Sequence[SessionSpec], pins: Mapping[str, str], shared_spill_fill: bool
    ) -> None:
        self.layers, self.sessions, self.shared_spill_fill = layers, sessions, shared_spill_fill
        self.pins = [_index(sessions, pins[layer.name]) if layer.name in pins else None for layer in layers]
        self.totals = [_growing(layers[first:], shared_spill_fill) for first in range(len(layers))]
        # Loads are fractions of a limit, as integers: bytes * scale.
        self.scales = [lcm(*(session.limit for session in sessions)) // session.limit for session in sessions]

    def total(self, first: int, last: int) -> int:
        """The bytes that the layers first … last - 1 map in one session."""
        return self.totals[first][last - first - 1]

    def cut(self, count: int, *, within_limits: bool) -> list[int]:
        """The starts of `count` runs, and the end; empty if there is no solution."""
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
        """The least cost of `count` runs, and their cuts; `cap` excludes runs with a greater load."""
        size = len(self.layers)
        best: list[dict[int, tuple[int, int]]] = [{0: (0, 0)}]  # by number of runs: end -> cost, start of the last run
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
                    if last not in found or cost <= found[last][0]:  # at equal costs, the later cut
                        found[last] = (cost, first)
            best.append(found)
        if size not in best[count]:
            return None, []
        cuts = [size]
        for run in range(count, 0, -1):
            cuts.append(best[run][cuts[-1]][1])
        return best[count][size][0], cuts[::-1]


def _growing(layers: Sequence[Layer], shared_spill_fill: bool) -> list[int]:
    """The bytes that the first, the first two, the first three … of these layers map."""
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


# --- errors --------------------------------------------------------------------------------------------


def _layer_faults(layers: Sequence[Layer]) -> list[str]:
    """Faults of layers: names that are given twice, and impossible sizes."""
    names = [layer.name for layer in layers]
    faults = [f"layer `{name}` is given twice" for name in sorted({name for name in names if names.count(name) > 1})]
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
    return faults


def _check(layers: Sequence[Layer], sessions: Sequence[SessionSpec], pins: Mapping[str, str], exactly: int) -> None:
    names = [layer.name for layer in layers]
    faults = _layer_faults(layers)
    faults += [f"session {session.name} may map {session.limit} bytes" for session in sessions if session.limit < 1]
    known = {session.name for session in sessions}
    faults += [f"`{name}` is pinned but is not a layer" for name in sorted(set(pins) - set(names))]
    faults += [
        f"layer `{name}` is pinned to `{session}`, which is not a session"
        for name, session in sorted(pins.items())
        if session not in known
    ]
    faults += _shortages(layers, sessions, exactly)
    disorder = [] if faults or all(name in pins for name in names) else _disorder(names, sessions, pins)
    faults += disorder
    if faults:
        out_of_order = "pin layers in the order of the sessions, or pin all layers: then any order is possible"
        raise arguments.faulty(
            faults,
            "problems with the placement",
            hint=out_of_order
            if disorder
            else f"sessions: {', '.join(session.name for session in sessions) or 'none'}; layers: {_listed(names)}",
        )


def _listed(names: Sequence[str], first: int = 3) -> str:
    """All names, or the first ones and the last if there are many."""
    shown = ", ".join(names[:first])
    return ", ".join(names) if len(names) < 2 * first + 1 else f"{shown} … {names[-1]} ({len(names)})"


def _shortages(layers: Sequence[Layer], sessions: Sequence[SessionSpec], exactly: int) -> list[str]:
    faults = [] if layers else ["no layers to place"]
    faults += [] if sessions else ["no sessions to place layers on"]
    if exactly < 0 or exactly > len(sessions):
        faults.append(f"{exactly} sessions are requested, {len(sessions)} can be opened")
    elif layers and exactly > len(layers):
        faults.append(f"{exactly} sessions are requested for {len(layers)} layers: some would be empty")
    return faults


def _disorder(names: Sequence[str], sessions: Sequence[SessionSpec], pins: Mapping[str, str]) -> list[str]:
    fixed = [(name, _index(sessions, pins[name])) for name in names if name in pins]
    return [
        f"layer `{after}` is pinned to {sessions[later].name}, `{before}` before it to {sessions[earlier].name}: "
        "the layers between them cannot be placed in order"
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
                f"distributed evenly, {session.name} would map {size_text(more)} more than it may"
                for session, more in over
            ),
            *table_lines(_plan(layers, sessions, runs, table.shared_spill_fill)),
        ]
    return UsageError(
        f"{len(layers)} layers that map {size_text(everything)} do not fit into {_sessions(sessions)}",
        hint=_remedy(table, count),
        details=details,
    )


def _remedy(table: _Table, count: int) -> str:
    """A hint on how many sessions are enough, each with the smallest limit of the given ones."""
    pinned = [layer.name for layer, pin in zip(table.layers, table.pins, strict=True) if pin is not None]
    if pinned:
        free = _Table(table.layers, table.sessions, {}, table.shared_spill_fill)
        if any(free.cut(each, within_limits=True) for each in range(1, min(count, len(table.layers)) + 1)):
            return f"they fit if {_listed([f'`{name}`' for name in pinned])} are not pinned"
    limit, needed, first = min(session.limit for session in table.sessions), 1, 0
    for last in range(1, len(table.layers) + 1):
        if table.total(first, last) > limit:
            needed, first = needed + 1, last - 1
            if table.total(first, last) > limit:
                return "split the model into smaller shards"
    if needed > count:
        return f"{needed} sessions are enough; or split the model into smaller shards"
    return "split the model into smaller shards, or pin fewer layers"


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


STATES = ("past_*", "*_cache", "*_cache_in", "*_cache_out", "kv_*")


@dataclass(frozen=True)
class SizedShard:
    """A context binary with the sizes that placement needs: `SizedShard("forward_0", info, size=1 << 20)`."""

    name: str
    info: BinaryInfo
    size: int  # of the file
    weights: int | None = None  # if the runtime reports them
    spill_fill: int | None = None


def glob_free(names: Sequence[str]) -> tuple[str, ...]:
    """Names as patterns for `layers_of` that match nothing else."""
    return tuple(re.sub(r"([*?[])", r"[\1]", name) for name in names)


def layers_of(
    shards: Sequence[SizedShard], *, links: Mapping[str, str] | None = None, states: Sequence[str] = STATES
) -> tuple[Layer, ...]:
    """The layers of a model, in order, with the sizes that their binaries and the runtime report.

    weights: reported by the runtime, else the size of the file, which is somewhat more.  cache: inputs and outputs
    whose names match `states`.  activations: tensors between graphs of the same name in different shards.  compute: all
    other tensors of the largest graph, as graphs of a context run one after another.  spill-fill: reported by the
    runtime or the binary.

    `layers = layers_of(shards, states=["past_*"])`
    """
    connections = _connections(shards, links or {})
    return tuple(_layer(number, shard, connections, states) for number, shard in enumerate(shards))


def _connections(
    shards: Sequence[SizedShard], links: Mapping[str, str]
) -> dict[str, tuple[list[int], tuple[Connection, ...]]]:
    """Graph name -> the shards that have it, and the connections between them."""
    names = dict.fromkeys(graph.name for shard in shards for graph in shard.info.graphs)
    found = {}
    for name in names:
        having = [i for i, shard in enumerate(shards) if any(graph.name == name for graph in shard.info.graphs)]
        stages = [shards[i].info.graph(name) for i in having]
        found[name] = (having, find_connections(stages, links=links_of(stages, links)))
    return found


def _layer(
    number: int,
    shard: SizedShard,
    connections: Mapping[str, tuple[list[int], tuple[Connection, ...]]],
    states: Sequence[str],
) -> Layer:
    cache: dict[str, int] = {}
    activations: dict[str, int] = {}
    rest = []
    for graph in shard.info.graphs:
        handed, others = _handed(number, graph.name, connections), 0
        for key, tensor in _edges(graph):
            if key in handed:
                activations[f"{graph.name}:{handed[key]}"] = tensor.nbytes
            elif any(fnmatchcase(tensor.name, each) for each in states):
                cache[key] = max(cache.get(key, 0), tensor.nbytes)
            else:
                others += tensor.nbytes
        rest.append(others)
    reported = max((graph.htp.spill_fill for graph in shard.info.graphs if graph.htp), default=0)
    return Layer(
        shard.name,
        weights=shard.size if shard.weights is None else shard.weights,
        cache=sum(cache.values()),
        compute=max(rest, default=0),
        spill_fill=reported if shard.spill_fill is None else shard.spill_fill,
        activations=tuple(Activation(name, size) for name, size in sorted(activations.items())),
    )


def _handed(
    number: int, graph: str, connections: Mapping[str, tuple[list[int], tuple[Connection, ...]]]
) -> dict[str, str]:
    """Inputs and outputs of a shard's graph that are connected to another shard: edge -> connection."""
    having, found = connections[graph]
    here = having.index(number)
    handed = {f"out {connection.output.name}": connection.name for connection in found if connection.source == here}
    for connection in found:
        handed.update({f"in {tensor.name}": connection.name for target, tensor in connection.targets if target == here})
    return handed


def _edges(graph: GraphInfo) -> list[tuple[str, TensorInfo]]:
    return [
        *((f"in {each.name}", each) for each in graph.inputs),
        *((f"out {each.name}", each) for each in graph.outputs),
    ]
