"""Registers op packages as Snpe_Util_AddOpPackage does, for the cores that have a runtime on this machine.

Each implementation library is found by the rules of the loader, compared with the registration, and registered in the
QNN runtime of its core.  A core without a runtime is reported as not tried.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen import backends
from udogen.backends.backend import PROVIDER
from udogen.build import elf, tools
from udogen.errors import RunFailed, ToolMissing, UsageError
from udogen.qnn.udo import RegisteredOp, RegisteredTensor, Registration
from udogen.runtime.arguments import PathArgument
from udogen.runtime.failures import Situation
from udogen.runtime.library import RuntimeInfo, find_runtime
from udogen.runtime.op.calls import OpPackageInfo
from udogen.runtime.op.session import OpSession
from udogen.runtime.package_queries import (
    JudgeOps,
    KernelTypes,
    LibraryLocated,
    LocateLibrary,
    OpsJudged,
    ask,
    read_records,
    read_registration,
)

REGISTERED, NOT_TRIED, MISSING = "registered", "not tried", "missing"
_SECONDS = 30.0


class LibraryMissing(RunFailed):
    """The loader does not find an implementation library: `except LibraryMissing as error: print(error.hint)`."""

    kind = "udo-library-missing"


class WrongMachine(RunFailed):
    """An implementation library is built for another machine: `except WrongMachine as error: print(error.hint)`."""

    kind = "udo-wrong-machine"


class OtherPackage(RunFailed):
    """An implementation library is of another package than its registration.

    `except OtherPackage as error: print(error)`
    """

    kind = "udo-other-package"


class OtherOps(RunFailed):
    """The ops of an implementation library differ from its registration: `except OtherOps as error: print(error)`."""

    kind = "udo-other-ops"


# By core; if several backends have one core, the one with a runtime on this machine, or with a reason for having none.
_CORES = {row.core: row for backend in backends.ALL.values() if (row := backend.udo) and (row.native or row.not_run)}
BACKENDS = {backend.id: backend.udo.core for backend in backends.ALL.values() if backend.udo and backend.udo.native}


def _backend(core: str) -> str:
    """The backend that runs a core on this machine."""
    return next(name for name, core_name in BACKENDS.items() if core_name == core)


@dataclass(frozen=True)
class CoreState:
    """The state of one library of a core: `print(package.core("CPU").state, package.core("CPU").why)`."""

    core: str
    library: str  # its file name in the registration
    state: str  # registered, not tried, or missing
    why: str = ""  # why it was not registered
    path: Path | None = None  # where the loader found it
    package: OpPackageInfo | None = None
    runtime: RuntimeInfo | None = None
    compared: tuple[str, ...] = ()  # the properties that were compared with the registration


@dataclass(frozen=True)
class UdoPackage:
    """A registered UDO package: `print(package.registration.ops, package.cores)`."""

    registration: Registration
    cores: tuple[CoreState, ...]

    def core(self, name: str) -> CoreState:
        """The state of this core; if it has several libraries, that of the registered one."""
        states = [state for state in self.cores if state.core == name]
        if not states:
            have = ", ".join(dict.fromkeys(state.core for state in self.cores)) or "none"
            raise UsageError(f"package {self.registration.package} has no core {name}", hint=f"it has: {have}")
        return next((state for state in states if state.state == REGISTERED), states[0])

    def open(self, core: str, **options: Any) -> OpSession:
        """A session that runs the ops of one core; options of `OpSession`."""
        state = self.core(core)
        if state.state != REGISTERED or state.path is None:
            raise RunFailed(
                f"{state.library} was not registered: {state.why}",
                hint="run its ops on a device" if state.state == NOT_TRIED else "build it",
            )
        return OpSession(state.path, provider_of(self.registration), backend=_backend(core), **options)


def add_op_package(path: PathArgument, *, cores: Sequence[str] = ()) -> UdoPackage:
    """Register the package of a registration library: all of its cores, or the named ones.

    Without `cores`, a core whose library is not found is `missing` if another core's is found: `make cpu_x86` is
    enough for the quantizer of the documentation.

    Raises `LibraryMissing`, `WrongMachine`, `OtherPackage`, `OtherOps`, or the error of the registration.

    `package = add_op_package("libUdoMyPackageReg.so", cores=["CPU"])`
    """
    registration = read_registration(path)
    _agrees_with_itself(registration)
    unknown = [core for core in cores if not registration.libraries_of(core)]
    if unknown:
        have = ", ".join(dict(registration.libraries))
        raise UsageError(
            f"package {registration.package} has no library for {', '.join(unknown)}", hint=f"it has: {have}"
        )
    states: list[CoreState] = []
    lost: dict[str, LibraryMissing] = {}
    for core, name in registration.libraries:
        if cores and core not in cores:
            continue
        try:
            states.append(_add(registration, core, name))
        except LibraryMissing as absent:
            lost.setdefault(core, absent)
            states.append(CoreState(core, name, MISSING, absent.message))
    for core, fault in lost.items():
        if all(state.path is None for state in states if core == state.core or not cores):
            raise fault
    return UdoPackage(registration, tuple(states))


def implementation(registration: Registration, core: str) -> Path:
    """The library of a core for this machine, as the loader finds it; the first of several."""
    paths: list[Path] = []
    faults: list[RunFailed] = []
    for name in registration.libraries_of(core) or ("",):
        try:
            paths.append(_find(registration, core, name))
        except RunFailed as fault:
            faults.append(fault)
    here = [path for path in paths if elf.read(path).machine == platform.machine()]
    if not paths:
        raise faults[0]
    return (here or paths)[0]


def _find(registration: Registration, core: str, name: str) -> Path:
    """A library for this machine, as the loader finds it: in LD_LIBRARY_PATH, then in the system's folders."""
    here = platform.machine()
    if not name or "/" in name:
        raise OtherPackage(
            f"{registration.path} names {f'`{name}`' if name else 'no library'} for {core}",
            hint="a registration names its libraries without folders: the loader looks for them",
        )
    looked = [folder / name for folder in tools.library_path()]
    there = [(path, elf.read(path)) for path in looked if path.is_file()]
    fitting = [path for path, read in there if read.machine == here and read.bits == 64]
    if fitting:  # the loader skips libraries for other machines
        return fitting[0].resolve()
    if not there:
        situation = Situation(name, what="the library")
        located = ask(LocateLibrary(name), LibraryLocated, situation, _SECONDS)
        if located.path:
            return Path(located.path)
        raise _missing(registration, core, name)
    path, read = there[0]
    if read.machine in _CORES[core].machines:
        return path.resolve()
    target = _CORES[core].native
    raise WrongMachine(
        f"{path} is built for {read.processor}, and {core} of this machine needs {here}",
        hint=f"put the library for {here} into LD_LIBRARY_PATH before it"
        + (f"; the target {target} builds one" if target and here == "x86_64" else ""),
    )


def _missing(registration: Registration, core: str, name: str) -> LibraryMissing:
    beside = registration.path.resolve().parent
    if (beside / name).is_file():
        hint = f"export LD_LIBRARY_PATH={shlex.quote(str(beside))}:$LD_LIBRARY_PATH"
    else:
        hint = "add the folder it is in to LD_LIBRARY_PATH; build it first if it is nowhere"
    paths = tools.library_path()
    return LibraryMissing(
        f"the loader does not find {name}, the {core} library of package {registration.package}",
        hint=hint,
        details=[f"looked in {folder}" for folder in paths] + ["looked in the folders of the system"],
    )


def _agrees_with_itself(registration: Registration) -> None:
    named = {core for core, _ in registration.libraries}
    for op in registration.ops:
        if lost := [core for core in op.cores if core not in named]:
            raise OtherOps(
                f"{registration.path} has op {op.type} for {', '.join(lost)}, but names no library for it",
                hint="generate the registration library again",
            )


def _add(registration: Registration, core: str, name: str) -> CoreState:
    row = _CORES[core]
    if not row.native:
        try:  # optional, but if present it must be the right one
            path = _find(registration, core, name)
        except LibraryMissing:
            return CoreState(core, name, NOT_TRIED, row.not_run)
        check_provider(registration, core, path)
        return CoreState(core, name, NOT_TRIED, row.not_run, path)
    path = _find(registration, core, name)
    library = elf.read(path)
    check_provider(registration, core, path)
    if library.machine != platform.machine():
        return CoreState(core, name, NOT_TRIED, f"it is built for {library.processor}, which loads it itself", path)
    try:
        find_runtime(_backend(core))
    except ToolMissing as absent:
        return CoreState(core, name, NOT_TRIED, f"{absent.message}: {absent.hint}", path)
    with OpSession(path, provider_of(registration), backend=_backend(core), timeout=_SECONDS) as session:
        package, ran = session.package, session.runtime
    compared = compare_names(registration, core, path, package)
    if row.compared == "records" and compare_records(registration, path, library):
        compared = (*compared, "inputs", "outputs", "data types")
    if row.compared == "validation" and compare_validation(registration, path):
        compared = (*compared, "validation")
    return CoreState(core, name, REGISTERED, "", path, package, ran, compared)


# --- a library and its registration ---------------------------------------------------------------------------------

# SNPE's data types -> element types of QHPI.
_ELEMENTS = {
    "FLOAT_16": {"Float16"},
    "FLOAT_32": {"Float32"},
    "INT_8": {"QInt8"},
    "INT_16": {"QInt16"},
    "INT_32": {"Int32", "QInt32"},
    "UINT_8": {"QUInt8"},
    "UINT_16": {"QUInt16"},
    "UINT_32": {"Int32"},
    "FIXED_8": {"QUInt8", "QInt8"},
    "FIXED_16": {"QUInt16", "QInt16"},
    "FIXED_32": {"QInt32", "Int32"},
}
_ANY = "Any_Element_Type"


def provider_of(registration: Registration) -> str:
    """The interface provider of a core's library."""
    return f"{registration.package}{PROVIDER}"


def check_provider(registration: Registration, core: str, path: Path) -> None:
    """Raise if a library does not export the package's provider."""
    exports = elf.read(path).exports
    there = sorted(name for name in exports if name.endswith(PROVIDER))
    if provider_of(registration) in there:
        return
    if there:
        raise _other_package(registration, core, path, " and ".join(name.removesuffix(PROVIDER) for name in there))
    raise OtherPackage(
        f"{path} exports no {provider_of(registration)}: it is not an op package",
        hint=f"it must be the {core} library of package {registration.package}; build it again",
    )


def _other_package(registration: Registration, core: str, path: Path, name: str) -> OtherPackage:
    return OtherPackage(
        f"{path} is of package {name}, and {registration.path.name} registers package {registration.package}",
        hint=f"put the {core} library of {registration.package} first in LD_LIBRARY_PATH",
    )


def compare_names(registration: Registration, core: str, path: Path, package: OpPackageInfo) -> tuple[str, ...]:
    """Compare the names in a library with the registration; returns the properties that were compared."""
    if package.name and package.name != registration.package:
        raise _other_package(registration, core, path, package.name)
    registered = [op.type for op in registration.ops_of(core)]
    if not package.operations:
        return ("package",) if package.name else ()
    alone = len(registration.libraries_of(core)) == 1  # several libraries share the ops of a core
    absent = [name for name in registered if alone and name not in package.operations]
    further = [name for name in package.operations if name not in registered]
    if absent or further:
        parts = [f"it lacks {', '.join(absent)}"] if absent else []
        parts += [f"it has {', '.join(further)}, which {registration.path.name} does not know"] if further else []
        raise OtherOps(
            f"{path} has other ops than its registration: {'; '.join(parts)}",
            hint="generate and build both from the same config",
        )
    return ("package", "ops")


def compare_records(registration: Registration, path: Path, library: elf.Elf) -> bool:
    """Compare the kernels of HTP with the registration; whether there were some for one of its ops."""
    if "qhpi_init" not in library.exports:
        return False
    undefined = [symbol.name for symbol in library.imports if symbol.name.startswith("qhpi_")]
    records = read_records(path, undefined, timeout=_SECONDS).ops
    compared = False
    for op in registration.ops_of("DSP"):
        faults = [_fault(op, kernel) for kernel in records.get(f"{registration.package}::{op.type}", ())]
        compared = compared or bool(faults)
        if faults and all(faults):
            raise OtherOps(
                f"op {op.type} of {path} is not as its registration describes it: {faults[0]}",
                hint="generate and build both from the same config",
            )
    return compared


def compare_validation(registration: Registration, path: Path) -> bool:
    """Whether the library's validation accepts every op as registered; False if that is unknown.

    The interface of a CPU package has only names; only its validation knows the types.
    """
    ops = registration.ops_of("CPU")
    if not all(tensor.on_cpu for op in ops for tensor in (*op.inputs, *op.outputs)):
        return False
    command = JudgeOps(path.resolve(), provider_of(registration), registration.package, ops)
    judged = ask(command, OpsJudged, Situation(str(path)), _SECONDS).ops
    for op, row in zip(ops, judged, strict=False):
        if row.other:
            reason = row.reason.removeprefix(f"op {op.type}: ")
            raise OtherOps(
                f"op {op.type} of {path} is not as its registration describes it; as registered, {reason}",
                hint="generate and build both from the same config",
            )
    return bool(judged) and all(row.accepted for row in judged)


def _fault(op: RegisteredOp, kernel: KernelTypes) -> str:
    """How a kernel differs from the registration, or ""; parameters are passed as further inputs."""
    inputs, outputs = kernel.inputs, kernel.outputs
    if len(outputs) != len(op.outputs):
        return f"its kernel writes {len(outputs)} outputs, registered are {len(op.outputs)}"
    if not len(op.inputs) <= len(inputs) <= len(op.inputs) + len(op.params):
        most = f" and {len(op.params)} parameters" if op.params else ""
        return f"its kernel takes {len(inputs)} inputs, registered are {len(op.inputs)}{most}"
    for tensor, element in (*zip(op.inputs, inputs, strict=False), *zip(op.outputs, outputs, strict=True)):
        if not _same_type(tensor, element):
            return f"its kernel has {element} for `{tensor.name}`, registered is {tensor.types.get('DSP')}"
    return ""


def _same_type(tensor: RegisteredTensor, element: str) -> bool:
    word = tensor.types.get("DSP", "")
    return element == _ANY or word not in _ELEMENTS or element in _ELEMENTS[word]
