"""The worker in which op packages are loaded and their ops run.

It reports each phase, so that the parent can name the last one after a crash.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from udogen.qnn import abi
from udogen.qnn.interface import INFO, WARN, QnnError
from udogen.qnn.system import binary_info
from udogen.runtime import execution_counts, failures
from udogen.runtime.channel import Done, Quit
from udogen.runtime.contexts.context import Context
from udogen.runtime.contexts.graph import Graph
from udogen.runtime.contexts.runtime import Runtime
from udogen.runtime.op.calls import (
    OpCall,
    OpenPackage,
    OpPackageInfo,
    OpPrepared,
    OpRan,
    OpRanTwice,
    PackageOpened,
    PrepareOp,
    RunOp,
    RunOpTwice,
)
from udogen.runtime.op.watch import Fence, Heap, Watch
from udogen.runtime.worker.guarded_package import GuardedPackage, poison_heap
from udogen.runtime.worker.loaded_package import LoadedPackage
from udogen.runtime.worker.op_graph import (
    GuardedBuffer,
    GuardedBuffers,
    Rules,
    block_of,
    new_graph,
    refuse_strays,
    stored_graph,
    tensors_of,
)
from udogen.runtime.worker.serving import Commands, Parent, keeping_float_state, serve, timed

_MOST_SAMPLES = 10_000


class OpRuntime(Runtime):
    """A runtime in a worker: the parent reads its output, even after a crash, and makes the arrays."""

    uses_arrays = captures_prints = False


class OpWorker:
    """One runtime with one registered op package."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._opened: Runtime | None = None
        self._guarded: GuardedPackage | None = None

    def commands(self) -> Commands:
        """Command -> function."""
        return {
            OpenPackage: self.open,
            RunOp: self.run,
            PrepareOp: self.prepare,
            RunOpTwice: self.run_twice,
            Quit: self.quit,
        }

    def open(self, command: OpenPackage) -> PackageOpened:
        """Load the runtime, load and register the op package."""
        phase, library = self._parent.phase, str(command.library)
        if command.poison:
            poison_heap(command.poison)
        phase(failures.LOAD_RUNTIME)
        self._command, behaviour = command, command.runtime.behaviour
        runtime = self._opened = self._new_runtime()
        failures.check_release(library, command.built_for, runtime.build_id)
        self._library = os.path.realpath(library)
        if command.soc:
            phase("create the device")
            runtime.device()
        phase("load the op package")
        package = self._package = LoadedPackage(library, command.provider)
        if not behaviour.forwards_log:
            package.log_to(self._parent.log("package"), INFO)
        phase("register the op package")
        runtime.register_file(command.library, command.provider, command.target, loaded=package)
        phase("query the op package")
        self._counters = execution_counts.counters_of(library, command.provider)
        self._guards = behaviour.clears_outputs
        self._rules = Rules(command.delivers, behaviour.validates, phase)
        name, operations = package.info()
        return PackageOpened(OpPackageInfo(name, tuple(operations)), runtime.about)

    def _new_runtime(self) -> Runtime:
        command, log = self._command, self._parent.log("runtime")
        return OpRuntime(qnn_lib=command.runtime, soc=command.soc, log=log, log_level=WARN)

    @property
    def _runtime(self) -> Runtime:
        assert self._opened is not None
        return self._opened

    def run(self, command: RunOp) -> OpRan:
        """Run one op in its own graph, made now or restored from a context binary."""
        call = command.call
        poison_heap(call.poison)
        try:
            with keeping_float_state(f"op `{call.op_type}`"):
                return self._run(call, command.watch)
        finally:
            poison_heap(0)

    def _graph(self, context: Context, call: OpCall) -> tuple[Graph, float]:
        """The graph of a call, ready for execution, and the time when its finalization began."""
        if call.context is not None:
            return stored_graph(context, call), time.perf_counter()
        built = new_graph(context, call, self._rules)
        created = time.perf_counter()
        self._parent.phase("finalize")
        return context.finalize_graph(built), created

    def _run(self, call: OpCall, watch: Watch) -> OpRan:
        clock, op, phase = time.perf_counter, call.op_type, self._parent.phase
        started = clock()
        guarded = self._guarded_package(call, watch)
        fence = self._fence(call, watch) if watch.guard else None
        counts = [self._counts(op)]
        with self._context(guarded.runtime if guarded else self._runtime, call) as context:
            graph, created = self._graph(context, call)
            finalized = clock()
            buffers = GuardedBuffers(guard=watch.guard, exact=watch.exact, poison=call.poison)
            results = buffers.bind(graph, call)
            if guarded:
                guarded.leave(results)
            heap = Heap(self._library) if watch.heap else None
            counts.append(self._counts(op))
            phase("execute", (*buffers.regions(), *(fence.regions() if fence else ())))
            seconds = _times(graph.execute, call.loops, heap, buffers)
            counts.append(self._counts(op))
            if fence:
                fence.end()
                fence.check(op)
            kept = context.binary() if call.save_context else None
            phase("free the graph")
        if guarded:
            refuse_strays(op, guarded.strays())
        buffers.check(op)
        # Memory that is not shared is freed with `buffers` before the reply is sent, so it is copied.
        data = {
            tensor.name: buffer.block or memoryview(bytes(buffer.data))
            for tensor, buffer in zip(graph.outputs, results, strict=True)
        }
        # A restored graph has its own order of outputs.
        arrays = data.values() if call.context is None else [data[arg.name] for arg in call.outputs]
        return OpRan(
            outputs=tuple(arrays),
            create=created - started,
            finalize=finalized - created,
            samples=tuple(seconds[:_MOST_SAMPLES]),
            execute=statistics.median(seconds),
            heap=heap.use() if heap else None,
            counted=self._counters.counted if self._counters else "",
            counts=tuple(counts),
            context=kept,
        )

    def _context(self, runtime: Runtime, call: OpCall) -> Context:
        """An empty context, or the one restored from the call's binary."""
        if call.context is None:
            return runtime.new_context()
        self._parent.phase("restore the context")
        return runtime.restore(call.context, name="the context")

    def _counts(self, op: str) -> tuple[int, int]:
        """How often the package executed this op, and all its ops together."""
        return (self._counters.of(op), self._counters.total()) if self._counters else (0, 0)

    def _fence(self, call: OpCall, watch: Watch) -> Fence:
        fence = Fence(str(self._runtime.path), watch.guard)
        for arg in tensors_of(call):
            if arg.data is not None:
                fence.tensor(arg.name, block_of(arg).data)
        return fence

    def prepare(self, command: PrepareOp) -> OpPrepared:
        """Make a graph of the op for another machine."""
        with self._context(self._runtime, command.call) as context:
            built = new_graph(context, command.call, self._rules)
            self._parent.phase("finalize")
            context.finalize_graph(built)
            binary = context.binary()
            self._parent.phase("free the graph")
        [graph] = binary_info(self._runtime.system, binary).graphs
        return OpPrepared(binary, graph)

    def run_twice(self, command: RunOpTwice) -> OpRanTwice:
        """Run two graphs of one op, each alone and both at once."""
        phase, call = self._parent.phase, command.call
        with self._bound(call) as (one, first), self._bound(call) as (other, second):
            phase("execute")
            outputs = []
            for graph, results in ((one, first), (other, second)):
                graph.execute()
                outputs.append(_copies(results))
            _execute_at_once(command, (one, other))
            outputs += [_copies(first), _copies(second)]
            phase("free the graph")
        return OpRanTwice(tuple(outputs))

    @contextmanager
    def _bound(self, call: OpCall) -> Iterator[tuple[Graph, Sequence[GuardedBuffer]]]:
        """A graph whose tensors have memory of their own, and that of its outputs."""
        with self._runtime.new_context() as context:
            graph, _ = self._graph(context, call)
            memory = GuardedBuffers(exact=True)
            yield graph, memory.bind(graph, call)

    def _guarded_package(self, call: OpCall, watch: Watch) -> GuardedPackage | None:
        """The package with guards around tensors and poison in outputs while an op executes, or None.

        It is None if a `Watch` does this, and for repeated executions, because they are timed.
        """
        watched = watch.heap or watch.guard or watch.exact
        if not self._guards or watched or not (call.poison or call.loops == 1):
            return None
        if self._guarded is None:
            self._parent.phase("register the op package a second time")
            try:
                self._guarded = GuardedPackage(self._package, self._new_runtime(), self._command.provider)
            except QnnError as problem:  # a release of the runtime that does not allow this: run without guards
                text = f"tensors get no guards inside the runtime: {problem.function} returns {problem.code}"
                self._parent.log("udogen")(WARN, text)
                self._guards = False
                return None
        self._guarded.expect(call)
        return self._guarded

    def quit(self, _command: Quit) -> Done:
        """Free everything."""
        if self._opened is not None:
            self._parent.phase("free the backend")
            if self._guarded is not None:
                self._guarded.runtime.close()
            self._opened.close()
        return Done()


def _times(execute: Callable[[], None], loops: int, heap: Heap | None, buffers: GuardedBuffers) -> list[float]:
    """Seconds of each execution; the heap is watched only during executions."""
    if heap is None:
        first = timed(execute)
        if loops > 1:
            buffers.repeat()
        return [first, *(timed(execute) for _ in range(loops - 1))]
    seconds = []
    heap.arm()
    try:
        for _ in range(loops):
            seconds.append(timed(execute))
            heap.turn()
    finally:
        heap.disarm()
    return seconds


# --- executions at once -------------------------------------------------------------------------------------------


def _copies(buffers: Sequence[GuardedBuffer]) -> tuple[memoryview, ...]:
    return tuple(memoryview(bytes(buffer.data)) for buffer in buffers)


def _execute_at_once(command: RunOpTwice, graphs: Sequence[Graph]) -> None:
    """Execute graphs in threads that start together; the loop is in C, without Python's lock."""
    ffi, loaded = abi.ffi(), ctypes.CDLL(str(command.loop))
    loop = ffi.cast(
        "uint64_t (*)(void *, void *, void const *, uint32_t, void *, uint32_t, uint64_t, double, int *, int)",
        ctypes.cast(loaded.udogen_loop, ctypes.c_void_p).value,
    )
    started, codes = ffi.new("int *"), []

    def work(graph: Graph) -> None:
        execute, args = graph.prepared()
        limits = (command.executions, command.seconds, started, len(graphs))
        codes.append(loop(ffi.cast("void *", execute), *args[:5], *limits))

    threads = [threading.Thread(target=work, args=(graph,)) for graph in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed := [code for code in codes if code]:
        raise QnnError("graphExecute", failed[0])


def main() -> None:
    """Run ops."""
    serve(lambda parent: OpWorker(parent).commands())
