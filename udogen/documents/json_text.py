"""JSON text -> values with their lines.

Trailing commas, as in the documentation's example, and comments are accepted with a warning.  The standard library's
parser gives no lines, which later messages need.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]

DEEPEST = 48
VALUES_MOST = 100_000
_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/){1,999})|(?P<mark>[{}\[\],:])
    |(?P<string>"(?:[^"\\\x00-\x1f]|\\.){0,65535}")|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>true|false|null)""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"true": True, "false": False, "null": None}


class Fault(Exception):
    """Why a text cannot be read."""

    def __init__(self, line: int, message: str, hint: str) -> None:
        self.line, self.message, self.hint = line, message, hint


def check_digits(token: str, line: int) -> None:
    """Raise `Fault` for a number that is too long to be one."""
    if len(token) > 400:
        raise Fault(line, "this number has more than 400 digits", "shorten it")


def check_depth(depth: int, line: int) -> None:
    """Raise `Fault` for a value inside too many others."""
    if depth > DEEPEST:
        raise Fault(line, f"nested more than {DEEPEST} levels deep", "is this the right file?")


Warnings = list[tuple[int, str, str]]  # line, message, hint


def parse(text: str, warnings: Warnings, *, most: int) -> tuple[Any, dict[Path, int]]:
    """The value of a JSON text and its lines; raises `Fault`, also for more than `most` values."""
    if not text.strip():
        raise Fault(1, "the file is empty", "was writing it interrupted? make it again")
    parser = _Parser(text, warnings, most)
    return parser.document(), parser.lines


def _refuse_controls(text: str) -> None:
    """Raise for escapes that are not text: halves of surrogate pairs, control characters."""
    text.encode("utf-8")
    if any((char < " " and char not in "\t\n\r") or char in "\x7f\ufffe\uffff" for char in text):
        raise ValueError("a control character")


def _hint(shown: str) -> str:
    if shown.startswith('"'):
        return "a string must end on its line, contain no control characters, and be shorter than 65,536"
    if shown.startswith("'"):
        return 'JSON strings have double quotes: "…"'
    if shown[:1].isalpha():
        return "strings need double quotes; the only bare words are true, false and null"
    return "JSON does not allow this character here"


class _Parser:
    def __init__(self, text: str, warnings: Warnings, most: int) -> None:
        self._most = most
        self._warnings = warnings
        self.lines: dict[Path, int] = {}
        self._line = 1
        self._tokens = self._scan(text)
        self._kind = self._token = ""
        self._next()

    def document(self) -> Any:
        value = self._value(())
        if self._kind != "end":
            raise Fault(self._line, f"unexpected text after the end of the JSON: {self._token[:40]!r}", "remove it")
        return value

    def _scan(self, text: str) -> Iterator[tuple[str, str, int]]:
        at, line, commented = 0, 1, False
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                shown = text[at : at + 12].split("\n", maxsplit=1)[0]
                hint = _hint(shown)
                raise Fault(line, f"invalid JSON: {shown!r}", hint)
            kind = match.lastgroup or ""
            if kind != "space":
                yield kind, match[0], line
            elif not commented and (comment := match[0].find("/")) >= 0:
                commented = True  # report only the first
                where = line + match[0].count("\n", 0, comment)
                self._warnings.append((where, "JSON does not allow comments", "they are ignored"))
            line += match[0].count("\n") if kind == "space" else 0
            at = match.end()
        yield "end", "the end of the file", line

    def _next(self) -> None:
        self._kind, self._token, self._line = next(self._tokens)

    def _unexpected(self, expected: str) -> Fault:
        return Fault(
            self._line,
            f"invalid JSON: expected {expected} before {self._token[:40]!r}",
            "check brackets, commas and quotes near this line",
        )

    def _take(self, mark: str) -> None:
        if self._token != mark or self._kind != "mark":
            raise self._unexpected(f"`{mark}`")
        self._next()

    def _value(self, path: Path) -> Any:
        check_depth(len(path), self._line)
        self.lines[path] = self._line
        if len(self.lines) > self._most:
            what = f"the file has more than {self._most} values"
            raise Fault(self._line, what, "is this the right file?")
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
        if kind == "number":
            check_digits(token, self._line)
        try:
            value = json.loads(token)
            if value in (math.inf, -math.inf):
                raise Fault(self._line, f"this number is too large: {token[:40]}", "give a number below 1.8e308")
            if "\\u" in token:
                _refuse_controls(value)
        except ValueError:
            raise Fault(self._line, f"invalid JSON: {token[:40]}", "the backslash escape is invalid") from None
        return value

    def _object(self, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        self._next()
        while self._token != "}":
            if self._kind != "string":
                raise self._unexpected("a key in double quotes")
            key = str(self._scalar(self._kind, self._token))
            line = self._line
            if key in values:
                self._warnings.append((line, f"the key `{key}` occurs twice", "the last value is used"))
            self._next()
            self._take(":")
            where = (*path, key)
            values[key] = self._value(where)
            self.lines[where] = line
            self._comma("}")
        self._next()
        return values

    def _array(self, path: Path) -> list[Any]:
        values: list[Any] = []
        self._next()
        while not (self._kind == "mark" and self._token == "]"):
            values.append(self._value((*path, len(values))))
            self._comma("]")
        self._next()
        return values

    def _comma(self, closing: str) -> None:
        if self._kind == "mark" and self._token == closing:
            return
        line = self._line
        if self._token != "," or self._kind != "mark":
            raise self._unexpected(f"`,` or `{closing}`")
        self._next()
        if self._kind == "mark" and self._token == closing:
            self._warnings.append((line, f"trailing comma before `{closing}`", "not valid JSON; it is ignored"))
