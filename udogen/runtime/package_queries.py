"""What a worker of its own can be asked about a package without running its ops, and the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from udogen.runtime.failures import Situation
from udogen.runtime.worker_process import WorkerSession

_Answer = TypeVar("_Answer")

_MODULE = "udogen.runtime.worker.query_worker"


@dataclass(frozen=True)
class ReadRecords:
    """Let a package of HTP register its kernels, with symbols that are answered by 0."""

    library: Path
    answered: tuple[str, ...]


@dataclass(frozen=True)
class RecordsRead:
    """What it registered."""

    returned: str  # by qhpi_init
    package: str  # the first that was named; empty where nothing was registered
    ops: tuple[Any, ...]


@dataclass(frozen=True)
class ReadRegistration:
    """Ask a registration library of SNPE for everything that it has."""

    library: Path


@dataclass(frozen=True)
class LocateLibrary:
    """Look for a library as the loader does."""

    name: str


@dataclass(frozen=True)
class LibraryLocated:
    """Where it is; empty where it is not found."""

    path: str


@dataclass(frozen=True)
class DescribedTensor:
    """A tensor of an op that somebody else describes: the types that may be meant, the usual one first."""

    name: str
    types: tuple[str, ...]


@dataclass(frozen=True)
class DescribedParam:
    """A parameter of it; of a tensor the shape, of all others the value."""

    name: str
    types: tuple[str, ...]
    shape: tuple[int, ...] | None
    value: int | float | str | None


@dataclass(frozen=True)
class DescribedOp:
    """An op as somebody else describes it."""

    type: str
    inputs: tuple[DescribedTensor, ...]
    outputs: tuple[DescribedTensor, ...]
    params: tuple[DescribedParam, ...]


@dataclass(frozen=True)
class JudgeOps:
    """Ask a package whether it would accept these ops."""

    library: Path
    provider: str
    package: str
    ops: tuple[DescribedOp, ...]


@dataclass(frozen=True)
class Judgement:
    """Whether it accepts one; `other`: it is another op for sure."""

    accepted: bool
    reason: str = ""
    other: bool = False


@dataclass(frozen=True)
class OpsJudged:
    """A judgement of each op; none where the package does not validate."""

    ops: tuple[Judgement, ...]


def ask(command: object, answer: type[_Answer], situation: Situation, timeout: float) -> _Answer:
    """The answer to one of these; raises `RunFailed` where there is none."""
    worker = WorkerSession(_MODULE)
    try:
        return worker.start(command, answer, situation, timeout)
    finally:
        worker.drop()


def read_records(library: Path, undefined: Sequence[str], *, timeout: float = 30.0) -> RecordsRead:
    """Run `qhpi_init` of a package with a stub of the runtime that records what is registered.

    `undefined` are the symbols that neither the package nor the libraries it needs have.
    """
    command = ReadRecords(library.resolve(), tuple(undefined))
    return ask(command, RecordsRead, Situation(str(library)), timeout)
