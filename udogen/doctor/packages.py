"""The packages of a folder, in short; `udogen inspect` says it at length."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from udogen.build.package import MANIFEST, PROVIDER
from udogen.build.tools import Environment
from udogen.doctor.model import FOUND, MISSING, WRONG, Check, Found, Row
from udogen.errors import read_plain
from udogen.inspect.inspection import InspectedLibrary, InspectOptions, inspect_all
from udogen.inspect.rules import STOPS, UNKNOWN

GROUP = "Packages"
_PROVIDER = re.compile(rf"\b([A-Za-z_]\w*){PROVIDER}\s*\(")
_FROM_FOLDER = re.compile(r"^\s*(?:export\s+)?PACKAGE_NAME\s*[:?]?=\s*\$\(notdir\b", re.MULTILINE)


def packages_in(folder: Path, env: Environment) -> Iterator[Row]:
    """A row for each package and library; only read, nothing of them runs."""
    found = inspect_all(folder, InspectOptions((), env, register=False))
    for package in found.packages:
        name = package.folder.name
        yield _row(f"{name} ({package.folder.backend})", Found(FOUND, "", str(package.folder.path)))
        for note in package.notes:
            yield _row(name, Found(WRONG, "", str(package.folder.path), note))
        yield from (_library(each) for each in package.built)
        if package.not_built:
            names = " ".join(each.target for each in package.not_built)
            command = f"udogen build TARGET -C {shlex.quote(str(package.folder.path))}"
            yield _row("not built", Found(MISSING, "", str(package.folder.path), names, command))
    yield from (_library(each) for each in found.others if each in found.judged)
    yield from _named_by_folder(folder)


def _library(found: InspectedLibrary) -> Row:
    name = found.target or found.path.name
    fault = next((each for each in found.findings if each.weight in (STOPS, UNKNOWN)), None)
    machine = found.evidence.facts.elf.processor if found.evidence else ""
    if fault is None:
        return _row(name, Found(FOUND, machine, str(found.path)))
    state = WRONG if fault.weight == STOPS else MISSING
    return _row(name, Found(state, machine, str(found.path), f"{found.path}: {fault.message}", fault.remedy))


def _named_by_folder(folder: Path) -> Iterator[Row]:
    """Packages of the vendor's generator: their Makefile takes the package's name from the folder's."""
    for each in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())) if folder.is_dir() else ():
        if (each / MANIFEST).exists() or not _FROM_FOLDER.search(_text(each / "Makefile")):
            continue
        interfaces = sorted((each / "src").glob("*Interface.cpp"))
        names = dict.fromkeys(match[1] for path in interfaces if (match := _PROVIDER.search(_text(path))))
        called = each.resolve().name
        if names and called not in names:
            name = next(iter(names))
            message = f"{each} is called {called}, so PACKAGE_NAME is {called}, but its provider is {name}{PROVIDER}"
            yield _row(name, Found(WRONG, "", str(each), message, f"rename the folder to {name}"))


def _text(path: Path) -> str:
    try:
        return read_plain(path).decode("utf-8", "replace")
    except OSError:
        return ""


def _row(name: str, found: Found) -> Row:
    return Row(Check(name, GROUP, "", "", lambda _machine: found), found)
