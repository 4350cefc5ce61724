"""The kinds of memory of a `Buffer`, one row each, and the device libraries behind some of them."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import stat
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from udogen.errors import RunFailed, ToolMissing, UsageError

ANY = 2**80  # beyond each offset and size
LIBRARY = "libcdsprpc.so"
HEAP_ID_SYSTEM, DEFAULT_FLAGS = 25, 1
CDSP, FASTRPC_MAP_FD = 3, 2  # the Hexagon that runs HTP; a mapping that lasts until it is unmapped
_LARGEST_INT = 2**31 - 1
_MAP = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int)
_UNMAP = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)


@dataclass(frozen=True)
class Backing:
    """The memory of a buffer: an object that exports the bytes and frees them with its last reference."""

    memory: Any
    begin: int = 0  # offset of the buffer in `memory`
    fd: int | None = None
    fd_offset: int = 0  # offset of the buffer in the file of the descriptor
    owns_fd: bool = True  # the buffer closes the descriptor


# Width, height, pixel format and bytes of a pixel; or the address of an AHardwareBuffer, and bytes of a pixel.
Image = tuple[int, int, int, int] | tuple[int, int]


@dataclass(frozen=True)
class Wanted:
    """What a buffer is to be made of; `size` 0 is all that follows `offset` in the file of `fd`."""

    name: str
    size: int = 0
    fd: int | None = None
    offset: int = 0
    image: Image | None = None

    def given(self) -> set[str]:
        """The names of what is given."""
        rows = {"size": self.size, "fd": self.fd is not None, "offset": self.offset, "image": self.image}
        return {name for name, value in rows.items() if value}


class _Library:
    """A library of a device; raises ToolMissing if the library or a function is missing."""

    def __init__(self, name: str, hint: str) -> None:
        self._name, self._hint = name, hint
        try:
            self._library = ctypes.CDLL(name)
        except OSError as problem:
            raise self._missing(problem) from problem

    def has(self, name: str) -> bool:
        return hasattr(self._library, name)

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        try:
            function = getattr(self._library, name)
        except AttributeError as problem:
            raise self._missing(problem) from problem
        function.restype, function.argtypes = result, arguments
        return function

    def _missing(self, problem: Exception) -> ToolMissing:
        return ToolMissing(f"{self._name} cannot be used: {problem}", hint=self._hint)


class Rpcmem:
    """The functions of one libcdsprpc.so."""

    def __init__(self, library: str = LIBRARY) -> None:
        functions = _Library(library, "it is part of the system of a Snapdragon device; on a PC take memfd")
        self._function, pointer = functions.function, ctypes.c_void_p
        self._alloc = functions.function("rpcmem_alloc", pointer, ctypes.c_int, ctypes.c_uint32, ctypes.c_int)
        self._to_fd = functions.function("rpcmem_to_fd", ctypes.c_int, pointer)
        self._free = functions.function("rpcmem_free", None, pointer)
        wide = (pointer, ctypes.c_int, ctypes.c_uint32, ctypes.c_size_t)
        # Only newer releases have it; the size passed to `rpcmem_alloc` is an int.
        self._alloc2 = functions.function("rpcmem_alloc2", *wide) if functions.has("rpcmem_alloc2") else None

    def allocate(self, size: int) -> tuple[Any, int]:
        """Memory that is freed with the returned object, and its descriptor, which is closed with it."""
        if size > _LARGEST_INT and self._alloc2 is None:
            raise RunFailed(
                f"rpcmem_alloc cannot allocate {size} bytes: its size is an int, and {LIBRARY} has no rpcmem_alloc2",
                hint="use buffers of less than 2 GiB, or a device with a newer system",
            )
        alloc = self._alloc2 if size > _LARGEST_INT else self._alloc
        address = alloc(HEAP_ID_SYSTEM, DEFAULT_FLAGS, size)  # type: ignore[misc]
        if not address:
            raise RunFailed(
                f"rpcmem_alloc has no {size} bytes (heap {HEAP_ID_SYSTEM})",
                hint="close other buffers or contexts, or use smaller buffers",
            )
        fd = int(self._to_fd(address))
        if fd < 0:
            self._free(address)
            raise RunFailed(
                f"rpcmem_to_fd has no descriptor for {size} bytes from rpcmem_alloc",
                hint="this process cannot share memory with the Hexagon: read the device's log",
            )
        memory = (ctypes.c_ubyte * size).from_address(address)
        weakref.finalize(memory, self._free, address).atexit = False
        return memory, fd

    def map(self, fd: int, address: int, size: int, *, domain: int) -> None:
        """Map a buffer to a processor (fastrpc_mmap)."""
        call = self._function("fastrpc_mmap", ctypes.c_int, *_MAP)
        if code := call(domain, fd, address, 0, size, FASTRPC_MAP_FD):
            raise RunFailed(
                f"fastrpc_mmap of descriptor {fd} failed with {code & 0xFFFFFFFF:#x}",
                hint="read the device's log: the processor may have no memory left, or this is not a DMA buffer",
            )

    def unmap(self, fd: int, address: int, size: int, *, domain: int) -> None:
        """Unmap it (fastrpc_munmap)."""
        self._function("fastrpc_munmap", ctypes.c_int, *_UNMAP)(domain, fd, address, size)


@cache
def open_rpcmem() -> Rpcmem:
    """The library, opened once; raises ToolMissing if it is missing."""
    return Rpcmem()


ASHMEM, HARDWARE_BUFFERS = "libandroid.so", "libnativewindow.so"
_ANDROID = "it is part of Android 8 and later; elsewhere take memory of kind ashmem or file"

# Values of android/hardware_buffer.h, in the NDK's public reference.
FORMAT_BLOB = 0x21
CPU_OFTEN = 3 | 3 << 4  # AHARDWAREBUFFER_USAGE_CPU_READ_OFTEN and _CPU_WRITE_OFTEN
GPU_DATA = 1 << 24


class _Description(ctypes.Structure):
    """AHardwareBuffer_Desc."""

    _fields_ = (
        ("width", ctypes.c_uint32),
        ("height", ctypes.c_uint32),
        ("layers", ctypes.c_uint32),
        ("format", ctypes.c_uint32),
        ("usage", ctypes.c_uint64),
        ("stride", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("reserved_too", ctypes.c_uint64),
    )


class _Handle(ctypes.Structure):
    """The beginning of a native_handle_t with a descriptor."""

    _fields_ = (("version", ctypes.c_int), ("fds", ctypes.c_int), ("ints", ctypes.c_int), ("first", ctypes.c_int))


def ashmem(name: str, size: int) -> int:
    """Allocate ashmem and return its descriptor."""
    android = _Library(ASHMEM, _ANDROID)
    create = android.function("ASharedMemory_create", ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
    fd = int(create(name.encode(), size))
    if fd < 0:
        raise RunFailed(
            f"ASharedMemory_create cannot allocate {size} bytes (it returned {fd})",
            hint="close other buffers, or use smaller ones",
        )
    return fd


def hardware_buffer(*, width: int, height: int, pixel_format: int, pixel_bytes: int) -> Backing:
    """A new AHardwareBuffer; a BLOB is one row of bytes."""
    functions, pointer = _Library(HARDWARE_BUFFERS, _ANDROID), ctypes.c_void_p
    allocate = functions.function("AHardwareBuffer_allocate", ctypes.c_int, pointer, pointer)
    if not (0 < width < 2**32 and 0 < height < 2**32):
        raise RunFailed(
            f"no AHardwareBuffer is {width} x {height}: its sizes have 32 bits",
            hint="use several buffers, or memory of kind ashmem",
        )
    wanted = _Description(width, height, 1, pixel_format, CPU_OFTEN | GPU_DATA, 0, 0, 0)
    hardware = ctypes.c_void_p()
    if code := allocate(ctypes.byref(wanted), ctypes.byref(hardware)):
        raise RunFailed(
            f"AHardwareBuffer_allocate refuses {width} x {height} of format {pixel_format:#x} (it returned {code})",
            hint="the device has no such buffer, or no memory for it",
        )
    return _locked(functions, hardware, pixel_bytes)


def given_hardware_buffer(address: int, pixel_bytes: int) -> Backing:
    """An AHardwareBuffer that another library made, a camera's for example, and that may be released meanwhile."""
    functions, hardware = _Library(HARDWARE_BUFFERS, _ANDROID), ctypes.c_void_p(address)
    functions.function("AHardwareBuffer_acquire", None, ctypes.c_void_p)(hardware)
    return _locked(functions, hardware, pixel_bytes)


def _locked(functions: _Library, hardware: ctypes.c_void_p, pixel_bytes: int) -> Backing:
    """The bytes of an AHardwareBuffer, which is locked for the CPU until they are freed, and released then."""
    pointer, address, found = ctypes.c_void_p, ctypes.c_void_p(), _Description()
    describe = functions.function("AHardwareBuffer_describe", None, pointer, pointer)
    release = functions.function("AHardwareBuffer_release", None, pointer)
    unlock = functions.function("AHardwareBuffer_unlock", ctypes.c_int, pointer, pointer)
    lock = functions.function(
        "AHardwareBuffer_lock", ctypes.c_int, pointer, ctypes.c_uint64, ctypes.c_int32, pointer, pointer
    )
    if code := lock(hardware, CPU_OFTEN, -1, None, ctypes.byref(address)):
        release(hardware)
        raise RunFailed(
            f"AHardwareBuffer_lock failed (it returned {code})",
            hint="the CPU cannot access buffers of this format on this device",
        )
    describe(hardware, ctypes.byref(found))
    size = (found.stride or found.width) * found.height * pixel_bytes
    memory = (ctypes.c_ubyte * size).from_address(address.value or 0)
    weakref.finalize(memory, _end, unlock, release, hardware).atexit = False
    return Backing(memory, fd=_descriptor(functions, hardware), owns_fd=False)


def _end(unlock: Any, release: Any, hardware: ctypes.c_void_p) -> None:
    unlock(hardware, None)
    release(hardware)


def _descriptor(functions: _Library, hardware: ctypes.c_void_p) -> int | None:
    """Its first descriptor, or None; the function exists for system components, not for apps."""
    if not functions.has("AHardwareBuffer_getNativeHandle"):
        return None
    handle = functions.function("AHardwareBuffer_getNativeHandle", ctypes.POINTER(_Handle), ctypes.c_void_p)(hardware)
    return int(handle.contents.first) if handle and handle.contents.fds > 0 else None


LARGEST_ALIGNMENT = mmap.PAGESIZE  # every allocator returns whole pages


def _client(wanted: Wanted) -> Backing:
    return Backing(mmap.mmap(-1, wanted.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def _memfd(wanted: Wanted) -> Backing:
    fd = os.memfd_create(wanted.name.encode()[:200].decode(errors="ignore"), os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, wanted.size)
        # Another holder of the descriptor could shrink it and end this process with SIGBUS.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return Backing(mmap.mmap(fd, wanted.size, flags=mmap.MAP_SHARED), fd=fd)
    except BaseException:
        os.close(fd)
        raise


def _rpcmem(wanted: Wanted) -> Backing:
    memory, fd = open_rpcmem().allocate(wanted.size)
    return Backing(memory, fd=fd, owns_fd=False)


def _ashmem(wanted: Wanted) -> Backing:
    try:
        fd = ashmem(wanted.name, wanted.size)
    except ToolMissing:  # not Android: Linux has memfd instead
        return _memfd(wanted)
    try:
        return _file(Wanted(wanted.name, wanted.size, fd))
    finally:
        os.close(fd)


def _blob(wanted: Wanted) -> Backing:
    return hardware_buffer(width=wanted.size, height=1, pixel_format=FORMAT_BLOB, pixel_bytes=1)


def _hardware_buffer(wanted: Wanted) -> Backing:
    assert wanted.image is not None
    if len(wanted.image) == 2:
        return given_hardware_buffer(*wanted.image)
    width, height, pixel_format, pixel_bytes = wanted.image
    return hardware_buffer(width=width, height=height, pixel_format=pixel_format, pixel_bytes=pixel_bytes)


def _file(wanted: Wanted) -> Backing:
    """Map a part of the file or the DMA buffer of a descriptor, from the start of its first page."""
    what, given, offset = f"buffer `{wanted.name}`", wanted.fd or 0, wanted.offset
    try:
        fd = os.dup(given)
    except (OSError, OverflowError) as problem:
        raise RunFailed(
            f"{what}: {given} is not an open file descriptor", hint="keep the file open until the buffer is"
        ) from problem
    try:
        status = os.fstat(fd)
        whole = status.st_size or (0 if stat.S_ISREG(status.st_mode) else os.lseek(fd, 0, os.SEEK_END))
        size = wanted.size or whole - offset
        if offset < 0 or size <= 0 or (stat.S_ISREG(status.st_mode) and offset + size > whole):
            raise RunFailed(
                f"{what}: bytes {offset} to {offset + size} are not in the file of descriptor {given}, "
                f"which has {whole}",
                hint="give an offset and a size that are inside it",
            )
        begin = offset % mmap.ALLOCATIONGRANULARITY
        return Backing(_map(fd, begin + size, offset - begin), begin, fd, offset)
    except PermissionError as problem:
        os.close(fd)
        raise RunFailed(
            f"{what}: the file of descriptor {given} is not open for reading", hint="open it for that"
        ) from problem
    except (OSError, OverflowError, ValueError) as problem:
        os.close(fd)
        if getattr(problem, "errno", 0) in (errno.ENODEV, errno.ESPIPE):
            raise RunFailed(
                f"{what}: descriptor {given} cannot be mapped",
                hint="give the descriptor of a file, of a memfd or of a DMA buffer",
            ) from problem
        raise out_of_memory(what, wanted.size, problem, kind="file") from problem
    except RunFailed:
        os.close(fd)
        raise


def _map(fd: int, size: int, offset: int) -> mmap.mmap:
    """A mapping, for reading alone if the descriptor is open for that alone."""
    try:
        return mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE, offset=offset)
    except PermissionError:
        return mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=offset)


class MemoryKind(NamedTuple):
    """A kind of memory."""

    allocate: Callable[[Wanted], Backing]
    needs: str = "size"  # the argument of `Buffer` that it is made of
    takes: str = ""  # arguments that it takes besides
    alignment: int = 64
    holds_constants: bool = True


KINDS = {
    "client": MemoryKind(_client),
    "memfd": MemoryKind(_memfd),
    "rpcmem": MemoryKind(_rpcmem),  # DMA memory of a Snapdragon device
    "ashmem": MemoryKind(_ashmem),
    "file": MemoryKind(_file, "fd", "size offset", alignment=1),  # also a DMA buffer of another program
    "hardware_buffer_blob": MemoryKind(_blob, alignment=1),
    "hardware_buffer": MemoryKind(_hardware_buffer, "image", alignment=1, holds_constants=False),
}


class AllocatorChoice(NamedTuple):
    """An allocator and the reason for choosing it."""

    allocator: str
    why: str


def shared_allocator() -> AllocatorChoice:
    """The allocator of shared memory on this machine: rpcmem, else memfd.

    `Buffer(shared_allocator().allocator, 4096)`
    """
    try:
        open_rpcmem()
    except ToolMissing as missing:
        return AllocatorChoice("memfd", missing.message)
    return AllocatorChoice("rpcmem", f"{LIBRARY} is present")


def kind_named(kind: str) -> tuple[str, MemoryKind]:
    """The name and the row of a kind of memory; `shared` is one of two, as this machine has."""
    name = shared_allocator().allocator if kind == "shared" else kind
    if name not in KINDS:
        raise UsageError(f"there is no memory of kind `{kind}`", hint=f"one of: shared, {', '.join(KINDS)}")
    return name, KINDS[name]


def take_memory(kind: str, wanted: Wanted) -> Backing:
    """Memory of a kind for a buffer."""
    row, given = KINDS[kind], wanted.given()
    if wanted.size < 0 or (row.needs == "size" and given == set()):
        raise UsageError(f"buffer `{wanted.name}` cannot have {wanted.size} bytes", hint="give at least one byte")
    if not {row.needs} <= given <= {row.needs, *row.takes.split()}:
        raise UsageError(
            f"memory of kind `{kind}` is made of its {row.needs}" + f" ({row.takes} may be given)" * bool(row.takes),
            hint="size: its bytes; fd: an open descriptor; offset: in its file; image: width, height, format, bytes "
            "of a pixel, or the address of an AHardwareBuffer and bytes of a pixel",
        )
    try:
        return row.allocate(wanted)
    except (OSError, OverflowError, ValueError) as problem:
        raise out_of_memory(f"buffer `{wanted.name}`", wanted.size, problem, kind=kind) from problem


def out_of_memory(what: str, size: int, problem: Exception, *, kind: str) -> RunFailed:
    """The error for memory that the system cannot provide."""
    why = getattr(problem, "strerror", None) or str(problem)
    return RunFailed(
        f"{what} cannot be allocated: {size} bytes of {kind} memory: {why}",
        hint="close other buffers, use smaller ones, or raise the limit of the process (ulimit -v, -n)",
    )


def check_alignment(alignment: int) -> None:
    """Raise unless a buffer can have this alignment."""
    if alignment < 1 or alignment & (alignment - 1) or alignment > LARGEST_ALIGNMENT:
        raise UsageError(
            f"buffers cannot be aligned to {alignment} bytes",
            hint=f"64 (a cache line), 128 (a vector of HVX), {LARGEST_ALIGNMENT} (a page), or a power of two below it",
        )


def align_up(number: int, alignment: int) -> int:
    """The next multiple of an alignment: `align_up(100, 64) == 128`."""
    return -(-number // alignment) * alignment
