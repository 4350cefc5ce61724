"""What is to be registered, and where: one package, with the libraries that it takes in that place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from udogen import backends
from udogen.backends import architectures, targets
from udogen.backends.backend import Target
from udogen.backends.plan import PROVIDER
from udogen.build import elf
from udogen.build.package import PackageLibrary, open_packages, package_of
from udogen.errors import UdogenError, UsageError
from udogen.inspect import kinds
from udogen.opdef.model import Op
from udogen.runtime.built import Built, find_built
from udogen.runtime.op.session import OpSession
from udogen.runtime.sessions.libraries import op_libraries
from udogen.runtime.snpe.registration import is_registration

PC, ANDROID, LINUX = "pc", "android", "linux"
DEVICE_FOLDER = "/data/local/tmp/udogen"


@dataclass(frozen=True)
class Wish:
    """What a person asked for."""

    target: str = ""  # a make target, a backend, or a version of Hexagon
    android: bool = False
    ops: tuple[str, ...] = ()
    folder: str = ""  # on the device


@dataclass(frozen=True)
class Place:
    """Where the client runs."""

    system: str  # PC, ANDROID or LINUX
    backend: str = ""  # empty: the only one that is there
    arch: str = ""  # of Hexagon

    @property
    def device(self) -> bool:
        """Not this machine."""
        return self.system != PC


@dataclass(frozen=True)
class Library:
    """One library, as a client is told of it."""

    file: Path  # on this machine
    path: str  # where the client finds it; of Hexagon's the name alone, for another loader looks for it
    name: str  # of the file where the client runs
    target: str = ""  # for the runtime: CPU or HTP; empty where nothing needs to be said
    hexagon: bool = False


class NotBuilt(UsageError):
    """A package has no library for the place where the client runs."""


@dataclass(frozen=True)
class Package:
    """One package in one place."""

    name: str
    provider: str
    backend: str
    ops: tuple[str, ...]
    libraries: tuple[Library, ...]
    place: Place
    folder: str  # on the device; empty on this machine
    built: PackageLibrary | None = None  # what udogen generated, where it did
    models: tuple[Op, ...] = ()  # the ops of the config as this backend has them
    registration: Path | None = None  # of SNPE
    layout: str = "qnn"

    @property
    def library(self) -> Library:
        """The one that the client itself opens."""
        return next(each for each in self.libraries if not each.hexagon)

    @property
    def hexagon(self) -> Library | None:
        """The one for the DSP, where there are two."""
        return next((each for each in self.libraries if each.hexagon), None)

    @property
    def config(self) -> Path | None:
        """Its XML config."""
        return next((each for each in self.built.configs if each.suffix == ".xml"), None) if self.built else None


def place_of(wish: Wish) -> Place:
    """Where --target and --android say that the client runs."""
    device = ANDROID if wish.android else LINUX
    name = wish.target.lower()
    if not name:
        if wish.android:
            raise UsageError("--android needs --target", hint="--target cpu_android, gpu_android, or v75 for HTP")
        return Place(PC)
    if name in backends.RUNTIMES:
        return Place(device, name) if wish.android else Place(PC, name)
    version = re.fullmatch(r"(?:htp_|dsp_)?(v\d+)", name)
    if version and version[1] in _VERSIONS:
        return Place(device, _VERSIONS[version[1]], version[1])
    row = targets.ALL.get(name) or targets.UDO.get(name)
    if row is None or row.backend not in backends.RUNTIMES:
        known = ", ".join([*backends.RUNTIMES, "cpu_android", "gpu_android", *_VERSIONS])
        raise UsageError(f"--target {wish.target}: there is no such target", hint=f"one of {known}")
    if backends.ALL[row.backend].two_halves and not row.native:
        raise UsageError(
            f"--target {wish.target} is one half of what HTP needs on a device",
            hint="name its version of Hexagon (--target v75): the ARM library goes with it",
        )
    if row.native:
        return Place(PC, row.backend)
    return Place(ANDROID if row.compiler == "android" else LINUX, row.backend)


# Version of Hexagon -> the backend whose packages clients register there.
_VERSIONS = {row.name: row.backend for row in architectures.ALL.values() if backends.ALL[row.backend].two_halves}


def find_packages(paths: Sequence[Path], wish: Wish) -> tuple[Package, ...]:
    """The packages behind libraries and folders; the two halves of one for HTP may be given as two libraries."""
    place = place_of(wish)
    found: dict[tuple[str, str], Package] = {}
    for path in paths:
        package = _find(path, place, wish)
        twin = found.get((package.name, package.provider))
        if twin is None:
            found[package.name, package.provider] = package
        elif {each.hexagon for each in (*twin.libraries, *package.libraries)} == {True, False} and (
            len(twin.libraries) == len(package.libraries) == 1
        ):
            both = sorted((*twin.libraries, *package.libraries), key=lambda each: each.hexagon)
            arch = twin.place.arch or package.place.arch
            where = replace(package.place, arch=arch)
            ops, built = twin.ops or package.ops, twin.built or package.built
            merged = replace(twin, libraries=tuple(both), place=where, ops=ops, built=built)
            found[package.name, package.provider] = replace(merged, models=twin.models or package.models)
        else:
            raise UsageError(
                f"package {package.name} is given twice: {_files(twin)} and {_files(package)}",
                hint="a runtime takes each package once (4007): leave one out",
            )
    for package in found.values():
        if all(each.hexagon for each in package.libraries):
            raise UsageError(
                f"{_files(package)} is the Hexagon half of package {package.name}; the ARM half is missing",
                hint="give both libraries, or the folder of the package with --target " + (package.place.arch or "v75"),
            )
    return tuple(found.values())


def _files(package: Package) -> str:
    return ", ".join(str(each.file) for each in package.libraries)


def _find(path: Path, place: Place, wish: Wish) -> Package:
    if not path.exists():
        raise UsageError(f"there is no file or folder {path}", hint="give a built library, or the folder of a package")
    package = _of_folder(path, place, wish) if path.is_dir() else _of_file(path, place, wish)
    package = replace(package, models=_models(package))
    if wish.ops:
        if package.ops and (unknown := [op for op in wish.ops if op not in package.ops]):
            raise UsageError(
                f"package {package.name} has no op {', '.join(unknown)}", hint=f"it has: {', '.join(package.ops)}"
            )
        package = replace(package, ops=wish.ops)
    return package


# --- a folder ---------------------------------------------------------------------------------------


def _of_folder(path: Path, place: Place, wish: Wish) -> Package:
    parts = [each for each in open_packages(path) if not each.kind.converter]
    registration = _registration_of(parts, place)
    libraries = [each for each in parts if each.backend in backends.RUNTIMES]
    have = list(dict.fromkeys(each.backend for each in libraries))
    if not libraries:
        raise UsageError(
            f"{path} holds no package for cpu, gpu or htp", hint="packages for DSP V65/V66 are registered by SNPE alone"
        )
    backend = place.backend or have[0]
    if not place.backend and len(have) > 1 and registration is None:
        raise UsageError(f"{path} holds packages for {', '.join(have)}", hint=f"choose with --target {have[0]}")
    place = replace(place, backend=backend)
    part = next((each for each in libraries if each.backend == backend), None)
    if part is None:
        raise UsageError(f"{path} holds no package for {backend}", hint=f"it holds: {', '.join(have)}")
    folder = _device_folder(wish, place, part.name)
    return Package(
        name=part.name,
        provider=part.provider,
        backend=backend,
        ops=tuple(dict.fromkeys(op for each in libraries if each.backend == backend for op in each.ops)),
        libraries=_libraries(path, part, place, folder, registration),
        place=place,
        folder=folder,
        built=part,
        registration=registration,
        layout=part.layout,
    )


def _libraries(
    path: Path, part: PackageLibrary, place: Place, folder: str, registration: Path | None
) -> tuple[Library, ...]:
    try:
        if not place.device:
            file = find_built(path, backend=place.backend).library.resolve()
            return (Library(file, str(file), file.name),)
        if backends.ALL[place.backend].two_halves:
            if not place.arch:
                raise UsageError("the version of Hexagon is not known", hint="name it: --target v75")
            pair = op_libraries(path, arch=place.arch, machine="aarch64", android=place.system == ANDROID)
            return _pair(*(each.file for each in pair.registrations), folder=folder)
        rows = [row for row in part.rows if _fits(row, place)]
        file = next((each for row in rows for each in part.artifacts(row) if each.is_file()), None) or _not_built(
            part, rows, place
        )
        return (Library(file.resolve(), f"{folder}/{file.name}", file.name),)
    except UdogenError:
        # SNPE's tools want the registration library; what else is built matters to nobody else.
        if registration is not None and registration.is_file():
            return ()
        raise


def _fits(row: Target, place: Place) -> bool:
    return (
        row.backend == place.backend
        and not row.native
        and not row.arch
        and (row.compiler in ("android", "ndk")) is (place.system == ANDROID)
    )


def _not_built(part: PackageLibrary, rows: Sequence[Target], place: Place) -> Path:
    import shlex

    what = f"the {place.backend} backend of {'Android' if place.system == ANDROID else 'aarch64 Linux'}"
    if not rows:
        raise UsageError(f"package {part.name} has no target for {what}", hint="see `udogen list targets`")
    raise NotBuilt(
        f"package {part.name} is not built for {what}",
        hint=f"udogen build {part.goal(rows[0])} -C {shlex.quote(str(part.path))}",
    )


def _pair(arm: Path, hexagon: Path, *, folder: str) -> tuple[Library, ...]:
    """Both halves have one file name; on a device they need two, or one replaces the other."""
    name = f"{hexagon.stem}_HTP.so" if hexagon.name == arm.name else hexagon.name
    return (
        Library(arm.resolve(), f"{folder}/{arm.name}", arm.name, "CPU"),
        Library(hexagon.resolve(), name, name, "HTP", hexagon=True),
    )


def _registration_of(parts: Sequence[PackageLibrary], place: Place) -> Path | None:
    wanted = {PC: "reg_x86", ANDROID: "reg_android", LINUX: "reg_aarch64"}[place.system]
    for part in parts:
        if part.kind.registration:
            rows = [row for row in part.rows if row.id == wanted]
            files = [each for row in rows for each in part.artifacts(row)]
            return next((each.resolve() for each in files if each.is_file()), files[0] if files else None)
    return None


def _device_folder(wish: Wish, place: Place, name: str) -> str:
    if not place.device:
        return ""
    folder = wish.folder or f"{DEVICE_FOLDER}/{name}"
    if not PurePosixPath(folder).is_absolute():
        raise UsageError(f"--folder {folder} is not an absolute path", hint=f"as in {DEVICE_FOLDER}/{name}")
    return folder.rstrip("/") or "/"


# --- a library --------------------------------------------------------------------------------------


def _of_file(path: Path, place: Place, wish: Wish) -> Package:
    if is_registration(path):
        return _of_registration(path, place, wish)
    found = elf.read(path)
    kind = kinds.look(found)
    if not kind.is_package:
        raise UsageError(f"{path} is {kind.style.words}", hint=kind.style.remedy or "give an op package")
    built = find_built(path.resolve(), backend=place.backend or kind.style.backend)
    backend = (built.folder.backend if built.folder else "") or place.backend or kind.style.backend
    if place.backend and place.backend != backend:
        raise UsageError(f"{path} is a package for {backend}", hint=f"--target {backend}, or leave it out")
    system = PC if found.machine == "x86_64" else ANDROID if wish.android else LINUX
    if found.machine not in ("x86_64", "aarch64", "hexagon"):
        raise UsageError(f"{path} is built for {found.processor}", hint="for x86_64, aarch64 or Hexagon")
    if place.device and system == PC:
        raise UsageError(
            f"{path} is built for x86_64, and --target {wish.target} asks for a device",
            hint="give the folder of the package, or the libraries for the device",
        )
    if found.machine == "hexagon" and place.arch and found.arch != place.arch:
        raise UsageError(
            f"{path} is built for Hexagon {found.arch}", hint=f"--target {found.arch}, or build {place.arch}"
        )
    place = Place(system, backend, place.arch or (found.arch if found.machine == "hexagon" else ""))
    folder = _device_folder(wish, place, built.package)
    return Package(
        name=built.package,
        provider=built.provider,
        backend=backend,
        ops=built.folder.ops if built.folder else _told(built, backend, native=system == PC),
        libraries=(_alone(path.resolve(), place, folder, hexagon=found.machine == "hexagon"),),
        place=place,
        folder=folder,
        built=built.folder,
    )


def _alone(file: Path, place: Place, folder: str, *, hexagon: bool) -> Library:
    if not place.device:
        return Library(file, str(file), file.name)
    if hexagon:
        name = file.name if file.stem.endswith("_HTP") else f"{file.stem}_HTP.so"
        return Library(file, name, name, "HTP", hexagon=True)
    return Library(file, f"{folder}/{file.name}", file.name, "CPU" if backends.ALL[place.backend].two_halves else "")


def _of_registration(path: Path, place: Place, wish: Wish) -> Package:
    """A registration library by itself: its implementation libraries lie wherever the loader finds them."""
    folder = package_of(path)
    found = elf.read(path)
    system = PC if found.machine == "x86_64" else ANDROID if wish.android else LINUX
    name = folder.name if folder else path.stem.removeprefix("libUdo").removesuffix("Reg")
    place = replace(place, system=system)
    return Package(
        name=name,
        provider=f"{name}{PROVIDER}",
        backend=place.backend or "cpu",
        ops=folder.ops if folder else (),
        libraries=(),
        place=place,
        folder=_device_folder(wish, place, name),
        built=folder,
        registration=path.resolve(),
        layout="snpe",
    )


def _told(built: Built, backend: str, *, native: bool) -> tuple[str, ...]:
    """The ops that a library itself tells of, where it can be asked on this machine."""
    if not native:
        return ()
    try:
        with OpSession(built.library, built.provider, backend=backend, timeout=30) as session:
            return session.package.operations
    except UdogenError:  # why it cannot be registered is what `udogen inspect` says
        return ()


def _models(package: Package) -> tuple[Op, ...]:
    if package.built is None or not package.built.configs:
        return ()
    built = Built(Path(), package.provider, package.name, package.built)
    models = (built.op(op, package.backend) for op in package.ops)
    return tuple(each for each in models if each is not None)
