"""Reading what a context binary says in a child process, for files that nobody vouches for.

libQnnSystem (2.47 to 2.51) trusts the offsets inside a file: of all single flipped bits in the description of a binary,
about two in a hundred end the process that reads it, and some keep it busy for ever.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from udogen import process
from udogen.errors import RunFailed, UdogenError, of_json
from udogen.qnn import heads, quantization, system
from udogen.qnn.heads import NoContextBinary
from udogen.qnn.system import BinaryInfo

SECONDS = 30.0
_START = process.python_program("udogen.qnn.guarded")


def file_info(library: Path, path: Path, *, timeout: float = SECONDS) -> BinaryInfo:
    """`system.file_info` in a child: what would end or hang this process is an error."""
    head_of(path)  # what can be told without starting anything
    done = process.run([sys.executable, "-c", _START, str(library), str(path)], timeout=timeout)
    if done.timed_out:
        raise NoContextBinary(
            f"{path} is damaged: {library.name} did not come back from reading it in {timeout:g} seconds", hint=_AGAIN
        )
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise NoContextBinary(f"{path} is damaged: {library.name} crashed on reading it ({name})", hint=_AGAIN)
    try:
        told = json.loads(done.stdout.splitlines()[-1])
        answer = of_json(told) if "kind" in told else _taken(told)
    except (ValueError, LookupError, TypeError, RecursionError):  # not what `main` writes
        answer = None
    if isinstance(answer, UdogenError):
        raise answer
    if not isinstance(answer, BinaryInfo):
        raise RunFailed(
            f"reading {path} in a child process failed with code {done.returncode}",
            details=done.stderr.splitlines()[-5:],
            hint="see the details: a limit of memory (`ulimit -v`) may be too low; otherwise please report this",
        )
    return answer


def head_of(path: Path) -> heads.Head:
    """The head of a file; refuses what cannot be opened, and what is no context binary at first sight."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise unreadable(path, OSError(0, "not a regular file"))
        with path.open("rb") as file:
            return heads.check_start(file.read(heads.LENGTH), os.fstat(file.fileno()).st_size, str(path))
    except OSError as fault:
        raise unreadable(path, fault) from fault


def unreadable(path: Path, fault: OSError) -> RunFailed:
    """The refusal of a file that cannot be opened."""
    if path.is_dir():
        return RunFailed(f"the context binary {path} is a folder", hint="give a file; `run context` takes folders too")
    return RunFailed(
        f"the context binary {path} cannot be read: {fault.strerror}", hint="give a file that is there and may be read"
    )


_AGAIN = "take it from where it was made again; keep the checksums beside it that udogen writes"


def main() -> None:
    """The child: describes one file, in one line of JSON on stdout."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries may talk
    try:
        told = _plain(system.file_info(Path(sys.argv[1]), Path(sys.argv[2])))
    except UdogenError as fault:
        told = {**fault.as_json(), "exit_code": fault.exit_code}
    answer.write(json.dumps(told) + "\n")
    answer.close()


# --- descriptions on their way through a pipe -------------------------------------------------------------------------

_CLASSES = {
    kind.__name__: kind
    for kind in (
        *(system.BinaryInfo, system.GraphInfo, system.TensorInfo, system.HtpGraph, system.HardwareDevice),
        *(quantization.ScaleOffset, quantization.AxisScaleOffset, quantization.BwScaleOffset),
        *(quantization.BwAxisScaleOffset, quantization.BlockEncoding, quantization.BlockwiseExpansion),
        *(quantization.VectorEncoding, quantization.OtherEncoding),
    )
}


def _plain(value: Any) -> Any:
    name = type(value).__name__
    if is_dataclass(value):
        return {name: [_plain(getattr(value, field.name)) for field in fields(value)]}
    if name in _CLASSES:
        return {name: [_plain(each) for each in value]}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _taken(value: Any) -> Any:
    if isinstance(value, dict):
        ((name, parts),) = value.items()
        return _CLASSES[name](*map(_taken, parts))
    return tuple(map(_taken, value)) if isinstance(value, list) else value
