"""In the child: one op many times over, for what shows only then: memory that is never freed, threads that collide."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from udogen.qnn import abi
from udogen.qnn.handles import BackendHandle, DeviceHandle, GraphHandle
from udogen.qnn.interface import QnnError
from udogen.qnn.tensors import APP_WRITE, QnnTensor, tensor_array
from udogen.runtime.op.calls import OpCall
from udogen.runtime.op.commands import Growth, HeapShot, OpRanTwice, OpRepeated
from udogen.runtime.op.watch import Heap
from udogen.runtime.worker.guarded_buffers import GuardedBuffer, GuardedBuffers
from udogen.runtime.worker.op_graph import Rules, new_graph

_WARM_EXECUTIONS, _WARM_CYCLES = 20, 5  # what is made once and kept is no leak


class _FinalizedGraph:
    """A finalized graph with what it needs to be executed."""

    def __init__(
        self, graph: GraphHandle, inputs: list[QnnTensor], outputs: list[QnnTensor], buffers: list[GuardedBuffer]
    ) -> None:
        self._graph, self._inputs, self._outputs, self._buffers = graph, inputs, outputs, buffers
        self._arrays = tensor_array(inputs), tensor_array(outputs)
        self.execute = graph.executor(inputs, outputs)

    def call(self) -> tuple[Any, tuple[Any, ...]]:
        """The C function that executes it, and its arguments."""
        return self._graph.call(*self._arrays, counts=(len(self._inputs), len(self._outputs)))

    def outputs(self) -> tuple[bytes, ...]:
        """Copies of its outputs."""
        return tuple(bytes(buffer.data) for buffer in self._buffers)


class RepeatedRuns:
    """One op, made and executed as often as one likes."""

    def __init__(
        self, backend: BackendHandle, device: DeviceHandle | None, call: OpCall, rules: Rules, *, exact: bool = False
    ) -> None:
        self._backend, self._device, self._call, self._rules, self._exact = backend, device, call, rules, exact

    def leaks(self, library: str, times: int, cycles: int) -> OpRepeated:
        """The heap and the open files after many executions of one graph, and after many graphs: thrice each."""
        heap = Heap(library)
        heap.arm(track=True)
        try:
            with self._graph() as made:
                self._rules.phase("execute")
                executions = _thrice(heap, made.execute, _WARM_EXECUTIONS, times)
            self._rules.phase("make and free the graph again and again")
            silent = self._rules._replace(phase=lambda _name: None)
            op = RepeatedRuns(self._backend, self._device, self._call, silent)
            return OpRepeated(executions, _thrice(heap, op.cycle, _WARM_CYCLES, cycles))
        finally:
            heap.disarm()

    def cycle(self) -> None:
        """Make the graph, execute it once, and free it."""
        with self._graph() as made:
            made.execute()

    def parallel(self, loop: Path, executions: int, seconds: float) -> OpRanTwice:
        """Two graphs of the op, first one after the other, then at the same time: their outputs."""
        with self._graph() as one, self._graph() as other:
            self._rules.phase("execute")
            answers = []
            for each in (one, other):
                each.execute()
                answers.append(each.outputs())
            self._at_once(loop, executions, seconds, one, other)
            answers += [one.outputs(), other.outputs()]
            self._rules.phase("free the graph")
        return OpRanTwice(tuple(answers))

    def _at_once(self, library: Path, executions: int, seconds: float, *graphs: _FinalizedGraph) -> None:
        """Execute them in threads that wait for each other, and then for nobody: the loop is not Python's."""
        ffi, loaded = abi.ffi(), ctypes.CDLL(str(library))
        address = ctypes.cast(loaded.udogen_loop, ctypes.c_void_p).value
        loop = ffi.cast(
            "uint64_t (*)(void *, void *, void const *, uint32_t, void *, uint32_t, uint64_t, double, int *, int)",
            address,
        )
        here, codes = ffi.new("int *"), []

        def work(made: _FinalizedGraph) -> None:
            execute, args = made.call()
            given = (
                ffi.cast("void *", execute),
                *args[:5],
                executions,
                seconds,
                here,
                len(graphs),
            )
            codes.append(loop(*given))

        threads = [threading.Thread(target=work, args=(made,)) for made in graphs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        failed = [code for code in codes if code]
        if failed:
            raise QnnError("graphExecute", failed[0])

    @contextmanager
    def _graph(self) -> Iterator[_FinalizedGraph]:
        """A finalized graph with its tensors bound."""
        with self._backend.context(self._device) as context:
            graph, inputs, outputs = new_graph(context, self._call, self._rules)
            self._rules.phase("finalize")
            graph.finalize()
            buffers = GuardedBuffers(exact=self._exact)  # kept as long as the graph
            results = buffers.bind(inputs, outputs, self._call)
            given = [each for each in inputs if each.role == APP_WRITE]
            yield _FinalizedGraph(graph, given, outputs, results)


def _thrice(heap: Heap, work: Callable[[], None], warm: int, times: int) -> Growth:
    """What is there after some turns, after half of the others, and at the end."""
    shots = []
    for turns in (warm, times // 2, times - times // 2):
        for _ in range(turns):
            work()
        shots.append(HeapShot(heap.use(), len(os.listdir("/proc/self/fd"))))
    return Growth(times, tuple(shots))
