"""What Snpe_Util_AddOpPackage does, as far as this machine can: the package of a registration library, core by core.

Each implementation library is looked for by the rules of the loader, held against the registration, and registered in
the real QNN runtime of its core.  A core that has no runtime on this machine is said to be not tried.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from udogen.build import elf, tools
from udogen.build.package import PROVIDER
from udogen.errors import RunFailed, ToolMissing, UsageError
from udogen.runtime.calls import PackageInfo, RuntimeInfo
from udogen.runtime.library import find_runtime
from udogen.runtime.records import ask, read_records
from udogen.runtime.session import OpSession
from udogen.runtime.udo import RegisteredOp, RegisteredTensor, Registration, read_registration

REGISTERED, NOT_TRIED = "registered", "not tried"
_SECONDS = 30.0


class LibraryMissing(RunFailed):
    """The loader does not find an implementation library."""

    kind = "udo-library-missing"


class WrongMachine(RunFailed):
    """An implementation library is built for another machine."""

    kind = "udo-wrong-machine"


class OtherPackage(RunFailed):
    """An implementation library is of another package than its registration."""

    kind = "udo-other-package"


class OtherOps(RunFailed):
    """An implementation library has other ops than its registration, or the same ones otherwise."""

    kind = "udo-other-ops"


class _Core(NamedTuple):
    """A core: the backend that runs it on this machine, if any, and what of it may lie elsewhere."""

    backend: str
    target: str  # that builds its library for this machine
    elsewhere: tuple[str, ...] = ()  # machines whose libraries the core itself loads
    why: str = ""  # it is not tried


_CORES = {
    "CPU": _Core("cpu", "cpu_x86"),
    "GPU": _Core("", "", why="this machine has no Adreno GPU, and libQnnGpu.so runs on no other"),
    "DSP": _Core("htp", "dsp_x86", elsewhere=("hexagon",)),
}
BACKENDS = {row.backend: name for name, row in _CORES.items() if row.backend}

# How QHPI calls what SNPE calls by these words.
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


@dataclass(frozen=True)
class CoreState:
    """What became of one core."""

    core: str
    library: str  # its file name, as the registration says
    state: str  # registered, or not tried
    why: str = ""  # it was not tried
    path: Path | None = None  # where the loader found it
    package: PackageInfo | None = None
    runtime: RuntimeInfo | None = None
    compared: tuple[str, ...] = ()  # what the library told of itself and agrees with the registration


@dataclass(frozen=True)
class UdoPackage:
    """A registered UDO package."""

    registration: Registration
    cores: tuple[CoreState, ...]

    def core(self, name: str) -> CoreState:
        """What became of this core."""
        found = next((each for each in self.cores if each.core == name), None)
        if found is None:
            have = ", ".join(each.core for each in self.cores) or "none"
            raise UsageError(f"package {self.registration.package} has no core {name}", hint=f"it has: {have}")
        return found

    def open(self, core: str, **options: Any) -> OpSession:
        """A session in which the ops of one core run; options as `OpSession` has them."""
        found = self.core(core)
        if found.state != REGISTERED or found.path is None:
            raise RunFailed(f"{found.library} was not registered: {found.why}", hint="run its ops on a device")
        return OpSession(found.path, _provider(self.registration), backend=_CORES[core].backend, **options)


def add_op_package(path: Path, *, cores: Sequence[str] = (), runtimes: Mapping[str, Path] | None = None) -> UdoPackage:
    """Register the package of a registration library: all of its cores, or those that are named.

    Raises `LibraryMissing`, `WrongMachine`, `OtherPackage`, `OtherOps`, or what registering itself fails with.
    """
    registration = read_registration(path)
    _agrees_with_itself(registration)
    unknown = [core for core in cores if not registration.library(core)]
    if unknown:
        have = ", ".join(core for core, _ in registration.libraries)
        raise UsageError(
            f"package {registration.package} has no library for {', '.join(unknown)}", hint=f"it has: {have}"
        )
    wanted = [core for core, _ in registration.libraries if not cores or core in cores]
    states = [_add(registration, core, (runtimes or {}).get(core)) for core in wanted]
    return UdoPackage(registration, tuple(states))


def implementation(registration: Registration, core: str) -> Path:
    """Where the loader finds a core's library: LD_LIBRARY_PATH, then the system's folders; built for this machine."""
    name, here = registration.library(core), platform.machine()
    if not name or "/" in name:
        raise OtherPackage(
            f"{registration.path} names {f'`{name}`' if name else 'no library'} for {core}",
            hint="a registration names its libraries without folders: the loader looks for them",
        )
    looked = [folder / name for folder in tools.library_path()]
    there = [(found, elf.read(found)) for found in looked if found.is_file()]
    fitting = [found for found, read in there if read.machine == here and read.bits == 64]
    if fitting:  # as the loader does, which passes over those of other machines
        return fitting[0].resolve()
    if not there:
        told = ask({"do": "locate", "library": name}, library=name, timeout=_SECONDS, what="the library")
        if told["path"]:
            return Path(told["path"])
        raise _missing(registration, core, name)
    found, read = there[0]
    if read.machine in _CORES[core].elsewhere:
        return found.resolve()
    target = _CORES[core].target
    raise WrongMachine(
        f"{found} is built for {read.processor}, and {core} of this machine needs {here}",
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
                f"{registration.path} has op {op.type} for {', '.join(lost)}, and names no library for it",
                hint="generate the registration library again",
            )


def _provider(registration: Registration) -> str:
    return f"{registration.package}{PROVIDER}"


def _add(registration: Registration, core: str, runtime: Path | None) -> CoreState:
    row, name = _CORES[core], registration.library(core)
    if not row.backend:
        try:  # it need not be here; where it is, it must be the right one
            path = implementation(registration, core)
        except LibraryMissing:
            return CoreState(core, name, NOT_TRIED, row.why)
        _check_provider(registration, core, path)
        return CoreState(core, name, NOT_TRIED, row.why, path)
    path = implementation(registration, core)
    found = elf.read(path)
    _check_provider(registration, core, path)
    if found.machine != platform.machine():
        return CoreState(core, name, NOT_TRIED, f"it is built for {found.processor}, which loads it itself", path)
    try:
        find_runtime(row.backend, explicit=runtime)
    except ToolMissing as absent:
        return CoreState(core, name, NOT_TRIED, f"{absent.message}: {absent.hint}", path)
    with OpSession(path, _provider(registration), backend=row.backend, runtime=runtime, timeout=_SECONDS) as session:
        package, ran = session.package, session.runtime
    compared = _compare_names(registration, core, path, package)
    if row.backend == "htp" and _compare_records(registration, path, found):
        compared = (*compared, "inputs", "outputs", "data types")
    return CoreState(core, name, REGISTERED, "", path, package, ran, compared)


def _check_provider(registration: Registration, core: str, path: Path) -> None:
    exports = elf.read(path).exports
    there = sorted(name for name in exports if name.endswith(PROVIDER))
    if _provider(registration) in there:
        return
    if there:
        raise _other_package(registration, core, path, " and ".join(name.removesuffix(PROVIDER) for name in there))
    raise OtherPackage(
        f"{path} exports no {_provider(registration)}: it is no op package",
        hint=f"it must be the {core} library of package {registration.package}; build it again",
    )


def _other_package(registration: Registration, core: str, path: Path, name: str) -> OtherPackage:
    return OtherPackage(
        f"{path} is of package {name}, and {registration.path.name} registers package {registration.package}",
        hint=f"put the {core} library of {registration.package} first in LD_LIBRARY_PATH",
    )


def _compare_names(registration: Registration, core: str, path: Path, package: PackageInfo) -> tuple[str, ...]:
    if package.name and package.name != registration.package:
        raise _other_package(registration, core, path, package.name)
    told = [op.type for op in registration.ops_of(core)]
    if not package.operations:
        return ("package",) if package.name else ()
    absent = [name for name in told if name not in package.operations]
    further = [name for name in package.operations if name not in told]
    if absent or further:
        parts = [f"it has not {', '.join(absent)}"] if absent else []
        parts += [f"it has {', '.join(further)}, which {registration.path.name} does not know"] if further else []
        raise OtherOps(
            f"{path} has other ops than its registration: {'; '.join(parts)}",
            hint="generate and build both from the same config",
        )
    return ("package", "ops")


def _compare_records(registration: Registration, path: Path, found: elf.Elf) -> bool:
    """Hold what the kernels of HTP say against the registration; False where they say nothing."""
    if "qhpi_init" not in found.exports:
        return False
    undefined = [symbol.name for symbol in found.imports if symbol.name.startswith("qhpi_")]
    records = {row["name"]: row["kernels"] for row in read_records(path, undefined, timeout=_SECONDS).ops}
    for op in registration.ops_of("DSP"):
        kernels = records.get(f"{registration.package}::{op.type}", [])
        faults = [_fault(op, kernel) for kernel in kernels]
        if kernels and all(faults):
            raise OtherOps(
                f"op {op.type} of {path} is another than its registration says: {faults[0]}",
                hint="generate and build both from the same config",
            )
    return bool(records)


def _fault(op: RegisteredOp, kernel: Mapping[str, Any]) -> str:
    """In what a kernel does not fit the registration; parameters arrive as further inputs."""
    inputs, outputs = kernel["inputs"], kernel["outputs"]
    if len(outputs) != len(op.outputs):
        return f"its kernel writes {len(outputs)} outputs, registered are {len(op.outputs)}"
    if not len(op.inputs) <= len(inputs) <= len(op.inputs) + len(op.params):
        most = f" and {len(op.params)} parameters" if op.params else ""
        return f"its kernel takes {len(inputs)} inputs, registered are {len(op.inputs)}{most}"
    for tensor, record in (*zip(op.inputs, inputs, strict=False), *zip(op.outputs, outputs, strict=True)):
        if not _same_type(tensor, record["type"]):
            return f"its kernel has {record['type']} for `{tensor.name}`, registered is {tensor.types.get('DSP')}"
    return ""


def _same_type(tensor: RegisteredTensor, element: str) -> bool:
    word = tensor.types.get("DSP", "")
    return element == _ANY or word not in _ELEMENTS or element in _ELEMENTS[word]
