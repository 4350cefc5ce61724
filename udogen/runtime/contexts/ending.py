"""How contexts and runtimes end, whoever ends them: their user, the garbage collector, the interpreter, or a fork."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from udogen.errors import RunFailed

if TYPE_CHECKING:
    from udogen.qnn import context as qnn
    from udogen.qnn.profile import Profile
    from udogen.runtime.contexts.runtime import Runtime

_LAST_WAIT = 5.0  # seconds, for executions that other threads have not ended when the interpreter ends


class Ending:
    """What a context gives back at its end, in order, once.

    It does not refer to the context, so that a runtime can hold it and the context is freed when nobody uses it.
    """

    def __init__(self, low: qnn.Context, profile: Profile | None) -> None:
        self.low, self.profile = low, profile
        self.before: dict[object, Callable[[], None]] = {}  # undone last to first, before the context is freed
        self.after: list[Callable[[], None]] = []  # let go of when it is freed
        self._lock, self._process = threading.RLock(), os.getpid()

    def run(self) -> None:
        """All of it, then raise the first error."""
        with self._lock:
            errors: list[Exception] = []
            after = [*self.after, *([self.profile.close] if self.profile else [])]
            before = [] if self._process != os.getpid() else list(self.before.values())  # a fork's are its parent's
            steps = [*reversed(before), self.low.close, *reversed(after)]
            self.before.clear()
            self.after.clear()
            for step in steps:
                try:
                    step()
                except Exception as problem:
                    errors.append(problem)
        if errors:
            raise errors[0]


opened: weakref.WeakKeyDictionary[Runtime, None] = weakref.WeakKeyDictionary()  # in the order of their opening
lost: dict[Path, int] = {}  # libraries that do not work here, for they were in use when this process was forked


@atexit.register
def _close_all() -> None:
    """The interpreter ends: what is open is closed, last to first, before the destructors of libraries run.

    libQnnHtp with an op package in it that was not freed aborts in its destructors.
    """
    for runtime in reversed(list(opened)):
        try:
            if runtime.process != os.getpid():
                continue
            if all(each.idle(_LAST_WAIT) for each in runtime.contexts):
                runtime.close()
            else:  # a thread executes a graph without end
                _skip_destructors()
        except RunFailed:
            pass  # nobody is left who could do something about it


def _after_fork() -> None:
    """In the child: nothing of the parent's is used, freed or destroyed."""
    for runtime in list(opened):
        runtime.disown()
    opened.clear()
    if lost:
        _skip_destructors()


def _skip_destructors() -> None:
    """Have the process end, with its exit code, before the destructors of the libraries that are loaded by now."""
    import ctypes

    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # glibc; called last to first
        libc.on_exit(libc._exit, None)
        libc["__cxa_atexit"](libc.fflush, None, None)


os.register_at_fork(after_in_child=_after_fork)
