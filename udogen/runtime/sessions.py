"""Open sessions: the contexts restored on their devices, and the memory that each session maps, within its limit."""

from __future__ import annotations

import re
import threading
import weakref
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from udogen.backends import htp
from udogen.errors import RunFailed, UsageError
from udogen.qnn.handles import Closing
from udogen.runtime.buffers.buffer import SPILL_SIZE, TENSORS, WEIGHTS_SIZE, Buffer
from udogen.tables import columns

if TYPE_CHECKING:
    from udogen.qnn.handles import DeviceInfo
    from udogen.qnn.system import BinaryInfo
    from udogen.runtime.contexts.context import Context
    from udogen.runtime.contexts.runtime import Runtime


_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>B|[KMG]i?B)?", re.IGNORECASE)
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
MIB = 1 << 20
# "Limited to a memory mapping of around 3.5GB" (ggml-hexagon's developer page): read as 10**9, because
# a model that maps too much fails on the device, and one session too many costs little.
DEFAULT_LIMIT = 3_500_000_000


class Sizes(NamedTuple):
    """The memory that layers map together, in bytes."""

    weights: int = 0
    cache: int = 0
    compute: int = 0  # including spill-fill and the next values of states

    @property
    def total(self) -> int:
        """The sum of all kinds."""
        return sum(self)


@dataclass(frozen=True)
class Layer:
    """The unit of placement, a context; sizes in bytes."""

    name: str
    weights: int
    cache: int = 0
    compute: int = 0  # inputs and outputs, and the next values of states
    spill_fill: int = 0

    @property
    def total(self) -> int:
        """The memory that it maps."""
        return sizes_of([self]).total


@dataclass(frozen=True)
class SessionSpec:
    """A session that can be opened: name, device, limit of mapped memory."""

    name: str
    device: int
    limit: int = DEFAULT_LIMIT


@dataclass(frozen=True)
class SessionShare:
    """The layers of one session."""

    session: SessionSpec
    layers: tuple[str, ...]
    sizes: Sizes

    @property
    def free(self) -> int:
        """The bytes that it may still map."""
        return self.session.limit - self.sizes.total


_HEAD = ("session [MiB]", "weights", "cache", "compute", "total", "limit", "free", "layers")


@dataclass(frozen=True)
class SessionPlan:
    """The layers of each session; sessions without layers are omitted."""

    layers: tuple[Layer, ...]
    shares: tuple[SessionShare, ...]

    def session_of(self, layer: str) -> SessionSpec:
        """The session that a layer is placed in."""
        return next(share.session for share in self.shares if layer in share.layers)

    @property
    def sizes(self) -> Sizes:
        """The memory that all sessions map together."""
        return Sizes(*(sum(share.sizes[kind] for share in self.shares) for kind in range(3)))

    def __str__(self) -> str:
        count = f"{len(self.layers)} layer{'s' * (len(self.layers) != 1)}"
        rows = [_row(share) for share in self.shares]
        rows.append(("all", *(_mib(size) for size in (*self.sizes, self.sizes.total)), "", "", count))
        return "\n".join(columns([_HEAD, *rows], right=range(1, 7)))

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
            "total": self.sizes.total,
        }


def sizes_of(layers: Sequence[Layer]) -> Sizes:
    """The memory that these layers map in one session."""
    return Sizes(
        weights=sum(layer.weights for layer in layers),
        cache=sum(layer.cache for layer in layers),
        compute=sum(layer.compute + layer.spill_fill for layer in layers),
    )


def size_text(size: int) -> str:
    """A size as text."""
    return f"{size / MIB:.2f} MiB" if abs(size) >= MIB / 10 else f"{size} bytes"


def parse_size(text: str) -> int | None:
    """The bytes of a size that a user wrote, such as 3.5GB or 2000MiB; None if it is not a size."""
    match = _SIZE.fullmatch(text)
    return int(float(match["number"]) * _UNITS[(match["unit"] or "B").lower()]) or None if match else None


def _row(share: SessionShare) -> tuple[str, ...]:
    numbers = (*share.sizes, share.sizes.total, share.session.limit, share.free)
    names = share.layers
    listed = ", ".join(names) if len(names) < 3 else f"{names[0]} … {names[-1]} ({len(names)})"
    return (share.session.name, *(_mib(number) for number in numbers), listed)


def _mib(size: int) -> str:
    return f"{size / MIB:.2f}"


# --- placement ----------------------------------------------------------------------------------------------------


def place_layers(layers: Sequence[Layer], sessions: Sequence[SessionSpec], *, exactly: int = 0) -> SessionPlan:
    """Place layers in order, on one session after the other: the next one is used when a layer does not fit.

    With `exactly`, they are spread over that many sessions: the least memory is allowed for which they fit.
    """
    if exactly > len(layers):
        raise UsageError(
            f"{exactly} sessions are requested for {len(layers)} layers: some would be empty",
            hint="request fewer sessions",
        )
    sessions = sessions[: exactly or len(sessions)]
    largest = max(session.limit for session in sessions)
    runs = _first_fit(layers, sessions, largest, spread=bool(exactly))
    if sum(map(len, runs)) < len(layers):
        raise _too_much(layers, sessions, runs)
    if exactly:
        allowed = range(largest + 1)
        least = bisect_left(allowed, True, key=lambda most: _fits(layers, sessions, most))
        runs = _first_fit(layers, sessions, least, spread=True)
    return _plan(layers, sessions, runs)


def _first_fit(
    layers: Sequence[Layer], sessions: Sequence[SessionSpec], most: int, *, spread: bool
) -> list[list[Layer]]:
    """The layers of each session, until one does not fit the last; with `spread`, each later session keeps one."""
    rest, runs = list(layers), []
    for later, session in zip(range(len(sessions) - 1, -1, -1), sessions, strict=True):
        free, run = min(session.limit, most), list[Layer]()
        while rest and rest[0].total <= free and not (spread and len(rest) <= later):
            run.append(rest.pop(0))
            free -= run[-1].total
        runs.append(run)
    return runs


def _fits(layers: Sequence[Layer], sessions: Sequence[SessionSpec], most: int) -> bool:
    return sum(map(len, _first_fit(layers, sessions, most, spread=True))) == len(layers)


def _plan(layers: Sequence[Layer], sessions: Sequence[SessionSpec], runs: Sequence[Sequence[Layer]]) -> SessionPlan:
    shares = (
        SessionShare(session, tuple(layer.name for layer in run), sizes_of(run))
        for session, run in zip(sessions, runs, strict=True)
        if run
    )
    return SessionPlan(tuple(layers), tuple(shares))


def _too_much(layers: Sequence[Layer], sessions: Sequence[SessionSpec], runs: Sequence[Sequence[Layer]]) -> UsageError:
    limit = max(session.limit for session in sessions)
    large = [layer for layer in layers if layer.total > limit]
    if large:
        parts = max(-(-layer.total // limit) for layer in large)
        return UsageError(
            "; ".join(f"layer `{layer.name}` maps {size_text(layer.total)}" for layer in large)
            + f": a session may map {size_text(limit)}",
            hint=f"split the model into smaller shards: this one into {parts} or more",
        )
    enough = [SessionSpec("", 0, limit)] * len(layers)
    needed = sum(bool(run) for run in _first_fit(layers, enough, limit, spread=False))
    count = "one session" if len(sessions) == 1 else f"{len(sessions)} sessions"
    rest = ", ".join(f"`{layer.name}`" for layer in layers[sum(map(len, runs)) :])
    return UsageError(
        f"{len(layers)} layers that map {size_text(sizes_of(layers).total)} do not fit into {count} of at most "
        f"{size_text(limit)}",
        hint=f"{needed} sessions are enough; or split the model into smaller shards",
        details=[*str(_plan(layers, sessions, runs)).splitlines(), f"not placed: {rest}"],
    )


# --- layers of a model --------------------------------------------------------------------------------------------


def layer_of(name: str, info: BinaryInfo, size: int, states: Collection[str]) -> Layer:
    """The layer of a context binary of `size` bytes, which are somewhat more than its weights.

    cache: the states, of these names, once.  compute: their next values, which have memory of their own, and the other
    inputs and outputs of the largest graph, as graphs of a context run one after another.
    """
    kept: tuple[dict[str, int], dict[str, int]] = {}, {}  # read and written
    compute = [0]
    for graph in info.graphs:
        for sizes, tensors in zip(kept, (graph.inputs, graph.outputs), strict=True):
            for tensor in tensors:
                if tensor.name in states:
                    sizes[tensor.name] = max(sizes.get(tensor.name, 0), tensor.nbytes)
        tensors = (*graph.inputs, *graph.outputs)
        compute.append(sum(tensor.nbytes for tensor in tensors if tensor.name not in states))
    following, cache = sorted(sum(sizes.values()) for sizes in kept)
    spill_fill = max((graph.htp.spill_fill for graph in info.graphs if graph.htp), default=0)
    return Layer(name, size, cache, max(compute) + following, spill_fill)


def sessions_of(runtime: Runtime, count: int = 0, *, limit: int = DEFAULT_LIMIT) -> tuple[SessionSpec, ...]:
    """Sessions HTP0, HTP1, ...: one for each device of a runtime, or for the first `count` of them.

    A session is the process domain of a device handle; no call of QNN makes a second one on the same device.
    QNN does not report how much a session may map, so `limit` is the same for every device.
    """
    numbers = [device.number for device in runtime.devices()] or [0]
    if count > len(numbers):
        has = "one session" if len(numbers) == 1 else f"{len(numbers)} sessions"
        names = ",".join(["SM8650"] * count)
        raise UsageError(
            f"{count} sessions are requested, but {runtime.path.name} has {has}: QNN makes one on each device",
            hint=f"UDOGEN_HTP_DEVICES={names} gives the emulator {count} devices"
            if runtime.emulator and runtime.backend == htp.BACKEND.id
            else f"request {len(numbers)}; what one session cannot map needs another device, or a smaller model",
        )
    if runtime.backend != htp.BACKEND.id:
        return (SessionSpec(runtime.backend.upper(), 0, limit),)
    return tuple(SessionSpec(f"HTP{number}", number, limit) for number in numbers[: count or len(numbers)])


class Session(Closing):
    """One session on one device: its contexts and the memory they map, within a limit.

    It counts all memory that is allocated for its contexts or registered with them.  The sizes planned for tensors,
    weights and spill-fill are reserved for them and used first.
    """

    def __init__(self, runtime: Runtime, spec: SessionSpec) -> None:
        self.runtime, self.spec, self.name, self.limit = runtime, spec, spec.name, spec.limit
        self._devices = runtime.devices()
        self._layers: dict[str, Layer] = {}
        self._contexts: dict[str, Context] = {}
        self._charged: dict[object, tuple[Buffer, str, int]] = {}
        self._lock = threading.RLock()  # sizes are counted by one thread at a time

    def __repr__(self) -> str:
        sizes = f"{size_text(self.sizes.total)} of {size_text(self.limit)}"
        return f"<Session {self.name} of {self.runtime.name}: {len(self._contexts)} contexts, maps {sizes}>"

    @property
    def device(self) -> DeviceInfo | None:
        """Its device, if the backend reports it."""
        return next((device for device in self._devices if device.number == self.spec.device), None)

    @property
    def contexts(self) -> tuple[Context, ...]:
        """Its open contexts."""
        return tuple(self._contexts.values())

    @property
    def sizes(self) -> Sizes:
        """The memory that it maps: the planned sizes of its layers, and buffers beyond them."""
        with self._lock:
            layers = list(self._layers.values())
            buffers = {buffer: (kind, size) for buffer, kind, size in list(self._charged.values())}
        planned = sizes_of(layers)
        spill_fill = sum(layer.spill_fill for layer in layers)
        reserved = {
            WEIGHTS_SIZE: planned.weights,
            SPILL_SIZE: spill_fill,
            TENSORS: planned.cache + planned.compute - spill_fill,
        }
        over = {
            kind: max(0, sum(size for of, size in buffers.values() if of == kind) - planned)
            for kind, planned in reserved.items()
        }
        return Sizes(
            weights=planned.weights + over[WEIGHTS_SIZE],
            cache=planned.cache,
            compute=planned.compute + over[TENSORS] + over[SPILL_SIZE],
        )

    @property
    def free(self) -> int:
        """The bytes that it may still map."""
        return self.limit - self.sizes.total

    def open(self, layer: Layer, binary: Any, **options: Any) -> Context:
        """Restore a context in this session; raises if it would exceed the limit."""
        with self._lock:
            if layer.name in self._layers:
                raise UsageError(f"session {self.name} already has a context `{layer.name}`", hint="close it first")
            before = self.sizes.total
            self._layers[layer.name] = layer
            try:
                self._check(self.sizes.total, f"context `{layer.name}`", before)
            except BaseException:
                del self._layers[layer.name]
                raise
        if isinstance(binary, (str, Path)):
            options.setdefault("name", str(binary))
        number = self.spec.device if self._devices else None
        try:
            context = self.runtime.restore(binary, device=number, **options)
        except BaseException:
            self._forget(layer.name)
            raise
        context.session, self._contexts[layer.name] = self, context
        mine = weakref.ref(self)  # a session is collected with its contexts
        context.on_close(lambda: session._forget(layer.name) if (session := mine()) is not None else None)
        return context

    def charge(self, buffer: Buffer, size: int, kind: str = TENSORS) -> Callable[[], None]:
        """Count a buffer that is mapped for contexts, once for any number of calls; returns the function that ends it.

        `kind` is the one that the plan counted it as.
        """
        token = object()
        with self._lock:
            before = self.sizes.total
            self._charged[token] = (buffer, kind, size)
            try:
                self._check(self.sizes.total, f"buffer `{buffer.name}`", before)
            except BaseException:
                del self._charged[token]
                raise
        return lambda: self._charged.pop(token, None) and None

    def _check(self, total: int, what: str, before: int) -> None:
        if total <= self.limit:
            return
        raise RunFailed(
            f"session {self.name} may map {size_text(self.limit)} and maps {size_text(before)}: "
            f"with {what} it would be {size_text(total)}",
            hint="place layers on another session, or split the model into smaller shards",
        )

    def _forget(self, name: str) -> None:
        with self._lock:
            self._layers.pop(name, None)
            self._contexts.pop(name, None)

    def close(self) -> None:
        """Close its contexts, last to first; then raise the first error."""
        with ExitStack() as stack:
            for context in self.contexts:
                stack.callback(context.close)


class Sessions(Closing):
    """The open sessions of a plan, with their contexts."""

    def __init__(self, runtime: Runtime, plan: SessionPlan, binaries: Mapping[str, Any], **options: Any) -> None:
        self.runtime, self.name = runtime, "sessions"
        self.sessions: dict[str, Session] = {}
        self._by_layer: dict[str, Context] = {}
        with ExitStack() as stack:
            for share in plan.shares:
                session = Session(runtime, share.session)
                self.sessions[session.name] = stack.enter_context(session)
            for layer in plan.layers:
                session = self.sessions[plan.session_of(layer.name).name]
                self._by_layer[layer.name] = session.open(layer, binaries[layer.name], **options)
            self._stack = stack.pop_all()

    @property
    def contexts(self) -> tuple[Context, ...]:
        """The open contexts, in the order of the layers."""
        return tuple(context for context in self._by_layer.values() if context in self.runtime.contexts)

    def context(self, layer: str) -> Context:
        """The context of a layer."""
        return self._by_layer[layer]

    def close(self) -> None:
        """Close every session."""
        self._stack.close()
