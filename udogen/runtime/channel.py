"""The channel between a parent and its worker: commands and replies are dataclasses, tensors are in shared memory.

A message is a frame on a socket: a pickle, and the descriptors of the memory that it refers to.  An op can write to
every descriptor of its process, so a frame begins with a mark and its number, and ends with the number and another
mark: foreign bytes before or inside a frame move its end, and so are detected (`Garbled`).

Shared memory has no name: it is freed when no process maps it any more, even if the processes crash.
"""

from __future__ import annotations

import ctypes
import fcntl
import io
import mmap
import os
import pickle
import resource
import select
import socket
import struct
import sys
import time
import weakref
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, is_dataclass
from math import prod
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from udogen.runtime.arguments import array_type, wholes

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

_Message = TypeVar("_Message")

_HEAD = struct.Struct("<8sIII")  # the mark, the number of the frame, of bytes of the pickle, of descriptors
_TAIL = struct.Struct("<I8s")  # the number of the frame, the other mark
_BEGIN, _END = b"\x89udogen<", b">udogen\x98"
_LONGEST = 1 << 28  # maximum bytes of a pickle
_LONGEST_WAIT = 2_000_000.0  # seconds; poll counts milliseconds in 31 bits
_MOST_MEMORIES = 64  # maximum number that one message refers to
_SHORT = 4096  # maximum number of bytes that are in the message itself

GUARD = 2048  # unused bytes before and after each block
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW if hasattr(fcntl, "F_SEAL_GROW") else 0x2 | 0x4
_F_ADD_SEALS, _F_GET_SEALS = 1033, 1034


class Garbled(Exception):
    """The received bytes are not a message of the other end."""


class UnknownMessage(Garbled):
    """The received message is not one that this end understands."""


# --- messages that every worker sends or accepts ----------------------------------------------------------------------


@dataclass(frozen=True)
class Quit:
    """A command: free everything and end."""


@dataclass(frozen=True)
class Done:
    """The reply to a command that returns nothing."""


@dataclass(frozen=True)
class LogLine:
    """A log line of the runtime or the op package; level 1 is an error, 2 a warning, 3 information.

    `print([line.text for line in result.logs if line.level == 1])`
    """

    level: int
    text: str
    source: str = "runtime"


class Region(NamedTuple):
    """The place of a tensor's data in the worker: an address, or a number among the watched copies."""

    name: str
    role: str  # input, output or parameter
    size: int
    address: int = 0
    number: int = -1


@dataclass(frozen=True)
class Phase:
    """What the worker does next, and the memory of its tensors if that is watched."""

    name: str
    regions: tuple[Region, ...] | None = None


@dataclass(frozen=True)
class Failed:
    """A reply: the command failed, with an error of this class; `function` and `code` are those of the QNN API."""

    kind: str
    exit_code: int
    message: str
    hint: str = ""
    details: tuple[str, ...] = ()
    function: str = ""
    code: int = 0


# --- shared memory ----------------------------------------------------------------------------------------------------


class Block(NamedTuple):
    """A part of shared memory, with the guards around it."""

    data: memoryview
    before: memoryview
    behind: memoryview
    memory: SharedMemory
    offset: int


class SharedMemory:
    """Memory that two processes can map; it is unmapped when no block of it is in use."""

    def __init__(self, fd: int, size: int, *, private: bool = False) -> None:
        self._view, self.address = _mapped(fd, size, private=private)
        self.size = size
        self.fd = fd

    @classmethod
    def of_sizes(cls, sizes: Sequence[int]) -> list[Block]:
        """Allocate one shared memory with a block for each size."""
        offsets, end = [], 0
        for size in sizes:
            offset, end = _place(size, end)
            offsets.append(offset)
        fd = _new_memory(end)
        try:
            memory = cls(fd, end)
        except BaseException:
            os.close(fd)
            raise
        return [memory.block(offset, size) for offset, size in zip(offsets, sizes, strict=True)]

    @classmethod
    def received(cls, fd: int) -> SharedMemory:
        """Memory that the other end allocated; writes here are not visible there."""
        if fcntl.fcntl(fd, _F_GET_SEALS) & _SEALS != _SEALS:
            raise Garbled("memory was received that its sender can still shrink")
        memory = cls(fd, os.fstat(fd).st_size, private=True)
        memory.fd = -1  # the caller closes it
        return memory

    def block(self, offset: int, size: int) -> Block:
        """A part of it."""
        view, end = self._view, offset + size
        return Block(view[offset:end], view[max(0, offset - GUARD) : offset], view[end : end + GUARD], self, offset)

    def close(self) -> None:
        """Close its descriptor; the memory stays mapped."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = close


def _place(size: int, end: int) -> tuple[int, int]:
    """The offset of a new block after `end`, on a page and with guards around it, and the new end."""
    offset = -(-(end + GUARD) // mmap.PAGESIZE) * mmap.PAGESIZE
    return offset, offset + size + GUARD


def _new_memory(size: int) -> int:
    fd = out_of_the_way(os.memfd_create("udogen", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, _F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _mapped(fd: int, size: int, *, private: bool) -> tuple[memoryview, int]:
    """The memory of a descriptor, which need not stay open, and its address; private writes are not shared."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    flags = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    content = (ctypes.c_char * size).from_address(address)
    weakref.finalize(content, libc.munmap, address, size).atexit = False
    return memoryview(content).cast("B"), address


class _Place(NamedTuple):
    """The place of an array in shared memory."""

    fd: int
    offset: int
    nbytes: int


_arrays: dict[int, _Place] = {}  # made by `shared_array`, by address


def shared_array(shape: Sequence[int], dtype: Any) -> Array:
    """A new array of zeros in memory that a worker can map, so that it is not copied as an input of an op.

    `x = shared_array((1, 8), "float32")`
    """
    import numpy as np

    kind = array_type(dtype, "the type of a shared array", kinds="biufV")
    shape = wholes(shape, "the shape of a shared array")
    [block] = SharedMemory.of_sizes([prod(shape) * kind.itemsize])
    memory, address = block.memory, block.memory.address + block.offset
    _arrays[address] = _Place(memory.fd, block.offset, block.data.nbytes)
    memory.fd = -1
    weakref.finalize(block.data.obj, _forget, address).atexit = False
    array: Array = np.frombuffer(block.data, kind).reshape(shape)
    return array


def _forget(address: int) -> None:
    os.close(_arrays.pop(address).fd)


def _place_of(value: Any) -> _Place | None:
    """The place of a block or a `shared_array` in shared memory; None for other values."""
    if isinstance(value, Block):
        return _Place(value.memory.fd, value.offset, value.data.nbytes)
    if not hasattr(value, "__array_interface__") or not value.flags.c_contiguous:
        return None
    place = _arrays.get(value.__array_interface__["data"][0])
    return place if place is not None and place.nbytes == value.nbytes else None


def out_of_the_way(fd: int) -> int:
    """Move a descriptor to a high number, which ops do not use by accident, and which is not inherited."""
    highest = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096)
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(highest - 64, fd))
    except OSError:  # the limit is too low
        os.set_inheritable(fd, False)
        return fd
    os.close(fd)
    return moved


# --- messages as bytes ------------------------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Encodes one message, and collects the memory that it refers to."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=5)
        numpy = sys.modules.get("numpy")
        self._data = (Block, memoryview, *([numpy.ndarray, numpy.generic] if numpy else []))
        self.descriptors: list[int] = []
        self.loose: list[tuple[int, memoryview]] = []  # (offset, data) to copy to shared memory
        self.end = 0  # of the memory for that data, the last memory of the message
        self._places: set[_Place] = set()  # that the message refers to

    def persistent_id(self, value: Any) -> tuple[int, int, int, bool] | None:
        """The place of data in shared memory, and whether it is received as bytes; None for all other values."""
        is_bytes = type(value) is bytes and len(value) > _SHORT
        if not is_bytes and (not isinstance(value, self._data) or isinstance(value, (float, str))):
            return None
        if (place := _place_of(value)) and self._refer_to(place):
            return self.descriptors.index(place.fd), place.offset, place.nbytes, False
        view = value.data if isinstance(value, Block) else _bytes_of(value)
        offset, self.end = _place(view.nbytes, self.end)
        self.loose.append((offset, view))
        return -1, offset, view.nbytes, is_bytes

    def reducer_override(self, value: Any) -> Any:
        """Classes derived from numbers and texts, as float64 of numpy, are sent as the plain ones."""
        if isinstance(value, (int, float, str)):
            plain = next(kind for kind in (bool, int, float, str) if isinstance(value, kind))
            return plain, (plain(value),)
        return NotImplemented

    def _refer_to(self, place: _Place) -> bool:
        """Whether the message can refer to this memory; otherwise the data is copied.

        A block, with its guards, belongs to one tensor; a message refers to at most _MOST_MEMORIES descriptors.
        """
        if place in self._places:
            return False
        if place.fd not in self.descriptors:
            if len(self.descriptors) == _MOST_MEMORIES - 1:  # the last one is for copies
                return False
            self.descriptors.append(place.fd)
        self._places.add(place)
        return True


def _bytes_of(value: Any) -> memoryview:
    """The bytes of an array or a buffer, copied only if they are not contiguous."""
    if hasattr(value, "__array_interface__"):
        import numpy as np  # already loaded; memoryview supports neither float16 nor empty arrays

        value = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return memoryview(value).cast("B")


class _Unpickler(pickle.Unpickler):
    """Decodes one message.  It calls nothing but the classes of messages and paths, so foreign bytes do no harm."""

    def __init__(self, data: bytes | bytearray, memories: Sequence[SharedMemory]) -> None:
        super().__init__(io.BytesIO(data))
        self._memories = memories

    def find_class(self, module: str, name: str) -> Any:
        """A dataclass, a named tuple, or a path, of a module that is loaded already."""
        value = getattr(sys.modules.get(module), name, None)
        if isinstance(value, type) and (
            is_dataclass(value) or hasattr(value, "_fields") or issubclass(value, (PurePath, int, float, str))
        ):
            return value
        raise UnknownMessage(f"`{name}` is unknown")

    def persistent_load(self, place: Any) -> Block | bytes:
        """The data at a place in the memory that was sent with the message."""
        if isinstance(place, tuple) and [type(part) for part in place] == [int, int, int, bool]:
            index, offset, size, is_bytes = place
            if -1 <= index < len(self._memories) and self._memories:
                memory = self._memories[index]
                if min(offset, size) >= 0 and offset + size <= memory.size:
                    block = memory.block(offset, size)
                    return bytes(block.data) if is_bytes else block
        raise Garbled("a message refers to memory that was not sent with it")


# --- frames on a socket -----------------------------------------------------------------------------------------------


class Channel:
    """One end of the channel, on a stream socket."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._pending = bytearray()
        self._descriptors: list[int] = []  # received with bytes that are not decoded yet
        self._sent = self._received = 0
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def send(self, message: Any) -> None:
        """Write a message: a dataclass whose fields may be arrays and buffers."""
        stream = io.BytesIO()
        pickler = _Pickler(stream)
        pickler.dump(message)
        with ExitStack() as stack:
            descriptors = pickler.descriptors
            if pickler.loose:
                descriptors.append(_filled(pickler.end, pickler.loose))
                stack.callback(os.close, descriptors[-1])
            number = self._sent = self._sent + 1 & 0xFFFFFFFF
            head = _HEAD.pack(_BEGIN, number, stream.tell(), len(descriptors))
            rest = memoryview(head + stream.getvalue() + _TAIL.pack(number, _END))
            if descriptors:
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))
                rest = rest[self._socket.sendmsg([rest], [rights]) :]
            while rest:
                rest = rest[self._socket.send(rest) :]

    def receive(self, expected: Sequence[type[_Message]], deadline: float | None = None) -> _Message:
        """The next message, which must be of one of the expected classes.

        Raises EOFError when the other end is closed, TimeoutError after the deadline, UnknownMessage for another class,
        Garbled for anything else.
        """
        pickled, memories = self._frame(deadline)
        try:
            message: _Message = _Unpickler(pickled, memories).load()
        except (Garbled, MemoryError):
            raise
        except Exception as fault:  # of foreign bytes
            raise Garbled(f"a message cannot be decoded: {fault}") from fault
        if type(message) not in expected:
            raise UnknownMessage(f"`{type(message).__name__}` is unknown")
        return message

    def close(self) -> None:
        """Close it, and the descriptors that were received but not used."""
        self._socket.close()
        for fd in self._descriptors:
            os.close(fd)
        self._descriptors.clear()

    def _frame(self, deadline: float | None) -> tuple[bytearray, list[SharedMemory]]:
        self._received = self._received + 1 & 0xFFFFFFFF
        mark, number, length, count = _HEAD.unpack(self._take(_HEAD.size, deadline, _BEGIN))
        if mark != _BEGIN or number != self._received or length > _LONGEST:
            raise Garbled("foreign bytes were received before a message")
        pickled = self._take(length, deadline)
        if _TAIL.unpack(self._take(_TAIL.size, deadline)) != (number, _END):
            raise Garbled("foreign bytes were received inside a message")
        if count > len(self._descriptors):
            raise Garbled("a message was received without the memory that it refers to")
        memories = []
        for fd in [self._descriptors.pop(0) for _ in range(count)]:
            try:
                memories.append(SharedMemory.received(fd))
            finally:
                os.close(fd)
        return pickled, memories

    def _take(self, size: int, deadline: float | None, mark: bytes = b"") -> bytearray:
        while len(self._pending) < size:
            if not mark.startswith(bytes(self._pending[: len(mark)])):
                raise Garbled("foreign bytes were received before a message")  # more may never come
            self._fill(deadline)
        taken = self._pending[:size]
        del self._pending[:size]
        return taken

    def _fill(self, deadline: float | None) -> None:
        wait = None if deadline is None else min(max(0.0, deadline - time.monotonic()), _LONGEST_WAIT) * 1000
        if not self._poll.poll(wait):
            raise TimeoutError
        space = socket.CMSG_SPACE(_MOST_MEMORIES * array("i").itemsize)
        try:
            chunk, ancillary, _, _ = self._socket.recvmsg(1 << 20, space, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            chunk, ancillary = b"", []
        for _level, _kind, rights in ancillary:
            descriptors = array("i")
            descriptors.frombytes(rights[: len(rights) - len(rights) % descriptors.itemsize])
            self._descriptors += descriptors
        if not chunk:
            raise EOFError
        self._pending += chunk


def _filled(size: int, buffers: Sequence[tuple[int, memoryview]]) -> int:
    """The descriptor of new memory that holds these buffers at their offsets."""
    fd = _new_memory(size)
    try:
        for offset, view in buffers:
            done = 0
            while done < view.nbytes:
                done += os.pwrite(fd, view[done:], offset + done)
    except BaseException:
        os.close(fd)
        raise
    return fd
