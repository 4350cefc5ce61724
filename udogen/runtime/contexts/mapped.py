"""A file as memory, without reading it: its pages come when they are looked at, and are the system's to take back."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from udogen.errors import RunFailed


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
