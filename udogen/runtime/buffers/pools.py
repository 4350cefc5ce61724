"""Shared memory pools by their NNAPI names, and constants stored in them."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from udogen.errors import RunFailed, ToolMissing, UsageError
from udogen.opdef.datatypes import Named
from udogen.qnn import abi
from udogen.qnn.handles import Closing
from udogen.qnn.quantization import Quantization
from udogen.qnn.tensors import STATIC, QnnTensor, byte_size
from udogen.runtime import arguments
from udogen.runtime.buffers import memory
from udogen.runtime.buffers.buffer import ANY, Backing, Buffer
from udogen.runtime.buffers.memory import align_up, check_alignment, out_of_memory, take_memory


class FileRange(NamedTuple):
    """A range of an open file; the descriptor may be closed once the pool is open.

    `open_pool("mmap_fd", 4096, file=FileRange(file.fileno(), 0, writable=False))`
    """

    fd: int
    offset: int = 0
    writable: bool = True


class ImageLayout(NamedTuple):
    """The pixels of a general AHardwareBuffer, in a format of android/hardware_buffer.h.

    `open_pool("hardware_buffer", image=ImageLayout(640, 480, 1, 4))`
    """

    width: int
    height: int
    pixel_format: int
    pixel_bytes: int


class Pool(Buffer):
    """Memory that is allocated piece by piece: `offset = pool.take(256)`; a context manager."""

    _used = 0

    @property
    def free(self) -> int:
        """Bytes that are not allocated yet."""
        return self.size - self._used

    def take(self, nbytes: int, *, alignment: int = 64) -> int:
        """Allocate `nbytes`; returns their offset."""
        nbytes = arguments.whole(nbytes, f"the number of bytes to take from pool `{self.name}`", least=1)
        check_alignment(arguments.whole(alignment, "the alignment"))
        self.check_open()
        offset = align_up(self._used, alignment)
        if offset + nbytes > self.size:
            raise RunFailed(
                f"pool `{self.name}` is full: {nbytes} bytes are wanted, {max(self.size - offset, 0)} of "
                f"{self.size} are left",
                hint="open a larger pool",
            )
        self._used = offset + nbytes
        return offset


def open_pool(
    kind: str, size: int = 0, *, file: FileRange | None = None, image: ImageLayout | None = None, name: str = "pool"
) -> Pool:
    """Open a memory pool: `with open_pool("ashmem", 4096) as pool:`; mmap_fd, hardware_buffer_blob, hardware_buffer.

    `pool = open_pool("ashmem", 4096)`
    """
    arguments.expect(kind, str, "the kind of a memory pool", f"one of: {', '.join(POOLS)}")
    arguments.expect(file, (FileRange, type(None)), "the file of a pool", "FileRange(fd, offset)")
    arguments.expect(image, (ImageLayout, type(None)), "the image of a pool", "ImageLayout(width, height, …)")
    abi.text_bytes(name, "the name of a pool")
    for number in (*(file or ())[:2], *(image or ())):
        arguments.whole(number, f"a number of pool `{name}`", least=-ANY, most=ANY)
    size = arguments.whole(size, f"the size of pool `{name}`", least=-ANY, most=ANY)
    row = POOLS.get(kind)
    if row is None:
        raise UsageError(f"there is no memory pool `{kind}`", hint=f"one of: {', '.join(POOLS)}")
    given = {"size": size if size > 0 else None, "file": file, "image": image}
    given = {what: value for what, value in given.items() if value is not None}
    wanted = row.takes.split()
    if list(given) != wanted:
        raise UsageError(
            f"a pool `{kind}` is opened with {' and '.join(wanted)}",
            hint="size: its bytes, one or more; file: a descriptor and an offset; image: width, height and format",
        )
    backing = row.open(**given, name=name)
    return Pool(backing, name=name, kind=kind, size=size or len(backing.memory))


def _ashmem(size: int, name: str) -> Backing:
    try:
        fd = memory.ashmem(name, size)
    except ToolMissing:  # not Android: Linux has memfd instead
        return take_memory("memfd", size, name)
    try:
        return _mapped(size, FileRange(fd), name, "ashmem")
    finally:
        os.close(fd)


def _mapped(size: int, file: FileRange, name: str, kind: str = "mmap_fd") -> Backing:
    """Map a part of a file, from the start of its first page."""
    what = f"pool `{name}`"
    try:
        fd = os.dup(file.fd)
    except OSError as problem:
        raise RunFailed(
            f"{what}: {file.fd} is not an open file descriptor", hint="keep the file open until the pool is"
        ) from problem
    try:
        status = os.fstat(fd)
        if file.offset < 0 or (stat.S_ISREG(status.st_mode) and file.offset + size > status.st_size):
            raise RunFailed(
                f"{what}: bytes {file.offset} to {file.offset + size} are not in the file of descriptor {file.fd}, "
                f"which has {status.st_size}",
                hint="give an offset and a size that are inside it",
            )
        begin = file.offset % mmap.ALLOCATIONGRANULARITY
        access = mmap.PROT_READ | (mmap.PROT_WRITE if file.writable else 0)
        memory = mmap.mmap(fd, begin + size, flags=mmap.MAP_SHARED, prot=access, offset=file.offset - begin)
        return Backing(memory, begin, fd, file.offset)
    except PermissionError as problem:
        os.close(fd)
        raise RunFailed(
            f"{what}: the file of descriptor {file.fd} is not open for {'writing' if file.writable else 'reading'}",
            hint="open it for that, or set writable=False",
        ) from problem
    except (OSError, OverflowError, ValueError) as problem:
        os.close(fd)
        if getattr(problem, "errno", 0) == errno.ENODEV:
            raise RunFailed(
                f"{what}: descriptor {file.fd} cannot be mapped",
                hint="give the descriptor of a file, of a memfd or of a DMA buffer",
            ) from problem
        raise out_of_memory(what, size, problem, kind=kind) from problem
    except RunFailed:
        os.close(fd)
        raise


def _blob(size: int, name: str) -> Backing:
    return memory.hardware_buffer(width=size, height=1, pixel_format=memory.FORMAT_BLOB, pixel_bytes=1)


def _hardware_buffer(image: ImageLayout, name: str) -> Backing:
    return memory.hardware_buffer(**image._asdict())


class PoolKind(NamedTuple):
    """A kind of pool."""

    open: Callable[..., Backing]
    takes: str  # the arguments of `open_pool` that it takes in addition to the name
    holds_constants: bool = True


POOLS = {
    "ashmem": PoolKind(_ashmem, "size"),
    "mmap_fd": PoolKind(_mapped, "size file"),
    "hardware_buffer_blob": PoolKind(_blob, "size"),
    "hardware_buffer": PoolKind(_hardware_buffer, "image", holds_constants=False),
}


COPY, REFERENCE = "CONSTANT_COPY", "CONSTANT_REFERENCE"
# ANEURALNETWORKS_MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES
THRESHOLD = 128


@dataclass(frozen=True)
class ConstantPlacement:
    """Where a constant is stored; `offset` is its place in the pool, 0 for a copy."""

    name: str
    lifetime: str
    nbytes: int
    offset: int


class Constants(Closing):
    """The constants of a graph, copied or in a pool: `with Constants(pool) as constants:`.

    `constants.tensor("w", dtype="FLOAT_32", shape=(4,), data=array)` is a tensor for `GraphHandle.add_tensor`.
    """

    def __init__(self, pool: Pool | None = None, *, threshold: int = THRESHOLD) -> None:
        if pool is not None and not POOLS[pool.kind].holds_constants:
            fitting = ", ".join(name for name, row in POOLS.items() if row.holds_constants)
            raise UsageError(
                f"constants cannot lie in a pool `{pool.kind}`: it is for inputs and outputs of executions",
                hint=f"one of: {fitting}",
            )
        self.rows: list[ConstantPlacement] = []
        self._pool, self._threshold = pool, arguments.whole(threshold, "the threshold of constants")
        self._end_hold: list[Callable[[], None]] = []

    def tensor(
        self, name: str, *, dtype: Named, shape: Sequence[int], data: Any, quant: Quantization = None
    ) -> QnnTensor:  # fmt: skip
        """A static tensor with these values, which are stored in the pool if they exceed the threshold."""
        nbytes, given = byte_size(dtype, shape), _flat(name, data)
        if len(given) != nbytes:
            raise RunFailed(
                f"constant `{name}` ({dtype} {list(shape)}) has {nbytes} bytes, {len(given)} were given",
                hint="give the values the shape and type of the tensor",
            )
        if nbytes <= self._threshold:
            return self._made(name, dtype, shape, bytearray(given), quant, ConstantPlacement(name, COPY, nbytes, 0))
        if self._pool is None:
            raise UsageError(
                f"constant `{name}` has {nbytes} bytes: more than {self._threshold} are not copied",
                hint="open a pool for constants, or raise the threshold",
            )
        offset = self._pool.take(nbytes)
        self._pool.view[offset : offset + nbytes] = given
        return self._referring(name, dtype, shape, offset, quant)

    def refer(
        self, name: str, *, dtype: Named, shape: Sequence[int], offset: int, quant: Quantization = None
    ) -> QnnTensor:  # fmt: skip
        """A static tensor whose values are at this offset of the pool; nothing is copied."""
        nbytes, offset = (
            byte_size(dtype, shape),
            arguments.whole(offset, f"the offset of constant `{name}`", least=-ANY),
        )
        if self._pool is None:
            raise UsageError(
                f"constant `{name}` refers to a pool, but none was given", hint="open one for the constants"
            )
        if offset < 0 or offset + nbytes > self._pool.size:
            raise RunFailed(
                f"constant `{name}` would be bytes {offset} to {offset + nbytes} of pool `{self._pool.name}`, "
                f"which has {self._pool.size}",
                hint="give an offset inside the pool",
            )
        return self._referring(name, dtype, shape, offset, quant)

    def close(self) -> None:
        """Release the pool."""
        while self._end_hold:
            self._end_hold.pop()()

    def _referring(self, name: str, dtype: Named, shape: Sequence[int], offset: int, quant: Quantization) -> QnnTensor:
        assert self._pool is not None  # checked by both callers
        nbytes, buffer = byte_size(dtype, shape), self._pool
        view = buffer.view[offset : offset + nbytes]
        self._end_hold.append(buffer.hold(f"constant `{name}`"))
        return self._made(name, dtype, shape, view, quant, ConstantPlacement(name, REFERENCE, nbytes, offset))

    def _made(
        self, name: str, dtype: Named, shape: Sequence[int], data: Any, quant: Quantization, row: ConstantPlacement
    ) -> QnnTensor:
        self.rows.append(row)
        return QnnTensor(name, dtype=dtype, shape=shape, role=STATIC, quant=quant, data=data)


def _flat(name: str, data: Any) -> memoryview:
    try:
        view = memoryview(data)
    except TypeError as problem:
        raise UsageError(
            f"the values of constant `{name}` are not a buffer: {problem}", hint="give a numpy array, or bytes"
        ) from problem
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
