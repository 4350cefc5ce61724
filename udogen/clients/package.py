"""Packages and their libraries for the platform where a client runs, in folders and in libraries given one by one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from udogen import backends
from udogen.backends import architectures, targets
from udogen.build import elf
from udogen.build.package import PackageLibrary, first_built, open_packages
from udogen.errors import UdogenError, UsageError, file_hint
from udogen.findings import suggestion
from udogen.inspect import kinds
from udogen.opdef.model import Op
from udogen.runtime.built import Built, built_for, find_built, op_libraries
from udogen.runtime.op.session import OpSession

PC, ANDROID, LINUX = "pc", "android", "linux"  # systems
# Version of Hexagon -> the backend whose packages clients register there.
_VERSIONS = {row.name: row.backend for row in architectures.ALL.values() if backends.ALL[row.backend].two_halves}
DEVICE_FOLDER = "/data/local/tmp/udogen"


@dataclass(frozen=True)
class PackageOptions:
    """Which libraries of packages a user requests."""

    target: str = ""  # a make target, a backend, or a Hexagon version
    system: str = ""  # empty: that of the target
    ops: tuple[str, ...] = ()
    folder: str = ""  # where the client runs


REGISTRATION_TARGETS = {PC: "reg_x86", ANDROID: "reg_android", LINUX: "reg_aarch64"}


@dataclass(frozen=True)
class Platform:
    """Where the client runs."""

    system: str  # PC, ANDROID or LINUX
    backend: str = ""  # empty: the only backend of the package
    arch: str = ""  # Hexagon version

    @property
    def is_device(self) -> bool:
        """True unless it is this machine."""
        return self.system != PC


@dataclass(frozen=True)
class Library:
    """One library of a package."""

    file: Path  # on this machine
    path: str  # what the client opens; for Hexagon only the file name, which the DSP's loader searches for
    name: str  # the file name where the client runs
    target: str = ""  # argument of backendRegisterOpPackage: CPU or HTP; empty if none is needed
    hexagon: bool = False


@dataclass(frozen=True)
class Package:
    """One package on one platform."""

    name: str
    provider: str
    backend: str
    ops: tuple[str, ...]
    libraries: tuple[Library, ...]
    platform: Platform
    folder: str  # where the client runs; empty: each library is where it was found
    built: PackageLibrary | None = None  # the generated package, if udogen generated it
    models: tuple[Op, ...] = ()  # the ops of its config, with the rules of this backend applied
    registration: Path | None = None  # SNPE's registration library

    @property
    def library(self) -> Library:
        """The library that the client's own process opens."""
        return next(library for library in self.libraries if not library.hexagon)

    @property
    def hexagon(self) -> Library | None:
        """The library for the DSP."""
        return next((library for library in self.libraries if library.hexagon), None)

    @property
    def host_library(self) -> Path | None:
        """The library for x86-64, with which a PC prepares graphs for a device; None if it is not built."""
        if not self.platform.is_device:
            return self.library.file
        if self.built is None:
            return None
        file = first_built(self.built, [row for row in self.built.rows if row.native and row.backend == self.backend])
        return file.resolve() if file else None

    @property
    def registration_path(self) -> str:
        """The absolute path of SNPE's registration library, where the program runs; empty if there is none."""
        if self.registration is None:
            return ""
        return f"{self.folder}/{self.registration.name}" if self.folder else str(self.registration)

    @property
    def config(self) -> Path | None:
        """The XML config of the package; None if it has none."""
        return next((config for config in self.built.configs if config.suffix == ".xml"), None) if self.built else None


def platform_of(options: PackageOptions) -> Platform:
    """The platform that the options select."""
    found = _platform_of_target(options)
    if options.system and found.system != options.system:
        raise UsageError(
            f"--target {options.target} is for {found.system}, and the client runs on {options.system}",
            hint="name only the backend: --target cpu, gpu or htp; `udogen script` takes a device with --on adb",
        )
    return found


def _platform_of_target(options: PackageOptions) -> Platform:
    name = options.target.lower()
    if not name or name in backends.RUNTIMES:
        return Platform(options.system or PC, name)
    version = re.fullmatch(r"(?:htp_|dsp_)?(v\d+)", name)
    if version and version[1] in _VERSIONS:
        return Platform(ANDROID if options.system == ANDROID else LINUX, _VERSIONS[version[1]], version[1])
    row = targets.ALL.get(name) or targets.UDO.get(name)
    if row is None or row.backend not in backends.RUNTIMES:
        known = [*backends.RUNTIMES, "cpu_android", "gpu_android", *_VERSIONS]
        hint = suggestion(name, [*known, *targets.ALL, *targets.UDO], f"one of {', '.join(known)}")
        raise UsageError(f"--target {options.target}: unknown target", hint=hint)
    if backends.ALL[row.backend].two_halves and not row.native:
        raise UsageError(
            f"--target {options.target} is one half of what HTP needs on a device",
            hint="name its Hexagon version (--target v75): the ARM library is included",
        )
    return Platform(PC if row.native else ANDROID if row.for_android else LINUX, row.backend)


def find_packages(paths: Sequence[Path], options: PackageOptions) -> tuple[Package, ...]:
    """The packages in libraries and folders; the two libraries of one HTP package may be given separately."""
    platform = platform_of(options)
    by_name: dict[tuple[str, str], Package] = {}
    for path in paths:
        package = _find(path, platform, options)
        other = by_name.get((package.name, package.provider))
        by_name[package.name, package.provider] = _merged(other, package) if other else package
    for package in by_name.values():
        if package.libraries and all(library.hexagon for library in package.libraries):
            raise UsageError(
                f"{_files(package)} is the Hexagon half of package {package.name}; the ARM half is missing",
                hint="give both libraries, or the package folder with --target " + (package.platform.arch or "v75"),
            )
    return tuple(by_name.values())


def _merged(first: Package, second: Package) -> Package:
    """The ARM and the Hexagon library of one HTP package as one."""
    libraries = sorted((*first.libraries, *second.libraries), key=lambda library: library.hexagon)
    if len(first.libraries) != 1 or [library.hexagon for library in libraries] != [False, True]:
        raise UsageError(
            f"package {first.name} is given twice: {_files(first)} and {_files(second)}",
            hint="leave one out: a runtime accepts each package once (4007)",
        )
    return replace(
        first,
        libraries=tuple(libraries),
        platform=replace(second.platform, arch=first.platform.arch or second.platform.arch),
        ops=first.ops or second.ops,
        built=first.built or second.built,
        models=first.models or second.models,
    )


def _files(package: Package) -> str:
    return ", ".join(str(library.file) for library in package.libraries)


def _find(path: Path, platform: Platform, options: PackageOptions) -> Package:
    if not path.exists():
        hint = file_hint(path, "give a built library, or the folder of a package")
        raise UsageError(f"{path} does not exist", hint=hint)
    package = _of_folder(path, platform, options) if path.is_dir() else _of_file(path, platform, options)
    package = replace(package, models=_models(package))
    if options.ops:
        if package.ops and (unknown := [op for op in options.ops if op not in package.ops]):
            raise UsageError(
                f"package {package.name} has no op {', '.join(unknown)}", hint=f"it has: {', '.join(package.ops)}"
            )
        package = replace(package, ops=options.ops)
    return package


# --- a folder ---------------------------------------------------------------------------------------


def _of_folder(path: Path, platform: Platform, options: PackageOptions) -> Package:
    parts = [candidate for candidate in open_packages(path) if candidate.backend != "converter"]
    registration = _registration_of(parts, platform)
    part = _part_of(path, parts, platform, has_registration=registration is not None)
    platform = replace(platform, backend=part.backend)
    if platform.is_device and backends.ALL[part.backend].two_halves and not platform.arch:
        raise UsageError("the Hexagon version is unknown", hint="name it: --target v75")
    folder = _device_folder(options, platform, part.name)
    return Package(
        name=part.name,
        provider=part.provider,
        backend=part.backend,
        ops=tuple(
            dict.fromkeys(op for candidate in parts if candidate.backend == part.backend for op in candidate.ops)
        ),
        libraries=_libraries(path, part, platform, folder, registration),
        platform=platform,
        folder=folder,
        built=part,
        registration=registration,
    )


def _part_of(
    path: Path, parts: Sequence[PackageLibrary], platform: Platform, *, has_registration: bool
) -> PackageLibrary:
    """The part of a folder for the chosen backend, or for its only one."""
    parts = [part for part in parts if part.backend in backends.RUNTIMES]
    available = list(dict.fromkeys(part.backend for part in parts))
    if not parts:
        raise UsageError(
            f"{path} has no package for cpu, gpu or htp",
            hint="choose a client of SNPE: only SNPE registers packages for DSP V65/V66",
        )
    if not platform.backend and len(available) > 1 and not has_registration:
        raise UsageError(f"{path} has packages for {', '.join(available)}", hint=f"choose with --target {available[0]}")
    backend = platform.backend or available[0]
    if backend not in available:
        raise UsageError(f"{path} has no package for {backend}", hint=f"it has: {', '.join(available)}")
    return next(part for part in parts if part.backend == backend)


def _libraries(
    path: Path, part: PackageLibrary, platform: Platform, folder: str, registration: Path | None
) -> tuple[Library, ...]:
    backend, android = platform.backend, platform.system == ANDROID
    try:
        if not platform.is_device:
            files = [find_built(path, backend=backend).library]
        elif backends.ALL[backend].two_halves:
            pair = op_libraries(path, arch=platform.arch, machine="aarch64", android=android)
            files = [registration.file for registration in pair.registrations]
        else:
            rows = [row for row in part.rows if row.backend == backend and not row.native and not row.arch]
            what = f"the {backend} backend of {'Android' if android else 'aarch64 Linux'}"
            files = [built_for(part, [row for row in rows if row.for_android is android], what)]
        return tuple(_library(file.resolve(), platform, folder) for file in files)
    except UdogenError:
        # SNPE's tools need only the registration library.
        if registration is not None and registration.is_file():
            return ()
        raise


def _registration_of(parts: Sequence[PackageLibrary], platform: Platform) -> Path | None:
    row_id = REGISTRATION_TARGETS[platform.system]
    for part in parts:
        if part.kind.registration:
            rows = [row for row in part.rows if row.id == row_id]
            file = first_built(part, rows)
            return file.resolve() if file else next((part.artifacts(row)[0] for row in rows), None)
    return None


def _device_folder(options: PackageOptions, platform: Platform, name: str) -> str:
    return options.folder or (f"{DEVICE_FOLDER}/{name}" if platform.is_device else "")


# --- a library --------------------------------------------------------------------------------------


def _of_file(path: Path, platform: Platform, options: PackageOptions) -> Package:
    binary = elf.read(path)
    kind = kinds.identify(binary)
    if not kind.is_package:
        raise UsageError(f"{path} is {kind.kind.words}", hint=kind.kind.remedy or "give an op package")
    built = find_built(path.resolve(), backend=platform.backend or kind.kind.backend)
    backend = (built.folder.backend if built.folder else "") or platform.backend or kind.kind.backend
    _check_file(path, binary, backend, platform, options)
    hexagon = binary.machine == "hexagon"
    system = PC if binary.machine == "x86_64" else options.system or LINUX
    platform = Platform(system, backend, platform.arch or (binary.arch if hexagon else ""))
    folder = _device_folder(options, platform, built.package)
    return Package(
        name=built.package,
        provider=built.provider,
        backend=backend,
        ops=built.folder.ops if built.folder else _ops_of(built, platform),
        libraries=(_library(path.resolve(), platform, folder),),
        platform=platform,
        folder=folder,
        built=built.folder,
    )


def _check_file(path: Path, binary: elf.Elf, backend: str, platform: Platform, options: PackageOptions) -> None:
    """Raise if a library is not built for the platform."""
    if platform.backend and platform.backend != backend:
        raise UsageError(f"{path} is a package for {backend}", hint=f"--target {backend}, or leave it out")
    if binary.machine not in ("x86_64", "aarch64", "hexagon"):
        raise UsageError(
            f"{path} is built for {binary.processor}", hint="give a library for x86_64, aarch64 or Hexagon"
        )
    if platform.is_device and binary.machine == "x86_64":
        raise UsageError(
            f"{path} is built for x86_64, and --target {options.target} is a device",
            hint="give the folder of the package, or the libraries for the device",
        )
    if binary.machine == "hexagon" and platform.arch and binary.arch != platform.arch:
        raise UsageError(
            f"{path} is built for Hexagon {binary.arch}", hint=f"--target {binary.arch}, or build {platform.arch}"
        )


def _library(file: Path, platform: Platform, folder: str) -> Library:
    """The two halves of HTP have the same file name; on a device they need two, or one overwrites the other."""
    if not platform.is_device:
        return Library(file, f"{folder}/{file.name}" if folder else str(file), file.name)
    if elf.read(file).machine == "hexagon":
        name = file.name if file.stem.endswith("_HTP") else f"{file.stem}_HTP.so"
        return Library(file, name, name, "HTP", hexagon=True)
    return Library(file, f"{folder}/{file.name}", file.name, "CPU" if backends.ALL[platform.backend].two_halves else "")


def _ops_of(built: Built, platform: Platform) -> tuple[str, ...]:
    """The ops that the library itself reports; none if it cannot be loaded on this machine."""
    if platform.is_device:
        return ()
    try:
        with OpSession(built.library, built.provider, backend=platform.backend, timeout=30) as session:
            return session.package.operations
    except UdogenError:  # `udogen inspect` explains why it cannot be registered
        return ()


def _models(package: Package) -> tuple[Op, ...]:
    if package.built is None or not package.built.configs:
        return ()
    built = Built(Path(), package.provider, package.name, package.built)
    models = (built.op(op, package.backend) for op in package.ops)
    return tuple(model for model in models if model is not None)
