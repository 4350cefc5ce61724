"""In the child: where the data of tensors lies, so that a step beside a tensor is noticed.

Three ways. `plain`: a pattern lies behind the data, and is looked at afterwards. `guarded`: the data ends exactly
where a page begins that nobody may touch (`end`), or begins where such a page ends (`begin`); what is an input cannot
be written. `exact`: an allocation of its own, for a sanitizer that watches around it.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from udogen.errors import RunFailed
from udogen.qnn import abi
from udogen.runtime.failures import OutOfBounds
from udogen.runtime.wire import Message

_PATTERN = 0xA5
_BEHIND = 64  # bytes of the pattern behind plain data
_NONE, _READ = 0, 1


@dataclass
class Room:
    """The data of one tensor, and the pattern around it."""

    name: str
    role: str  # input or output
    data: memoryview
    before: memoryview = field(default_factory=lambda: memoryview(b""))
    behind: memoryview = field(default_factory=lambda: memoryview(b""))
    owner: Any = None  # what frees the memory

    @property
    def address(self) -> int:
        """Where it begins."""
        return int(abi.ffi().cast("uintptr_t", abi.ffi().from_buffer(self.data)))

    def check(self, op: str) -> None:
        """Refuse what was written beside it."""
        for place, pattern in (("past the end of", self.behind), ("before the beginning of", self.before)):
            if pattern.nbytes and bytes(pattern) != bytes([_PATTERN]) * pattern.nbytes:
                raise OutOfBounds(
                    f"op `{op}` wrote {place} its {self.role} `{self.name}` ({self.data.nbytes} bytes)",
                    hint="let the kernel's loops end at the tensor's own dimensions",
                )

    def told(self) -> Message:
        """As the parent is told of it, who has to explain an address."""
        return {"name": self.name, "role": self.role, "address": self.address, "size": self.data.nbytes}


class Rooms:
    """Rooms of one kind; `guard` is end, begin, or empty.  Outputs hold the byte `poison` before they are written."""

    def __init__(self, *, guard: str = "", exact: bool = False, poison: int = 0) -> None:
        self._guard, self._exact, self._poison = guard, exact, poison
        self.all: list[Room] = []

    def output(self, name: str, size: int) -> Room:
        """Room for what an op writes."""
        return self._add(name, "output", bytes([self._poison]) * size, read_only=False)

    def input(self, name: str, content: bytearray) -> Room:
        """Room with what an op reads."""
        if not self._guard and not self._exact:  # as it came: there is nobody to disturb it
            self.all.append(Room(name, "input", memoryview(content)))
            return self.all[-1]
        return self._add(name, "input", content, read_only=True)

    def check(self, op: str) -> None:
        """Refuse what was written beside any of them."""
        for room in self.all:
            room.check(op)

    def told(self) -> Sequence[Message]:
        """All of them, as the parent is told."""
        return [room.told() for room in self.all] if self._guard or self._exact else []

    def _add(self, name: str, role: str, content: bytes | bytearray, *, read_only: bool) -> Room:
        if self._guard:
            room = _guarded(name, role, content, at_end=self._guard == "end", read_only=read_only)
        elif self._exact:
            room = _exact(name, role, content)
        else:
            whole = memoryview(bytearray(content) + bytes([_PATTERN]) * _BEHIND)
            room = Room(name, role, whole[: len(content)], behind=whole[len(content) :])
        self.all.append(room)
        return room


def _guarded(name: str, role: str, content: bytes | bytearray, *, at_end: bool, read_only: bool) -> Room:
    page, size = mmap.PAGESIZE, len(content)
    inside = -(-max(size, 1) // page) * page
    mapping = mmap.mmap(-1, page + inside + page)
    whole = memoryview(mapping)
    begin = page + inside - size if at_end else page
    room = Room(name, role, whole[begin : begin + size], owner=mapping)
    room.before, room.behind = whole[page:begin], whole[begin + size : page + inside]
    for each, value in ((room.before, bytes([_PATTERN]) * room.before.nbytes), (room.data, content)):
        each[:] = value
    room.behind[:] = bytes([_PATTERN]) * room.behind.nbytes
    start = int(abi.ffi().cast("uintptr_t", abi.ffi().from_buffer(whole)))
    _protect(start, page, _NONE)
    _protect(start + page + inside, page, _NONE)
    if read_only:
        _protect(start + page, inside, _READ)
    return room


def _protect(address: int, size: int, how: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), how):
        raise RunFailed(f"memory cannot be protected (errno {ctypes.get_errno()})", hint="run it without --guard")


class _Allocated:
    """Memory of malloc, which Python's own allocator would not leave a sanitizer to see."""

    def __init__(self, size: int) -> None:
        self._libc = ctypes.CDLL(None)
        self._libc.malloc.restype = ctypes.c_void_p
        self.address = self._libc.malloc(ctypes.c_size_t(size))

    def __del__(self) -> None:
        self._libc.free(ctypes.c_void_p(self.address))


def _exact(name: str, role: str, content: bytes | bytearray) -> Room:
    owner = _Allocated(len(content))
    data = memoryview((ctypes.c_char * len(content)).from_address(owner.address)).cast("B")
    data[:] = content
    return Room(name, role, data, owner=owner)
