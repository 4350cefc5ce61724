"""The lines of keys and values in TOML that `tomllib` has accepted."""

from __future__ import annotations

import re
from typing import NamedTuple

from udogen.documents.json_text import DEEPEST, Fault, Path
from udogen.resources import read_toml

_TOKEN = re.compile(
    r"""\#[^\n]*|\s+|(?P<string>\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
    r"""|(?P<mark>[\[\]{},=])|(?P<bare>[^\s\[\]{},="'\#]+)""",
    re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def find(text: str) -> dict[Path, int]:
    """The line of each key and value: (`op`, 0, `shape`) is a key of the first [[op]]."""
    return _Scanner(text).lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._tables: dict[Path, int] = {}  # how many tables an array of tables has so far
        self._tokens: list[_Token] = []  # the last one first
        line = 1
        for match in _TOKEN.finditer(text):
            if match.lastgroup:
                self._tokens.append(_Token(match.lastgroup, match[0], line))
            line += match[0].count("\n")
        self._tokens.append(_Token("end", "", line))
        self._tokens.reverse()
        table: Path = ()
        while self._next.kind != "end":
            if self._next.text == "[":
                table = self._header()
            else:
                self._assignment(table)

    @property
    def _next(self) -> _Token:
        return self._tokens[-1]

    def _skip(self, mark: str) -> bool:
        """Skip a mark; False if something else follows."""
        follows = self._next.kind == "mark" and self._next.text == mark
        if follows:
            self._tokens.pop()
        return follows

    def _header(self) -> Path:
        line = self._next.line
        self._skip("[")
        is_array = self._skip("[")
        path: Path = ()
        *outer, last = self._key()
        for part in outer:
            path = self._newest((*path, part))
        path = (*path, last)
        self.lines.setdefault(path, line)
        if is_array:
            self._tables[path] = self._tables.get(path, 0) + 1
        path = self._newest(path)
        self.lines.setdefault(path, line)
        while self._skip("]"):
            pass
        return path

    def _newest(self, path: Path) -> Path:
        """The path of a table, in an array of tables that of the last one."""
        return (*path, self._tables[path] - 1) if path in self._tables else path

    def _key(self) -> list[str]:
        parts: list[str] = []
        while self._next.kind in ("bare", "string"):
            kind, text, _ = self._tokens.pop()
            if kind == "string":
                parts.append(read_toml(f"key = {text}".encode())["key"])
            else:
                parts += [part for part in text.split(".") if part]
        return parts

    def _assignment(self, path: Path) -> None:
        line = self._next.line
        for part in self._key():
            path = (*path, part)
            self.lines.setdefault(path, line)
        self._skip("=")
        self._value(path)

    def _value(self, path: Path) -> None:
        if len(path) > DEEPEST:
            raise Fault(self._next.line, f"nested more than {DEEPEST} levels deep", "is this the right file?")
        line = self._next.line
        self.lines.setdefault(path, line)
        if self._skip("["):
            index = 0
            while not self._skip("]"):
                self._value((*path, index))
                self._skip(",")
                index += 1
        elif self._skip("{"):
            while not self._skip("}"):
                self._assignment(path)
                self._skip(",")
        elif self._tokens.pop().kind == "bare":
            while self._next.kind == "bare" and self._next.line == line:  # a date and a time
                self._tokens.pop()
