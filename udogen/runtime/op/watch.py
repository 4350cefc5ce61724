"""Watches ops while they run: allocations, and accesses outside tensors.

In the worker, the preloaded library udogen/emulator/watch does this.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from udogen.errors import RunFailed
from udogen.qnn import abi
from udogen.runtime.channel import Region
from udogen.runtime.failures import OUTPUTS_ALONE, Frame, OutOfBounds

_VERSION = 2
_DEPTH = 48


@dataclass(frozen=True)
class Watch:
    """The options for watching a call; the session must preload the library for it (build.watch, a sanitizer)."""

    heap: bool = False  # allocations while a graph is executed
    guard: str = ""  # guard pages at the `end` of each tensor, or at its `begin`
    exact: bool = False  # each tensor is a separate allocation, for a sanitizer


NOTHING = Watch()


@dataclass(frozen=True)
class Site:
    """A place of the package that allocates: its stack, innermost first."""

    kind: str  # malloc, calloc, realloc, aligned_alloc, mmap
    count: int
    bytes: int
    first: int  # the first execution in which it was seen, from 0
    last: int
    frames: tuple[Frame, ...]


@dataclass(frozen=True)
class HeapUse:
    """The observed allocations."""

    executions: int
    seen: int  # all allocations
    lost: int  # allocations of the package for which the table was full
    sites: tuple[Site, ...]


class _CSite(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("hash", "count", "bytes", "first", "last")),
        ("kind", ctypes.c_uint32),
        ("depth", ctypes.c_uint32),
        ("frames", ctypes.c_void_p * _DEPTH),
    ]


class _CCounts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("seen", "examined", "lost", "sites")]


class _LinkMap(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("name", ctypes.c_char_p)]


class _DlInfo(ctypes.Structure):
    _fields_ = [
        ("file", ctypes.c_char_p),
        ("file_base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("symbol_address", ctypes.c_void_p),
    ]


def _preloaded() -> ctypes.CDLL:
    """The library of udogen/emulator/watch in this process."""
    c = ctypes.CDLL(None)
    try:
        version = c.udogen_watch_version()
    except AttributeError:
        version = 0
    if version != _VERSION:
        raise RunFailed(
            "the library that watches kernels is not loaded in the worker",
            hint="check that LD_PRELOAD reaches that process, and that Python has a dynamic loader",
        )
    return c


class Fence:
    """Guard pages around a runtime's copies of tensors, for runtimes that do not pass on the client's buffers."""

    def __init__(self, runtime: str, side: str) -> None:
        self._c = _preloaded()
        self._c.udogen_fence_changed.restype = ctypes.c_long
        self._names: list[str] = []
        self._kept: list[Any] = []
        self._c.udogen_watch_faults()
        self._on = bool(self._c.udogen_fence_begin(runtime.encode(), side == "end"))

    def tensor(self, name: str, content: Any) -> None:
        """Add a tensor of the graph that has content."""
        place = abi.ffi().from_buffer(content)
        self._kept.append(place)
        self._names.append(name)
        address = int(abi.ffi().cast("uintptr_t", place))
        self._c.udogen_fence_tensor(ctypes.c_void_p(address), ctypes.c_size_t(len(place)))

    def regions(self) -> list[Region]:
        """The tensors by number; their addresses are known only when a fault is reported."""
        return [
            Region(name, "input", len(place), number=number)
            for number, (name, place) in enumerate(zip(self._names, self._kept, strict=True))
        ]

    def check(self, op: str) -> None:
        """Raise if a copy was changed."""
        for number, (name, place) in enumerate(zip(self._names, self._kept, strict=True)):
            at = self._c.udogen_fence_changed(number) if self._on else -1
            if (
                at >= 0 and len(set(bytes(abi.ffi().buffer(place)))) > 1
            ):  # other memory may look like a copy of a constant
                raise OutOfBounds(
                    f"op `{op}` wrote into its input `{name}`, which it must not: at byte {at} of {len(place)}",
                    hint=OUTPUTS_ALONE,
                )

    def end(self) -> None:
        """Remove the guard pages."""
        self._c.udogen_fence_end()


class Heap:
    """Watches allocations with the preloaded library of this process."""

    def __init__(self, package: str) -> None:
        self._c = _preloaded()
        if not self._c.udogen_watch_package(package.encode()):
            raise RunFailed(f"{package} is not loaded", hint="please report this")
        ffi = abi.ffi()  # graphExecute is called through it too, so both calls start at the same stack depth
        address = ctypes.cast(self._c.udogen_watch_arm, ctypes.c_void_p).value
        self._arm = ffi.cast("void (*)()", address)
        self._turn = ctypes.c_uint64.in_dll(self._c, "udogen_watch_turn")
        self._c.udogen_watch_sites.restype = ctypes.POINTER(_CSite)
        self._c.udogen_watch_counts.restype = ctypes.POINTER(_CCounts)
        self.turns = 0

    def arm(self) -> None:
        """Start watching functions that are called at this stack depth or deeper."""
        self._c.udogen_watch_reset()
        self.turns = 0
        self._arm()

    def disarm(self) -> None:
        """Stop watching."""
        self._c.udogen_watch_disarm()

    def turn(self) -> None:
        """Count an execution that has ended."""
        self.turns += 1
        self._turn.value = self.turns

    def use(self) -> HeapUse:
        """The allocations since `arm`."""
        counts = self._c.udogen_watch_counts().contents
        rows, kinds = self._c.udogen_watch_sites(), (ctypes.c_char_p * 5).in_dll(self._c, "udogen_watch_kinds")
        sites = tuple(self._site(rows[index], kinds) for index in range(counts.sites))
        return HeapUse(self.turns, counts.seen, counts.lost, sites)

    def _site(self, row: Any, kinds: Any) -> Site:
        frames = tuple(_frame(self._c, row.frames[index]) for index in range(row.depth))
        numbers = (row.count, row.bytes, row.first, row.last)
        return Site(kinds[row.kind].decode(), *numbers, frames)


def _frame(c: ctypes.CDLL, address: int) -> Frame:
    """The place of a return address, minus one: the call is the instruction before it."""
    info, place = _DlInfo(), ctypes.POINTER(_LinkMap)()
    if not c.dladdr1(ctypes.c_void_p(address), ctypes.byref(info), ctypes.byref(place), 2) or not place:
        return Frame("", address)
    offset = address - (place.contents.base or 0) - 1
    return Frame((info.file or b"").decode("utf-8", "replace"), offset, (info.symbol or b"").decode("utf-8", "replace"))
