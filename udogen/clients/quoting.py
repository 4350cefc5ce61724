"""String literals of Java and Python; a path may contain any byte but zero."""

from __future__ import annotations

import json
import re

_PLAIN = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def java(text: str) -> str:
    """A string literal of Java; bytes of a file name that are not text are replaced."""
    return json.dumps(text.encode("utf-8", "replace").decode())


def python(text: str) -> str:
    """A string literal of Python, in double quotes."""
    return '"' + "".join(_PLAIN.get(char) or _python_char(char) for char in text) + '"'


def _python_char(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def block(text: str) -> str:
    """Code without the indentation that all its lines share."""
    lines = text.rstrip().lstrip("\n").split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(re.sub(r"\s+$", "", line[margin:]) for line in lines)
