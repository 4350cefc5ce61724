"""The child process in which op packages are loaded and their ops run.

It announces each phase before it enters it, so that the parent knows where it was when it died.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

from udogen.qnn.handles import BackendHandle, ContextHandle, DeviceHandle, LogHandle
from udogen.qnn.interface import WARN, Interface, QnnError
from udogen.qnn.tensors import APP_READ, APP_WRITE
from udogen.runtime import execution_counts, failures
from udogen.runtime.channel import Done, Quit
from udogen.runtime.op.calls import OpCall, OpPackageInfo, RuntimeInfo
from udogen.runtime.op.commands import (
    OpenPackage,
    OpPrepared,
    OpRan,
    OpRanTwice,
    OpRepeated,
    PackageOpened,
    PrepareOp,
    RepeatOp,
    RunOp,
    RunOpTwice,
)
from udogen.runtime.op.watch import Fence, Heap, Watch
from udogen.runtime.worker.guarded_buffers import GuardedBuffers, refuse_strays
from udogen.runtime.worker.guarded_package import GuardedPackage, poison_heap
from udogen.runtime.worker.loaded_package import LoadedPackage
from udogen.runtime.worker.op_graph import OpGraph, Rules, block_of, new_graph, only_graph, stored_tensors, tensors_of
from udogen.runtime.worker.repeated_runs import RepeatedRuns
from udogen.runtime.worker.serving import Commands, Parent, serve

_MOST_SAMPLES = 10_000


class OpWorker:
    """One backend with one registered op package, and the calls made to it."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._poisoned: GuardedPackage | None = None
        self._device: DeviceHandle | None = None
        self._backend: BackendHandle | None = None

    def commands(self) -> Commands:
        """What it can be asked."""
        return {
            OpenPackage: self.open,
            RunOp: self.run,
            PrepareOp: self.prepare,
            RepeatOp: self.repeat,
            RunOpTwice: self.run_twice,
            Quit: self.quit,
        }

    def open(self, command: OpenPackage) -> PackageOpened:
        """Load the runtime, load and register the op package."""
        phase, library = self._parent.phase, str(command.library)
        if command.poison:
            poison_heap(command.poison)
        phase(failures.LOAD_RUNTIME)
        self._libraries = command.runtime.parent
        interface = self._interface = Interface.load(command.runtime)
        failures.check_release(library, command.built_for, interface.build_id())
        self._library, self._runtime = os.path.realpath(library), os.path.realpath(command.runtime)
        phase("load the op package")
        package = self._package = LoadedPackage(library, command.provider)
        if not command.forwards_log:
            package.log_to(self._parent.log("package"), command.log_level)
        phase("create the backend")
        self._log = LogHandle(interface, self._parent.log("runtime"), command.runtime_log_level)
        self._backend = BackendHandle(interface, self._log)
        if command.soc:
            phase("create the device")
            self._device = DeviceHandle(interface, self._log, soc=command.soc)
        phase("register the op package")
        self._backend.register(command.library, command.provider, command.target)
        phase("ask the op package what it has")
        self._counters = execution_counts.counters_of(library, command.provider)
        self._provider, self._clears = command.provider, command.clears_outputs
        validate = None if command.validates else self._backend.validate
        self._rules = Rules(command.delivers, validate, phase)
        name, operations = package.info()
        build_id, path = interface.build_id(), str(interface.path)
        about = RuntimeInfo(interface.name, build_id, interface.api_version, interface.backend_version, path)
        return PackageOpened(OpPackageInfo(name, tuple(operations)), about)

    def run(self, command: RunOp) -> OpRan:
        """Run one op in a graph of its own, made now or restored from a context binary."""
        call = command.call
        if not call.poison:
            return self._run(call, command.watch)
        poison_heap(call.poison)
        try:
            return self._run(call, command.watch)
        finally:
            poison_heap(0)

    def _run(self, call: OpCall, watch: Watch) -> OpRan:
        clock, op, phase = time.perf_counter, call.op_type, self._parent.phase
        started = clock()
        guarded = self._guarded_backend(call, watch)
        backend = guarded.backend if guarded else self._backend
        assert backend is not None
        fence = self._fence(call, watch) if watch.guard else None
        counts = [self._counts(op)]
        with self._context(backend, call) as context:
            graph, inputs, outputs = self._graph(context, call)
            created = clock()
            if call.context is None:
                phase("finalize")
                graph.finalize()
            finalized = clock()
            buffers = GuardedBuffers(guard=watch.guard, exact=watch.exact, poison=call.poison)
            results = buffers.bind(inputs, outputs, call)
            if guarded:
                guarded.leave(results)
            execute = graph.executor([each for each in inputs if each.role == APP_WRITE], outputs)
            heap = Heap(self._library) if watch.heap else None
            counts.append(self._counts(op))
            phase("execute", (*buffers.regions(), *(fence.regions() if fence else ())))
            seconds = _times(execute, call.loops, heap, buffers)
            counts.append(self._counts(op))
            if fence:
                fence.end()
                fence.check(op)
            kept = context.binary() if call.save_context else None
            phase("free the graph")
        if guarded:
            refuse_strays(op, guarded.strays())
        buffers.check(op)
        # Memory that is not shared ends with `buffers`, before the answer is sent.
        data = {each.name: buffer.block or bytes(buffer.data) for each, buffer in zip(outputs, results, strict=True)}
        # A restored graph has outputs in its own order, and by the names of the call.
        found = data.values() if call.context is None else [data[arg.name] for arg in call.outputs]
        return OpRan(
            outputs=tuple(found),
            create=created - started,
            finalize=finalized - created,
            samples=tuple(seconds[:_MOST_SAMPLES]),
            execute=statistics.median(seconds),
            heap=heap.use() if heap else None,
            counted=self._counters.counted if self._counters else "",
            counts=tuple(counts),
            context=kept,
        )

    def _context(self, backend: BackendHandle, call: OpCall) -> ContextHandle:
        """An empty context, or the one that the call has a binary of."""
        if call.context is None:
            return backend.context(self._device)
        self._parent.phase("restore the context")
        return backend.restore(call.context, self._device)

    def _graph(self, context: ContextHandle, call: OpCall) -> OpGraph:
        """A new graph of the op, or the stored one."""
        if call.context is None:
            return new_graph(context, call, self._rules)
        info = only_graph(self._libraries, call.context)
        given = [arg for arg in call.inputs if not arg.static and not arg.omitted]  # static ones are in the binary
        return (
            context.retrieve(info.name),
            stored_tensors("input", info.inputs, given, APP_WRITE),
            stored_tensors("output", info.outputs, call.outputs, APP_READ),
        )

    def _counts(self, op: str) -> tuple[int, int]:
        """How often the package executed this op, and all its ops."""
        return (self._counters.of(op), self._counters.total()) if self._counters else (0, 0)

    def _fence(self, call: OpCall, watch: Watch) -> Fence:
        fence = Fence(self._runtime, watch.guard)
        for arg in tensors_of(call):
            if arg.array is not None:
                fence.tensor(arg.name, block_of(arg).data)
        return fence

    def prepare(self, command: PrepareOp) -> OpPrepared:
        """Make a graph of the op for another machine."""
        assert self._backend is not None
        with self._context(self._backend, command.call) as context:
            graph, _, _ = self._graph(context, command.call)
            self._parent.phase("finalize")
            graph.finalize()
            binary = context.binary()
            self._parent.phase("free the graph")
        return OpPrepared(binary, only_graph(self._libraries, binary))

    def repeat(self, command: RepeatOp) -> OpRepeated:
        """Run one op many times over."""
        return self._repeats(command.call).leaks(self._library, command.executions, command.cycles)

    def run_twice(self, command: RunOpTwice) -> OpRanTwice:
        """Run two graphs of one op, each alone and both at once."""
        op = self._repeats(command.call, exact=True)
        return op.parallel(command.loop, command.executions, command.seconds)

    def _repeats(self, call: OpCall, *, exact: bool = False) -> RepeatedRuns:
        assert self._backend is not None
        return RepeatedRuns(self._backend, self._device, call, self._rules, exact=exact)

    def _guarded_backend(self, call: OpCall, watch: Watch) -> GuardedPackage | None:
        """The backend in which tensors get guards and outputs a byte where the op is executed; None: none of this.

        Not where somebody else watches, and not where many executions are for their times.
        """
        watched = watch.heap or watch.guard or watch.exact
        if not self._clears or watched or not (call.poison or call.loops == 1):
            return None
        if self._poisoned is None:
            self._parent.phase("register the op package a second time")
            try:
                self._poisoned = GuardedPackage(self._package, self._interface, self._log, self._provider)
            except QnnError as problem:  # a release that does not allow it: runs go on without
                text = f"tensors get no guards inside the runtime: {problem.function} returns {problem.code}"
                self._parent.log("udogen")(WARN, text)
                self._clears = False
                return None
        self._poisoned.expect(call)
        return self._poisoned

    def quit(self, _command: Quit) -> Done:
        """Free everything."""
        if self._backend is not None:
            self._parent.phase("free the backend")
            if self._device is not None:
                self._device.close()
            if self._poisoned is not None:
                self._poisoned.close()
            self._backend.close()
            self._log.close()
        return Done()


def _times(execute: Callable[[], None], loops: int, heap: Heap | None, buffers: GuardedBuffers) -> list[float]:
    """Seconds of each execution; where the heap is watched, it is during these alone."""
    if heap is None:
        first = _timed(execute)
        if loops > 1:
            buffers.repeat()
        return [first, *(_timed(execute) for _ in range(loops - 1))]
    seconds = []
    heap.arm()
    try:
        for _ in range(loops):
            seconds.append(_timed(execute))
            heap.turn()
    finally:
        heap.disarm()
    return seconds


def _timed(function: Callable[[], None]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def main() -> None:
    """Run ops."""
    serve(lambda parent: OpWorker(parent).commands())


if __name__ == "__main__":
    main()
