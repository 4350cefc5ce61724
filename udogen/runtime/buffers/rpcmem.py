"""The memory of Qualcomm's devices that CPU and Hexagon share: rpcmem_… of libcdsprpc.so (shared-buffer tutorial)."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed, ToolMissing

if TYPE_CHECKING:
    from udogen.runtime.buffers.buffer import Buffer

LIBRARY = "libcdsprpc.so"
HEAP_ID_SYSTEM, DEFAULT_FLAGS = 25, 1
CDSP, FASTRPC_MAP_FD = 3, 2  # the Hexagon that runs HTP; a mapping that lives until it is ended
_LARGEST_INT = 2**31 - 1
_MAP = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int)
_UNMAP = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)


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

    def map(self, fd: int, address: int, size: int, *, domain: int) -> None:
        """Let a processor see a buffer (fastrpc_mmap)."""
        call = self._function("fastrpc_mmap", ctypes.c_int, *_MAP)
        if code := call(domain, fd, address, 0, size, FASTRPC_MAP_FD):
            raise RunFailed(
                f"fastrpc_mmap of descriptor {fd} failed with {code & 0xFFFFFFFF:#x}",
                hint="look into the device's log: the processor may be without memory, or the descriptor no DMA buffer",
            )

    def unmap(self, fd: int, address: int, size: int, *, domain: int) -> None:
        """End that (fastrpc_munmap)."""
        self._function("fastrpc_munmap", ctypes.c_int, *_UNMAP)(domain, fd, address, size)

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, arguments
        return function


@cache
def open_rpcmem(library: str = LIBRARY) -> Rpcmem:
    """The library, opened once; ToolMissing where there is none."""
    return Rpcmem(library)


@contextmanager
def mapped_to_hexagon(buffer: Buffer, *, domain: int = CDSP) -> Iterator[None]:
    """Let code of your own on a Hexagon see a buffer; QNN maps what is registered with it by itself."""
    fd, library = buffer.descriptor(), open_rpcmem()
    let_go = buffer.hold("fastrpc_mmap")
    try:
        if buffer.is_reserved:
            raise RunFailed(
                f"buffer `{buffer.name}` cannot be mapped by fastrpc_mmap: its contents are QNN's",
                hint="allocate another one",
            )
        library.map(fd, buffer.address, buffer.size, domain=domain)
        buffer.fastrpc += 1
        try:
            yield
        finally:
            buffer.fastrpc -= 1
            library.unmap(fd, buffer.address, buffer.size, domain=domain)
    finally:
        let_go()
