"""Open sessions: the contexts restored on their devices, and the memory that each session maps, within its limit."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed, UsageError
from udogen.qnn.handles import Closing
from udogen.qnn.interface import QnnError
from udogen.runtime.buffers.buffer import SPILL_SIZE, TENSORS, WEIGHTS_SIZE, Buffer
from udogen.runtime.sessions.placement import (
    DEFAULT_LIMIT,
    Layer,
    SessionPlan,
    SessionSpec,
    Sizes,
    size_text,
    sizes_of,
)

if TYPE_CHECKING:
    from udogen.qnn.handles import DeviceInfo
    from udogen.runtime.contexts.context import Context
    from udogen.runtime.contexts.runtime import Runtime


def devices_of(runtime: Runtime) -> tuple[DeviceInfo, ...]:
    """The devices of the platform; empty if the backend does not report them."""
    try:
        return runtime.devices()
    except QnnError:
        return ()


def sessions_of(runtime: Runtime, count: int = 0, *, limit: int = DEFAULT_LIMIT) -> tuple[SessionSpec, ...]:
    """Sessions HTP0, HTP1, ... for the devices of a runtime: one on each, or `count` spread over them.

    QNN does not report how much a session may map, so `limit` is the same for every device.
    """
    numbers = [device.number for device in devices_of(runtime)] or [0]
    return tuple(
        SessionSpec(f"HTP{index}", numbers[index % len(numbers)], limit) for index in range(count or len(numbers))
    )


class Session(Closing):
    """One session on one device: its contexts and the memory they map, within a limit.

    It counts all memory that is allocated for its contexts or registered with them.  The sizes planned for tensors,
    weights and spill-fill are reserved for them and used first.
    """

    def __init__(self, runtime: Runtime, spec: SessionSpec) -> None:
        self.runtime, self.spec, self.name, self.limit = runtime, spec, spec.name, spec.limit
        self._devices = devices_of(runtime)
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
