"""The worker as its parent sees it: start it, talk to it, end it and all it started."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from udogen import process
from udogen.runtime.wire import Message, Wire

_KEPT_BYTES = 16_384
_WORKER = "udogen.runtime.worker.main"


class Child:
    """A running worker: a module whose `main` obeys."""

    def __init__(self, env: Mapping[str, str] | None = None, module: str = _WORKER) -> None:
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()
        here = int(threading.current_thread() is threading.main_thread())
        argv = [
            sys.executable,
            "-c",
            process.python_program(module),
            *(str(n) for n in (down_read, up_write, os.getpid(), here)),
        ]
        try:
            self._process = process.start(argv, env=env, pass_fds=(down_read, up_write))
        except BaseException:
            os.close(down_write)
            os.close(up_read)
            raise
        finally:
            os.close(down_read)
            os.close(up_write)
        self._wire = Wire(up_read, down_write)
        self._chatter = [_Tail(stream) for stream in (self._process.stdout, self._process.stderr) if stream]

    @property
    def pid(self) -> int:
        """Its process id, which is its group's too."""
        return self._process.pid

    def send(self, message: Message, buffers: Sequence[Any] = ()) -> None:
        """Give it an order."""
        try:
            self._wire.send(message, buffers)
        except BrokenPipeError as problem:
            raise EOFError from problem

    def receive(self, deadline: float | None) -> tuple[Message, list[bytearray]]:
        """The next thing it says."""
        return self._wire.receive(deadline)

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
            if message["event"] not in ("phase", "log"):
                return message, results
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
        except (EOFError, TimeoutError):
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
