"""In the child: one op many times over, for what shows only then: memory that is never freed, threads that collide."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from udogen.qnn.backend import Backend, Device
from udogen.qnn.tensors import APP_WRITE
from udogen.runtime.op_graph import new_graph
from udogen.runtime.rooms import Rooms
from udogen.runtime.watch import Heap, as_message
from udogen.runtime.wire import Message

_WARM_EXECUTIONS, _WARM_CYCLES = 20, 5  # what is made once and kept is no leak


class Repeats:
    """The op of one order, made and executed as often as one likes."""

    def __init__(
        self,
        backend: Backend,
        device: Device | None,
        order: Message,
        buffers: list[bytearray],
        *,
        delivers: Sequence[str] | None,
        phase: Callable[[str], None],
    ) -> None:
        self._backend, self._device, self._order, self._buffers = backend, device, order, buffers
        self._delivers, self._phase = delivers, phase

    def leaks(self, library: str) -> dict[str, Any]:
        """The heap and the open files after many executions of one graph, and after many graphs: thrice each."""
        heap = Heap(library)
        heap.arm(track=True)
        try:
            with self._graph() as (execute, _):
                self._phase("execute")
                executions = _thrice(heap, execute, _WARM_EXECUTIONS, self._order["executions"])
            self._phase("make and free the graph again and again")
            quiet = Repeats(
                self._backend,
                self._device,
                self._order,
                self._buffers,
                delivers=self._delivers,
                phase=lambda _name: None,
            )
            return {"executions": executions, "cycles": _thrice(heap, quiet.cycle, _WARM_CYCLES, self._order["cycles"])}
        finally:
            heap.disarm()

    def cycle(self) -> None:
        """Make the graph, execute it once, and free it."""
        with self._graph() as (execute, _):
            execute()

    def parallel(self) -> tuple[dict[str, Any], list[memoryview]]:
        """Two graphs of the op, first one after the other, then at the same time: their outputs."""
        answers: list[memoryview] = []
        faults: list[BaseException] = []
        with self._graph() as one, self._graph() as other:
            self._phase("execute")
            for execute, rooms in (one, other):
                execute()
                answers += [memoryview(bytes(room.data)) for room in rooms]
            barrier = threading.Barrier(2)

            def work(execute: Callable[[], None]) -> None:
                try:
                    barrier.wait()
                    for _ in range(self._order["executions"]):
                        execute()
                except BaseException as fault:
                    faults.append(fault)

            threads = [threading.Thread(target=work, args=(execute,)) for execute, _ in (one, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for _, rooms in (one, other):
                answers += [memoryview(bytes(room.data)) for room in rooms]
            self._phase("free the graph")
        if faults:
            raise faults[0]
        return {}, answers

    @contextmanager
    def _graph(self) -> Iterator[tuple[Callable[[], None], list[Any]]]:
        """A finalized graph with its tensors bound: what executes it, and the rooms of its outputs."""
        with self._backend.context(self._device) as context:
            graph, inputs, outputs = new_graph(
                context, self._order, self._buffers, delivers=self._delivers, phase=self._phase
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
            yield graph.executor(given, outputs), results


def _thrice(heap: Heap, work: Callable[[], None], warm: int, times: int) -> dict[str, Any]:
    """What is there after some turns, after half of the others, and at the end."""
    shots = []
    for turns in (warm, times // 2, times - times // 2):
        for _ in range(turns):
            work()
        shots.append({"heap": as_message(heap.use()), "files": len(os.listdir("/proc/self/fd"))})
    return {"times": times, "shots": shots}
