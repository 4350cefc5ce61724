"""C++ identifiers from names of a config.

Names of packages and ops must be identifiers: they name folders, files, libraries and symbols.  Names of tensors may
have other characters (`in[0]`), and are converted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

_COMMENT_WIDTH = 96  # columns
LONGEST = 128  # for portable file names and mangled symbols

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_TENSOR_NAME = re.compile(r"[A-Za-z0-9_.:/\[\]() -]+\Z")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+@:,-][A-Za-z0-9_./+@:, -]*\Z")

# ISO C++20 keywords and alternative tokens, and usual macros of C headers.
RESERVED = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t
    class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue
    decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto
    if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void
    volatile wchar_t while xor xor_eq
    NULL EOF NAN INFINITY assert errno stdin stdout stderr main std udo ops""".split()
)
_MACRO = re.compile(
    r"(QNN_.*|U?INT.*_(MAX|MIN|WIDTH|C)|(FLT|DBL|LDBL|U?CHAR|SCHAR|U?SHRT|U?LONG|U?LLONG|S?SIZE|PTRDIFF|WCHAR|WINT)_.*"
    r"|M_.*|FP_.*|HUGE(_VAL.*)?|SNAN.*|MAXFLOAT|MATH_.*|math_errhandling|(BIG|LITTLE|PDP)_ENDIAN|BYTE_ORDER|EXIT_.*"
    r"|(RAND|PATH|NAME|BOOL)_MAX|BUFSIZ|EDOM|ERANGE|EILSEQ|EINVAL|EAGAIN|SEEK_(SET|CUR|END)|alloca)\Z"
)
_GENERATED = frozenset({"Args", "State"})  # types of generated headers


def fault_of_symbol(name: str) -> str | None:
    """Why `name` cannot name a package or an op, or None."""
    if not name:
        return "is empty"
    if len(name) > LONGEST:
        return f"has {len(name)} characters; the maximum is {LONGEST}"
    if not _IDENTIFIER.match(name):
        odd = sorted({c for c in name if not (c.isascii() and (c.isalnum() or c == "_"))})
        if odd:
            return "has characters that a C++ identifier cannot have: " + " ".join(repr(c) for c in odd[:8])
        return "must begin with a letter"
    if "__" in name:
        return "has two underscores in a row, which C++ reserves"
    if name in RESERVED or _MACRO.match(name):
        return "is a word of C++, or one that generated code needs"
    return None


def fault_of_tensor(name: str) -> str | None:
    """Why `name` cannot name an input, output or parameter, or None."""
    if not name:
        return "is empty"
    if len(name) > LONGEST:
        return f"has {len(name)} characters; the maximum is {LONGEST}"
    if not _TENSOR_NAME.match(name):
        odd = sorted({c for c in name if not _TENSOR_NAME.match(c)})
        return "has characters that are not allowed in a name: " + " ".join(repr(c) for c in odd[:8])
    if not any(c.isalnum() for c in name):
        return "has no letter and no digit"
    return None


def suggestion(name: str, otherwise: str = "MyOp") -> str:
    """A similar name that is valid for an op or a package."""
    if not re.search(r"[A-Za-z0-9]", name):
        return otherwise
    made = identifier(name)[:LONGEST].rstrip("_")
    return f"My_{made}"[:LONGEST].rstrip("_") if fault_of_symbol(made) else made


@cache
def identifier(name: str) -> str:
    """A C++ identifier for a name: `in[0]` becomes `in_0`, `default` becomes `default_`."""
    made = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    if not made or made[0].isdigit():
        made = "t_" + made
    return made + "_" if made in RESERVED or made in _GENERATED or _MACRO.match(made) else made


def distinct(names: Iterable[str]) -> list[str]:
    """The names, with numbers appended to repeated ones."""
    found: dict[str, None] = {}
    for name in names:
        made, number = name, 1
        while made in found:
            number += 1
            made = f"{name}{number}"
        found[made] = None
    return list(found)


def collisions(names: Iterable[str]) -> Mapping[str, list[str]]:
    """Different names that would become the same identifier, by that identifier."""
    by_identifier: dict[str, list[str]] = {}
    for name in names:
        by_identifier.setdefault(identifier(name), []).append(name)
    return {made: group for made, group in by_identifier.items() if len(group) > 1}


def cpp_string(text: str) -> str:
    """A C++ string literal of exactly this text."""
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):  # file names may be arbitrary bytes
        char = chr(byte)
        if char in '"\\?':  # ? too: no trigraphs
            out.append("\\" + char)
        elif 0x20 <= byte < 0x7F:
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def make_path(text: str) -> str:
    """A path for a Makefile; empty if make or a shell would misread it."""
    return text if _PLAIN_PATH.match(text) else ""


def cpp_comment(text: str) -> list[str]:
    """Text as lines that are safe after `//` (no newline, no line splice, no control characters)."""
    lines: list[str] = []
    for paragraph in text.splitlines():
        line = ""
        plain = paragraph if paragraph.isprintable() else "".join(c if c.isprintable() else " " for c in paragraph)
        for word in plain.split():
            if line and len(line) + 1 + len(word) > _COMMENT_WIDTH:
                lines.append(line)
                line = ""
            line = f"{line} {word}" if line else word
        lines.append(line)
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return [_unspliced(line) for line in lines]


def _unspliced(line: str) -> str:
    """The line without a backslash or its trigraph at the end, which would join it with the next."""
    while line.endswith(("\\", "??/", " ")):
        line = line.removesuffix("??/").rstrip("\\ ")
    return line
