"""The files that SNPE's programs open: a registration library; the loader finds its implementation libraries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from udogen.build.package import PackageLibrary, open_packages
from udogen.clients.client import Snippet
from udogen.clients.device import copy_snippet, environment_snippet
from udogen.clients.package import ANDROID, Package
from udogen.errors import UsageError

DSP_FOLDER = "dsp"


def parts_of(package: Package) -> list[PackageLibrary]:
    """All parts of the generated package."""
    if package.built is None:
        return []
    try:
        return open_packages(package.built.path)
    except UsageError:
        return []


def implementations(package: Package) -> list[tuple[Path, bool]]:
    """(library, whether it is for Hexagon) for every implementation that is built for the platform."""
    hexagon_by_file: dict[Path, bool] = {}
    # The toolchain decides whether an ARM target is built for Android or Linux; the folder shows which.
    folder = {"pc": "x86-64_linux_clang", ANDROID: "arm64-v8a", "linux": "aarch64-linux-gnu"}[package.platform.system]
    for part in parts_of(package):
        for row in part.rows:
            if not part.kind.runs_ops:
                continue
            hexagon = package.platform.is_device and row.arch and row.arch == package.platform.arch
            for file in part.artifacts(row):
                if file.is_file() and (hexagon or file.parent.name == folder):
                    hexagon_by_file[file.resolve()] = bool(hexagon)
    return list(hexagon_by_file.items())


def device_files(package: Package) -> list[tuple[Path, str]]:
    """The registration library and its implementations, with their names in the folder on the device."""
    assert package.registration is not None
    # Hexagon libraries need a separate folder: SNPE searches for them by the name of the ARM library.
    files = [
        (file, f"{DSP_FOLDER}/{file.name}" if hexagon else file.name) for file, hexagon in implementations(package)
    ]
    return [(package.registration, package.registration.name), *files]


def device_setup(packages: Sequence[Package]) -> Iterator[Snippet]:
    """Copy commands and environment, with which the loaders find the implementation libraries."""
    if not packages[0].platform.is_device:
        folders = dict.fromkeys(str(file.parent) for package in packages for file, _ in implementations(package))
        if folders:
            yield environment_snippet(list(folders), (), packages[0].platform.system)
        return
    files = [(file, f"{package.folder}/{name}") for package in packages for file, name in device_files(package)]
    yield copy_snippet(files, packages[0].platform.system)
    folders = dict.fromkeys(package.folder for package in packages)
    dsp_folders = [*(f"{folder}/{DSP_FOLDER}" for folder in folders), *folders]
    yield environment_snippet(list(folders), dsp_folders, packages[0].platform.system)


def all_libraries_of(package: Package) -> Sequence[Path]:
    """The registration library, and every implementation that is built for the platform."""
    registration = [package.registration] if package.registration else []
    return [*registration, *(file for file, _ in implementations(package))]
