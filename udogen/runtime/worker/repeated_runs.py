"""In the child: one op many times over, for what shows only then: memory that is never freed, threads that collide."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from udogen.qnn import abi
from udogen.qnn.interface import QnnError
from udogen.runtime.contexts.graph import Graph
from udogen.runtime.contexts.runtime import Runtime
from udogen.runtime.op.calls import OpCall
from udogen.runtime.op.commands import Growth, HeapShot, OpRanTwice, OpRepeated
from udogen.runtime.op.watch import Heap
from udogen.runtime.worker.guarded_buffers import GuardedBuffer, GuardedBuffers
from udogen.runtime.worker.op_graph import Rules, new_graph

_WARM_EXECUTIONS, _WARM_CYCLES = 20, 5  # what is made once and kept is no leak


@dataclass(frozen=True)
class _BoundGraph:
    """A graph whose tensors lie in memory of its own."""

    graph: Graph
    memory: GuardedBuffers
    results: Sequence[GuardedBuffer]

    def outputs(self) -> tuple[bytes, ...]:
        """Copies of its outputs."""
        return tuple(bytes(buffer.data) for buffer in self.results)


class RepeatedRuns:
    """One op, made and executed as often as one likes."""

    def __init__(self, runtime: Runtime, call: OpCall, rules: Rules, *, exact: bool = False) -> None:
        self._runtime, self._call, self._rules, self._exact = runtime, call, rules, exact

    def leaks(self, library: str, times: int, cycles: int) -> OpRepeated:
        """The heap and the open files after many executions of one graph, and after many graphs: thrice each."""
        heap = Heap(library)
        heap.arm(track=True)
        try:
            with self._graph() as made:
                self._rules.phase("execute")
                executions = _thrice(heap, made.graph.execute, _WARM_EXECUTIONS, times)
            self._rules.phase("make and free the graph again and again")
            silent = self._rules._replace(phase=lambda _name: None)
            op = RepeatedRuns(self._runtime, self._call, silent)
            return OpRepeated(executions, _thrice(heap, op.cycle, _WARM_CYCLES, cycles))
        finally:
            heap.disarm()

    def cycle(self) -> None:
        """Make the graph, execute it once, and free it."""
        with self._graph() as made:
            made.graph.execute()

    def parallel(self, loop: Path, executions: int, seconds: float) -> OpRanTwice:
        """Two graphs of the op, first one after the other, then at the same time: their outputs."""
        with self._graph() as one, self._graph() as other:
            self._rules.phase("execute")
            outputs = []
            for each in (one, other):
                each.graph.execute()
                outputs.append(each.outputs())
            self._at_once(loop, executions, seconds, one.graph, other.graph)
            outputs += [one.outputs(), other.outputs()]
            self._rules.phase("free the graph")
        return OpRanTwice(tuple(outputs))

    def _at_once(self, library: Path, executions: int, seconds: float, *graphs: Graph) -> None:
        """Execute them in threads that wait for each other, and then for nobody: the loop is not Python's."""
        ffi, loaded = abi.ffi(), ctypes.CDLL(str(library))
        address = ctypes.cast(loaded.udogen_loop, ctypes.c_void_p).value
        loop = ffi.cast(
            "uint64_t (*)(void *, void *, void const *, uint32_t, void *, uint32_t, uint64_t, double, int *, int)",
            address,
        )
        here, codes = ffi.new("int *"), []

        def work(graph: Graph) -> None:
            execute, args = graph.prepared()
            given = (
                ffi.cast("void *", execute),
                *args[:5],
                executions,
                seconds,
                here,
                len(graphs),
            )
            codes.append(loop(*given))

        threads = [threading.Thread(target=work, args=(graph,)) for graph in graphs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        failed = [code for code in codes if code]
        if failed:
            raise QnnError("graphExecute", failed[0])

    @contextmanager
    def _graph(self) -> Iterator[_BoundGraph]:
        """A finalized graph with its tensors bound."""
        with self._runtime.new_context() as context:
            built = new_graph(context, self._call, self._rules)
            self._rules.phase("finalize")
            graph = context.finalize_graph(built)
            memory = GuardedBuffers(exact=self._exact)
            yield _BoundGraph(graph, memory, memory.bind(graph, self._call))


def _thrice(heap: Heap, work: Callable[[], None], warm: int, times: int) -> Growth:
    """What is in use after some turns, after half of the others, and at the end."""
    shots = []
    for turns in (warm, times // 2, times - times // 2):
        for _ in range(turns):
            work()
        shots.append(HeapShot(heap.use(), len(os.listdir("/proc/self/fd"))))
    return Growth(times, tuple(shots))
