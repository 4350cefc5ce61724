"""The packages of a script: for every version of Hexagon that is built, where the client finds them, which files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from udogen import backends
from udogen.backends import architectures
from udogen.build.package import open_packages
from udogen.build.tools import environment
from udogen.clients.package import ANDROID, DEVICE_FOLDER, PC, NotBuilt, Package, Wish, find_packages
from udogen.clients.programs import snpe
from udogen.clients.scripts.commands import Request
from udogen.clients.scripts.marks import RUN
from udogen.clients.scripts.plan import File
from udogen.clients.scripts.tensors import plain
from udogen.clients.scripts.wanted import Wanted
from udogen.errors import RunFailed, UsageError, read_plain
from udogen.runtime.sessions import libraries as libraries_of_devices


def packages_of(wanted: Wanted) -> list[tuple[str, tuple[Package, ...]]]:
    """(version of Hexagon, packages for it); of other backends one row, without a version."""
    if wanted.system == PC:
        if re.fullmatch(r"v\d+", wanted.target):
            raise UsageError(f"--target {wanted.target} is a device", hint="--target htp is Qualcomm's HTP on this PC")
        return [("", find_packages(wanted.paths, Wish(wanted.target, ops=wanted.ops)))]
    android = wanted.system == ANDROID
    target = wanted.target or _only_backend(wanted.paths)
    wish = Wish(android=android, ops=wanted.ops, folder=wanted.remote)
    if target not in backends.RUNTIMES or not backends.ALL[target].two_halves:
        target = f"{target}_{'android' if android else 'aarch64'}" if target in backends.RUNTIMES else target
        found = _found(wanted, replace(wish, target=target))
        return [(found[0].place.arch, found)]
    built, faults = [], []
    for arch in architectures.of_backend(target):
        try:
            built.append((arch, _found(wanted, replace(wish, target=arch))))
        except RunFailed as fault:
            faults.append(fault)
    if not built:
        raise faults[0]
    return built


def _found(wanted: Wanted, wish: Wish) -> tuple[Package, ...]:
    try:
        return find_packages(wanted.paths, wish)
    except (libraries_of_devices.DeviceLibraryMissing, NotBuilt) as fault:
        if wish.android and not environment().android_ndk_root:  # what it says to build could not be built
            fault.hint = (
                f"set ANDROID_NDK_ROOT to an Android NDK, and {fault.hint}; or --linux, where the device has Linux"
            )
        raise


def _only_backend(paths: Sequence[Path]) -> str:
    folders = [path for path in paths if path.is_dir()]
    found = {each.backend for path in folders for each in open_packages(path)} & backends.RUNTIMES.keys()
    if len(found) == 1:
        return found.pop()
    raise UsageError(
        "for which backend is not clear" + (f": there are {', '.join(sorted(found))}" if found else ""),
        hint="--target cpu, gpu, htp (every version of Hexagon that is built) or v75",
    )


def in_folder(package: Package, folder: str) -> Package:
    """The package as its client sees it, in another folder."""
    libraries = tuple(
        each if each.hexagon else replace(each, path=f"{folder}/{each.name}") for each in package.libraries
    )
    registration = package.registration
    if not package.place.device:  # here a library's file is where the client finds it
        libraries = tuple(replace(each, file=Path(each.path)) for each in libraries)
        registration = Path(f"{folder}/{registration.name}") if registration else None
    return replace(package, libraries=libraries, folder=folder, registration=registration)


def for_the_run(package: Package, remote: str, client: str) -> Package:
    """In the folder of the run; for ExecuTorch where the model says."""
    return (
        in_folder(package, package.folder or f"{remote}/{package.name}")
        if client == "executorch"
        else in_folder(package, RUN)
    )


def remote_of(wanted: Wanted) -> str:
    if not wanted.remote:
        return DEVICE_FOLDER
    if not PurePosixPath(wanted.remote).is_absolute():
        raise UsageError(f"--folder {wanted.remote} is not an absolute path", hint=f"as in {DEVICE_FOLDER}")
    return wanted.remote.rstrip("/") or "/"


def libraries(found: Sequence[tuple[str, tuple[Package, ...]]], ask: Request) -> Iterator[File]:
    machine = "x86_64" if ask.system == PC else "aarch64"
    seen = set()
    for arch, packages in found:
        for package in packages:
            for file, name, hexagon in _of_package(package, ask):
                below = arch if hexagon else machine
                if (below, name) not in seen:
                    seen.add((below, name))
                    yield File(f"libs/{below}/{plain(file.name)}", name, _content(file), arch=arch if hexagon else "")


def _of_package(package: Package, ask: Request) -> Iterator[tuple[Path, str, bool]]:
    """(file, its name on the device, whether Hexagon loads it)."""
    if ask.client.startswith("snpe-"):
        for file, name in snpe.device_files(package):
            yield file, name, name.startswith(f"{snpe.DSP_FOLDER}/")
        return
    for each in package.libraries:
        folder = f"{package.folder or DEVICE_FOLDER}/" if ask.client == "executorch" else ""
        yield each.file, f"{folder}{each.name}", each.hexagon


def _content(path: Path) -> bytes:
    try:
        return read_plain(path)
    except OSError as fault:
        raise UsageError(f"{path} cannot be read: {fault.strerror}", hint="give a file that is there") from fault
