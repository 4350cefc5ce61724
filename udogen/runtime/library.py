"""Finds the QNN runtime, and checks whether a library can be loaded on this machine.

Restoring a context begins here and must be fast: `elf`, `tools` and the emulator are imported only where needed.
"""

from __future__ import annotations

import importlib.util
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from udogen import backends
from udogen.backends.backend import PROVIDER, HostRuntime
from udogen.errors import RunFailed, ToolMissing, UsageError
from udogen.runtime.arguments import PathArgument

if TYPE_CHECKING:
    from udogen.build.tools import Environment

KINDS = ("auto", "real", "emulator")
BUILD_ID = "udogen_qnn_sdk_build_id"  # exported by generated packages of HTP's C++ interface
_WHEEL = "onnxruntime_qnn"

_HEAD = struct.Struct("<4sBB10xHH")  # of an ELF file: magic, class, byte order, type, machine
_MACHINES = {62: "x86_64", 183: "aarch64"}
SDK_FOLDERS = {
    "x86_64": ("x86_64-linux-clang",),
    "aarch64": ("aarch64-oe-linux-gcc11.2", "aarch64-oe-linux-gcc9.3", "aarch64-ubuntu-gcc9.4"),
}


@dataclass(frozen=True)
class RuntimeLibrary:
    """The library of a backend, and its origin: `print(library.path, library.emulator)`."""

    backend: str
    behaviour: HostRuntime
    path: Path
    origin: str
    emulator: bool = False  # udogen's own, not Qualcomm's

    @property
    def serial(self) -> bool:
        """Whether executions of two graphs must not overlap, even in two contexts."""
        return not self.emulator and os.uname().machine in self.behaviour.one_at_a_time

    @property
    def system(self) -> Path:
        """The libQnnSystem.so next to it."""
        return self.path.with_name("libQnnSystem.so")


# By runtime library and package: the contents of the first build, whose kernels libQnnHtp runs for every later one
# until its last backend in this process is freed.
_builds: dict[tuple[Path, str], bytes] = {}
_kept_backends: set[Path] = set()  # runtime libraries of which ONNX Runtime keeps a backend until the process ends


def check_build(runtime: Path, package: str, library: Path, *, is_kept: bool = False) -> None:
    """Raise if libQnnHtp would run the kernels of another build of this package, which it had before."""
    import hashlib  # slow to import, and only op packages of HTP need it

    contents = hashlib.blake2b(library.read_bytes()).digest()
    if is_kept:
        _kept_backends.add(runtime)
    if _builds.setdefault((runtime, package), contents) != contents:
        raise RunFailed(
            f"{library} cannot be used in this process: it has registered another build of package `{package}`, and "
            f"{runtime.name} would run the kernels of that one",
            hint="start a new process (in a notebook: restart the kernel); `udogen run` and `udogen test` always do",
        )


def forget_builds(runtime: Path) -> None:
    """The last backend of this runtime library was freed."""
    if runtime not in _kept_backends:
        for key in [key for key in _builds if key[0] == runtime]:
            del _builds[key]


@dataclass(frozen=True)
class RuntimeInfo:
    """The runtime: `print(session.runtime.name, session.runtime.build_id)`."""

    name: str
    build_id: str
    api_version: str
    backend_version: str
    path: str
    emulator: bool = False  # udogen's own, not Qualcomm's


def find_runtime(
    backend: str = "cpu",
    *,
    qnn_lib: PathArgument | None = None,
    environment: Environment | None = None,
    runtime: str = "auto",
    on_step: Callable[[str], None] = lambda _line: None,
) -> RuntimeLibrary:
    """The library of a backend: the given one, or that of the SDK, the wheel, or the emulator.

    `runtime` is one of KINDS.  `auto` selects the emulator only if no real runtime runs on this machine.

    `library = find_runtime("htp", runtime="real")`
    """
    from udogen.build import tools

    row = backends.RUNTIMES.get(backend)
    if row is None:
        raise UsageError(f"no runtime for backend `{backend}`", hint=f"one of: {', '.join(backends.RUNTIMES)}")
    if runtime not in KINDS:
        raise UsageError(f"unknown kind of runtime: `{runtime}`", hint="one of: " + ", ".join(KINDS))
    runs_here = os.uname().machine in row.machines
    if runtime == "emulator" or (runtime == "auto" and qnn_lib is None and not runs_here):
        if qnn_lib is not None:
            raise UsageError("--qnn-lib and --runtime emulator are two runtimes", hint="leave one of them out")
        from udogen.build import emulator

        return RuntimeLibrary(backend, row, emulator.build_backend(backend, on_step=on_step), "emulator", emulator=True)
    if qnn_lib is None and not runs_here:
        raise ToolMissing(
            f"{row.library} does not run on {os.uname().machine}",
            hint="udogen's emulator does: `udogen run op … --runtime emulator`",
        )
    if qnn_lib is not None:
        return _given(backend, row, Path(qnn_lib))
    return _installed(backend, row, environment or tools.environment())


def _given(backend: str, row: HostRuntime, path: Path) -> RuntimeLibrary:
    """The library at a path, or in a folder."""
    path = path / row.library if path.is_dir() else path
    if not path.is_file():
        raise ToolMissing(f"no QNN runtime at {path}", hint=f"give the path of {row.library}")
    emulators = [other.emulator.library for other in backends.ALL.values() if other.emulator]
    emulator = path.name != row.library and path.name in emulators
    return RuntimeLibrary(backend, row, path.resolve(), "given", emulator=emulator)


def _installed(backend: str, row: HostRuntime, environment: Environment) -> RuntimeLibrary:
    """The library of the SDK, else that of the wheel."""
    places = [*_sdk_places(environment), *_wheel_places()]
    for origin, folder in places:
        if (folder / row.library).is_file():
            return RuntimeLibrary(backend, row, (folder / row.library).resolve(), origin)
    raise ToolMissing(
        f"the QNN runtime {row.library} is not installed",
        hint=row.hint,
        details=[f"looked in {folder}" for _, folder in places],
    )


def _sdk_places(environment: Environment) -> list[tuple[str, Path]]:
    if not environment.qnn_sdk_root:
        return []
    library = Path(environment.qnn_sdk_root) / "lib"
    known = [library / name for name in SDK_FOLDERS.get(os.uname().machine, ())]
    others = sorted(library.glob("aarch64-*linux*")) if os.uname().machine == "aarch64" else []
    return [("QNN_SDK_ROOT", folder) for folder in dict.fromkeys([*known, *others])]


def _wheel_places() -> list[tuple[str, Path]]:
    spec = importlib.util.find_spec(_WHEEL)  # finds the folder without importing it
    return [(_WHEEL, Path(folder)) for folder in (spec.submodule_search_locations or [] if spec else [])]


def check_loadable(path: Path, what: str) -> None:
    """Raise, with the reason, if the dynamic loader would refuse a library."""
    check_file(path, what)
    if _is_for_this_machine(path):
        return

    from udogen.build import elf

    try:
        machine = elf.read(path).machine
    except elf.NotElf as fault:
        raise elf.NotElf(fault.what, f"the {what} {fault.message}", hint=fault.hint) from fault
    here = os.uname().machine
    if machine != here:
        raise RunFailed(
            f"the {what} {path} is built for {machine}, this machine is {here}",
            hint=f"build it for {here} (on a PC: the target cpu_x86, gpu_x86 or htp_x86), or run it on the device",
        )


def check_file(path: Path, what: str) -> None:
    """Raise if a library does not exist."""
    if path.is_dir():
        raise RunFailed(f"the {what} {path} is a folder", hint="give the path of the library in it")
    if not path.is_file():
        hint = "build it first, or give its path" if "package" in what else "give the path of the library"
        raise RunFailed(f"no {what} at {path}", hint=hint)


def _is_for_this_machine(path: Path) -> bool:
    """Whether a library is for this machine, by its first bytes: reading the whole ELF takes longer than loading it."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD.size)
    except OSError:
        return False
    if len(head) < _HEAD.size:
        return False
    magic, width, order, kind, machine = _HEAD.unpack(head)
    # 64 bits, little-endian, a shared library.
    return (magic, width, order, kind) == (b"\x7fELF", 2, 1, 3) and _MACHINES.get(machine) == os.uname().machine


def interface_providers(path: PathArgument) -> list[str]:
    """The interface providers that an op package exports: `[provider] = interface_providers("libPackage.so")`."""
    from udogen.build import elf

    path = Path(path)
    check_file(path, "op package")
    return sorted(name for name in elf.read(path).exports if name.endswith(PROVIDER))


def check_provider(path: Path, provider: str) -> None:
    """Raise if the library does not export the provider; the hint names its providers."""
    from udogen.build import elf

    if provider in elf.read(path).exports:
        return
    exported = interface_providers(path)
    raise RunFailed(
        f"{path} does not export `{provider}`",
        hint=f"it has: {', '.join(exported)}" if exported else "give an op package: it exports no *InterfaceProvider",
    )


def only_provider(library: Path) -> str:
    """The interface provider of an op package that exports one; raises for others."""
    providers = interface_providers(library)
    if len(providers) == 1:
        return providers[0]
    if not providers:
        raise RunFailed(f"{library} exports no interface provider", hint="is it an op package? If so, name its symbol")
    raise UsageError(f"{library} exports several interface providers", hint=f"name one of: {', '.join(providers)}")


def check_symbols(runtime: Path, library: Path) -> None:
    """Raise if an HTP package would call another runtime: it is linked to the first loaded library that fits."""
    from udogen.build import elf
    from udogen.qnn.interface import opened

    runtime = runtime.resolve()
    before = opened[: opened.index(runtime)] if runtime in opened else []
    other = next((path for path in before if "qhpi_register_ops_v1" in elf.read(path).exports), None)
    if other is not None:
        raise RunFailed(
            f"{library} cannot be registered in {runtime.name}: {other} was loaded into this process first, "
            "and the package would call its functions",
            hint="use one HTP runtime in a process; `udogen run context` has a child for each",
        )


def sdk_build_id(path: Path) -> str:
    """The QNN SDK whose C++ headers a library was built with (`--htp-api core`); empty for other libraries."""
    from udogen.build import elf

    try:
        return elf.text_of(elf.read(path), BUILD_ID)
    except elf.NotElf:  # `check_loadable` reports it
        return ""
