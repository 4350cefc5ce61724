"""JSON text -> plain values, and the line of every value; forgiving where the documentation's own example errs.

Trailing commas and comments are accepted with a warning.  The standard library's parser tells no lines of
values, which every later message needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from udogen.opdef.problems import Location, Problems

Path = tuple[str | int, ...]

_DEEPEST = 48
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<mark>[{}\[\],:])
    |(?P<string>"(?:[^"\\\x00-\x1f]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>true|false|null)""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"true": True, "false": False, "null": None}


class Text:
    """A parsed JSON text: the value, and where each part of it stands."""

    def __init__(self, value: Any, lines: dict[Path, int], file: str) -> None:
        self.value = value
        self._lines = lines
        self._file = file

    def place(self, path: Path) -> Location:
        """The line of a value; of its nearest container where the value is not there."""
        while path and path not in self._lines:
            path = path[:-1]
        return Location(self._file, self._lines.get(path, 1))


def parse(text: str, file: str, problems: Problems) -> Text | None:
    """The value of a JSON text; None, with the problem told, where it is none."""
    parser = _Parser(text, file, problems)
    try:
        value = parser.document()
    except _Fault as fault:
        problems.error(Location(file, fault.line), fault.message, fault.hint)
        return None
    return Text(value, parser.lines, file)


class _Fault(Exception):
    def __init__(self, line: int, message: str, hint: str) -> None:
        self.line, self.message, self.hint = line, message, hint


class _Parser:
    def __init__(self, text: str, file: str, problems: Problems) -> None:
        self._file = file
        self._problems = problems
        self.lines: dict[Path, int] = {}
        self._line = 1
        self._tokens = self._scan(text)
        self._kind = self._token = ""
        self._next()

    def document(self) -> Any:
        value = self._value(())
        if self._kind != "end":
            raise self._unexpected("the end of the file")
        return value

    def _scan(self, text: str) -> Iterator[tuple[str, str, int]]:
        at, line = 0, 1
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                shown = text[at : at + 12].split("\n")[0]
                hint = "a string must end on its line" if shown.startswith('"') else "JSON has no such character here"
                raise _Fault(line, f"this is not JSON: {shown!r}", hint)
            kind = match.lastgroup or ""
            if kind == "comment":
                self._problems.warn(Location(self._file, line), "JSON has no comments", "it is skipped")
            elif kind != "space":
                yield kind, match[0], line
            line += match[0].count("\n") if kind in ("space", "comment") else 0
            at = match.end()
        yield "end", "the end of the file", line

    def _next(self) -> None:
        self._kind, self._token, self._line = next(self._tokens)

    def _unexpected(self, expected: str) -> _Fault:
        return _Fault(self._line, f"this is not JSON: {expected} is missing before {self._token[:40]!r}", "mend the text here")

    def _take(self, mark: str) -> None:
        if self._token != mark or self._kind != "mark":
            raise self._unexpected(f"`{mark}`")
        self._next()

    def _value(self, path: Path) -> Any:
        if len(path) > _DEEPEST:
            raise _Fault(self._line, f"this is nested more than {_DEEPEST} levels deep", "a UDO config has 6 levels")
        self.lines[path] = self._line
        if self._kind == "mark" and self._token == "{":
            return self._object(path)
        if self._kind == "mark" and self._token == "[":
            return self._array(path)
        kind, token = self._kind, self._token
        if kind not in ("string", "number", "word"):
            raise self._unexpected("a value")
        value = self._scalar(kind, token)
        self._next()
        return value

    def _scalar(self, kind: str, token: str) -> Any:
        if kind == "word":
            return _WORDS[token]
        if kind == "number" and len(token) > 400:
            raise _Fault(self._line, "this number has more than 400 digits", "shorten it")
        try:
            return json.loads(token)
        except ValueError:
            raise _Fault(self._line, f"this is not JSON: {token[:40]}", "a backslash escapes wrongly here") from None

    def _object(self, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._next()
        while self._token != "}":
            if self._kind != "string":
                raise self._unexpected("a key in double quotes")
            key = str(self._scalar(self._kind, self._token))
            line = self._line
            if key in found:
                self._problems.warn(Location(self._file, line), f"the key `{key}` stands twice", "the last one counts")
            self._next()
            self._take(":")
            found[key] = self._value((*path, key))
            self.lines[(*path, key)] = line
            self._comma("}")
        self._next()
        return found

    def _array(self, path: Path) -> list[Any]:
        found: list[Any] = []
        self._next()
        while not (self._kind == "mark" and self._token == "]"):
            found.append(self._value((*path, len(found))))
            self._comma("]")
        self._next()
        return found

    def _comma(self, closing: str) -> None:
        if self._kind == "mark" and self._token == closing:
            return
        line = self._line
        self._take(",")
        if self._kind == "mark" and self._token == closing:
            self._problems.warn(
                Location(self._file, line), f"there is a comma before `{closing}`", "JSON allows none; it is skipped"
            )
