"""A package folder and its manifest."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from udogen import backends
from udogen.backends import targets
from udogen.backends.backend import Kind, Target
from udogen.backends.plan import Part
from udogen.errors import UsageError, read_plain
from udogen.resources import syntax_fault

MEMORY = ".udogen"
MANIFEST = f"{MEMORY}/manifest.json"
UNFINISHED = f"{MEMORY}/unfinished.json"  # what a `generate` is writing, or was when it was interrupted
BACKUP = ".bak-"  # the folder of a package that was moved aside ends with this and a number; it is not built

Say = Callable[[str], None]  # a function that prints a line


def no_say(_line: str) -> None:
    """Print nothing."""


@dataclass(frozen=True, kw_only=True)
class PackageLibrary(Part):
    """One library of a generated package, as its manifest describes it.

    `print(package.name, package.backend, package.ops)`
    """

    path: Path
    name: str  # of the package
    layout: str
    libraries: str  # the folder of built libraries
    configs: tuple[Path, ...]
    user_owned: tuple[str, ...]  # files

    @property
    def kind(self) -> Kind:
        """The kind of library."""
        found = backends.KINDS.get(self.backend)
        if found is None:
            raise UsageError(
                f"{self.path} is a package for `{self.backend}`, which this version of udogen does not support",
                hint="generate it again, or update udogen",
            )
        return found

    def goal(self, row: Target) -> str:
        """The goal of make for a target."""
        return f"{row.id}_{self.op}" if self.op else row.id

    def artifact(self, folder: str, ending: str = "") -> Path:
        """The library in a target's folder; some targets append an ending to its name."""
        name = f"{self.library.removesuffix('.so')}{ending}.so" if ending else self.library
        return self.path / self.libraries / folder / name

    @property
    def rows(self) -> list[Target]:
        """Its targets, as rows of the table."""
        table = targets.of_layout(self.layout)
        return [table[name] for name in self.targets if name in table]

    def artifacts(self, row: Target) -> list[Path]:
        """The possible paths of the library of a target; the toolchain chooses the folder."""
        return [self.artifact(folder, row.ending) for folder in row.folders]

    def changed_since(self, library: Path) -> list[str]:
        """The files that changed since a library of this package was built.

        Uses the record that the Makefile left in `obj`; empty if no record describes this library.
        """
        records = [each for depth in range(1, 5) for each in self.path.glob("obj/" + "*/" * depth + "library.made")]
        digest = _digest(library) if records else ""
        for record in records:
            lines = dict(line.split("  ", 1)[::-1] for line in record.read_text("utf-8", "replace").splitlines())
            same = (name for name, was in lines.items() if was == digest)
            if any((self.path / name).resolve() == library.resolve() for name in same):
                made = ("obj/", f"{self.libraries}/")
                sources = {name: was for name, was in lines.items() if not name.startswith(made)}
                return sorted(name for name, was in sources.items() if _digest(self.path / name) != was)
        return []


def first_built(package: PackageLibrary, rows: Iterable[Target]) -> Path | None:
    """The library of the first of these targets that is built; None if none is."""
    return next((file for row in rows for file in package.artifacts(row) if file.is_file()), None)


def open_locked(folder: Path, *, shared: bool, say: Say = no_say) -> int:
    """A descriptor of a folder that is locked until it is closed, for one writer or for many readers (`shared`)."""
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"  waiting for another udogen in {folder.parent if folder.name == MEMORY else folder}")
                fcntl.flock(descriptor, how)
            except OSError as fault:
                say(f"  {folder} cannot be locked ({fault.strerror}): do not run another udogen there now")
            if os.path.samestat(os.fstat(descriptor), os.stat(folder)):  # it was not moved aside in between
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _digest(file: Path) -> str:
    """SHA-256 in hexadecimal; empty if the file does not exist."""
    import hashlib  # loads OpenSSL

    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def open_packages(path: Path) -> list[PackageLibrary]:
    """The libraries of the package in this folder, or of all packages directly below it; raises if none exist.

    `[package] = open_packages(Path("out/MyPackage"))`
    """
    if (path / MANIFEST).is_file():
        return list(_read(path))
    listed = sorted(manifest for manifest in path.glob(f"*/{MANIFEST}") if BACKUP not in manifest.parts[-3])
    packages = [part for manifest in listed for part in _read(manifest.parent.parent)]
    if not packages:
        raise UsageError(f"{path} contains no package that udogen generated", hint="run `udogen generate` first")
    return packages


def _read(path: Path) -> tuple[PackageLibrary, ...]:
    """The libraries of a package; caches manifests until they change."""
    try:
        status = (path / MANIFEST).stat()
    except OSError as fault:
        raise _unreadable(path / MANIFEST, fault) from fault
    return _parts_of(path, (status.st_ino, status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=64)
def _parts_of(path: Path, _written: tuple[int, ...]) -> tuple[PackageLibrary, ...]:
    manifest = read_manifest(path) or {}
    return tuple(
        PackageLibrary(
            **vars(part),
            path=path,
            name=str(manifest.get("package", "")),
            layout=str(manifest.get("layout", "")),
            libraries=str(manifest.get("libraries", "libs")),
            configs=tuple(path / name for name in _texts(manifest.get("configs"))),
            user_owned=_texts(manifest.get("user_owned")),
        )
        for part in read_parts(manifest)
    )


def read_parts(manifest: Mapping[str, object]) -> list[Part]:
    """The libraries of a manifest."""
    listed = manifest.get("parts")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    return [Part(**{field.name: _read_field(field, row.get(field.name)) for field in fields(Part)}) for row in rows]


def _read_field(field: Field[Any], found: object) -> Any:
    """The value of a field, which is one string or several."""
    if field.type == "str":
        return str(found) if found is not None else "" if field.default is MISSING else field.default
    return _texts(found)


def _texts(found: object) -> tuple[str, ...]:
    return tuple(str(entry) for entry in found) if isinstance(found, list) else ()


def package_of(library: Path) -> PackageLibrary | None:
    """The package that a library is built from: the part of the folder that contains it; None outside of packages."""
    resolved = library.resolve()
    for folder in resolved.parents:
        if (folder / MANIFEST).is_file():
            parts = _read(folder)
            makers = (part for part in parts if any(resolved in part.artifacts(row) for row in part.rows))
            return next(makers, parts[0] if parts else None)
    return None


def read_manifest(folder: Path) -> dict[str, object] | None:
    """The content of `.udogen/manifest.json`; None if udogen did not generate the folder."""
    try:
        content = read_plain(folder / MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as fault:
        raise _unreadable(folder / MANIFEST, fault) from fault
    return parse_manifest(content, folder / MANIFEST)


def parse_manifest(content: bytes | None, file: Path) -> dict[str, object] | None:
    """The content of a manifest, or None."""
    try:
        manifest = None if content is None else json.loads(content)
    except (ValueError, RecursionError) as fault:
        raise _unreadable(file, fault) from fault
    return manifest if isinstance(manifest, dict) else None


def _unreadable(file: Path, fault: Exception) -> UsageError:
    return UsageError(
        f"{file} cannot be read: {syntax_fault(fault)}",
        hint="restore it; or move the folder away, generate again, and copy your kernels to src/ops",
    )
