"""In the worker: take commands from the parent one after the other, and answer each; end when the parent does."""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from udogen.errors import UdogenError, of_limit
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
    """The parent, as whoever does the work reports to it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._writing = threading.Lock()  # runtimes log from threads of their own

    def phase(self, name: str, regions: tuple[Region, ...] | None = None) -> None:
        """Announce what is done next, so that the parent knows where it was when this process died."""
        self.send(Phase(name, regions))

    def log(self, source: str) -> Callable[[int, str], None]:
        """A function that takes lines of a log."""
        return lambda level, text: self.send(LogLine(level, text, source))

    def send(self, message: object) -> None:
        """A report, or the answer to a command."""
        with self._writing:
            try:
                self._channel.send(message)
            except OSError as fault:
                if limit := of_limit(fault):
                    self._channel.send(failed(limit))
                    return
                _leave(fault)


Commands = Mapping[type, Callable[[Any], object]]  # what does each, and gives the answer


def serve(commands_of: Callable[[Parent], Commands]) -> None:
    """Serve commands until one of them is `Quit`, which is answered like the others; die when the parent dies."""
    libc = ctypes.CDLL(None)
    # What the runtime prints must be in the pipe when it fails, or dies.
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
    """Answer a command; whether others may come.  What it refers to is free afterwards."""
    parent.send(_answer(commands, command))
    return not isinstance(command, Quit)


def _answer(commands: Commands, command: object) -> object:
    try:
        if isinstance(command, UnknownMessage):
            raise UdogenError(f"the worker does not understand a command: {command}", hint="please report this")
        return commands[type(command)](command)
    except UdogenError as error:
        return failed(error)
    except Exception as error:
        return failed(of_limit(error) or _internal(error))


def failed(error: UdogenError) -> Failed:
    """The answer to a command that failed."""
    function, code = (error.function, error.code) if isinstance(error, QnnError) else ("", 0)
    return Failed(error.kind, error.exit_code, error.message, error.hint, tuple(error.details), function, code)


def _listen(channel: Channel, expected: list[type], taken: queue.SimpleQueue[object]) -> None:
    """Take commands; when the parent is gone, take the whole process group along, whatever an op is doing."""
    try:
        while True:
            try:
                taken.put(channel.receive(expected))
            except UnknownMessage as fault:
                taken.put(fault)
    except (EOFError, OSError, Garbled) as fault:
        _leave(fault)


def _leave(fault: Exception) -> NoReturn:
    """End with everything that was started here: there is no parent any more, or no way to it."""
    if not isinstance(fault, EOFError | BrokenPipeError):
        sys.stderr.write(f"{failures.LOST}{fault}\n")
        sys.stderr.flush()
    os.killpg(os.getpgrp(), signal.SIGKILL)
    raise SystemExit(1)


def _internal(fault: Exception) -> UdogenError:
    return UdogenError(
        f"the worker failed: {type(fault).__name__}: {fault}",
        hint="this is a fault of udogen; please report it",
        details=traceback.format_exc().splitlines(),
    )
