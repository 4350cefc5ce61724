"""The base class of all errors that a user can cause, and their exit codes.

An error states the problem, its place and the next step.  Only `cli.main` prints errors.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any


class UdogenError(Exception):
    """An error that a user can fix: a sentence, an optional hint, and lines with more details.

    `str`, tracebacks, `as_json` and `of_json` keep all three.

    `except UdogenError as error: sys.exit(error.exit_code)`
    """

    exit_code = 1
    kind = "error"

    def __init__(self, message: str, *, hint: str = "", details: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = _system_hint(sys.exc_info()[1]) or hint
        self.details = tuple(details)

    def __str__(self) -> str:
        more = [*(f"  {line}" for line in self.details), *([f"  = {self.hint}"] if self.hint else [])]
        return "\n".join([self.message, *more])

    def __reduce__(self) -> tuple[Callable[..., UdogenError], tuple[Any, ...], dict[str, Any]]:
        return _rebuilt, (type(self), *self.args), self.__dict__

    def as_json(self) -> Mapping[str, object]:
        """The error as `--json` prints it."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint, "details": list(self.details)}


class UsageError(UdogenError, ValueError):
    """The command line requests something impossible: `except UsageError as error: print(error.hint)`."""

    exit_code = 2
    kind = "usage"


class WrongType(UsageError, TypeError):
    """An argument has a type that it cannot have."""


class UnknownName(UsageError, KeyError):
    """Nothing has this name; the hint has the names of what exists, or the one that was meant."""


class ToolMissing(UdogenError):
    """A program, SDK or library that this step needs is missing: `except ToolMissing as error: print(error.hint)`."""

    exit_code = 3
    kind = "tool-missing"


class BuildFailed(UdogenError):
    """A compiler or make failed; `ops` do not compile: `except BuildFailed as error: print(*error.details)`."""

    exit_code = 4
    kind = "build-failed"
    ops: tuple[str, ...] = ()

    def __init__(self, message: str, *, hint: str = "", details: Iterable[str] = (), ops: Iterable[str] = ()) -> None:
        super().__init__(message, hint=hint, details=details)
        self.ops = tuple(ops)


class RunFailed(UdogenError):
    """The runtime, or an op in it, failed or crashed: `except RunFailed as error: print(error.message)`."""

    exit_code = 5
    kind = "run-failed"


class LimitReached(RunFailed):
    """A limit of this shell or machine was reached, so nothing can be said about what was to be run."""

    exit_code = 3
    kind = "limit-reached"


class VerificationFailed(UdogenError):
    """The op ran, but its results are wrong: `except VerificationFailed as error: print(error)`."""

    exit_code = 6
    kind = "verification-failed"


def of_json(row: Mapping[str, Any]) -> UdogenError:
    """The error that `as_json` described, as the class with its kind, or at least with its `exit_code`."""
    plain = next((kind for kind in UdogenError.__subclasses__() if kind.exit_code == row.get("exit_code")), UdogenError)
    error = _rebuilt(_kinds(UdogenError).get(row["kind"], plain), row["message"])
    error.__dict__.update(message=row["message"], hint=row["hint"], details=tuple(row["details"]))
    return error


def _rebuilt(cls: type[UdogenError], *args: Any) -> UdogenError:
    return cls.__new__(cls, *args)  # `__init__` of a subclass may have other arguments


def _kinds(root: type[UdogenError]) -> dict[str, type[UdogenError]]:
    kinds = {root.kind: root}
    for subclass in root.__subclasses__():
        kinds = {**_kinds(subclass), **kinds}
    return kinds


_LIMITS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
_RAISE = "raise the limits of this shell: `ulimit -n` (open files), `ulimit -u` (processes), `ulimit -v` (memory)"


def _system_hint(handled: BaseException | None) -> str:
    """What to do about the exception that an error explains, if its cause is the system and not the named file."""
    number = handled.errno if isinstance(handled, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "free disk space, or choose another disk"
    return _RAISE if number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM) else ""


def of_limit(fault: BaseException) -> LimitReached | None:
    """The error to raise if this process has reached a limit of the system; None for any other exception."""
    if isinstance(fault, MemoryError):
        return LimitReached("out of memory", hint=f"{_RAISE}; or use smaller tensors")
    if isinstance(fault, OSError) and fault.errno in _LIMITS:
        return LimitReached(f"a limit of the system was reached: {fault.strerror}", hint=_RAISE)
    if isinstance(fault, ImportError) and memory_limit() is not None:  # the loader's message varies
        return LimitReached(f"a library cannot be loaded with so little memory: {fault}", hint=_RAISE)
    if isinstance(fault, RuntimeError) and _from_threading(fault):
        return LimitReached(f"the system allows no more threads: {fault}", hint=_RAISE)
    return None


def of_length(fault: BaseException) -> UsageError | None:
    """The error to raise for a name or a number that is longer than any; None for any other exception."""
    if isinstance(fault, OSError) and fault.errno == errno.ENAMETOOLONG:
        return UsageError(f"the name of a file is too long: {str(fault.filename)[:40]}…", hint="give a shorter name")
    if isinstance(fault, ValueError) and "integer string conversion" in str(fault):
        return UsageError("a number is too long: it has more than 4,300 digits", hint="give a smaller number")
    return None


# What the C library, Python, shells, ccache and OpenBLAS print when the system refuses a process, a thread, a file or
# memory.
_REFUSED = re.compile(
    r"[Cc]annot fork|[Ff]ailed to fork|Resource temporarily unavailable|can't start new thread|pthread_create failed|"
    r"Too many open files|Cannot allocate memory"
)


def limit_in(lines: Iterable[str]) -> LimitReached | None:
    """The error to raise if a program that failed has printed that it reached a limit of the system."""
    line = next((line.strip() for line in lines if _REFUSED.search(line)), "")
    return LimitReached(f"a limit of the system was reached: {line}", hint=_RAISE) if line else None


def limit_of_threads() -> LimitReached | None:
    """The error to raise for an interrupt: OpenBLAS interrupts the process in which it cannot start a thread."""
    import threading

    try:
        threading.Thread(target=int).start()
    except RuntimeError as fault:
        return of_limit(fault)
    return None


def _from_threading(fault: RuntimeError) -> bool:
    import threading

    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is threading.Thread.start.__code__


def memory_limit() -> int | None:
    """The bytes of address space that a process may have (`ulimit -v`); None if unlimited."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def open_plain(path: Path | str, *, streams: bool = False, at: int | None = None) -> BufferedReader:
    """Open a regular file that a user named; raise an OSError for anything that may block or never end.

    `streams` allows pipes of this process too: /dev/stdin, or /dev/fd/N of a shell's `<(…)`.
    A relative path is relative to the folder of the descriptor `at`.
    """
    if streams and str(path).startswith(("/dev/stdin", "/dev/fd/")) and Path(path).is_fifo():
        return open(path, "rb")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=at)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return open(descriptor, "rb")


def read_plain(path: Path | str) -> bytes:
    """All bytes of a file that `open_plain` opens."""
    with open_plain(path) as file:
        return file.read()


def nearest(word: str, choices: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The most similar choice; empty if none is similar."""
    from difflib import get_close_matches  # rarely used

    return next(iter(get_close_matches(word, list(choices), n=1, cutoff=cutoff)), "")


def file_hint(path: Path | str, otherwise: str) -> str:
    """A hint for a file or folder that does not exist: the nearest name in its folder, or `otherwise`."""
    folder, name = os.path.split(path)
    try:
        near = "" if os.path.lexists(path) else nearest(name, os.listdir(folder or "."), cutoff=0.7)
    except (OSError, ValueError):
        near = ""
    return f"did you mean `{os.path.join(folder, near)}`?" if near else otherwise


@contextmanager
def reading(file: Path | str, *, hint: str) -> Iterator[None]:
    """Wrap the reading of a file that a user named: an OSError becomes a UsageError."""
    try:
        yield
    except OSError as fault:
        raise UsageError(f"{file} cannot be read: {fault.strerror}", hint=file_hint(file, hint)) from fault


@contextmanager
def writing(file: Path | str, *, hint: str = "choose another file") -> Iterator[None]:
    """Wrap the writing of a file that a user named: an OSError becomes a UsageError."""
    try:
        if Path(file).is_fifo():  # without a reader this fails; the write would block forever
            os.close(os.open(file, os.O_WRONLY | os.O_NONBLOCK))
        yield
    except OSError as fault:
        raise UsageError(f"cannot write {file}: {fault.strerror}", hint=hint) from fault


def write_file(file: Path | str, content: str | bytes) -> None:
    """Write a file that a user named, completely or not at all."""
    with writing(file):
        replace_file(Path(file), content.encode() if isinstance(content, str) else content)


def replace_file(file: Path, content: Any) -> None:
    """Write bytes under another name, then rename; devices, pipes and what is read-only are written directly."""
    streams = any(file.is_relative_to(root) for root in ("/dev", "/proc"))
    place = file if streams else Path(os.path.realpath(file))  # a link stays a link
    mode = place.stat().st_mode if place.exists() else None
    if streams or (mode is not None and not (stat.S_ISREG(mode) and _replaceable(place))):
        place.write_bytes(content)
        return
    beside = place.with_name(f".udogen-{os.getpid()}-{id(content)}")
    try:
        with open(beside, "xb") as stream:
            if mode is not None:
                os.fchmod(stream.fileno(), stat.S_IMODE(mode))
            stream.write(content)
        os.replace(beside, place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _replaceable(file: Path) -> bool:
    return os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)


def kind_of(value: object) -> str:
    """Describe a value for a message: its type, and its value if that is short."""
    if value is None:
        return "None"
    name = type(value).__name__
    shown = repr(value)
    article = "an" if name[:1] in "aeiouAEIO" else "a"
    return f"{article} {name}" + (
        f": {shown}" if isinstance(value, (str, int, float, bytes)) and len(shown) < 60 else ""
    )
