"""A restored context: its graphs by name, the memory registered with it, and the end of both in the right order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from udogen.errors import RunFailed, UsageError
from udogen.opdef.problems import nearest
from udogen.qnn.handle import Closing
from udogen.qnn.memory import DMA_BUF, ION, Memory
from udogen.qnn.profile import Profile
from udogen.qnn.tensors import byte_size
from udogen.runtime import arguments
from udogen.runtime.contexts.ending import Ending
from udogen.runtime.contexts.graph import Graph

if TYPE_CHECKING:
    from udogen.qnn import context as qnn
    from udogen.qnn.context import ContextOptions
    from udogen.qnn.system import BinaryInfo
    from udogen.runtime.contexts.runtime import Runtime
    from udogen.runtime.sessions.session import Session

COMPUTE = "compute"  # what a session counts buffers of graphs as


class Context(Closing):
    """Graphs of one binary.  Made by `Runtime.restore`; closed by `with`, `close`, with its runtime, or when neither it
    nor a graph of it is in use any more."""

    def __init__(
        self,
        runtime: Runtime,
        low: qnn.Context,
        info: BinaryInfo,
        *,
        name: str,
        options: ContextOptions,
        profile: Profile | None = None,
    ) -> None:
        self.runtime, self.low, self.info, self.name, self.options = runtime, low, info, name, options
        self.deferred = options.deferred  # until `finalize`
        self.turn: threading.Lock | None = runtime.turn  # of graphs that may not run in parallel, in whichever context
        self.profile = profile
        self.session: Session | None = None  # whose limit counts what is mapped for it
        self.ending = Ending(low, profile)
        self._graphs: dict[str, Graph] = {}
        self._lock = threading.RLock()
        self._is_ending = False

    def __repr__(self) -> str:
        graphs = ", ".join(self.names) or "no graphs"
        return f"<Context {self.name} of {self.runtime.name}: {'closed' if self.closed else graphs}>"

    @property
    def closed(self) -> bool:
        """Whether it was closed, by itself or with its runtime."""
        return self.low.raw is None or self._is_ending

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
        has = f"it has: {', '.join(self.names) or 'none'}"
        arguments.expect(name, str, f"the name of a graph of context {self.name}", "its name", hint=has)
        with self._lock:
            self.check_open()
            if name in self._graphs:
                return self._graphs[name]
            info = next((each for each in self.info.graphs if each.name == name), None)
            if info is None:
                near = nearest(name, self.names)
                raise RunFailed(
                    f"context {self.name} has no graph `{name}`", hint=f"did you mean `{near}`?" if near else has
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
        counted: bool = False,
    ) -> Memory:
        """Tell the context of memory for one tensor; with `offset`, of a part of a buffer that others share.

        Deregistered by `Memory.close`, or with the context, last to first.  `counted` says that the session of the
        context counts it already.
        """
        hint = "give the descriptor of a buffer (`Buffer.fd`)"
        number = arguments.whole(fd, "the file descriptor", most=2**31 - 1, hint=hint)
        arguments.expect(dtype, str, "the data type", "its name: FLOAT_32")
        shape = arguments.wholes(shape, "the shape")
        if kind not in (ION, DMA_BUF):
            raise UsageError(f"the kind of memory is {arguments.kind_of(kind)}", hint=f"one of: {ION}, {DMA_BUF}")
        for value, what in ((address, "the address"), (size, "the size"), (offset, "the offset")):
            if value is not offset or offset is not None:
                arguments.whole(value, what)
        with self._lock:
            self.check_open()
            with ExitStack() as stack:
                if self.session is not None and not counted:
                    nbytes = size or byte_size(dtype, shape)
                    stack.callback(self.session.charge(f"of descriptor {number}", nbytes, COMPUTE))
                made = Memory(
                    self.low, number, dtype=dtype, shape=shape, kind=kind, address=address, offset=offset, size=size
                )
                stack.callback(self.on_close(made.close))
                made.when_closed = stack.pop_all().close
            return made

    def on_close(self, undo: Callable[[], None]) -> Callable[[], None]:
        """Have this called before the context is freed, after what was asked for later; the answer withdraws it.

        What it refers to lives as long as the context; where that is the context itself, it ends with its runtime.
        """
        key, waiting = object(), self.ending.before
        with self._lock:
            self.check_open()
            waiting[key] = undo

        def withdraw() -> None:
            waiting.pop(key, None)

        return withdraw

    def keep(self, release: Callable[[], None]) -> None:
        """Have this called after the context is freed: what the runtime may read until then."""
        with self._lock:
            self.check_open()
            self.ending.after.append(release)

    def binary(self) -> bytes:
        """The context as a binary again, where the runtime can (HTP cannot store a restored one)."""
        with self._lock:
            self.check_open()
            return self.low.binary()

    def check_open(self) -> None:
        """Refuse any use after the end."""
        self.runtime.check_process(f"context {self.name}")
        if self.closed:
            raise RunFailed(f"context {self.name} is closed", hint="use it inside its `with` block")

    def close(self) -> None:
        """Wait for running executions; free memory, graphs and context, all of them, then raise the first error."""
        with self._lock:
            self._is_ending = True  # from here on nothing is added
            graphs = list(self._graphs.values())
            self._graphs.clear()
        # Without the lock: a graph that is being bound may be about to ask for it.
        for graph in graphs:
            graph.close()
        self._end()

    def _end(self) -> None:
        try:
            self.ending.run()
        finally:
            self.runtime.forget(self)

    def __enter__(self) -> Context:
        self.check_open()
        return self

    def __del__(self) -> None:
        # Nobody has a graph of it, so none is running, and no lock of theirs is waited for.
        if hasattr(self, "_is_ending"):
            self._is_ending = True
            self._end()

    # --- beside an execution ----------------------------------------------------------------------------------------

    def idle(self, within: float) -> bool:
        """Whether every graph ends what it is executing in so many seconds."""
        return all(graph.idle(within) for graph in list(self._graphs.values()))

    def disown(self) -> None:
        """In a process that was forked: all of it is the parent's."""
        self._lock = threading.RLock()
        self._is_ending = True
        for graph in self._graphs.values():
            graph.disown()
