"""Queries about a package that a worker serves without running ops, and their replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from udogen.build import elf
from udogen.errors import RunFailed
from udogen.opdef.shape_rules import Given
from udogen.qnn import udo
from udogen.qnn.tensors import Scalar
from udogen.qnn.udo import RegisteredOp, Registration
from udogen.runtime.arguments import PathArgument
from udogen.runtime.failures import Situation
from udogen.runtime.library import check_loadable
from udogen.runtime.worker_process import WorkerSession


class RegistrationUnreadable(RunFailed):
    """A registration library lacks functions that SNPE calls.

    `except RegistrationUnreadable as error: print(error)`
    """

    kind = "udo-registration"


def is_registration(path: Path) -> bool:
    """Whether a library exports the functions of a registration library."""
    try:
        return path.is_file() and udo.INFO in elf.read(path).exports
    except elf.NotElf:
        return False


def read_registration(path: PathArgument, *, timeout: float = 30.0) -> Registration:
    """Read a registration library; every failure is a `RunFailed`.

    `registration = read_registration("libUdoMyPackageReg.so")`
    """
    path = Path(path)
    check_loadable(path, "registration library")
    exports = elf.read(path).exports
    wanted = [name for name in udo.FUNCTIONS if name != udo.VERSION[0]]
    wanted += [] if any(name in exports for name in udo.VERSION) else [udo.VERSION[0]]
    if missing := [name for name in wanted if name not in exports]:
        several = len(missing) == len(wanted)
        text = "no function of a registration library" if several else f"no {', '.join(missing)}"
        raise RegistrationUnreadable(
            f"{path} exports {text}",
            hint="give the registration library, libUdo<Package>Reg.so" if several else "declare it with UDO_API",
        )
    situation = Situation(str(path), what="the registration library")
    return replace(ask(ReadRegistration(path.resolve()), Registration, situation, timeout), path=path)


_Reply = TypeVar("_Reply")

_MODULE = "udogen.runtime.worker.query_worker"


@dataclass(frozen=True)
class ReadRecords:
    """A query: have a package of HTP register its kernels, with stubs that return 0."""

    library: Path
    stubs: tuple[str, ...]  # names of functions that return 0


@dataclass(frozen=True)
class KernelTypes:
    """The element types of a kernel's inputs and outputs, as QHPI names them."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class RecordsRead:
    """The registered kernels of each op, by PACKAGE::OP."""

    ops: Mapping[str, tuple[KernelTypes, ...]]


@dataclass(frozen=True)
class ReadRegistration:
    """A query: read a registration library of SNPE."""

    library: Path


@dataclass(frozen=True)
class LocateLibrary:
    """A query: find a library as the loader does."""

    name: str


@dataclass(frozen=True)
class LibraryLocated:
    """The path of the library; empty if it is not found."""

    path: str


@dataclass(frozen=True)
class JudgeOps:
    """A query: whether a package for CPU accepts these ops."""

    library: Path
    provider: str
    package: str
    ops: tuple[RegisteredOp, ...]


@dataclass(frozen=True)
class Judgement:
    """Whether the package accepts an op; `other`: its op of that name is certainly a different one."""

    accepted: bool
    reason: str = ""
    other: bool = False


@dataclass(frozen=True)
class OpsJudged:
    """A judgement of each op; empty if the package does not validate."""

    ops: tuple[Judgement, ...]


class ConverterCall(NamedTuple):
    """One op of a model, as a converter describes it."""

    op: str
    inputs: Sequence[Given | None]
    params: Mapping[str, Scalar | Given]
    outputs: int


@dataclass(frozen=True)
class AskConverter:
    """A query: call a converter op package for these ops, as a converter does."""

    library: Path
    calls: tuple[ConverterCall, ...]


class ConverterReply(NamedTuple):
    """Shape and data type of each output, or the fault of the library."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    fault: str


@dataclass(frozen=True)
class ConverterAsked:
    """The replies to all calls."""

    replies: tuple[ConverterReply, ...]


def ask(command: object, reply: type[_Reply], situation: Situation, timeout: float | None) -> _Reply:
    """The reply to one of these queries; every failure is a `RunFailed`."""
    worker = WorkerSession(_MODULE)
    try:
        return worker.start(command, reply, situation, timeout)
    finally:
        worker.drop()


def ask_converter(
    library: Path, calls: Sequence[ConverterCall], *, timeout: float | None
) -> tuple[ConverterReply, ...]:
    """The replies of a converter op package to all calls."""
    what = "converter op package"
    check_loadable(library, what)
    return ask(
        AskConverter(library, tuple(calls)), ConverterAsked, Situation(str(library), what=f"the {what}"), timeout
    ).replies


def read_records(library: Path, undefined: Sequence[str], *, timeout: float = 30.0) -> RecordsRead:
    """Run `qhpi_init` of a package with a stub of the runtime that records the registered kernels.

    `undefined` are the symbols that neither the package nor the libraries it needs define.
    """
    command = ReadRecords(library.resolve(), tuple(undefined))
    return ask(command, RecordsRead, Situation(str(library)), timeout)
