"""Shared memory as Android has it, by libraries opened at run time: ashmem and AHardwareBuffer."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, NamedTuple

from udogen.errors import RunFailed, ToolMissing

ASHMEM, HARDWARE_BUFFERS = "libandroid.so", "libnativewindow.so"

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


class HardwareBuffer(NamedTuple):
    """A locked AHardwareBuffer: its bytes, with which it is released, and its descriptor where one is told."""

    memory: Any
    fd: int | None


def ashmem(name: str, size: int) -> int:
    """The descriptor of a new piece of ashmem."""
    fd = int(_Library(ASHMEM).function("ASharedMemory_create", ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)(
        name.encode(), size
    ))  # fmt: skip
    if fd < 0:
        raise RunFailed(
            f"ASharedMemory_create has no {size} bytes (it answered {fd})",
            hint="close other buffers, or use smaller ones",
        )
    return fd


def hardware_buffer(*, width: int, height: int, pixel_format: int, pixel_bytes: int) -> HardwareBuffer:
    """A new AHardwareBuffer, locked for the CPU; a BLOB has one row of bytes."""
    functions, pointer = _Library(HARDWARE_BUFFERS), ctypes.c_void_p
    allocate = functions.function("AHardwareBuffer_allocate", ctypes.c_int, pointer, pointer)
    describe = functions.function("AHardwareBuffer_describe", None, pointer, pointer)
    release = functions.function("AHardwareBuffer_release", None, pointer)
    unlock = functions.function("AHardwareBuffer_unlock", ctypes.c_int, pointer, pointer)
    lock = functions.function(
        "AHardwareBuffer_lock", ctypes.c_int, pointer, ctypes.c_uint64, ctypes.c_int32, pointer, pointer
    )
    if not (0 < width < 2**32 and 0 < height < 2**32):
        raise RunFailed(
            f"no AHardwareBuffer is {width} x {height}: it counts with 32 bits",
            hint="use several buffers, or a pool of kind ashmem",
        )
    wanted = _Description(width, height, 1, pixel_format, CPU_OFTEN | GPU_DATA, 0, 0, 0)
    made, address = ctypes.c_void_p(), ctypes.c_void_p()
    if code := allocate(ctypes.byref(wanted), ctypes.byref(made)):
        raise RunFailed(
            f"AHardwareBuffer_allocate refuses {width} x {height} of format {pixel_format:#x} (it answered {code})",
            hint="the device has no such buffer, or no memory for it",
        )
    if code := lock(made, CPU_OFTEN, -1, None, ctypes.byref(address)):
        release(made)
        raise RunFailed(
            f"AHardwareBuffer_lock gives no address (it answered {code})",
            hint="the device does not let the CPU into buffers of this format",
        )
    describe(made, ctypes.byref(wanted))
    memory = (ctypes.c_ubyte * (wanted.stride * height * pixel_bytes or width * height * pixel_bytes)).from_address(
        address.value or 0
    )
    weakref.finalize(memory, _end, unlock, release, made).atexit = False
    return HardwareBuffer(memory, _descriptor(functions, made))


def _end(unlock: Any, release: Any, made: ctypes.c_void_p) -> None:
    unlock(made, None)
    release(made)


def _descriptor(functions: _Library, made: ctypes.c_void_p) -> int | None:
    """Its first descriptor; the function is there for the parts of a system, not for apps."""
    if not functions.has("AHardwareBuffer_getNativeHandle"):
        return None
    handle = functions.function("AHardwareBuffer_getNativeHandle", ctypes.POINTER(_Handle), ctypes.c_void_p)(made)
    return int(handle.contents.first) if handle and handle.contents.fds > 0 else None


class _Library:
    """A library of Android; ToolMissing where there is none."""

    def __init__(self, name: str) -> None:
        self._name = name
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
        return ToolMissing(
            f"{self._name} cannot be used: {problem}",
            hint="it is part of Android 8 and later; elsewhere take a pool of kind ashmem or mmap_fd",
        )
