"""Where memory comes from: one row each, behind one function."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from udogen.errors import RunFailed, ToolMissing, UsageError
from udogen.runtime import arguments
from udogen.runtime.buffers import rpcmem
from udogen.runtime.buffers.buffer import Buffer

LARGEST_ALIGNMENT = mmap.PAGESIZE  # every allocator begins at a page


class Allocator(NamedTuple):
    """One source of memory."""

    name: str
    shared: bool  # a descriptor leads to it, by which other processors and processes find it
    what: str
    take: Callable[[int, str], tuple[Any, int | None]]  # (size, name) -> what owns the bytes, its descriptor
    owns_fd: bool = True  # the descriptor is ours to close


def _client(size: int, _name: str) -> tuple[Any, None]:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), None


def _memfd(size: int, name: str) -> tuple[Any, int]:
    fd = os.memfd_create(name[:200], os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        # Whoever has the descriptor could make it shorter, and end us with SIGBUS.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return mmap.mmap(fd, size, flags=mmap.MAP_SHARED), fd
    except BaseException:
        os.close(fd)
        raise


def _rpcmem(size: int, _name: str) -> tuple[Any, int]:
    return rpcmem.open_rpcmem().allocate(size)


ALLOCATORS = {
    row.name: row
    for row in (
        Allocator("client", False, "memory of this process", _client),
        Allocator("memfd", True, "a file in memory, for PCs", _memfd),
        Allocator("rpcmem", True, "DMA memory of a Snapdragon device, by libcdsprpc.so", _rpcmem, owns_fd=False),
    )
}


class Choice(NamedTuple):
    """An allocator, and why it."""

    allocator: str
    why: str


def shared_memory() -> Choice:
    """The allocator of shared memory that this machine has: rpcmem, else memfd."""
    try:
        rpcmem.open_rpcmem()
    except ToolMissing as missing:
        return Choice("memfd", missing.message)
    return Choice("rpcmem", f"{rpcmem.LIBRARY} is there")


def allocate(kind: str, size: int, *, alignment: int = 64, name: str = "buffer") -> Buffer:
    """A new buffer of `size` bytes, all zero where the system gives such, beginning at a multiple of `alignment`."""
    arguments.expect(kind, str, "the allocator", f"one of: {', '.join(ALLOCATORS)}")
    arguments.expect(name, str, "the name of a buffer", "a str")
    row = ALLOCATORS.get(kind)
    if row is None:
        raise UsageError(f"there is no allocator `{kind}`", hint=f"one of: {', '.join(ALLOCATORS)}")
    size = arguments.whole(size, f"the size of buffer `{name}`", least=-(2**80), most=2**80)
    check_alignment(arguments.whole(alignment, "the alignment", least=-(2**80), most=2**80))
    if size <= 0:
        raise UsageError(f"buffer `{name}` cannot have {size} bytes", hint="a buffer has one byte or more")
    try:
        memory, fd = row.take(size, name)
    except (OSError, OverflowError, ValueError) as problem:
        raise out_of_memory(f"buffer `{name}`", size, problem, kind=kind) from problem
    made = Buffer(memory, name=name, kind=kind, size=size, alignment=alignment, fd=fd, owns_fd=row.owns_fd)
    if made.address % alignment:
        made.close()
        raise RunFailed(
            f"{kind} gave buffer `{name}` memory at {made.address:#x}, which is no multiple of {alignment}",
            hint="ask for a smaller alignment",
        )
    return made


def out_of_memory(what: str, size: int, problem: Exception, *, kind: str) -> RunFailed:
    """The sentence for memory that the system does not have."""
    why = getattr(problem, "strerror", None) or str(problem)
    return RunFailed(
        f"{what} cannot be allocated: {size} bytes of {kind} memory: {why}",
        hint="close other buffers, use smaller ones, or raise the limit of the process (ulimit -v, -n)",
    )


def check_alignment(alignment: int) -> None:
    """Refuse what is no alignment of a buffer."""
    if alignment < 1 or alignment & (alignment - 1) or alignment > LARGEST_ALIGNMENT:
        raise UsageError(
            f"buffers cannot be aligned to {alignment} bytes",
            hint=f"64 (a cache line), 128 (a vector of HVX), {LARGEST_ALIGNMENT} (a page), or a power of two below it",
        )


def align_up(number: int, alignment: int) -> int:
    """The next multiple."""
    return -(-number // alignment) * alignment
