"""What a library prints in our process by itself, as lines for a log: stdout and stderr are the program's.

libQnnHtp of a PC prints the stages of each graph that it prepares, and a line when it is loaded.  It prints with C's
`stdout` and `stderr`, which in glibc are variables: while a call runs they lead to a pipe of ours.  Nothing is done to
the file descriptors 1 and 2, so Python, other processes, and C++ streams of other libraries go on as they did; what C
of another thread prints just then is in the log too.  With another C library than glibc nothing is done at all.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_NAMES = ("stdout", "stderr")
_IOLBF = 1
_ROOM = 1 << 20  # bytes of the pipe; what a call prints beyond that is lost, for nobody waits


@contextmanager
def taken(sink: Callable[[str], None]) -> Iterator[None]:
    """Hand the lines that C prints inside it to `sink`, at its end."""
    printed = _printed(os.getpid())
    if printed is None:
        yield
        return
    printed.begin()
    try:
        yield
    finally:
        for line in printed.end():
            sink(line)


@cache  # the streams live as long as the process: a C++ stream of the library may keep them
def _printed(_process: int) -> _Printed | None:
    import ctypes  # only where something prints

    libc = ctypes.CDLL(None)
    return _Printed(libc) if hasattr(libc, "gnu_get_libc_version") else None


class _Printed:
    """A pipe, as a C stream for writing; calls may overlap."""

    def __init__(self, libc: Any) -> None:
        import ctypes

        self._read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _ROOM)
        libc.fdopen.restype, libc.fdopen.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_char_p)
        self._stream = ctypes.c_void_p(libc.fdopen(write, b"w"))
        libc.setvbuf(self._stream, None, _IOLBF, ctypes.c_size_t(0))
        self._flush = libc.fflush
        self._variables = [ctypes.c_void_p.in_dll(libc, name) for name in _NAMES]
        self._before: list[int | None] = []
        self._inside, self._lock = 0, threading.Lock()

    def begin(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = [each.value for each in self._variables]
                for each in self._variables:
                    each.value = self._stream.value

    def end(self) -> list[str]:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                for variable, value in zip(self._variables, self._before, strict=True):
                    if variable.value == self._stream.value:  # nobody else has set it meanwhile
                        variable.value = value
            self._flush(self._stream)
            return self._lines()

    def _lines(self) -> list[str]:
        found = bytearray()
        try:
            while chunk := os.read(self._read, 1 << 16):
                found += chunk
        except BlockingIOError:
            pass
        return [line for line in found.decode("utf-8", "replace").splitlines() if line.strip()]
