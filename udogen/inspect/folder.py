"""A folder: every package in it, every target of each, and every other library that lies there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from udogen.build.package import MANIFEST, PackageLibrary, open_packages, package_of
from udogen.errors import UsageError
from udogen.inspect.inspection import How, Inspected, inspect

_SOURCES = ("src", "include", "config", "user.mk", "Makefile")
_LEFT_OUT = {"obj", ".udogen", ".git", ".venv"}
_MOST = 200  # libraries below a folder: more is not a folder of op packages


@dataclass(frozen=True)
class NotBuilt:
    """A target whose library is not there."""

    target: str
    library: Path
    command: str


@dataclass(frozen=True)
class InspectedPackage:
    """A generated package: what is built of it, and what is not."""

    folder: PackageLibrary
    built: tuple[Inspected, ...]
    not_built: tuple[NotBuilt, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Inspection:
    """Everything that was looked at."""

    packages: tuple[InspectedPackage, ...]
    others: tuple[Inspected, ...]

    @property
    def judged(self) -> tuple[Inspected, ...]:
        """What the answer depends on: in a folder with op packages, not the other libraries that lie beside them."""
        packages = tuple(each for each in self.libraries if each.is_package)
        return packages or self.libraries

    @property
    def libraries(self) -> tuple[Inspected, ...]:
        """All libraries, those of packages first."""
        return (*(each for package in self.packages for each in package.built), *self.others)


def inspect_all(path: Path, how: How, *, on_library: Callable[[str], None] = lambda _name: None) -> Inspection:
    """Inspect a library, or everything in a folder."""
    if not path.exists():
        raise UsageError(f"there is no file or folder {path}", hint="give a built library, or the folder of a package")
    if not path.is_dir():
        folder, target = _place(path)
        return Inspection((), (inspect(path, how, folder=folder, target=target),))
    packages = _packages(path)
    rest = _others(path, packages)
    if not packages and not rest:
        raise UsageError(
            f"{path} holds neither a package that udogen generated nor a library (*.so)",
            hint="give a library, or the folder of a package",
        )

    def one(library: Path, folder: PackageLibrary | None = None, target: str = "") -> Inspected:
        on_library(library.name)
        return inspect(library, how, folder=folder, target=target, choose=True)

    return Inspection(
        tuple(_package(each, one) for each in packages),
        tuple(one(each) for each in rest),
    )


def _packages(path: Path) -> list[PackageLibrary]:
    if not (path / MANIFEST).is_file() and not any(path.glob(f"*/{MANIFEST}")):
        return []
    # What a converter loads is registered nowhere.
    return [each for each in open_packages(path) if not each.kind.converter]


def _package(folder: PackageLibrary, one: Callable[[Path, PackageLibrary, str], Inspected]) -> InspectedPackage:
    built: list[Inspected] = []
    missing: list[NotBuilt] = []
    for row in folder.rows:
        there = [library for library in folder.artifacts(row) if library.exists()]
        built += [one(library, folder, row.id) for library in there]
        if not there:
            command = f"udogen build {row.id} -C {shlex.quote(str(folder.path))}"
            missing.append(NotBuilt(row.id, folder.artifacts(row)[0], command))
    return InspectedPackage(folder, tuple(built), tuple(missing), tuple(_notes(folder, built)))


def _notes(folder: PackageLibrary, built: Sequence[Inspected]) -> list[str]:
    notes = []
    usual = (folder.name, folder.name + folder.backend.capitalize())
    if folder.path.resolve().name not in usual:
        notes.append(
            f"the folder is called {folder.path.resolve().name}, the package {folder.name}: nodes and clients must "
            f"say {folder.name}"
        )
    files = [file for name in _SOURCES for file in _files(folder.path / name)]
    newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
    for each in built:
        if newest and each.path.stat().st_mtime < newest.stat().st_mtime:
            notes.append(f"{each.target} is older than {newest.relative_to(folder.path)}: build it again")
    return notes


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]


def _others(path: Path, packages: Sequence[PackageLibrary]) -> list[Path]:
    """Libraries that are no target's of a package."""
    known = {library.resolve() for folder in packages for row in folder.rows for library in folder.artifacts(row)}
    found: list[Path] = []
    for here, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        libraries = [Path(here, name) for name in sorted(names) if name.endswith(".so")]
        found += [each for each in libraries if each.is_file() and each.resolve() not in known]
        if len(found) > _MOST:
            raise UsageError(f"{path} holds more than {_MOST} libraries", hint="give the folder of a package")
    return found


def _place(library: Path) -> tuple[PackageLibrary | None, str]:
    """The package and target that a library is of."""
    folder = package_of(library)
    if folder is not None:
        for row in folder.rows:
            if library.resolve() in [each.resolve() for each in folder.artifacts(row)]:
                return folder, row.id
    return None, ""
