"""The memory of Qualcomm's devices that CPU and Hexagon share: rpcmem_… of libcdsprpc.so (shared-buffer tutorial)."""

from __future__ import annotations

import ctypes
import weakref
from functools import cache
from typing import Any

from udogen.errors import RunFailed, ToolMissing

LIBRARY = "libcdsprpc.so"
HEAP_ID_SYSTEM, DEFAULT_FLAGS = 25, 1
_LARGEST_INT = 2**31 - 1


class Rpcmem:
    """The functions of one libcdsprpc.so."""

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
            self._alloc = self._function("rpcmem_alloc", ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_int)
            self._to_fd = self._function("rpcmem_to_fd", ctypes.c_int, ctypes.c_void_p)
            self._free = self._function("rpcmem_free", None, ctypes.c_void_p)
        except (OSError, AttributeError) as problem:
            raise ToolMissing(
                f"{library} cannot be used: {problem}",
                hint="it is part of the system of a Snapdragon device; on a PC take memfd",
            ) from problem
        wide = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_size_t)
        # Newer releases only; `rpcmem_alloc` counts with an int.
        self._alloc2 = self._function("rpcmem_alloc2", *wide) if hasattr(self._library, "rpcmem_alloc2") else None

    def allocate(self, size: int) -> tuple[Any, int]:
        """Memory of this size as an object whose end frees it, and its descriptor, which is freed with it."""
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
                f"rpcmem_to_fd knows no descriptor for the {size} bytes that rpcmem_alloc gave",
                hint="the device shares no memory with its Hexagon in this process: look into its log",
            )
        memory = (ctypes.c_ubyte * size).from_address(address)
        weakref.finalize(memory, self._free, address).atexit = False
        return memory, fd

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, arguments
        return function


@cache
def open_rpcmem(library: str = LIBRARY) -> Rpcmem:
    """The library, opened once; ToolMissing where there is none."""
    return Rpcmem(library)
