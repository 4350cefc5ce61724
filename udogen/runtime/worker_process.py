"""The parent's side of a worker: a process that runs a user's code, and ends with all processes that it started."""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import IO, Any, TypeVar

from udogen import process
from udogen.errors import LimitReached, RunFailed, UdogenError, memory_limit, of_limit
from udogen.runtime import failures
from udogen.runtime.channel import Channel, Done, Failed, Garbled, LogLine, Phase, Quit, Region
from udogen.runtime.failures import Situation

_Reply = TypeVar("_Reply")

_KEPT_BYTES, _KEPT_LOG_LINES = 16_384, 500
_LEAST_MEMORY = 160 << 20  # bytes of address space: with less, numpy ends the process without an exception
_DYING = 0.5  # seconds in which a worker that has closed its channel may end without being killed

OP_WORKER = "udogen.runtime.worker.main"


def check_memory() -> None:
    """Raise if `ulimit -v` is too low to run ops; call it before numpy is imported."""
    limit = memory_limit()
    if limit is not None and limit < _LEAST_MEMORY:
        raise LimitReached(
            f"`ulimit -v` is {limit >> 10}: ops cannot be run with so little memory",
            hint=f"raise it to {_LEAST_MEMORY >> 10} at least; a runtime may need more",
        )


class WorkerProcess:
    """A running worker: a module whose `main` serves commands; `used` after the first of them."""

    def __init__(self, module: str = OP_WORKER, env: Mapping[str, str] | None = None) -> None:
        with ExitStack() as on_failure:
            try:
                near, far = socket.socketpair()
                on_failure.callback(near.close)
                with far:
                    program = process.python_program(module, supervised=True)
                    argv = [sys.executable, "-c", program, str(far.fileno())]
                    self._process = process.Supervised(argv, env=env, pass_fds=(far.fileno(),))
            except OSError as fault:
                limit = of_limit(fault)
                kind, hint = (LimitReached, limit.hint) if limit else (RunFailed, "")
                raise kind(f"the worker in which ops run cannot be started: {fault.strerror}", hint=hint) from fault
            on_failure.pop_all()
        self._channel, self.used = Channel(near.detach()), False
        try:
            self._output = [_Tail(stream) for stream in (self._process.stdout, self._process.stderr) if stream]
        except RuntimeError:  # no more threads
            process.kill(self._process)
            self._channel.close()
            raise

    @property
    def pid(self) -> int:
        """The id of the process in which ops run."""
        return self._process.program

    def ask(
        self,
        command: object,
        reply: type[_Reply],
        *,
        deadline: float | None = None,
        on_report: Callable[[Phase | LogLine], None] = lambda _report: None,
    ) -> _Reply | Failed:
        """Send a command and wait for the reply.

        Raises EOFError if the worker has ended, TimeoutError after the deadline, Garbled if the worker, or an op in it,
        sends other bytes.
        """
        self.used = True
        try:
            self._channel.send(command)
        except (BrokenPipeError, ConnectionResetError) as problem:
            raise EOFError from problem
        expected: tuple[type[Any], ...] = (reply, Phase, LogLine, Failed)
        while True:
            message = self._channel.receive(expected, deadline)
            if not isinstance(message, (Phase, LogLine)):
                answer: _Reply | Failed = message
                return answer
            on_report(message)

    def quit(self, seconds: float) -> None:
        """Have it free its resources, for at most `seconds`, and end it."""
        grace = 0.0
        try:
            self.ask(Quit(), Done, deadline=deadline_of(seconds))
            grace = 2.0
        except (EOFError, TimeoutError, Garbled):
            pass  # all results have been received
        finally:
            self.end(grace)

    def end(self, grace: float = 0.0) -> int:
        """End it, at the latest after `grace` seconds; returns its exit status."""
        until = time.monotonic() + grace
        while self._process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        process.kill(self._process)
        for tail in self._output:
            tail.join()
        self._channel.close()
        return self._process.returncode

    def forget_output(self) -> None:
        """Discard the output of earlier commands."""
        for tail in self._output:
            tail.forget()

    def output(self) -> list[str]:
        """The last lines of its stdout and stderr, including all that it has written by now."""
        for tail in self._output:
            tail.settle()
        return [line for tail in self._output for line in tail.lines()]


class WorkerSession:
    """A worker and its reports on the last command; it can be started again after it ended.

    Every failure is an error about a `Situation`; `explain` makes it from the failure that the worker reports.  `first`
    is a process of the module that was started in advance, so that it imports while its first command is prepared.
    """

    def __init__(
        self,
        module: str = OP_WORKER,
        *,
        env: Mapping[str, str] | None = None,
        first: WorkerProcess | None = None,
        explain: Callable[[Situation, Failed], UdogenError] = failures.reported_error,
        on_phase: Callable[[str], None] | None = None,
        on_log: Callable[[LogLine], None] | None = None,
    ) -> None:
        self._module, self._env, self._explain, self._first = module, env, explain, first
        self._on_phase, self._on_log = on_phase, on_log
        self._worker: WorkerProcess | None = None
        self.phase = failures.START
        self.regions: tuple[Region, ...] = ()
        self.logs: deque[LogLine] = deque(maxlen=_KEPT_LOG_LINES)

    @property
    def running(self) -> bool:
        """Whether a worker is running."""
        return self._worker is not None

    @property
    def pid(self) -> int | None:
        """The worker's process id; None if no worker is running."""
        return self._worker.pid if self._worker else None

    def start(self, command: object, reply: type[_Reply], situation: Situation, timeout: float | None) -> _Reply:
        """Start the worker with its first command; it is ended if that fails."""
        self._worker, self._first = self._first or WorkerProcess(self._module, self._env), None
        try:
            return self.ask(command, reply, situation, timeout, phase=failures.START)
        except UdogenError:
            self.drop()
            raise

    def ask(
        self,
        command: object,
        reply: type[_Reply],
        situation: Situation,
        timeout: float | None = None,
        *,
        phase: str = failures.IDLE,
    ) -> _Reply:
        """The running worker's reply; `phase` is the one in effect until it reports one."""
        worker = self._worker
        assert worker is not None
        self.logs.clear()
        if phase != failures.START:  # what it has printed by then is why it ended
            worker.forget_output()
        self.phase, self.regions = phase, ()
        try:
            answer = worker.ask(command, reply, deadline=deadline_of(timeout), on_report=self._report)
        except EOFError:
            returncode = self.drop(_DYING)  # its exit status is the reason
            raise failures.crash_error(self._completed(situation, worker), returncode) from None
        except TimeoutError:
            self.drop()
            raise failures.timeout_error(self._completed(situation, worker), timeout or 0.0) from None
        except Garbled as problem:
            self.drop()
            raise failures.garbled_error(self._completed(situation, worker), str(problem)) from None
        except OSError as fault:
            self.drop()
            raise of_limit(fault) or fault from fault
        except BaseException:  # Ctrl-C: leave nothing running
            self.drop()
            raise
        if isinstance(answer, Failed):
            raise self._explain(self._completed(situation, worker), answer)
        return answer

    def output(self) -> list[str]:
        """The lines that the worker printed during the last command."""
        return self._worker.output() if self._worker else []

    def drop(self, grace: float = 0.0) -> int:
        """End the worker, if it is running, without freeing its resources."""
        worker, self._worker = self._worker, None
        return worker.end(grace) if worker else 0

    def close(self, seconds: float = 2.0) -> None:
        """Have the worker free its resources, and end it."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.quit(seconds)

    def _report(self, report: Phase | LogLine) -> None:
        if isinstance(report, LogLine):
            self.logs.append(report)
            if self._on_log:
                self._on_log(report)
            return
        self.phase = report.name
        self.regions = self.regions if report.regions is None else report.regions
        if self._on_phase:
            self._on_phase(self.phase)

    def _completed(self, situation: Situation, worker: WorkerProcess) -> Situation:
        output = worker.output()
        return replace(situation, phase=self.phase, logs=tuple(self.logs), output=output, regions=self.regions)


class _Tail:
    """Reads a stream to its end and keeps its last bytes: an op that prints a lot neither blocks nor fills memory."""

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
        """Wait until the pipe is read, but not for long: an op may print without end."""
        until = time.monotonic() + 0.2
        try:
            while select.select([self._stream], [], [], 0)[0] and self._thread.is_alive() and time.monotonic() < until:
                time.sleep(0.001)
            time.sleep(0.001)  # the last bytes may be read, but not stored yet
        except (OSError, ValueError):
            pass  # closed: it was read to the end

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
    """The end of a timeout that starts now; None without a timeout."""
    return None if timeout is None else time.monotonic() + timeout
