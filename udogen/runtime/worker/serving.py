"""In the worker: serves commands one after another, ends when the parent ends, and checks what ops leave behind."""

from __future__ import annotations

import ctypes
import os
import platform
import queue
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from udogen.errors import RunFailed, UdogenError, of_limit
from udogen.qnn.interface import QnnError
from udogen.runtime import failures
from udogen.runtime.channel import (
    Channel,
    Done,
    Failed,
    Garbled,
    LogLine,
    Phase,
    Quit,
    Region,
    UnknownMessage,
    out_of_the_way,
)

_IOLBF = 1


class Parent:
    """The parent, for reports of the code that serves commands."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._writing = threading.Lock()  # runtimes also log from their own threads

    def phase(self, name: str, regions: tuple[Region, ...] | None = None) -> None:
        """Report the next phase; the parent names the last one if this process crashes."""
        self.send(Phase(name, regions))

    def log(self, source: str) -> Callable[[int, str], None]:
        """A function that sends lines of a log to the parent."""
        return lambda level, text: self.send(LogLine(level, text, source))

    def send(self, message: object) -> None:
        """Send a report, or the reply to a command."""
        with self._writing:
            try:
                self._channel.send(message)
            except OSError as fault:
                if limit := of_limit(fault):
                    self._channel.send(failed(limit))
                    return
                _leave(fault)


Commands = Mapping[type, Callable[[Any], object]]  # command class -> the function that serves it


def serve(commands_of: Callable[[Parent], Commands]) -> None:
    """Serve commands up to `Quit`; end when the parent ends."""
    libc = ctypes.CDLL(None)
    # Line-buffered, so that the runtime's output is in the pipe when it fails or crashes.
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _IOLBF, ctypes.c_size_t(0))
    channel = Channel(out_of_the_way(int(sys.argv[1])))
    parent = Parent(channel)
    commands = {**commands_of(parent)}
    commands.setdefault(Quit, lambda _command: Done())
    taken: queue.SimpleQueue[object] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, [*commands], taken), daemon=True).start()
    while _serve_one(parent, commands, taken.get()):
        pass


def _serve_one(parent: Parent, commands: Commands, command: object) -> bool:
    """Serve a command and release the objects that it refers to; False after `Quit`."""
    parent.send(_reply(commands, command))
    return not isinstance(command, Quit)


def _reply(commands: Commands, command: object) -> object:
    try:
        if isinstance(command, UnknownMessage):
            raise UdogenError(f"the worker does not understand a command: {command}", hint="please report this")
        return commands[type(command)](command)
    except UdogenError as error:
        return failed(error)
    except Exception as error:
        return failed(of_limit(error) or _internal(error))


def failed(error: UdogenError) -> Failed:
    """The reply to a command that failed."""
    function, code = (error.function, error.code) if isinstance(error, QnnError) else ("", 0)
    return Failed(error.kind, error.exit_code, error.message, error.hint, tuple(error.details), function, code)


def _listen(channel: Channel, expected: list[type], taken: queue.SimpleQueue[object]) -> None:
    """Receive commands; when the parent has ended, end the whole process group, even while an op is running."""
    try:
        while True:
            try:
                taken.put(channel.receive(expected))
            except UnknownMessage as fault:
                taken.put(fault)
    except (EOFError, OSError, Garbled) as fault:
        _leave(fault)


def _leave(fault: Exception) -> NoReturn:
    """End the process group, because the parent has ended or cannot be reached."""
    if not isinstance(fault, EOFError | BrokenPipeError):
        sys.stderr.write(f"{failures.LOST}{fault}\n")
        sys.stderr.flush()
    os.killpg(os.getpgrp(), signal.SIGKILL)
    raise SystemExit(1)


def _internal(fault: Exception) -> UdogenError:
    return UdogenError(
        f"the worker failed: {type(fault).__name__}: {fault}",
        hint="this is a bug in udogen; please report it",
        details=traceback.format_exc().splitlines(),
    )


def timed(function: Callable[[], object]) -> float:
    """The seconds that a call takes."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


# The floating-point state of the thread, which an op must leave as it was: a rounding mode, flush to zero or an
# exception mask that one op sets makes the results of later ops wrong.
# fenv_t of x86-64: the environment of the x87 with its control word first, then MXCSR; (offset, bits, what they are).
_CONTROLS = {
    "x86_64": (
        (28, 0x6000, "the rounding mode"),
        (28, 0x8000, "flush to zero"),
        (28, 0x0040, "denormals are zero"),
        (28, 0x1F80, "the exception masks"),
        (0, 0x0C00, "the rounding mode of the x87"),
        (0, 0x0300, "the precision of the x87"),
        (0, 0x003F, "the exception masks of the x87"),
    ),
    "aarch64": (
        (0, 0xC00000, "the rounding mode"),
        (0, 0x1000000, "flush to zero"),
        (0, 0x9F00, "the exception masks"),
    ),
}.get(platform.machine(), ())
_SIZE = 64  # bytes; more than any fenv_t

_libm = ctypes.CDLL("libm.so.6")


@contextmanager
def keeping_float_state(subject: str) -> Iterator[None]:
    """Restore the state afterwards; raise if `subject`, which is executed meanwhile, changed it."""
    before, after = (ctypes.create_string_buffer(_SIZE) for _ in range(2))
    _libm.fegetenv(before)
    try:
        yield
    finally:
        _libm.fegetenv(after)
        _libm.fesetenv(before)
    changed = [
        name
        for at, bits, name in _CONTROLS
        if (struct.unpack_from("<I", before, at)[0] ^ struct.unpack_from("<I", after, at)[0]) & bits
    ]
    if changed:
        raise RunFailed(
            f"{subject} changed the floating-point state of its thread and left it so: {', '.join(changed)}",
            hint="restore what fesetround, _mm_setcsr and the like change before the kernel returns: other ops in this "
            "process would compute other results (udogen has restored it)",
        )
