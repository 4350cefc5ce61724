"""The worker as its parent sees it: start it, talk to it, end it and all it started."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import IO, Any

from udogen import process
from udogen.errors import RunFailed, memory_limit, of_limit
from udogen.runtime.wire import Garbled, Message, Wire

_KEPT_BYTES = 16_384
_LEAST_MEMORY = 160 << 20  # bytes of address space: with less, numpy ends the process without an exception

_Fields = Mapping[str, "type | tuple[type, ...]"]

# What messages have, by their kind.
_EVENTS: dict[str, _Fields] = {
    "phase": {"phase": str},
    "log": {"level": int, "text": str, "source": str},
    "failed": {"kind": str, "message": str, "hint": str, "details": list, "exit_code": int},
}
_QNN_FAILED: _Fields = {"function": str, "code": int}  # of a `failed` about a call of the QNN API

# What the message has that ends an order, by the order.
_ANSWERS: dict[str, _Fields] = {
    "start": {"package": dict, "runtime": dict},
    "run": {**dict.fromkeys(("create", "finalize", "execute"), (int, float)), "samples": list, "counts": list},
    "start ort": {"name": str, "build_id": str, "version": str, "path": str},
    "run model": {"outputs": list, "counts": list, "counted": str},
    "open contexts": {"runtime": dict},
    "describe context": {"graphs": list},
    "place contexts": {"table": list, "plan": dict, "devices": dict},
    "run context": {"seconds": (int, float), "graphs": list, "plan": dict},
    "records": {"returned": str, "calls": list},
    "judge": {"ops": list},
    "locate": {"path": str, "why": str},
}
_WORKER = "udogen.runtime.worker.main"


def check_memory() -> None:
    """Refuse a limit of memory with which ops cannot be run; to be called before anything imports numpy."""
    limit = memory_limit()
    if limit is not None and limit < _LEAST_MEMORY:
        raise RunFailed(
            f"`ulimit -v` is {limit >> 10}: ops cannot be run with so little memory",
            hint=f"raise it to {_LEAST_MEMORY >> 10} at least; a runtime may need more",
        )


class Child:
    """A running worker: a module whose `main` obeys."""

    def __init__(self, env: Mapping[str, str] | None = None, module: str = _WORKER) -> None:
        with ExitStack() as ours, ExitStack() as its:
            try:
                (down_read, down_write), (up_read, up_write) = _pipe(its, ours), _pipe(ours, its)
                program = process.python_program(module, supervised=True)
                argv = [sys.executable, "-c", program, str(down_read), str(up_write)]
                self._process = process.Supervised(argv, env=env, pass_fds=(down_read, up_write))
            except OSError as fault:
                why, hint = fault.strerror, getattr(of_limit(fault), "hint", "")
                raise RunFailed(f"the worker in which ops run cannot be started: {why}", hint=hint) from fault
            self._wire = Wire(up_read, down_write)
            ours.pop_all()
        try:
            self._chatter = [_Tail(stream) for stream in (self._process.stdout, self._process.stderr) if stream]
        except RuntimeError:  # no more threads
            process.kill(self._process)
            self._wire.close()
            raise

    @property
    def pid(self) -> int:
        """The id of the process in which ops run."""
        return self._process.program

    def send(self, message: Message, buffers: Sequence[Any] = ()) -> None:
        """Give it an order."""
        try:
            self._wire.send(message, buffers)
        except BrokenPipeError as problem:
            raise EOFError from problem

    def receive(self, deadline: float | None) -> tuple[Message, list[bytearray]]:
        """The next thing it says; raises Garbled where it, or an op in it, sends what is no message of a worker."""
        message, buffers = self._wire.receive(deadline)
        event = message.get("event")
        fields = _QNN_FAILED if event == "failed" and "function" in message else _EVENTS.get(str(event), {"event": str})
        return _checked(message, fields), buffers

    def ask(
        self,
        order: Message,
        buffers: Sequence[Any] = (),
        *,
        deadline: float | None,
        hear: Callable[[Message], None],
    ) -> tuple[Message, list[bytearray]]:
        """Give an order and wait for its answer, which may be `failed`; `hear` is told phases and lines of the log."""
        self.send(order, buffers)
        while True:
            message, results = self.receive(deadline)
            if message["event"] == "failed":
                return message, results
            if message["event"] not in _EVENTS:
                return _checked(message, _ANSWERS.get(order["do"], {})), results
            hear(message)

    def quit(self, seconds: float) -> None:
        """Let it free what it has, as long as that takes no more than `seconds`, and end it."""
        grace = 0.0
        try:
            self.send({"do": "quit"})
            deadline = deadline_of(seconds)
            while self.receive(deadline)[0]["event"] != "bye":
                pass
            grace = 2.0
        except (EOFError, TimeoutError, Garbled):
            pass  # what it does while it is freed concerns nobody: all results are here
        finally:
            self.end(grace)

    def end(self, grace: float = 0.0) -> int:
        """End it, after `grace` seconds if it has not ended by itself; returns how it ended."""
        until = time.monotonic() + grace
        while self._process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        process.kill(self._process)
        for tail in self._chatter:
            tail.join()
        self._wire.close()
        return self._process.returncode

    def forget_chatter(self) -> None:
        """What it said so far belongs to an earlier call."""
        for tail in self._chatter:
            tail.forget()

    def chatter(self) -> list[str]:
        """The last lines of its stdout and stderr, with all that it had written by now."""
        for tail in self._chatter:
            tail.settle()
        return [line for tail in self._chatter for line in tail.lines()]


def _checked(message: Message, fields: _Fields) -> Message:
    for name, kind in fields.items():
        if not isinstance(message.get(name), kind):
            raise Garbled(f"a message of the kind `{message.get('event')}` has no `{name}` that can be used")
    return message


def _pipe(reads: ExitStack, writes: ExitStack) -> tuple[int, int]:
    """A pipe, each end of which is closed by its side."""
    ends = os.pipe()
    for side, end in zip((reads, writes), ends, strict=True):
        side.callback(os.close, end)
    return ends


class _Tail:
    """Reads a stream to its end and keeps the last of it: a chatty op neither blocks nor fills memory."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = bytearray()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()

    def settle(self) -> None:
        """Wait until what is in the pipe is read; not for long, as an op may talk without end."""
        until = time.monotonic() + 0.2
        try:
            while select.select([self._stream], [], [], 0)[0] and self._thread.is_alive() and time.monotonic() < until:
                time.sleep(0.001)
            time.sleep(0.001)  # read, but perhaps not kept yet
        except (OSError, ValueError):
            pass  # closed: it was read to its end

    def lines(self) -> list[str]:
        with self._lock:
            text = bytes(self._kept).decode("utf-8", "replace")
        return text.splitlines()

    def join(self) -> None:
        self._thread.join(timeout=2)
        if not self._thread.is_alive():
            self._stream.close()

    def _drain(self) -> None:
        while chunk := os.read(self._stream.fileno(), 65_536):
            with self._lock:
                self._kept += chunk
                del self._kept[:-_KEPT_BYTES]


def deadline_of(timeout: float | None) -> float | None:
    """The moment at which a wait that starts now is over."""
    return None if timeout is None else time.monotonic() + timeout
