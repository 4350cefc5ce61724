"""Where the dynamic loader of this machine finds what a library needs: asked of the loader itself.

`ld.so --list` follows RPATH, LD_LIBRARY_PATH, its cache and its own folders, and runs nothing of the library.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from udogen import process
from udogen.build import elf

_FOUND = re.compile(r"^\s*(?P<name>\S+) => (?P<path>/.*) \(0x[0-9a-f]+\)$")
_ABSENT = re.compile(r"^\s*(?P<name>\S+) => not found$")
_VERSION = re.compile(r"(?P<library>\S+): version `(?P<version>[^']+)' not found \(required by (?P<by>[^)]+)\)")
_LOADER_ITSELF = re.compile(r"^\s*(?P<path>/\S+) \(0x[0-9a-f]+\)$")


class Old(NamedTuple):
    """A library that is there, but older than what somebody needs."""

    library: str
    version: str  # GLIBC_2.38
    by: str


class Loaded(NamedTuple):
    """What the loader would load with a library."""

    found: Mapping[str, Path]  # by the name that asks for it, directly or not
    absent: tuple[str, ...]
    old: tuple[Old, ...]


def needed_by(library: Path) -> Loaded | None:
    """What the loader says; None where there is no loader to ask."""
    loader = _loader()
    if not loader:
        return None
    done = process.run([loader, "--list", str(library.resolve())], timeout=30, env={"LC_ALL": "C"})
    found: dict[str, Path] = {}
    absent: list[str] = []
    old: list[Old] = []
    for line in (done.stdout + done.stderr).splitlines():
        if match := _FOUND.match(line):
            found[match["name"]] = Path(match["path"])
        elif match := _ABSENT.match(line):
            absent.append(match["name"])
        elif match := _VERSION.search(line):
            old.append(Old(match["library"], match["version"], match["by"]))
        elif match := _LOADER_ITSELF.match(line):
            found[Path(match["path"]).name] = Path(match["path"])
    return Loaded(found, tuple(dict.fromkeys(absent)), tuple(dict.fromkeys(old)))


@cache
def _loader() -> str:
    """The loader that this Python was started with: an op package is loaded by the same."""
    try:
        named = elf.read(Path(sys.executable).resolve()).interpreter
    except elf.NotElf:
        return ""
    return named if Path(named).is_file() else ""
