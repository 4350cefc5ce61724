"""A file as memory, without reading it: its pages come when they are looked at, and are the system's to take back."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from udogen.errors import RunFailed, UsageError
from udogen.runtime import arguments


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """A file, mapped for reading; unmapped at the end of `with`, when nobody holds its memory any more."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as problem:
        raise RunFailed(
            f"{path} cannot be read: {problem.strerror}", hint="give the path of a context binary"
        ) from problem
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise RunFailed(f"{path} is no file", hint="give the path of a context binary")
        if found.st_size == 0:
            raise RunFailed(
                f"{path} is empty", hint="write the context binary again: it seems to have been interrupted"
            )
        memory = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    finally:
        os.close(fd)
    try:
        yield memory
    finally:
        with suppress(BufferError):  # the traceback of an error may still hold it; then it goes with that
            memory.close()


def in_memory(binary: Any) -> Any:
    """A context binary in memory, as it is."""
    hint = "give the path of a context binary (a str or a Path), or its bytes"
    try:
        view = memoryview(binary)
    except TypeError as problem:
        raise UsageError(f"the context binary is {arguments.kind_of(binary)}", hint=hint) from problem
    except ValueError as problem:  # a mapping that was closed
        raise UsageError(f"the context binary cannot be read: {problem}", hint=hint) from problem
    if not view.c_contiguous:
        raise UsageError("the context binary is not contiguous in its memory", hint=hint)
    return binary if view.format in ("B", "b", "c") and view.ndim == 1 else view.cast("B")
