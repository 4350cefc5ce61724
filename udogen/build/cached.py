"""What is compiled on first use and kept in the cache: whole or not at all, under a name made from its contents."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from udogen import process
from udogen.errors import BuildFailed, UsageError


def compile_or_fail(argv: Sequence[str], folder: Path, what: str) -> None:
    """One call of a compiler of ours, on sources of ours."""
    done = process.run(argv, cwd=folder, tied=True)
    if done.returncode != 0:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise BuildFailed(f"{what} did not build", details=said[:20], hint=f"it was: {shlex.join(argv)}")


def make_once(room: Path, make: Callable[[Path], None]) -> None:
    """A folder of the cache, whole or not at all, whoever else makes it at the same time."""
    if room.is_dir():
        return
    try:
        room.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(room.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as fault:
        raise UsageError(
            f"{room.parent} cannot be written: {fault.strerror}", hint="set XDG_CACHE_HOME to another folder"
        ) from fault
    with tempfile.TemporaryDirectory(dir=room.parent, prefix=".new-") as scratch:
        made = Path(scratch) / room.name
        made.mkdir()
        make(made)
        try:
            made.rename(room)
        except OSError:  # somebody else was quicker
            if not room.is_dir():
                shutil.copytree(made, room)
