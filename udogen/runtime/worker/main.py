"""The child process in which op packages are loaded and their ops run.

It announces each phase before it enters it, so that the parent knows where it was when it died.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import queue
import resource
import signal
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from udogen.errors import RunFailed, UdogenError, of_limit
from udogen.qnn.handles import BackendHandle, ContextHandle, DeviceHandle, GraphHandle, LogHandle
from udogen.qnn.interface import WARN, Interface, QnnError
from udogen.qnn.tensors import APP_WRITE, Tensor
from udogen.runtime import failures, proof
from udogen.runtime.op import stored
from udogen.runtime.op.watch import Fence, Heap, as_message
from udogen.runtime.wire import Garbled, Message, Wire
from udogen.runtime.worker import probe, recorder, registrar
from udogen.runtime.worker.op_graph import OpGraph, new_graph
from udogen.runtime.worker.op_package import LoadedPackage
from udogen.runtime.worker.poison import GuardedPackage, poison_heap
from udogen.runtime.worker.rooms import Rooms, refuse_strays

if TYPE_CHECKING:
    from udogen.runtime.contexts.executor import Executor

_MOST_SAMPLES = 10_000
_IOLBF = 1


class Worker:
    """One backend with one registered op package, and the calls made to it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._writing = threading.Lock()  # runtimes log from threads of their own
        self._contexts: Executor | None = None
        self._poisoned: GuardedPackage | None = None

    def start(self, order: Message) -> None:
        """Load the runtime, load and register the op package."""
        self._delivers: list[str] | None = order["delivers"]
        self._validates: bool = order["validates"]
        if order["poison"]:
            poison_heap(order["poison"])
        library, provider = order["library"], order["provider"]
        self._phase(failures.LOAD_RUNTIME)
        self._libraries = Path(order["runtime"]).parent
        interface = self._interface = Interface.load(Path(order["runtime"]))
        failures.check_release(library, order["built_for"], interface.build_id())
        self._library, self._runtime = os.path.realpath(library), os.path.realpath(order["runtime"])
        self._phase("load the op package")
        package = LoadedPackage(library, provider)
        if not order["forwards_log"]:
            package.log_to(self._sink("package"), order["log_level"])
        self._phase("create the backend")
        self._log = LogHandle(interface, self._sink("runtime"), order["runtime_log_level"])
        self._backend = BackendHandle(interface, self._log)
        self._device: DeviceHandle | None = None
        if order["soc"]:
            self._phase("create the device")
            self._device = DeviceHandle(interface, self._log, soc=order["soc"])
        self._phase("register the op package")
        self._backend.register(Path(library), provider, order["target"])
        self._phase("ask the op package what it has")
        name, operations = package.info()
        self._counters = proof.counters_of(library, provider)
        self._package, self._provider, self._clears = package, provider, bool(order["clears_outputs"])
        self._say(
            "ready",
            package={"name": name, "operations": operations},
            runtime={
                "name": interface.name,
                "build_id": interface.build_id(),
                "api_version": interface.api_version,
                "backend_version": interface.backend_version,
                "path": str(interface.path),
            },
        )

    def run(self, order: Message, buffers: list[bytearray]) -> None:
        """Run one op in a graph of its own, made now or restored from a context binary."""
        if not order["poison"]:
            return self._run(order, buffers)
        poison_heap(order["poison"])
        try:
            self._run(order, buffers)
        finally:
            poison_heap(0)

    def _run(self, order: Message, buffers: list[bytearray]) -> None:
        clock, op = time.perf_counter, order["op"]
        started = clock()
        restored = order["context"] is not None
        binary = bytes(buffers[order["context"]]) if restored else b""
        guarded = self._guarded_backend(order)
        backend = guarded.backend if guarded else self._backend
        fence = self._fence(order, buffers) if order["guard"] else None
        counts = [self._counts(op)]
        with self._restored(backend, binary) if restored else backend.context(self._device) as context:
            if restored:
                graph, inputs, outputs = self._stored_graph(context, binary, order)
            else:
                graph, inputs, outputs = self._new_graph(context, order, buffers)
            created = clock()
            if not restored:
                self._phase("finalize")
                graph.finalize()
            finalized = clock()
            rooms = Rooms(guard=order["guard"], exact=order["exact"], poison=order["poison"])
            results = [rooms.output(each.name, each.nbytes) for each in outputs]
            for each, room in zip(outputs, results, strict=True):
                each.bind(room.data)
            rows = [row for row in order["inputs"] if row["role"] == APP_WRITE]
            given = [each for each in inputs if each.role == APP_WRITE]
            if restored:
                rows.sort(key=lambda row: [each.name for each in given].index(row["name"]))
            for each, row in zip(given, rows, strict=True):
                # Only now: a graph does not take an input that has data.
                each.bind(rooms.input(each.name, buffers[row["buffer"]]).data)
            execute = graph.executor(given, outputs)
            heap = Heap(self._library) if order["heap"] else None
            counts.append(self._counts(op))
            self._phase("execute", rooms=[*rooms.told(), *(fence.told() if fence else [])])
            seconds = _times(execute, order["loops"], heap, rooms)
            counts.append(self._counts(op))
            if fence:
                fence.end()
                fence.check(op)
            kept = [context.binary()] if order["save"] else []
            self._phase("free the graph")
        if guarded:
            refuse_strays(op, guarded.strays())
        rooms.check(op)
        answers = [room.data for room in results]
        if restored:  # in the order of the call
            names = [each.name for each in outputs]
            answers = [answers[names.index(row["name"])] for row in order["outputs"]]
        self._say(
            "done",
            [*answers, *kept],
            create=created - started,
            finalize=finalized - created,
            execute=statistics.median(seconds),
            heap=heap and as_message(heap.use()),
            samples=seconds[:_MOST_SAMPLES],
            counted=self._counters and self._counters.counted,
            counts=counts,
        )

    def _counts(self, op: str) -> tuple[int, int]:
        """How often the package executed this op, and all its ops."""
        return (self._counters.of(op), self._counters.total()) if self._counters else (0, 0)

    def _fence(self, order: Message, buffers: list[bytearray]) -> Fence:
        fence = Fence(self._runtime, order["guard"])
        tensors = (*order["inputs"], *(row["tensor"] for row in order["params"] if "tensor" in row))
        for row in tensors:
            if "buffer" in row:
                fence.tensor(row["name"], buffers[row["buffer"]])
        return fence

    def repeat(self, order: Message, buffers: list[bytearray]) -> None:
        """Run one op many times over."""
        from udogen.runtime.worker.repeats import Repeats

        op = Repeats(
            self._backend,
            self._device,
            order,
            buffers,
            delivers=self._delivers,
            validates=self._validates,
            phase=self._phase,
        )
        told, answers = (op.leaks(self._library), []) if order["do"] == "leaks" else op.parallel()
        self._say("done", answers, **told)

    def _new_graph(self, context: ContextHandle, order: Message, buffers: list[bytearray]) -> OpGraph:
        validate = None if self._validates else self._backend.validate
        return new_graph(context, order, buffers, delivers=self._delivers, validate=validate, phase=self._phase)

    def _guarded_backend(self, order: Message) -> GuardedPackage | None:
        """The backend in which tensors get guards and outputs a byte where the op is executed; None: none of this.

        Not where somebody else watches, and not where many executions are for their times.
        """
        watched = order["heap"] or order["guard"] or order["exact"]
        if not self._clears or watched or not (order["poison"] or order["loops"] == 1):
            return None
        if self._poisoned is None:
            self._phase("register the op package a second time")
            try:
                self._poisoned = GuardedPackage(self._package, self._interface, self._log, self._provider)
            except QnnError as problem:  # a release that does not allow it: runs go on without
                text = f"tensors get no guards inside the runtime: {problem.function} returns {problem.code}"
                self._sink("udogen")(WARN, text)
                self._clears = False
                return None
        self._poisoned.expect(order)
        return self._poisoned

    def _restored(self, backend: BackendHandle, binary: bytes) -> ContextHandle:
        self._phase("restore the context")
        return backend.restore(binary, self._device)

    def _stored_graph(
        self, context: ContextHandle, binary: bytes, order: Message
    ) -> tuple[GraphHandle, list[Tensor], list[Tensor]]:
        info = stored.only_graph(self._libraries, binary)
        given = [row for row in order["inputs"] if row["role"] == APP_WRITE]  # static ones are in the binary
        return (
            context.retrieve(info.name),
            stored.bind("input", info.inputs, given),
            stored.bind("output", info.outputs, order["outputs"]),
        )

    def run_contexts(self, order: Message) -> None:
        """Contexts are somebody else's work; all they need of us is how to tell of it."""
        if order["do"] == "open contexts":
            from udogen.runtime.contexts.executor import Executor

            self._contexts = Executor(order, self._phase, self._sink("runtime"))
            self._say("ready", runtime=self._contexts.about())
        elif self._contexts is not None:
            work = {
                "describe context": self._contexts.describe,
                "place contexts": self._contexts.place,
                "run context": self._contexts.run,
            }
            self._say("done", **work[order["do"]](order, self._phase))

    def quit(self) -> None:
        """Free everything and say so."""
        self._phase("free the backend")
        if self._contexts is not None:
            self._contexts.close()
            self._say("bye")
            return
        if self._device is not None:
            self._device.close()
        if self._poisoned is not None:
            self._poisoned.close()
        self._backend.close()
        self._log.close()
        self._say("bye")

    def obey(self, order: Message, buffers: list[bytearray]) -> None:
        """Do what one message says; what fails is reported, not raised."""
        try:
            if order["do"] == "start":
                self.start(order)
            elif order["do"] == "run":
                self.run(order, buffers)
            elif order["do"] in ("leaks", "parallel"):
                self.repeat(order, buffers)
            elif order["do"].endswith((" context", " contexts")):
                self.run_contexts(order)
            elif order["do"] in _ASKED:
                self._say(order["do"], **_ASKED[order["do"]](order, self._phase))
            elif order["do"] == "quit":
                self.quit()
            else:
                raise RunFailed(f"the worker knows no order `{order['do']}`", hint="please report this")
        except QnnError as error:
            self._say("failed", function=error.function, code=error.code)
        except UdogenError as error:
            self._fail(error)
        except Exception as error:
            self._fail(of_limit(error) or _internal(error))

    def _fail(self, error: UdogenError) -> None:
        self._say("failed", exit_code=error.exit_code, **dict[str, Any](error.as_json()))

    def _phase(self, name: str, **more: Any) -> None:
        self._say("phase", phase=name, **more)

    def _sink(self, source: str) -> Callable[[int, str], None]:
        return lambda level, text: self._say("log", level=level, text=text, source=source)

    def _say(self, event: str, buffers: Sequence[Any] = (), **fields: Any) -> None:
        with self._writing:
            try:
                self._wire.send({"event": event, **fields}, buffers)
            except OSError as fault:
                _leave(fault)


# What needs no runtime: an order, the phases it announces, and its answer.
_ASKED: dict[str, Callable[[Message, Callable[[str], None]], dict[str, Any]]] = {
    "records": recorder.record,
    "registration": registrar.read,
    "locate": registrar.locate,
    "judge": probe.judge,
}


def _times(execute: Callable[[], None], loops: int, heap: Heap | None, rooms: Rooms) -> list[float]:
    """Seconds of each execution; where the heap is watched, it is during these alone."""
    if heap is None:
        first = _timed(execute)
        if loops > 1:
            rooms.repeat()
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


class Obeys(Protocol):
    """What does what orders say."""

    def obey(self, order: Message, buffers: list[bytearray]) -> None:
        """Do what one message says; what fails is reported, not raised."""


def main() -> None:
    """Run ops, and restore contexts."""
    serve(Worker)


def serve(make: Callable[[Wire], Obeys]) -> None:
    """Obey the parent until it says quit; die when it dies."""
    read_fd, write_fd = (int(text) for text in sys.argv[1:3])
    libc = ctypes.CDLL(None)
    # What the runtime prints must be in the pipe when it fails, or dies.
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _IOLBF, ctypes.c_size_t(0))
    wire = Wire(*(_out_of_the_way(each) for each in (read_fd, write_fd)))
    orders: queue.SimpleQueue[tuple[Message, list[bytearray]]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(wire, orders), daemon=True).start()
    worker = make(wire)
    while True:
        order, buffers = orders.get()
        worker.obey(order, buffers)
        if order["do"] == "quit":
            return


def _listen(wire: Wire, orders: queue.SimpleQueue[tuple[Message, list[bytearray]]]) -> None:
    """Read orders; when the parent is gone, take the whole process group along, whatever an op is doing."""
    try:
        while True:
            message, buffers = wire.receive()
            orders.put(({"do": "", **message}, buffers))
    except (EOFError, OSError, Garbled) as fault:
        _leave(fault)


def _leave(fault: Exception) -> NoReturn:
    """End with everything that was started here: there is no parent any more, or no way to it."""
    if not isinstance(fault, EOFError | BrokenPipeError):
        sys.stderr.write(f"{failures.LOST}{fault}\n")
        sys.stderr.flush()
    os.killpg(os.getpgrp(), signal.SIGKILL)
    raise SystemExit(1)


def _out_of_the_way(fd: int) -> int:
    """The same file as a descriptor that an op with a stale or guessed number does not hit, nor what it starts has."""
    highest = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096)
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(highest - 64, fd))
    except OSError:  # there are so few
        os.set_inheritable(fd, False)
        return fd
    os.close(fd)
    return moved


def _internal(fault: Exception) -> UdogenError:
    """A fault of ours."""
    return UdogenError(
        f"the worker failed: {type(fault).__name__}: {fault}",
        hint="this is a fault of udogen; please report it",
        details=traceback.format_exc().splitlines(),
    )


if __name__ == "__main__":
    main()
