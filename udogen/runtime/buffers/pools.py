"""Shared memory pools by the names that NNAPI has for them (its page on memory pools)."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

from udogen.errors import RunFailed, ToolMissing, UsageError
from udogen.runtime.buffers import android
from udogen.runtime.buffers.allocators import align_up, allocate, out_of_memory
from udogen.runtime.buffers.buffer import Buffer


class File(NamedTuple):
    """A part of a file that somebody else has opened; it may be closed when the pool is open."""

    fd: int
    offset: int = 0
    writable: bool = True


class Image(NamedTuple):
    """What a general AHardwareBuffer holds: pixels of a format of android/hardware_buffer.h."""

    width: int
    height: int
    pixel_format: int
    pixel_bytes: int


class PoolKind(NamedTuple):
    """One kind of pool."""

    name: str
    what: str
    open: Callable[[int, File | None, Image | None, str], Buffer]
    takes: str  # what it is opened with
    holds_constants: bool = True


class Pool:
    """A pool: memory that is handed out piece by piece; a context manager."""

    def __init__(self, kind: PoolKind, buffer: Buffer) -> None:
        self.kind, self.buffer = kind, buffer
        self._used = 0

    @property
    def name(self) -> str:
        """What it was called when it was opened."""
        return self.buffer.name

    @property
    def free(self) -> int:
        """Bytes that nobody has taken."""
        return self.buffer.size - self._used

    def take(self, nbytes: int, *, alignment: int = 64) -> int:
        """The offset of `nbytes` that are the caller's from now on."""
        offset = align_up(self._used, alignment)
        if offset + nbytes > self.buffer.size:
            raise RunFailed(
                f"pool `{self.name}` is full: {nbytes} bytes are wanted, {max(self.buffer.size - offset, 0)} of "
                f"{self.buffer.size} are left",
                hint="open a larger pool",
            )
        self._used = offset + nbytes
        return offset

    def close(self) -> None:
        """Give its memory back."""
        self.buffer.close()

    def __enter__(self) -> Pool:
        self.buffer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.buffer.__exit__(kind, error, trace)


def open_pool(
    kind: str, size: int = 0, *, file: File | None = None, image: Image | None = None, name: str = "pool"
) -> Pool:
    """A pool of one of the kinds of `POOLS`."""
    row = POOLS.get(kind)
    if row is None:
        raise UsageError(f"there is no memory pool `{kind}`", hint=f"one of: {', '.join(POOLS)}")
    given = {"size": size > 0, "file": file is not None, "image": image is not None}
    wanted = row.takes.split()
    if [what for what, is_given in given.items() if is_given] != wanted:
        raise UsageError(
            f"a pool `{kind}` is opened with {' and '.join(wanted)}",
            hint="size: its bytes, one or more; file: a descriptor and an offset; image: width, height and format",
        )
    return Pool(row, row.open(size, file, image, name))


def _ashmem(size: int, _file: File | None, _image: Image | None, name: str) -> Buffer:
    try:
        fd = android.ashmem(name, size)
    except ToolMissing:  # no Android: what replaced ashmem in Linux
        return allocate("memfd", size, alignment=mmap.PAGESIZE, name=name)
    try:
        return _mapped(File(fd), size, name, kind="ashmem")
    finally:
        os.close(fd)


def _mmap_fd(size: int, file: File | None, _image: Image | None, name: str) -> Buffer:
    assert file is not None  # `takes` says so
    return _mapped(file, size, name, kind="mmap_fd")


def _mapped(file: File, size: int, name: str, *, kind: str) -> Buffer:
    """A part of a file, mapped from the page that it begins in."""
    what = f"pool `{name}`"
    try:
        fd = os.dup(file.fd)
    except OSError as problem:
        raise RunFailed(
            f"{what}: {file.fd} is no open file descriptor", hint="keep the file open until the pool is"
        ) from problem
    try:
        found = os.fstat(fd)
        if file.offset < 0 or (stat.S_ISREG(found.st_mode) and file.offset + size > found.st_size):
            raise RunFailed(
                f"{what}: bytes {file.offset} to {file.offset + size} are not in the file of descriptor {file.fd}, "
                f"which has {found.st_size}",
                hint="give an offset and a size that are inside it",
            )
        begin = file.offset % mmap.ALLOCATIONGRANULARITY
        access = mmap.PROT_READ | (mmap.PROT_WRITE if file.writable else 0)
        memory = mmap.mmap(fd, begin + size, flags=mmap.MAP_SHARED, prot=access, offset=file.offset - begin)
        return Buffer(
            memory, name=name, kind=kind, size=size, alignment=1, begin=begin, fd=fd, fd_offset=file.offset
        )  # fmt: skip
    except PermissionError as problem:
        os.close(fd)
        raise RunFailed(
            f"{what}: the file of descriptor {file.fd} is not open for {'writing' if file.writable else 'reading'}",
            hint="open it so, or say writable=False",
        ) from problem
    except (OSError, OverflowError, ValueError) as problem:
        os.close(fd)
        if getattr(problem, "errno", 0) == errno.ENODEV:
            raise RunFailed(
                f"{what}: descriptor {file.fd} leads to nothing that can be mapped",
                hint="give the descriptor of a file, of a memfd or of a DMA buffer",
            ) from problem
        raise out_of_memory(what, size, problem, kind=kind) from problem
    except RunFailed:
        os.close(fd)
        raise


def _blob(size: int, _file: File | None, _image: Image | None, name: str) -> Buffer:
    made = android.hardware_buffer(width=size, height=1, pixel_format=android.FORMAT_BLOB, pixel_bytes=1)
    return Buffer(
        made.memory, name=name, kind="hardware_buffer_blob", size=size, alignment=1, fd=made.fd, owns_fd=False
    )  # fmt: skip


def _hardware_buffer(_size: int, _file: File | None, image: Image | None, name: str) -> Buffer:
    assert image is not None  # `takes` says so
    made = android.hardware_buffer(**image._asdict())
    size = len(made.memory)
    return Buffer(made.memory, name=name, kind="hardware_buffer", size=size, alignment=1, fd=made.fd, owns_fd=False)


POOLS = {
    row.name: row
    for row in (
        PoolKind("ashmem", "Android's shared memory; memfd on other systems", _ashmem, "size"),
        PoolKind("mmap_fd", "a part of an open file", _mmap_fd, "size file"),
        PoolKind("hardware_buffer_blob", "an AHardwareBuffer of the format BLOB", _blob, "size"),
        PoolKind("hardware_buffer", "an AHardwareBuffer of pixels", _hardware_buffer, "image", holds_constants=False),
    )
}
