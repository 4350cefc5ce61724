"""In which line of a TOML file something stands: what Python's reader of TOML does not tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

Path = tuple[str | int, ...]

_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"\s*(?P<open>\[\[?)\s*(?P<path>{_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*(?P<path>{_DOTTED})\s*=")
# What may hold brackets and is none of ours: strings of all four kinds, comments.
_OPAQUE = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL)
_INSIDE = "\0"  # a line that begins inside of a long string; TOML has no such character


def find(text: str) -> Mapping[Path, int]:
    """(`op`, 0, `case`, 2, `shape`) -> its line, from 1; arrays of tables are counted from 0."""
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    here: Path = ()
    for number, line in _statements(text):
        header = _HEADER.match(line)
        if header:
            here = _resolve(_parts(header["path"]), counts, new=header["open"] == "[[")
            found.setdefault(here, number)
        elif key := _KEY.match(line):
            path = here
            for part in _parts(key["path"]):
                path = (*path, part)
                found.setdefault(path, number)
    return found


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of the nearest part of a path that is known; 0 where none is."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 0)


def _resolve(parts: list[str], counts: dict[Path, int], *, new: bool) -> Path:
    """A header's path, with the number of the table in each array on the way."""
    path: Path = ()
    for part in parts[:-1]:
        path = (*path, part)
        if path in counts:
            path = (*path, counts[path] - 1)
    path = (*path, parts[-1])
    if new:
        counts[path] = counts.get(path, 0) + 1
    return (*path, counts[path] - 1) if path in counts else path


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_NAME, dotted)]


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each line that begins something: not those inside of brackets or of a long string."""
    # What is opaque keeps its quotes, which keys may have, and its lines.
    plain = _OPAQUE.sub(lambda match: _hollow(match[0]), text)
    depth = 0
    for number, (line, bare) in enumerate(zip(text.split("\n"), plain.split("\n"), strict=True), 1):
        if depth <= 0 and bare.strip() and not bare.startswith(_INSIDE):
            yield number, line
        header = depth <= 0 and bare.lstrip().startswith("[")
        depth += 0 if header else bare.count("[") + bare.count("{") - bare.count("]") - bare.count("}")


def _hollow(opaque: str) -> str:
    return "".join(f"\n{_INSIDE}" if each == "\n" else "_" for each in opaque) if opaque[0] != "#" else ""
