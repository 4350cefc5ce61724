"""A restored context: its graphs by name, the memory registered with it, and the end of both in the right order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from udogen.errors import RunFailed
from udogen.opdef.problems import nearest
from udogen.qnn.handle import Closing
from udogen.qnn.memory import ION, Memory
from udogen.qnn.profile import Profile
from udogen.runtime.contexts.graph import Graph

if TYPE_CHECKING:
    from udogen.qnn import context as qnn
    from udogen.qnn.context import ContextOptions
    from udogen.qnn.system import BinaryInfo
    from udogen.runtime.contexts.runtime import Runtime


class Context(Closing):
    """Graphs of one binary.  Made by `Runtime.restore`; closed by `with`, `close`, or with its runtime."""

    def __init__(
        self, runtime: Runtime, low: qnn.Context, info: BinaryInfo, *, name: str, options: ContextOptions
    ) -> None:
        self.runtime, self.low, self.info, self.name, self.options = runtime, low, info, name, options
        self.deferred = options.deferred  # until `finalize`
        self.turn: threading.Lock | None = runtime.turn  # of graphs that may not run in parallel, in whichever context
        self.profile: Profile | None = None
        self._graphs: dict[str, Graph] = {}
        self._closing: dict[object, Callable[[], None]] = {}  # undone last to first, before the context is freed
        self._kept: list[Callable[[], None]] = []  # let go of when it is freed
        self._lock, self._ending = threading.RLock(), threading.RLock()
        self._is_ending = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its graphs."""
        return tuple(each.name for each in self.info.graphs)

    @property
    def graphs(self) -> dict[str, Graph]:
        """Every graph, by name."""
        return {name: self.graph(name) for name in self.names}

    def graph(self, name: str) -> Graph:
        """One graph, ready to be bound or called."""
        with self._lock:
            self.check_open()
            if name in self._graphs:
                return self._graphs[name]
            info = next((each for each in self.info.graphs if each.name == name), None)
            if info is None:
                near = nearest(name, self.names)
                raise RunFailed(
                    f"context {self.name} has no graph `{name}`",
                    hint=f"did you mean `{near}`?" if near else f"it has: {', '.join(self.names) or 'none'}",
                )
            if self.deferred:
                raise RunFailed(
                    f"the graphs of context {self.name} are deferred", hint="register its buffers and call `finalize`"
                )
            low = self.low.retrieve(name)
            if self.turn is not None:
                low.one_at_a_time = self.turn
            made = Graph(self, low, info, profile=self.profile)
            self._graphs[name] = made
            return made

    def finalize(self) -> None:
        """Initialize the graphs of a context that was restored with deferred graphs."""
        with self._lock:
            self.check_open()
            if not self.deferred:
                raise RunFailed(
                    f"context {self.name} has its graphs already",
                    hint="`finalize` is for a deferred one",
                )
            self.low.finalize()
            self.deferred = False

    def register(
        self,
        fd: int,
        *,
        dtype: str,
        shape: Sequence[int],
        kind: str = ION,
        address: int = 0,
        offset: int | None = None,
        size: int = 0,
    ) -> Memory:
        """Tell the context of memory for one tensor; with `offset`, of a part of a buffer that others share.

        Deregistered by `Memory.close`, or with the context, last to first.
        """
        with self._lock:
            self.check_open()
            made = Memory(self.low, fd, dtype=dtype, shape=shape, kind=kind, address=address, offset=offset, size=size)
            made.when_closed = self.on_close(made.close)
            return made

    def on_close(self, undo: Callable[[], None]) -> Callable[[], None]:
        """Have this called before the context is freed, after what was asked for later; the answer withdraws it."""
        key = object()
        with self._lock:
            self.check_open()
            self._closing[key] = undo
        return lambda: self._forget(key)

    def _forget(self, key: object) -> None:
        self._closing.pop(key, None)

    def keep(self, release: Callable[[], None]) -> None:
        """Have this called after the context is freed: what the runtime may read until then."""
        with self._lock:
            self.check_open()
            self._kept.append(release)

    def binary(self) -> bytes:
        """The context as a binary again, where the runtime can (HTP cannot store a restored one)."""
        with self._lock:
            self.check_open()
            return self.low.binary()

    def check_open(self) -> None:
        """Refuse any use after the end."""
        if self.low.raw is None or self._is_ending:
            raise RunFailed(f"context {self.name} is closed", hint="use it inside its `with` block")

    def close(self) -> None:
        """Wait for running executions; free memory, graphs and context, all of them, then raise the first error."""
        with self._ending:
            if self.low.raw is None:
                return
            with self._lock:
                self._is_ending = True  # from here on nothing is added
                graphs = list(self._graphs.values())
                self._graphs.clear()
            # Without the lock: a graph that is being bound may be about to ask for it.
            for graph in graphs:
                graph.close()
            errors: list[Exception] = []
            kept = [*self._kept, *([self.profile.close] if self.profile else [])]
            steps = [*reversed(self._closing.values()), self.low.close, *reversed(kept)]
            self._closing.clear()
            self._kept.clear()
            for step in steps:
                try:
                    step()
                except Exception as problem:
                    errors.append(problem)
            self.runtime.forget(self)
        if errors:
            raise errors[0]
