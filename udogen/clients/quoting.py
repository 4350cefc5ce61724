"""String literals of shells and languages; a path may contain any byte but zero."""

from __future__ import annotations

import re
import shlex

from udogen.opdef import names

_PLAIN = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def shell(text: str) -> str:
    """One word of a POSIX shell."""
    return shlex.quote(text)


def cpp(text: str) -> str:
    """A string literal of C and C++."""
    return names.cpp_string(text)


def java(text: str) -> str:
    """A string literal of Java; bytes of a file name that are not text are replaced."""
    units = text.encode("utf-16-be", "replace")
    codes = [units[index] << 8 | units[index + 1] for index in range(0, len(units), 2)]
    return '"' + "".join(_java_unit(code) for code in codes) + '"'


def _java_unit(code: int) -> str:
    char = chr(code)
    return _PLAIN.get(char) or (char if 32 <= code < 127 else f"\\u{code:04x}")


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
