"""Documents: JSON or TOML with the line of every key and value, and a place for the faults that are found in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from udogen.documents import json_text, toml_lines
from udogen.documents.json_text import Fault, Path
from udogen.findings import Findings, Location
from udogen.resources import read_toml

_SYNTAX = re.compile(r"(?P<text>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)\Z")


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
            value, lines = _toml(text), toml_lines.find(text)
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
        match = _SYNTAX.match(str(error))
        line = int(match["line"] or text.count("\n") + 1) if match else 1
        message = match["text"] if match else str(error)
        raise Fault(line, f"invalid TOML: {message[:1].lower()}{message[1:]}", "see https://toml.io") from None
