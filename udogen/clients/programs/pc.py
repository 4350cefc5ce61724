"""The library with which a PC prepares graphs for a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from udogen.clients.package import Package


def host_library(package: Package) -> Path | None:
    """The package's library for x86-64; None where it is not built."""
    if not package.place.device:
        return package.library.file
    if package.built is None:
        return None
    rows = [row for row in package.built.rows if row.native and row.backend == package.backend]
    files = [each for row in rows for each in package.built.artifacts(row)]
    return next((each.resolve() for each in files if each.is_file()), None)


def no_host_library(packages: Sequence[Package]) -> Iterator[str]:
    """A sentence for each package without one."""
    for package in packages:
        if host_library(package) is None:
            yield f"package {package.name} has no library for x86-64"
