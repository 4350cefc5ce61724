"""A built op package: the library behind a path, and its config if udogen generated it."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from udogen import backends
from udogen.backends import architectures, htp
from udogen.backends.backend import PROVIDER, Target
from udogen.build import elf
from udogen.build.package import PackageLibrary, first_built, open_packages, package_of
from udogen.configs import resolve
from udogen.configs.load import load
from udogen.errors import RunFailed, UsageError, file_hint
from udogen.findings import Findings
from udogen.opdef.model import Op, OpPackage
from udogen.runtime import failures
from udogen.runtime.library import only_provider
from udogen.runtime.op.calls import OpPackageInfo
from udogen.runtime.package_queries import is_registration, read_registration
from udogen.runtime.snpe import host as udo_host

if TYPE_CHECKING:
    from udogen.runtime.contexts.runtime import Runtime


_USUAL = "cpu"


@dataclass(frozen=True)
class Built:
    """A built op package: the library to register, and its config if udogen generated it.

    `runtime.register(built.library, built.provider)`
    """

    library: Path
    provider: str
    package: str
    folder: PackageLibrary | None

    @property
    def outdated(self) -> str:
        """A sentence if sources changed since the library was built; otherwise empty."""
        return outdated(self.library, self.folder)

    @cached_property
    def config(self) -> OpPackage | None:
        """The package as its config defines it, read once; None if udogen did not generate it."""
        packages = load(self.folder.configs)[0] if self.folder is not None else ()
        return next((package for package in packages if package.name == self.package), None)

    def op(self, name: str, backend: str) -> Op | None:
        """The op with the rules of this backend; None without a config, or if the config lacks the op."""
        if self.folder is None or self.config is None:
            return None
        if backend not in backends.ALL:
            raise UsageError(f"there is no backend `{backend}`", hint=f"one of: {', '.join(backends.ALL)}")
        alone = self.config.with_ops(tuple(op for op in self.config.ops if op.name == name))
        resolved = resolve.for_backend(alone, backend, Findings(), forced=True, layout=self.folder.layout)
        return next(iter(resolved.ops), None)

    def check_op(self, name: str) -> None:
        """Raise if the package lacks the op, before a runtime is started."""
        if self.folder is not None and name not in self.folder.ops:
            message, hint = failures.no_op(name, OpPackageInfo(self.package, self.folder.ops))
            raise UsageError(message, hint=hint)


def outdated(library: Path, folder: PackageLibrary | None = None) -> str:
    """A sentence if sources of the package changed since the library was built; otherwise empty."""
    folder = folder or package_of(library)
    changed = folder.changed_since(library) if folder is not None else []
    if folder is None or not changed:
        return ""
    changed.sort(key=lambda name: name not in folder.user_owned)
    more = f" and {len(changed) - 1} more changed files" if len(changed) > 1 else ""
    again = f"run `udogen build -C {shlex.quote(str(folder.path))}`"
    return f"{library.name} was built from another {changed[0]}{more}; {again}"


def backend_of(path: Path) -> str:
    """The only backend of the packages at a path; cpu if there are several, or if it is unknown."""
    package = package_of(path) if path.exists() and not path.is_dir() else None
    packages = open_packages(path) if path.is_dir() else [package] if package is not None else []
    usable = {package.backend for package in packages} & backends.RUNTIMES.keys()
    return next(iter(usable)) if len(usable) == 1 else _USUAL


def find_built(path: Path, *, backend: str = "cpu", provider: str = "") -> Built:
    """The library behind a path: a library itself, or the package folder it was built in.

    `built = find_built(Path("out/MyPackage"), backend="htp")`
    """
    if path.is_dir():
        folder = _of_backend(path, backend)
        library = built_for(folder, _native_targets(folder, backend), f"the {backend} backend of this machine")
        return Built(library, provider or folder.provider, folder.name, folder)
    if not path.exists():
        hint = file_hint(path, "give a built library, or the folder of a generated package")
        raise RunFailed(f"no op package at {path}", hint=hint)
    if is_registration(path):
        return find_built(_implementation(path, backend), backend=backend, provider=provider)
    package = package_of(path)
    if package is not None and path.name not in [
        artifact.name for row in package.rows for artifact in package.artifacts(row)
    ]:
        package = None  # in a package folder, but not its library
    if package is not None and not provider:
        return Built(path, package.provider, package.name, package)
    provider = provider or only_provider(path)
    return Built(path, provider, package.name if package else provider.removesuffix(PROVIDER), package)


def _implementation(path: Path, backend: str) -> Path:
    """The path at which the loader finds the library that a registration library of SNPE names for a backend."""
    registration, core = read_registration(path), udo_host.BACKENDS.get(backend, "")
    if registration.libraries_of(core):
        return udo_host.implementation(registration, core)
    cores = udo_host.BACKENDS.items()
    have = " or ".join(f"--backend {name}" for name, core in cores if registration.libraries_of(core))
    raise UsageError(
        f"package {registration.package} names no library that runs on the {backend} backend of this machine",
        hint=have or "run it on a device",
    )


def find_source(path: Path, *, backend: str) -> Built:
    """The generated package behind a path; it need not be built.

    `built = find_source(Path("out/MyPackage"), backend="dsp")`
    """
    folder = _of_backend(path, backend) if path.is_dir() else package_of(path) if path.exists() else None
    if folder is None:
        raise RunFailed(f"no generated package at {path}", hint="give the folder of a package, or a library in it")
    if folder.backend != backend:
        raise UsageError(f"{folder.path} is a {folder.backend} package", hint=f"generate it with --backend {backend}")
    return Built(path, folder.provider, folder.name, folder)


def _of_backend(path: Path, backend: str) -> PackageLibrary:
    """The package for this backend in a folder; with the ops of all its libraries if each op has its own."""
    packages = open_packages(path)
    fitting = [package for package in packages if package.backend == backend]
    if len({package.path for package in fitting}) == 1:
        return replace(fitting[0], ops=tuple(op for package in fitting for op in package.ops))
    if fitting:
        raise UsageError(
            f"{path} contains several {backend} packages",
            hint="choose one of " + ", ".join(str(package.path) for package in fitting[:5]),
        )
    have = sorted({package.backend for package in packages})
    raise UsageError(
        f"{path} contains no package for the {backend} backend",
        hint=" or ".join(f"--backend {name}" for name in have),
    )


def _native_targets(folder: PackageLibrary, backend: str) -> list[Target]:
    rows = [row for row in folder.rows if row.native]
    fitting = [row for row in rows if row.backend == backend]
    if not fitting:
        others = " or ".join(f"--backend {row.backend}" for row in rows)
        raise UsageError(
            f"package {folder.name} has no target that runs on the {backend} backend of this machine",
            hint=others or "run it on a device",
        )
    return fitting


_ANDROID = "aarch64-android"


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
    the processor of the process: by default this one, or with `arch` on a PC that of a device with Android.

    `[arm, hexagon] = op_libraries(folder, arch="v75").registrations`
    """
    here = platform.machine()
    if not machine and arch and here == "x86_64":
        machine, android = "aarch64", True if android is None else android
    machine = machine or here
    folder = _folder(package)
    if machine == "x86_64":
        # The target must be NULL or CPU: libQnnHtp returns 4003 for HTP on a PC.
        rows = [row for row in folder.rows if row.native and row.backend == folder.backend]
        file = built_for(folder, rows, "this PC")
        _check(file, "x86_64", "")
        return OpLibraries(folder.name, "", (LibraryRegistration(str(file), folder.provider, None, file),), ())
    if machine not in ("aarch64", "arm64"):
        raise UsageError(f"HTP does not run on {machine}", hint="on x86_64 (Qualcomm's emulator) and aarch64")
    version = _version(arch)
    on_android = hasattr(sys, "getandroidapilevel") if android is None else android
    arm = _arm(folder, on_android)
    rows = [row for row in folder.rows if row.backend == folder.backend and row.arch == version]
    hexagon = built_for(folder, rows, f"Hexagon {version}", others=_versions(folder))
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
        versions = {device.arch for device in runtime.devices()}
        if len(versions) > 1 and (machine or platform.machine()) != "x86_64":
            names = ", ".join(f"v{version}" for version in sorted(versions))
            raise UsageError(
                f"the devices of this platform are different versions of Hexagon: {names}",
                hint="name the one to register for (arch)",
            )
        arch = max(versions, default=0)
    libraries = op_libraries(package, arch=arch, machine=machine or platform.machine())
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


def built_for(folder: PackageLibrary, rows: list[Target], what: str, others: str = "") -> Path:
    """The library of the first of these targets that is built; raises if none is."""
    return first_built(folder, rows) or _missing(folder, rows, what, others)


def _missing(folder: PackageLibrary, rows: list[Target], what: str, others: str) -> Path:
    if not rows:
        raise UsageError(
            f"package {folder.name} has no target for {what}",
            hint="generate it for that version (`udogen build --help` names them all)",
        )
    raise RunFailed(
        f"package {folder.name} is not built for {what}" + (f" (it is for {others})" if others else ""),
        hint=f"udogen build {folder.goal(rows[0])} -C {shlex.quote(str(folder.path))}",
    )


def _versions(folder: PackageLibrary) -> str:
    return ", ".join(
        f"Hexagon {row.arch}"
        for row in folder.rows
        if row.arch and row.backend == folder.backend and first_built(folder, [row])
    )


def _check(file: Path, machine: str, version: str) -> None:
    """Raise if a library is built for another processor; the device reports only that it cannot load it."""
    header = elf.read(file)
    if header.machine != machine or (version and header.arch and header.arch != version):
        raise RunFailed(
            f"{file} is built for {header.processor}, {f'{machine} {version}'.strip()} is needed",
            hint="build it again: `udogen build` puts each library into its own folder",
        )
