"""The contents of a context binary, read in a worker: for files that are not trusted.

libQnnSystem (2.47 to 2.51) trusts the offsets inside a file: of all single flipped bits in the description of a binary,
about two in a hundred end the process that reads it, and some keep it busy forever.
"""

from __future__ import annotations

import os
import signal
import stat
from dataclasses import dataclass
from pathlib import Path

from udogen.errors import RunFailed
from udogen.qnn import heads, system
from udogen.qnn.heads import NoContextBinary
from udogen.qnn.system import BinaryInfo
from udogen.runtime.channel import Failed, Garbled
from udogen.runtime.failures import error_of
from udogen.runtime.worker_process import WorkerProcess, deadline_of

SECONDS = 30.0
_AGAIN = "take it from where it was made again; keep the checksums beside it that udogen writes"


@dataclass(frozen=True)
class ReadBinary:
    """A command: describe a context binary with this libQnnSystem."""

    library: Path
    path: Path


def file_info(library: Path, path: Path, *, timeout: float = SECONDS) -> BinaryInfo:
    """`system.file_info` in a worker: what would crash or hang this process becomes an error."""
    head_of(path)  # a check that starts no process
    worker = WorkerProcess(__name__)
    found: BinaryInfo | Failed | None = None
    try:
        found = worker.ask(ReadBinary(library, path), BinaryInfo, deadline=deadline_of(timeout))
    except TimeoutError as fault:
        raise NoContextBinary(
            f"{path} is damaged: {library.name} did not come back from reading it in {timeout:g} seconds", hint=_AGAIN
        ) from fault
    except (EOFError, Garbled):
        pass  # its exit code shows more
    finally:
        returncode = worker.end(0.5 if found is None else 0.0)
    if isinstance(found, BinaryInfo):
        return found
    if isinstance(found, Failed):
        raise error_of(found)
    if returncode < 0:
        name = signal.Signals(-returncode).name
        raise NoContextBinary(f"{path} is damaged: {library.name} crashed on reading it ({name})", hint=_AGAIN)
    raise RunFailed(
        f"reading {path} in a child process failed with code {returncode}",
        details=worker.output()[-5:],
        hint="see the details: a limit of memory (`ulimit -v`) may be too low; otherwise please report this",
    )


def head_of(path: Path) -> heads.Head:
    """The head of a file; raises if it cannot be opened, or is clearly not a context binary."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise unreadable(path, OSError(0, "not a regular file"))
        with path.open("rb") as file:
            return heads.check_start(file.read(heads.LENGTH), os.fstat(file.fileno()).st_size, str(path))
    except OSError as fault:
        raise unreadable(path, fault) from fault


def unreadable(path: Path, fault: OSError) -> RunFailed:
    """The error for a file that cannot be opened."""
    if path.is_dir():
        return RunFailed(f"the context binary {path} is a folder", hint="give a file; `run context` takes folders too")
    return RunFailed(
        f"the context binary {path} cannot be read: {fault.strerror}", hint="give a file that exists and can be read"
    )


def main() -> None:
    """Run the worker."""
    from udogen.runtime.worker.serving import serve

    serve(lambda _parent: {ReadBinary: lambda command: system.file_info(command.library, command.path)})
