"""In the child: one op many times over, for what shows only then: memory that is never freed, threads that collide."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from udogen.qnn import abi
from udogen.qnn.handles import BackendHandle, DeviceHandle, GraphHandle
from udogen.qnn.interface import QnnError
from udogen.qnn.tensors import APP_WRITE, Tensor, tensor_array
from udogen.runtime.op.watch import Heap, as_message
from udogen.runtime.wire import Message
from udogen.runtime.worker.op_graph import new_graph
from udogen.runtime.worker.rooms import Room, Rooms

_WARM_EXECUTIONS, _WARM_CYCLES = 20, 5  # what is made once and kept is no leak


class _Made:
    """A finalized graph with what it needs to be executed."""

    def __init__(self, graph: GraphHandle, inputs: list[Tensor], outputs: list[Tensor], rooms: list[Room]) -> None:
        self._graph, self._inputs, self._outputs, self._rooms = graph, inputs, outputs, rooms
        self._arrays = tensor_array(inputs), tensor_array(outputs)
        self.execute = graph.executor(inputs, outputs)

    def call(self) -> tuple[Any, tuple[Any, ...]]:
        """The C function that executes it, and its arguments."""
        return self._graph.call(*self._arrays, counts=(len(self._inputs), len(self._outputs)))

    def answers(self) -> list[memoryview]:
        """Copies of its outputs."""
        return [memoryview(bytes(room.data)) for room in self._rooms]


class Repeats:
    """The op of one order, made and executed as often as one likes."""

    def __init__(
        self,
        backend: BackendHandle,
        device: DeviceHandle | None,
        order: Message,
        buffers: list[bytearray],
        *,
        delivers: Sequence[str] | None,
        validates: bool,
        phase: Callable[[str], None],
    ) -> None:
        self._backend, self._device, self._order, self._buffers = backend, device, order, buffers
        self._delivers, self._validates, self._phase = delivers, validates, phase

    def leaks(self, library: str) -> dict[str, Any]:
        """The heap and the open files after many executions of one graph, and after many graphs: thrice each."""
        heap = Heap(library)
        heap.arm(track=True)
        try:
            with self._graph() as made:
                self._phase("execute")
                executions = _thrice(heap, made.execute, _WARM_EXECUTIONS, self._order["executions"])
            self._phase("make and free the graph again and again")
            quiet = Repeats(
                self._backend,
                self._device,
                self._order,
                self._buffers,
                delivers=self._delivers,
                validates=self._validates,
                phase=lambda _name: None,
            )
            return {"executions": executions, "cycles": _thrice(heap, quiet.cycle, _WARM_CYCLES, self._order["cycles"])}
        finally:
            heap.disarm()

    def cycle(self) -> None:
        """Make the graph, execute it once, and free it."""
        with self._graph() as made:
            made.execute()

    def parallel(self) -> tuple[dict[str, Any], list[memoryview]]:
        """Two graphs of the op, first one after the other, then at the same time: their outputs."""
        with self._graph() as one, self._graph() as other:
            self._phase("execute")
            answers = []
            for each in (one, other):
                each.execute()
                answers += each.answers()
            self._at_once(one, other)
            answers += [*one.answers(), *other.answers()]
            self._phase("free the graph")
        return {}, answers

    def _at_once(self, *graphs: _Made) -> None:
        """Execute them in threads that wait for each other, and then for nobody: the loop is not Python's."""
        ffi, library = abi.ffi(), ctypes.CDLL(self._order["loop"])
        address = ctypes.cast(library.udogen_loop, ctypes.c_void_p).value
        loop = ffi.cast(
            "uint64_t (*)(void *, void *, void const *, uint32_t, void *, uint32_t, uint64_t, double, int *, int)",
            address,
        )
        here, codes = ffi.new("int *"), []

        def work(made: _Made) -> None:
            execute, args = made.call()
            given = (
                ffi.cast("void *", execute),
                *args[:5],
                self._order["executions"],
                self._order["seconds"],
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
    def _graph(self) -> Iterator[_Made]:
        """A finalized graph with its tensors bound."""
        with self._backend.context(self._device) as context:
            validate = None if self._validates else self._backend.validate
            graph, inputs, outputs = new_graph(
                context,
                self._order,
                self._buffers,
                delivers=self._delivers,
                validate=validate,
                phase=self._phase,
            )
            self._phase("finalize")
            graph.finalize()
            rooms = Rooms(exact=self._order["exact"])
            results = [rooms.output(each.name, each.nbytes) for each in outputs]
            for each, room in zip(outputs, results, strict=True):
                each.bind(room.data)
            given = [each for each in inputs if each.role == APP_WRITE]
            rows = [row for row in self._order["inputs"] if row["role"] == APP_WRITE]
            for each, row in zip(given, rows, strict=True):
                each.bind(rooms.input(each.name, self._buffers[row["buffer"]]).data)
            yield _Made(graph, given, outputs, results)


def _thrice(heap: Heap, work: Callable[[], None], warm: int, times: int) -> dict[str, Any]:
    """What is there after some turns, after half of the others, and at the end."""
    shots = []
    for turns in (warm, times // 2, times - times // 2):
        for _ in range(turns):
            work()
        shots.append({"heap": as_message(heap.use()), "files": len(os.listdir("/proc/self/fd"))})
    return {"times": times, "shots": shots}
