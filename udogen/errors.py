"""The one root of every error a user can cause, and the exit code of each kind.

An error says what is wrong, where, and what to do next.  `cli.main` prints it; nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class UdogenError(Exception):
    """Something a person can mend: a sentence, and perhaps a hint."""

    exit_code = 1
    kind = "error"

    def __init__(self, message: str, *, hint: str = "", details: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = tuple(details)

    def as_json(self) -> Mapping[str, object]:
        """The error as `--json` prints it."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint, "details": list(self.details)}


class UsageError(UdogenError):
    """The command line asks for something that cannot be."""

    exit_code = 2
    kind = "usage"


class ToolMissing(UdogenError):
    """A program, SDK or library that this step needs is not there."""

    exit_code = 3
    kind = "tool-missing"


class BuildFailed(UdogenError):
    """A compiler or make refused."""

    exit_code = 4
    kind = "build-failed"


class RunFailed(UdogenError):
    """The runtime, or an op in it, refused or crashed."""

    exit_code = 5
    kind = "run-failed"


class VerificationFailed(UdogenError):
    """The op ran, and its numbers are wrong."""

    exit_code = 6
    kind = "verification-failed"


@contextmanager
def writing(file: Path | str, *, hint: str = "choose another file") -> Iterator[None]:
    """Around the writing of a file that a person has named: what the system refuses is told as theirs to mend."""
    try:
        yield
    except OSError as fault:
        raise UsageError(f"cannot write {file}: {fault.strerror}", hint=hint) from fault
