"""The graphs of one context binary, or of a new context, and their cleanup, also at the end of the process."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from udogen.errors import RunFailed, UsageError
from udogen.findings import unknown
from udogen.qnn.handles import PRECISIONS, Closing, ContextHandle, ContextOptions, GraphHandle, ProfileHandle, run_all
from udogen.qnn.system import BinaryInfo, GraphInfo
from udogen.qnn.tensors import APP_READ, APP_WRITE
from udogen.runtime.arguments import PathArgument
from udogen.runtime.buffers.buffer import SPILL_FILL, WEIGHTS, Registrations
from udogen.runtime.contexts import manifest
from udogen.runtime.contexts.graph import Graph

if TYPE_CHECKING:
    from udogen.runtime.buffers.buffer import Buffer
    from udogen.runtime.buffers.external import ExternalBuffer, ExternalSizes
    from udogen.runtime.buffers.plan import BufferPlan
    from udogen.runtime.contexts.runtime import Runtime
    from udogen.runtime.sessions import Session


class ContextCleanup:
    """The steps that undo and free everything of a context at its end, run in order, once.

    It has no reference to the context, so a runtime can keep it, and an unused context is collected nevertheless.
    """

    def __init__(self, handle: ContextHandle, profile: ProfileHandle | None) -> None:
        self.handle = handle
        self.before: list[Callable[[], None]] = []  # called last to first, before the context is freed
        self.after = [profile.close] if profile else []  # called last to first, after it is freed
        self._lock, self._process = threading.RLock(), os.getpid()

    def run(self) -> None:
        """Run every step, then raise the first error."""
        with self._lock:
            # In a forked process they belong to the parent.
            before = [] if self._process != os.getpid() else self.before
            steps = [*reversed(before), self.handle.close, *reversed(self.after)]
            self.before.clear()
            self.after.clear()
            run_all(steps)


class Context(Closing):
    """The graphs of one context binary, or of a new context.

    Made by `Runtime.restore` or `Runtime.new_context`; closed by `with`, by `close`, with its runtime, or when neither
    it nor one of its graphs is in use.
    """

    def __init__(
        self,
        runtime: Runtime,
        handle: ContextHandle,
        info: BinaryInfo,
        *,
        name: str,
        options: ContextOptions,
        profile: ProfileHandle | None = None,
        restored: bool = True,
    ) -> None:
        self.runtime, self.handle, self.info, self.name, self.options = runtime, handle, info, name, options
        self.restored = restored  # from a binary
        self.deferred = options.deferred  # True until `finalize`
        self.turn: threading.Lock | None = runtime.turn  # held by executions that may not run in parallel
        self.profile = profile
        self.session: Session | None = None  # its memory counts towards the limit of this session
        self.ending = ContextCleanup(handle, profile)
        self._graphs: dict[str, Graph] = {}
        self._lock = threading.RLock()
        self._is_ending = False
        self._registrations: Registrations | None = None

    def __repr__(self) -> str:
        graphs = ", ".join(self.names) or "no graphs"
        return f"<Context {self.name} of {self.runtime.name}: {'closed' if self.closed else graphs}>"

    @property
    def closed(self) -> bool:
        """Whether it was closed, directly or with its runtime."""
        return self.handle.raw is None or self._is_ending

    @property
    def registrations(self) -> Registrations:
        """The shared memory that is registered with it."""
        with self._lock:
            if self._registrations is None:
                self._registrations = Registrations(self)
                self.on_close(self._registrations.close)
            return self._registrations

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its graphs."""
        return tuple(graph.name for graph in self.info.graphs)

    @property
    def graphs(self) -> dict[str, Graph]:
        """Every graph, by name."""
        return {name: self.graph(name) for name in self.names}

    def plan(
        self, graphs: Sequence[str] = (), *, alignment: int = 64, packed: bool = False, shared: bool = False
    ) -> BufferPlan:
        """A buffer and an offset for each tensor of these graphs, or of all: `context.plan(packed=True).allocate()`.

        With `packed` one buffer for all tensors instead of one for each; with `shared` registered memory, not client
        memory.
        """
        from udogen.runtime.buffers.plan import plan_buffers  # few programs need it

        self.check_open()
        infos = [self.graph(name).info for name in graphs or self.names]
        return plan_buffers(0, infos, alignment=alignment, packed=packed, shared=shared)

    def graph(self, name: str) -> Graph:
        """One graph by name."""
        with self._lock:
            self.check_open()
            if name in self._graphs:
                return self._graphs[name]
            info = next((row for row in self.info.graphs if row.name == name), None)
            if info is None:
                raise unknown(f"context {self.name} has no graph", name, self.names)
            if self.deferred:
                raise RunFailed(
                    f"the graphs of context {self.name} are deferred", hint="register its buffers and call `finalize`"
                )
            return self._add(self.handle.retrieve(name), info)

    def new_graph(self, name: str, *, precision: str = "") -> GraphHandle:
        """An empty graph to add tensors and nodes to; `precision` (FP32, FP16, HYBRID) is for GPU."""
        if precision not in ("", *PRECISIONS):
            raise UsageError(f"there is no precision `{precision}`", hint=f"one of: {', '.join(PRECISIONS)}")
        with self._lock:
            self.check_open()
            handle = self.handle.graph(name, precision=precision)
            handle.owner = self
            return handle

    def finalize_graph(self, built: GraphHandle) -> Graph:
        """Prepare a graph made by `new_graph`, so that it can be executed and stored."""
        if built.owner is not self:
            message = f"graph `{built.name}` is not one of context {self.name}"
            raise UsageError(message, hint="give a graph of its `new_graph`")
        with self._lock:
            self.check_open()
            built.finalize(self.profile)
            inputs, outputs = (tuple(map(replace, built.of_role(role))) for role in (APP_WRITE, APP_READ))
            info = GraphInfo(built.name, inputs, outputs)
            self.info = replace(self.info, graphs=(*self.info.graphs, info))
            return self._add(built, info)

    def _add(self, handle: GraphHandle, info: GraphInfo) -> Graph:
        if self.turn is not None:
            handle.one_at_a_time = self.turn
        graph = Graph(self, handle, info, profile=self.profile)
        self._graphs[info.name] = graph
        return graph

    def finalize(self) -> None:
        """Initialize the graphs of a context that was restored with `deferred`."""
        with self._lock:
            self.check_open()
            if not self.deferred:
                raise RunFailed(
                    f"context {self.name} has its graphs already",
                    hint="`finalize` is for a deferred one",
                )
            self.handle.finalize()
            self.deferred = False

    @property
    def needs(self) -> ExternalSizes:
        """The external buffers that it needs, if it was restored with `deferred`: `context.needs.weights` bytes."""
        from udogen.runtime.buffers import external  # few contexts have external buffers

        return external.external_sizes(self)

    def allocate_weights(self) -> Buffer | None:
        """A buffer for `give_weights`; None if it needs none."""
        from udogen.runtime.buffers import external

        return external.allocate_external([self], WEIGHTS)

    def allocate_spill_fill(self, *others: Context) -> Buffer | None:
        """A buffer for `give_spill_fill`, which other contexts may share; None if none is needed."""
        from udogen.runtime.buffers import external

        return external.allocate_external([self, *others], SPILL_FILL)

    def give_weights(self, buffer: Buffer, *, offset: int = 0, features: Iterable[str] = ()) -> ExternalBuffer:
        """Place its weights in a buffer, in which QNN writes them in `finalize`: `context.give_weights(buffer)`.

        `features` names what cannot be read from the context: `udma64`, `securepd`, `graph switching`.
        """
        return self._give(WEIGHTS, buffer, offset, features)

    def give_spill_fill(self, buffer: Buffer, *, offset: int = 0, features: Iterable[str] = ()) -> ExternalBuffer:
        """Place what its graphs spill in a buffer, before `finalize`.

        Contexts that share a buffer run in turn: no two of their executions are in QNN at once.
        """
        return self._give(SPILL_FILL, buffer, offset, features)

    def _give(self, kind: str, buffer: Buffer, offset: int, features: Iterable[str]) -> ExternalBuffer:
        from udogen.runtime.buffers import external

        return external.register(kind, self, buffer, offset, features)

    def on_close(self, undo: Callable[[], None]) -> None:
        """Call a function before the context is freed, last to first.

        Objects that `undo` refers to live as long as the context; if it refers to the context, that lives until its
        runtime is closed.
        """
        with self._lock:
            self.check_open()
            self.ending.before.append(undo)

    def keep(self, release: Callable[[], None]) -> None:
        """Call a function after the context is freed, to release what the runtime may read until then."""
        with self._lock:
            self.check_open()
            self.ending.after.append(release)

    def binary(self) -> bytes:
        """The context as a binary, if the runtime can store it (HTP cannot store a restored one)."""
        with self._lock:
            self.check_open()
            return self.handle.binary()

    def save(self, path: PathArgument) -> None:
        """Write the binary and, next to it, a manifest with its checksum."""
        manifest.save(Path(path), self.binary(), build_id=self.runtime.build_id)

    def check_open(self) -> None:
        """Raise after it was closed."""
        self.runtime.check_process(f"context {self.name}")
        if self.closed:
            raise RunFailed(f"context {self.name} is closed", hint="use it inside its `with` block")

    def close(self) -> None:
        """Wait for running executions and free everything; then raise the first error, if any."""
        with self._lock:
            self._is_ending = True  # nothing can be added from here on
            graphs = list(self._graphs.values())
            self._graphs.clear()
        # Without the lock: a graph that is being bound may wait for it.
        for graph in graphs:
            graph.close()
        self._end()

    def _end(self) -> None:
        try:
            self.ending.run()
        finally:
            self.runtime.forget(self)

    def __del__(self) -> None:
        # None of its graphs is referenced, so none is running.
        if hasattr(self, "_is_ending"):
            self._is_ending = True
            self._end()

    def abandon(self) -> None:
        """Do not free it and its backend before the end of the process.

        libQnnCpu 2.47 frees memory twice when it frees a graph whose dynamic tensors it did not execute.
        """
        self.handle.raw = None
        self.runtime.abandon()

    # --- during an execution ----------------------------------------------------------------------------------------

    def idle(self, within: float) -> bool:
        """Whether all running executions end within this many seconds."""
        return all(graph.idle(within) for graph in list(self._graphs.values()))

    def disown(self) -> None:
        """Disable it in a forked process: everything belongs to the parent."""
        self._lock = threading.RLock()
        self._is_ending = True
        for graph in self._graphs.values():
            graph.disown()


# --- the ends of the process: open runtimes are closed at exit, and disowned in a forked child --------------------

_LAST_WAIT = 5.0  # seconds to wait at exit for executions that are still running in other threads

open_runtimes: weakref.WeakKeyDictionary[Runtime, None] = (  # in the order of opening
    weakref.WeakKeyDictionary()
)
lost_libraries: dict[Path, int] = {}  # unusable libraries: in use when this process was forked (path -> parent)


def check_not_lost(library: Path) -> None:
    """Raise for a library of a runtime that was in use when this process was forked."""
    if library in lost_libraries:
        raise RunFailed(
            f"{library.name} cannot be used in process {os.getpid()}: it was in use in its parent "
            f"({lost_libraries[library]}) when that was forked, and its threads do not exist here",
            hint='close the runtime before the fork, or start new processes: multiprocessing.get_context("spawn")',
        )


def close_at_exit(runtime: Runtime) -> None:
    """Close it at exit, before what was registered with `atexit` earlier."""
    open_runtimes[runtime] = None
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def _close_all() -> None:
    """Close open runtimes at exit, last to first, before the destructors of libraries run.

    libQnnHtp aborts in its destructors if an op package is still registered.
    """
    for runtime in reversed(list(open_runtimes)):
        try:
            if runtime.process != os.getpid():
                continue
            if all(context.idle(_LAST_WAIT) for context in runtime.contexts):
                runtime.close()
            else:  # a thread executes a graph that has not ended
                _skip_destructors()
        except RunFailed:
            pass  # too late to handle it


def _after_fork() -> None:
    """Disown the runtimes of the parent in a forked child, which must not use or free them."""
    for runtime in list(open_runtimes):
        runtime.disown()
    open_runtimes.clear()
    if lost_libraries:
        _skip_destructors()


def _skip_destructors() -> None:
    """End the process, with its exit code, before the destructors of the loaded libraries run."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # glibc; handlers are called last to first
        libc.on_exit(libc._exit, None)
        libc["__cxa_atexit"](libc.fflush, None, None)


os.register_at_fork(after_in_child=_after_fork)
