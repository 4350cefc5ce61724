"""The first bytes of context binaries: their maker, and the length of the file.

Measured on binaries of SDK 2.47 to 2.51 and of the emulator; other binaries are not checked.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from udogen.errors import RunFailed

_QUALCOMM = bytes.fromhex("0000000200000003")
_QUALCOMM_HEAD = struct.Struct("<16xQQQ")  # length of the description; begin and length of what the backend wrote
_EMULATOR = b"UDOGENCB"
_EMULATOR_HEAD = struct.Struct("<8xIIQ8x")  # version, backend, length of what follows
LENGTH = 40  # of the longest head

_AGAIN = "copy it again from its source"


class NoContextBinary(RunFailed):
    """A file that is not a context binary, or is damaged."""

    kind = "no-context-binary"


class Head(NamedTuple):
    """The contents of the first bytes; `backend_id` is 0 and `size` None if unknown."""

    emulator: bool = False
    backend_id: int = 0
    size: int | None = None


def read(start: bytes) -> Head:
    """The head of a binary that begins with these bytes."""
    if start.startswith(_EMULATOR) and len(start) >= _EMULATOR_HEAD.size:
        _, backend, length = _EMULATOR_HEAD.unpack_from(start)
        return Head(True, backend, _EMULATOR_HEAD.size + length)
    if start.startswith(_QUALCOMM) and len(start) >= _QUALCOMM_HEAD.size:
        description, begin, length = _QUALCOMM_HEAD.unpack_from(start)
        return Head(size=max(begin + length, _QUALCOMM_HEAD.size + description))
    return Head(start.startswith(_EMULATOR))


def is_known(start: bytes) -> bool:
    """Whether a file begins like a context binary."""
    return start.startswith((_QUALCOMM, _EMULATOR))


def check(binary: Any, name: str) -> Head:
    """The head of a binary; raises if it is empty, zeroed, another kind of file, or cut off."""
    with memoryview(binary) as view, view.cast("B") as octets:
        size, start = len(octets), bytes(octets[:LENGTH])
    return check_start(start, size, name)


def check_start(start: bytes, size: int, name: str) -> Head:
    """The same for a file of which only the first bytes were read."""
    if not size:
        raise empty(name)
    if not any(start):
        raise NoContextBinary(f"{name} begins with zeros: it is not a context binary", hint=_AGAIN)
    other = next((what for magic, what in _FOREIGN if start.startswith(magic)), "")
    if other:
        raise NoContextBinary(
            f"{name} is {other}, not a context binary", hint="give the file that --save-context wrote"
        )
    head = read(start)
    if head.size is not None and head.size > size:
        raise NoContextBinary(
            f"{name} is cut off: it claims {head.size} bytes and has {size}", hint=f"{_AGAIN}; was a copy interrupted?"
        )
    if is_known(start) and head.size is None:
        raise NoContextBinary(f"{name} is cut off: it has only {size} bytes", hint=_AGAIN)
    return head


def empty(name: str) -> NoContextBinary:
    """The error for an empty file."""
    return NoContextBinary(f"{name} is empty", hint=_AGAIN)


# Other kinds of files, by their first bytes.
_FOREIGN = (
    (b"\x7fELF", "a library or program (ELF)"),
    (b"PK\x03\x04", "a zip archive (a DLC is one)"),
    (b"\x1f\x8b", "compressed (gzip)"),
    (b"(\xb5/\xfd", "compressed (zstd)"),
    (b"\x93NUMPY", "a numpy array"),
    (b"{", "text that looks like JSON"),
    (b"version https://git-lfs", "a pointer of Git LFS, whose file was not fetched"),
)
