"""Open sessions: the contexts restored on their devices, and the memory that each session maps, within its limit."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed, UsageError
from udogen.qnn.handles import Closing
from udogen.qnn.interface import QnnError
from udogen.runtime import arguments
from udogen.runtime.buffers.buffer import CACHE, COMPUTE, SPILL_SIZE, WEIGHTS_SIZE, Buffer
from udogen.runtime.sessions.placement import (
    DEFAULT_LIMIT,
    Layer,
    SessionPlan,
    SessionSpec,
    Sizes,
    session_specs,
    size_text,
    sizes_of,
)

if TYPE_CHECKING:
    from udogen.qnn.handles import DeviceInfo
    from udogen.runtime.contexts.context import Context
    from udogen.runtime.contexts.graph import Graph
    from udogen.runtime.contexts.runtime import Runtime

KINDS = (CACHE, COMPUTE, WEIGHTS_SIZE, SPILL_SIZE)


def devices_of(runtime: Runtime) -> tuple[DeviceInfo, ...]:
    """The devices of the platform; empty if the backend does not report them.

    `[device, *others] = devices_of(runtime)`
    """
    try:
        return runtime.devices()
    except QnnError:
        return ()


def sessions_of(runtime: Runtime, count: int = 0, *, limit: int = DEFAULT_LIMIT) -> tuple[SessionSpec, ...]:
    """Sessions for the devices of a runtime: one on each, or `count` spread over them: `sessions_of(runtime, 3)`.

    QNN does not report how much a session may map, so `limit` is the same for every device.
    """
    numbers = [each.number for each in devices_of(runtime)] or [0]
    wanted = count or len(numbers)
    return session_specs(wanted, limit=limit, devices=[numbers[i % len(numbers)] for i in range(wanted)])


class Session(Closing):
    """One session on one device: its contexts and the memory they map, within a limit.

    It counts all memory that is allocated for its contexts or registered with them.  The sizes planned for caches,
    activations, tensors, weights and spill-fill are reserved for them and used first.

    `session = Session(runtime, SessionSpec("HTP0", 0))`
    """

    def __init__(self, runtime: Runtime, spec: SessionSpec, *, shared_spill_fill: bool = False) -> None:
        if not callable(getattr(runtime, "restore", None)):
            raise UsageError(f"the runtime of a session is {arguments.kind_of(runtime)}", hint="give a Runtime")
        arguments.expect(spec, SessionSpec, "the session", "a SessionSpec (udogen.runtime.sessions.placement)")
        self.runtime, self.spec, self.name, self.limit = runtime, spec, spec.name, spec.limit
        self._devices = devices_of(runtime)
        if self._devices and spec.device not in [each.number for each in self._devices]:
            raise UsageError(
                f"session {spec.name} is to run on device {spec.device}, which does not exist",
                hint="devices: " + ", ".join(f"{each.number} ({each.name})" for each in self._devices),
            )
        self._shared_spill_fill = shared_spill_fill
        self._layers: dict[str, Layer] = {}
        self._contexts: dict[str, Context] = {}
        self._charged: dict[object, tuple[str, int]] = {}
        self._buffers: dict[Buffer, list[Callable[[], None]]] = {}  # the release function, plus one entry for each use
        self._lock = threading.RLock()  # sizes are counted by one thread at a time

    def __repr__(self) -> str:
        sizes = f"{size_text(self.sizes.total)} of {size_text(self.limit)}"
        return f"<Session {self.name} of {self.runtime.name}: {len(self._contexts)} contexts, maps {sizes}>"

    @property
    def device(self) -> DeviceInfo | None:
        """Its device, if the backend reports it."""
        return next((each for each in self._devices if each.number == self.spec.device), None)

    @property
    def contexts(self) -> tuple[Context, ...]:
        """Its open contexts."""
        return tuple(self._contexts.values())

    @property
    def sizes(self) -> Sizes:
        """The memory that it maps: the planned sizes of its layers, and buffers beyond them."""
        with self._lock:
            counted = sizes_of(list(self._layers.values()), shared_spill_fill=self._shared_spill_fill)
            charged = {kind: sum(size for of, size in self._charged.values() if of == kind) for kind in KINDS}
            over = {kind: max(0, charged[kind] - self._kept(kind)) for kind in KINDS}
        return Sizes(
            weights=counted.weights + over[WEIGHTS_SIZE],
            cache=counted.cache + over[CACHE],
            compute=counted.compute + over[COMPUTE] + over[SPILL_SIZE],
        )

    @property
    def free(self) -> int:
        """The bytes that it may still map."""
        return self.limit - self.sizes.total

    def open(self, layer: Layer, binary: Any, **options: Any) -> Context:
        """Restore a context in this session; raises if it would exceed the limit."""
        arguments.expect(layer, Layer, "the layer", "a Layer (udogen.runtime.sessions.placement): its name and sizes")
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
            made = self.runtime.restore(binary, device=number, **options)
        except BaseException:
            self._forget(layer.name)
            raise
        made.session, self._contexts[layer.name] = self, made
        mine = weakref.ref(self)  # a session is collected with its contexts
        made.on_close(lambda: session._forget(layer.name) if (session := mine()) is not None else None)
        return made

    def charge(self, name: str, size: int, kind: str = CACHE) -> Callable[[], None]:
        """Count memory that is mapped for contexts; returns the function to call when it is freed.

        `kind` is the one that the plan counted it as: one of KINDS.
        """
        key = object()
        with self._lock:
            before = self.sizes.total
            self._charged[key] = (kind, size)
            try:
                self._check(self.sizes.total, f"buffer `{name}`", before)
            except BaseException:
                del self._charged[key]
                raise

        def release() -> None:
            self._charged.pop(key, None)

        return release

    def charge_buffer(self, buffer: Buffer, size: int, kind: str = COMPUTE) -> Callable[[], None]:
        """Count a registered buffer, only once even if it is registered several times."""
        with self._lock:
            if buffer not in self._buffers:
                self._buffers[buffer] = [self.charge(buffer.name, size, kind)]
            uses = self._buffers[buffer]
            uses.append(uses[0])

        def release() -> None:
            with self._lock:
                uses.pop()
                if len(uses) == 1:
                    del self._buffers[buffer]
                    uses[0]()

        return release

    def _kept(self, kind: str) -> int:
        """The planned size of a kind."""
        layers = list(self._layers.values())
        if kind == CACHE:
            handed = {each.name: each.size for layer in layers for each in layer.activations}
            return sum(layer.cache for layer in layers) + sum(handed.values())
        if kind == SPILL_SIZE and self._shared_spill_fill:
            return max((layer.spill_fill for layer in layers), default=0)
        return sum(int(getattr(layer, kind)) for layer in layers)

    def _check(self, total: int, what: str, before: int | None = None) -> None:
        if total <= self.limit:
            return
        mapped = self.sizes.total if before is None else before
        raise RunFailed(
            f"session {self.name} may map {size_text(self.limit)} and maps {size_text(mapped)}: "
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
    """The open sessions of a plan, with their contexts: `Sessions(runtime, plan, {"forward_0": path})`."""

    def __init__(self, runtime: Runtime, plan: SessionPlan, binaries: Mapping[str, Any], **options: Any) -> None:
        arguments.expect(plan, SessionPlan, "the plan", "a SessionPlan (udogen.runtime.place_layers)")
        arguments.mapping(binaries, "the context binaries", hint="give a dict: {layer: path or bytes}")
        missing = [layer.name for layer in plan.layers if layer.name not in binaries]
        if missing:
            raise UsageError(
                "there is no context binary for " + ", ".join(f"`{name}`" for name in missing),
                hint="give one for each layer of the plan",
            )
        self.runtime, self.plan, self.name = runtime, plan, "sessions"
        self.sessions: dict[str, Session] = {}
        self._by_layer: dict[str, Context] = {}
        with ExitStack() as stack:
            for share in plan.shares:
                made = Session(runtime, share.session, shared_spill_fill=plan.shared_spill_fill)
                self.sessions[made.name] = stack.enter_context(made)
            for layer in plan.layers:
                session = self.sessions[plan.session_of(layer.name).name]
                self._by_layer[layer.name] = session.open(layer, binaries[layer.name], **options)
            self._stack = stack.pop_all()

    @property
    def contexts(self) -> tuple[Context, ...]:
        """The open contexts, in the order of the layers."""
        return tuple(each for each in self._by_layer.values() if each in self.runtime.contexts)

    def context(self, layer: str) -> Context:
        """The context of a layer."""
        found = self._by_layer.get(layer) if isinstance(layer, str) else None
        if found is None:
            raise UsageError(f"there is no layer `{layer}`", hint="layers: " + ", ".join(self._by_layer))
        return found

    def graphs(self, name: str, layers: Sequence[str] = ()) -> list[Graph]:
        """The graphs with this name, of these layers or of all, in order."""
        for each in arguments.names(layers, "the layers"):
            self.context(each)
        return [
            self._by_layer[layer.name].graph(name) for layer in self.plan.layers if layer.name in layers or not layers
        ]

    def session_of(self, context: Context) -> Session:
        """The session that a context is in."""
        found = next((each for each in self.sessions.values() if context in each.contexts), None)
        if found is None:
            raise UsageError(f"{context!r} is in none of these sessions", hint="give one of `contexts`")
        return found

    def close(self) -> None:
        """Close every session."""
        self._stack.close()

    def __repr__(self) -> str:
        return f"<Sessions of {self.runtime.name}: {', '.join(self.sessions)}; {len(self.contexts)} contexts>"
