"""Documents: JSON or TOML with the line of every key and value, and a place for the faults that are found in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from udogen.documents import json_text
from udogen.documents.json_text import Fault, Path, check_depth, check_digits
from udogen.findings import Findings, Location
from udogen.resources import read_toml, syntax_fault

_SYNTAX = re.compile(r"(?P<text>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)\Z")

_NUMBER = re.compile(r"(?<![\w\"'])[+-]?\d\w*")  # of a line of TOML


class Document:
    """A value, the line of each part of it, and the collector of its faults."""

    def __init__(self, value: Any, lines: Mapping[Path, int], file: str, findings: Findings) -> None:
        self.value, self.lines, self.file, self.findings = value, lines, file, findings
        self.folder = FilePath(file).parent

    def place(self, path: Path) -> Location:
        """The line of a value, or of its nearest container if it is missing."""
        while path and path not in self.lines:
            path = path[:-1]
        return Location(self.file, self.lines.get(path, 0))

    def error(self, path: Path, message: str, hint: str = "") -> None:
        """Report an error at a value."""
        self.findings.error(self.place(path), message, hint)

    def warn(self, path: Path, message: str, hint: str = "") -> None:
        """Report a warning at a value."""
        self.findings.warn(self.place(path), message, hint)

    @property
    def top(self) -> Node:
        """The whole value."""
        return Node(self.value, (), self)


class Node:
    """A value of a document, with its path."""

    __slots__ = ("document", "path", "value")

    def __init__(self, value: Any, path: Path, document: Document) -> None:
        self.value, self.path, self.document = value, path, document

    @property
    def key(self) -> str:
        """The key that the value belongs to, as messages name it."""
        return next((f"`{part}`" for part in reversed(self.path) if isinstance(part, str)), "the file")

    @property
    def place(self) -> Location:
        """Where it is."""
        return self.document.place(self.path)

    @property
    def is_whole(self) -> bool:
        """Whether it is an integer; true and false are not."""
        return isinstance(self.value, int) and not isinstance(self.value, bool)

    @property
    def is_number(self) -> bool:
        """Whether it is a number; true and false are not."""
        return self.is_whole or isinstance(self.value, float)

    @property
    def shown(self) -> str:
        """The value as messages show it."""
        if isinstance(self.value, (dict, list)):
            return "an object" if isinstance(self.value, dict) else f"a list of {len(self.value)}"
        if hasattr(self.value, "isoformat"):  # of TOML
            return "a date" if hasattr(self.value, "year") else "a time"
        words = {None: "null", True: "true", False: "false"} if isinstance(self.value, bool | None) else {}
        text = words.get(self.value, repr(self.value))
        return text if len(text) <= 60 else text[:59] + "…"

    def at(self, key: str | int) -> Node:
        """The value of a key that exists."""
        return Node(self.value[key], (*self.path, key), self.document)

    def items(self) -> Iterator[Node]:
        """The elements of a list, or the values of an object."""
        keys = self.value if isinstance(self.value, dict) else range(len(self.value))
        return (self.at(key) for key in keys)

    def error(self, message: str, hint: str = "") -> None:
        """Report an error."""
        self.document.error(self.path, message, hint)

    def warn(self, message: str, hint: str = "") -> None:
        """Report a warning."""
        self.document.warn(self.path, message, hint)


def parse(data: bytes, file: str, findings: Findings, *, most: int = json_text.VALUES_MOST) -> Document | None:
    """The document in the bytes of a file, which is TOML by its name, else JSON; None, with a problem, if it is not."""
    warnings: json_text.Warnings = []
    try:
        text = _decoded(data)
        if file.endswith(".toml"):
            value, lines = _toml(text), _TomlLines(text).lines
        else:
            value, lines = json_text.parse(text, warnings, most=most)
    except Fault as fault:
        findings.error(Location(file, fault.line), fault.message, fault.hint)
        return None
    finally:
        for line, message, hint in warnings:
            findings.warn(Location(file, line), message, hint)
    return Document(value, lines, file, findings)


def _decoded(data: bytes) -> str:
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    if not wide and b"\0" in data:
        raise Fault(data.count(b"\n", 0, data.index(b"\0")) + 1, "unexpected NUL byte", "this must be text in UTF-8")
    encoding = "utf-16" if wide else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as fault:
        message = f"byte {fault.start} of the file is not {encoding.removesuffix('-sig').upper()}"
        raise Fault(data.count(b"\n", 0, fault.start) + 1, message, "save the file as UTF-8") from None


def _toml(text: str) -> dict[str, Any]:
    try:
        return read_toml(text.replace("\r\n", "\n").encode())
    except (ValueError, RecursionError) as error:
        if syntax_fault(error) != str(error):
            _check_size(text)
        match = _SYNTAX.match(str(error))
        line = int(match["line"] or text.count("\n") + 1) if match else 1
        message = match["text"] if match else syntax_fault(error)
        raise Fault(line, f"invalid TOML: {message[:1].lower()}{message[1:]}", "see https://toml.io") from None


def _check_size(text: str) -> None:
    """Raise with the line of what a limit of Python's parser refuses: a long number, or deep nesting."""
    depth = 0
    for number, line in enumerate(text.split("\n"), 1):
        for match in _NUMBER.finditer(line):
            check_digits(match[0], number)
        depth += line.count("[") + line.count("{")
        check_depth(depth, number)
        depth -= line.count("]") + line.count("}")


# --- lines of TOML ----------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""\#[^\n]*|\s+|(?P<string>\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
    r"""|(?P<mark>[\[\]{},=])|(?P<bare>[^\s\[\]{},="'\#]+)""",
    re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


class _TomlLines:
    """The line of each key and value of TOML that is valid: (`op`, 0, `shape`) is a key of the first [[op]]."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._tables: dict[Path, int] = {}  # how many tables an array of tables has so far
        self._tokens: list[_Token] = []  # the last one first
        line = 1
        for match in _TOKEN.finditer(text):
            if match.lastgroup:
                if match.lastgroup == "bare" and match[0].lstrip("+-")[:1].isdigit():
                    check_digits(match[0], line)
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
        check_depth(len(outer), line)
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
        check_depth(len(path), self._next.line)
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
