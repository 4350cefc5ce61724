"""The ends of a process that has open runtimes: they are closed at exit, and disowned in a forked child."""

from __future__ import annotations

import atexit
import ctypes
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from udogen.errors import RunFailed

if TYPE_CHECKING:
    from udogen.runtime.contexts.runtime import Runtime

_LAST_WAIT = 5.0  # seconds to wait at exit for executions that are still running in other threads

opened: weakref.WeakKeyDictionary[Runtime, None] = weakref.WeakKeyDictionary()  # in the order in which they were opened
lost: dict[Path, int] = {}  # unusable libraries: in use when this process was forked (path -> parent)


def remember(runtime: Runtime) -> None:
    """Close it at exit, before what was registered with `atexit` earlier."""
    opened[runtime] = None
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def _close_all() -> None:
    """Close open runtimes at exit, last to first, before the destructors of libraries run.

    libQnnHtp aborts in its destructors if an op package is still registered.
    """
    for runtime in reversed(list(opened)):
        try:
            if runtime.process != os.getpid():
                continue
            if all(each.idle(_LAST_WAIT) for each in runtime.contexts):
                runtime.close()
            else:  # a thread executes a graph that has not ended
                _skip_destructors()
        except RunFailed:
            pass  # too late to handle it


def _after_fork() -> None:
    """Disown the runtimes of the parent in a forked child, which must not use or free them."""
    for runtime in list(opened):
        runtime.disown()
    opened.clear()
    if lost:
        _skip_destructors()


def _skip_destructors() -> None:
    """End the process, with its exit code, before the destructors of the loaded libraries run."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # glibc; handlers are called last to first
        libc.on_exit(libc._exit, None)
        libc["__cxa_atexit"](libc.fflush, None, None)


os.register_at_fork(after_in_child=_after_fork)
