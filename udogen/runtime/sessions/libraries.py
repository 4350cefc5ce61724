"""Op-package libraries for a device: which ones are registered, and where Hexagon searches for them."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from udogen.backends import architectures, htp
from udogen.backends.backend import Target
from udogen.build import elf
from udogen.build.package import PackageLibrary
from udogen.errors import RunFailed, UsageError
from udogen.runtime.built import find_source
from udogen.runtime.sessions.session import devices_of

if TYPE_CHECKING:
    from udogen.runtime.contexts.runtime import Runtime

_ANDROID = "aarch64-android"


class DeviceLibraryMissing(RunFailed):
    """A package is not built for a device."""


@dataclass(frozen=True)
class LibraryRegistration:
    """One call that registers an op package: `library` as passed to the runtime."""

    library: str  # a full path; only a name for a Hexagon library, for which another loader searches
    provider: str
    target: str | None
    file: Path


@dataclass(frozen=True)
class OpLibraries:
    """The libraries that an op package needs on one processor: `print(libraries.registrations, libraries.search)`."""

    package: str
    arch: str  # of Hexagon: v73; empty on a PC
    registrations: tuple[LibraryRegistration, ...]
    search: tuple[Path, ...]  # folders to put first in ADSP_LIBRARY_PATH, separated by `;`


def op_libraries(package: Path, *, arch: str | int = "", machine: str = "", android: bool | None = None) -> OpLibraries:
    """The libraries of a built HTP package that this processor needs.

    A PC needs one.  A device needs two of the same name: one for ARM, which prepares graphs and is registered with
    target CPU, and one for Hexagon with target HTP.  `arch` is the version of Hexagon (`DeviceInfo.arch`), `machine`
    the processor of this process.
    """
    machine = machine or platform.machine()
    folder = _folder(package)
    if machine == "x86_64":
        # The target must be NULL or CPU: libQnnHtp returns 4003 for HTP on a PC.
        file = _built(folder, [row for row in folder.rows if row.native and row.backend == folder.backend], "this PC")
        _check(file, "x86_64", "")
        return OpLibraries(folder.name, "", (LibraryRegistration(str(file), folder.provider, None, file),), ())
    if machine not in ("aarch64", "arm64"):
        raise UsageError(f"HTP does not run on {machine}", hint="on x86_64 (Qualcomm's emulator) and aarch64")
    version = _version(arch)
    on_android = hasattr(sys, "getandroidapilevel") if android is None else android
    arm = _arm(folder, on_android)
    rows = [row for row in folder.rows if row.backend == folder.backend and row.arch == version]
    hexagon = _built(folder, rows, f"Hexagon {version}", others=_versions(folder))
    _check(arm, "aarch64", "")
    _check(hexagon, "hexagon", version)
    return OpLibraries(
        folder.name,
        version,
        (
            LibraryRegistration(str(arm), folder.provider, "CPU", arm),
            LibraryRegistration(hexagon.name, folder.provider, "HTP", hexagon),
        ),
        (hexagon.parent,),
    )


def register_package(runtime: Runtime, package: Path, *, arch: str | int = "", machine: str = "") -> OpLibraries:
    """Register all libraries of an HTP package that this machine's devices need.

    ADSP_LIBRARY_PATH must contain the folder of the Hexagon library before the process starts: see `adsp_library_path`.

    `register_package(runtime, Path("out/MyPackage"))`
    """
    if not arch:
        versions = {device.arch for device in devices_of(runtime)}
        if len(versions) > 1 and (machine or platform.machine()) != "x86_64":
            names = ", ".join(f"v{version}" for version in sorted(versions))
            raise UsageError(
                f"the devices of this platform are different versions of Hexagon: {names}",
                hint="name the one to register for (arch)",
            )
        arch = max(versions, default=0)
    libraries = op_libraries(package, arch=arch, machine=machine)
    for registration in libraries.registrations:
        runtime.register(Path(registration.library), registration.provider, registration.target)
    return libraries


def adsp_library_path(libraries: Iterable[OpLibraries], present: str = "") -> str:
    """The value of ADSP_LIBRARY_PATH with which a Hexagon finds these libraries.

    `os.environ["ADSP_LIBRARY_PATH"] = adsp_library_path([libraries])`
    """
    folders = dict.fromkeys(str(folder) for package in libraries for folder in package.search)
    for folder in folders:
        if ";" in folder:
            raise UsageError(
                f"{folder} cannot be in ADSP_LIBRARY_PATH: it contains `;`", hint="move the package elsewhere"
            )
    return ";".join([*folders, *([present] if present else [])])


def _folder(package: Path) -> PackageLibrary:
    folder = find_source(package, backend=htp.BACKEND.id).folder
    assert folder is not None
    return folder


def _version(arch: str | int) -> str:
    known = architectures.of_backend(htp.BACKEND.id)
    name = f"v{arch}" if isinstance(arch, int) or arch.isdigit() else arch.lower()
    if name in known:
        return name
    if name in ("", "v0"):
        raise UsageError(
            "the version of Hexagon is unknown: the device does not report it",
            hint="name it (arch): " + ", ".join(known),
        )
    raise UsageError(f"there is no HTP on Hexagon {name}", hint="there is on " + ", ".join(known))


def _arm(folder: PackageLibrary, android: bool) -> Path:
    """The library for ARM; Android and Linux have different ones."""
    system = "Android" if android else "Linux"
    rows = [row for row in folder.rows if row.backend == folder.backend and not row.native and not row.arch]
    candidates = [
        folder.artifact(name, row.ending)
        for row in rows
        for name in row.folders
        if folder.layout == "snpe" or (name == _ANDROID) is android
    ]
    library = next((file for file in candidates if file.is_file()), None)
    return library or _missing(folder, rows[:1], f"aarch64 {system}", "")


def _built(folder: PackageLibrary, rows: list[Target], what: str, others: str = "") -> Path:
    library = next((file for row in rows for file in folder.artifacts(row) if file.is_file()), None)
    return library or _missing(folder, rows, what, others)


def _missing(folder: PackageLibrary, rows: list[Target], what: str, others: str) -> Path:
    if not rows:
        raise UsageError(
            f"package {folder.name} has no target for {what}",
            hint="generate it for that version (`udogen doctor --list targets` names them all)",
        )
    raise DeviceLibraryMissing(
        f"package {folder.name} is not built for {what}" + (f" (it is for {others})" if others else ""),
        hint=f"udogen build {folder.goal(rows[0])} -C {shlex.quote(str(folder.path))}",
    )


def _versions(folder: PackageLibrary) -> str:
    return ", ".join(
        f"Hexagon {row.arch}"
        for row in folder.rows
        if row.arch and row.backend == folder.backend and any(file.is_file() for file in folder.artifacts(row))
    )


def _check(file: Path, machine: str, version: str) -> None:
    """Raise if a library is built for another processor; the device reports only that it cannot load it."""
    header = elf.read(file)
    if header.machine != machine or (version and header.arch and header.arch != version):
        raise RunFailed(
            f"{file} is built for {header.processor}, {f'{machine} {version}'.strip()} is needed",
            hint="build it again: `udogen build` puts each library into a folder of its own",
        )
