"""Sessions that are open: contexts restored on their devices, and what each session maps, within its limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed, UsageError
from udogen.qnn.handle import Closing
from udogen.qnn.interface import QnnError
from udogen.runtime.sessions.placement import session_specs
from udogen.runtime.sessions.plan import DEFAULT_LIMIT, Layer, SessionPlan, SessionSpec, Sizes, size_text, sizes_of

if TYPE_CHECKING:
    from udogen.qnn.devices import DeviceInfo
    from udogen.runtime.contexts.context import Context
    from udogen.runtime.contexts.runtime import Runtime


def devices_of(runtime: Runtime) -> tuple[DeviceInfo, ...]:
    """The devices of the platform; none where the backend does not tell."""
    try:
        return runtime.devices()
    except QnnError:
        return ()


def sessions_of(runtime: Runtime, count: int = 0, *, limit: int = DEFAULT_LIMIT) -> tuple[SessionSpec, ...]:
    """Sessions for the devices that there are: one on each, or `count`, which take turns with the devices.

    No call of QNN tells how much a session may map, so `limit` is the same on every device.
    """
    numbers = [each.number for each in devices_of(runtime)] or [0]
    wanted = count or len(numbers)
    return session_specs(wanted, limit=limit, devices=[numbers[i % len(numbers)] for i in range(wanted)])


class Session(Closing):
    """One session on one device of a runtime: the contexts in it, and what they map.

    What a plan has counted for caches and activations is kept free for them: buffers of a memory domain of this session
    take from that first.
    """

    def __init__(self, runtime: Runtime, spec: SessionSpec, *, shared_spill_fill: bool = False) -> None:
        self.runtime, self.spec, self.name, self.limit = runtime, spec, spec.name, spec.limit
        self._devices = devices_of(runtime)
        if self._devices and spec.device not in [each.number for each in self._devices]:
            raise UsageError(
                f"session {spec.name} is to run on device {spec.device}, which there is not",
                hint="devices: " + ", ".join(f"{each.number} ({each.name})" for each in self._devices),
            )
        self._shared_spill_fill = shared_spill_fill
        self._layers: dict[str, Layer] = {}
        self._contexts: dict[str, Context] = {}
        self._charged: dict[object, int] = {}

    @property
    def device(self) -> DeviceInfo | None:
        """Its device, where the backend tells of it."""
        return next((each for each in self._devices if each.number == self.spec.device), None)

    @property
    def contexts(self) -> tuple[Context, ...]:
        """The contexts that are open in it."""
        return tuple(self._contexts.values())

    @property
    def sizes(self) -> Sizes:
        """What it maps: what its layers were counted with, and buffers beyond that."""
        counted = sizes_of(list(self._layers.values()), shared_spill_fill=self._shared_spill_fill)
        over = max(0, sum(self._charged.values()) - self._kept)
        return counted._replace(cache=counted.cache + over)

    @property
    def free(self) -> int:
        """What it may map besides."""
        return self.limit - self.sizes.total

    def open(self, layer: Layer, binary: Any, **options: Any) -> Context:
        """Restore a context here; refused where the session would map more than it may."""
        if layer.name in self._contexts:
            raise UsageError(f"session {self.name} has a context `{layer.name}` already", hint="close it first")
        layers = [*self._layers.values(), layer]
        after = sizes_of(layers, shared_spill_fill=self._shared_spill_fill).total
        self._check(after + self.sizes.total - self._counted, f"context `{layer.name}`")
        if isinstance(binary, (str, Path)):
            options.setdefault("name", str(binary))
        number = self.spec.device if self._devices else None
        made = self.runtime.restore(binary, device=number, **options)
        self._layers[layer.name], self._contexts[layer.name] = layer, made
        made.on_close(lambda: self._forget(layer.name))
        return made

    def charge(self, name: str, size: int) -> Callable[[], None]:
        """Count memory that is mapped besides contexts (a memory domain calls it); call the answer when it is freed."""
        key = object()
        before = self.sizes.total
        self._charged[key] = size
        try:
            self._check(self.sizes.total, f"buffer `{name}`", before)
        except BaseException:
            del self._charged[key]
            raise
        return lambda: self._release(key)

    def _release(self, key: object) -> None:
        self._charged.pop(key, None)

    @property
    def _counted(self) -> int:
        return sizes_of(list(self._layers.values()), shared_spill_fill=self._shared_spill_fill).total

    @property
    def _kept(self) -> int:
        """Room that was counted for caches and activations."""
        handed = {each.name: each.size for layer in self._layers.values() for each in layer.activations}
        return sum(layer.cache for layer in self._layers.values()) + sum(handed.values())

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
        self._layers.pop(name, None)
        self._contexts.pop(name, None)

    def close(self) -> None:
        """Close its contexts, last to first, all of them; then raise the first error."""
        with ExitStack() as stack:
            for context in self.contexts:
                stack.callback(context.close)


class Sessions:
    """The sessions of a plan with their contexts, closed together."""

    def __init__(self, runtime: Runtime, plan: SessionPlan, binaries: Mapping[str, Any], **options: Any) -> None:
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
        """All contexts that are open, in the order of the layers."""
        return tuple(each for each in self._by_layer.values() if each in self.runtime.contexts)

    def context(self, layer: str) -> Context:
        """The context of a layer."""
        return self._by_layer[layer]

    def graphs(self, name: str, layers: Sequence[str] = ()) -> list[Any]:
        """The graph of this name of every layer, in order: a chain."""
        return [
            self._by_layer[layer.name].graph(name) for layer in self.plan.layers if layer.name in layers or not layers
        ]

    def session_of(self, context: Context) -> Session:
        """The session that a context is in."""
        return next(each for each in self.sessions.values() if context in each.contexts)

    def close(self) -> None:
        """Close every session."""
        self._stack.close()

    def __enter__(self) -> Sessions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
