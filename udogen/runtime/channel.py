"""The channel between a parent and its worker: commands and replies are dataclasses, tensors are in shared memory.

A message is a frame on a socket: JSON, and the descriptors of the memory that it refers to.  An op can write to every
descriptor of its process, so a frame begins with a mark and its number, and ends with the number and a second mark:
foreign bytes before or inside a frame move its end, and so are detected (`Garbled`).

Shared memory has no name: it is freed when no process maps it any more, even if the processes crash.
"""

from __future__ import annotations

import collections.abc
import ctypes
import fcntl
import json
import mmap
import os
import resource
import select
import socket
import struct
import time
import types
import typing
import weakref
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Union, get_args, get_origin

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

_Message = TypeVar("_Message")

_HEAD = struct.Struct("<8sII")  # the mark, the number of the frame, the size of the JSON in bytes
_TAIL = struct.Struct("<I8s")  # the number of the frame, the other mark
_BEGIN, _END = b"\x89udogen<", b">udogen\x98"
_LONGEST = 1 << 28  # maximum bytes of JSON
_LONGEST_WAIT = 2_000_000.0  # seconds; poll counts milliseconds in 31 bits
_MOST_MEMORIES = 64  # maximum number that one message refers to
_SEQUENCES = (tuple, collections.abc.Sequence)
_NO_MATCH = object()
_CLASS, _AT = "class", "at"  # the JSON keys of a dataclass, and of data in shared memory

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
            made = cls(fd, end)
        except BaseException:
            os.close(fd)
            raise
        return [made.block(offset, size) for offset, size in zip(offsets, sizes, strict=True)]

    @classmethod
    def received(cls, fd: int) -> SharedMemory:
        """Memory that the other end allocated; writes here are not visible there."""
        if fcntl.fcntl(fd, _F_GET_SEALS) & _SEALS != _SEALS:
            raise Garbled("memory was received that its sender can still shrink")
        found = cls(fd, os.fstat(fd).st_size, private=True)
        found.fd = -1  # the caller closes it
        return found

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

    kind = np.dtype(dtype)
    [block] = SharedMemory.of_sizes([prod(shape) * kind.itemsize])
    memory, address = block.memory, block.memory.address + block.offset
    _arrays[address] = _Place(memory.fd, block.offset, block.data.nbytes)
    memory.fd = -1
    weakref.finalize(block.data.obj, _forget, address).atexit = False
    found: Array = np.frombuffer(block.data, kind).reshape(shape)
    return found


def _forget(address: int) -> None:
    os.close(_arrays.pop(address).fd)


def _place_of(value: Any) -> _Place | None:
    """The place of a block or a `shared_array` in shared memory; None for other values."""
    if isinstance(value, Block):
        return _Place(value.memory.fd, value.offset, value.data.nbytes)
    if not hasattr(value, "__array_interface__") or not value.flags.c_contiguous:
        return None
    found = _arrays.get(value.__array_interface__["data"][0])
    return found if found is not None and found.nbytes == value.nbytes else None


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


# --- dataclasses as JSON ----------------------------------------------------------------------------------------------


class _Encoder:
    """Encodes one message as JSON values, and collects the memory that it refers to."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self.loose: list[tuple[int, memoryview]] = []  # (offset, data) to copy to shared memory
        self.end = 0  # of the memory for that data, the last memory of the message
        self._places: set[_Place] = set()  # that the message refers to

    def encode(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if (place := _place_of(value)) and self._refer_to(place):
            return {_AT: [self.descriptors.index(place.fd), place.offset, place.nbytes]}
        if is_dataclass(value) or hasattr(value, "_fields"):
            names = _names(value.__class__)
            return {_CLASS: type(value).__name__, **{name: self.encode(getattr(value, name)) for name in names}}
        if isinstance(value, collections.abc.Mapping):
            return {str(key): self.encode(each) for key, each in value.items()}
        if isinstance(value, (tuple, list)):
            return [self.encode(each) for each in value]
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        view = value.data if isinstance(value, Block) else _bytes_of(value)
        offset, self.end = _place(view.nbytes, self.end)
        self.loose.append((offset, view))
        return {_AT: [-1, offset, view.nbytes]}

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


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else kind._fields  # type: ignore[attr-defined]


@cache
def _types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


class _Decoder:
    """Converts JSON to values of the expected types."""

    def __init__(self, memories: Sequence[SharedMemory]) -> None:
        self._memories = memories

    def decode(self, expected: Any, value: Any) -> Any:
        origin, arguments = get_origin(expected), get_args(expected)
        if isinstance(value, dict) and value.keys() == {_AT} and {Any, bytes} & {expected, *arguments}:
            block = self._block(value[_AT])
            return bytes(block.data) if bytes in (expected, *arguments) else block
        if expected is Any:
            return value
        if origin in (Union, types.UnionType):
            return self.decode(_choice(arguments, value), value)
        found = self._plain(expected, value) if origin is None else self._container(origin, arguments, value)
        if found is _NO_MATCH:
            raise UnknownMessage(f"{_shown(value)} is not {getattr(expected, '__name__', expected)}")
        return found

    def _container(self, origin: Any, arguments: tuple[Any, ...], value: Any) -> Any:
        if origin in _SEQUENCES and isinstance(value, list):
            if arguments[-1:] == (...,) or origin is not tuple:
                arguments = (arguments[0],) * len(value)
            if len(arguments) == len(value):
                return tuple(self.decode(kind, each) for kind, each in zip(arguments, value, strict=True))
        elif origin in (dict, collections.abc.Mapping) and isinstance(value, dict):
            return {key: self.decode(arguments[1], each) for key, each in value.items()}
        return _NO_MATCH

    def _plain(self, expected: Any, value: Any) -> Any:
        if expected is Path and isinstance(value, str):
            return Path(value)
        if expected is float and type(value) in (int, float):
            return float(value)
        if isinstance(value, dict) and isinstance(expected, type) and value.get(_CLASS) == expected.__name__:
            return self._object(expected, value)
        return value if type(value) is expected or (value is None and expected is None) else _NO_MATCH

    def _object(self, kind: type, value: dict[str, Any]) -> Any:
        hints = _types(kind)
        names = _names(kind)
        if strange := [name for name in value if name not in names and name != _CLASS]:
            raise UnknownMessage(f"`{kind.__name__}` has no field `{strange[0]}`")
        if missing := [name for name in names if name not in value]:
            raise UnknownMessage(f"a `{kind.__name__}` came without its field `{missing[0]}`")
        found = {}
        for name in names:
            try:
                found[name] = self.decode(hints[name], value[name])
            except UnknownMessage as fault:
                raise UnknownMessage(f"`{kind.__name__}.{name}`: {fault}") from None
        return kind(**found)

    def _block(self, place: Any) -> Block:
        if isinstance(place, list) and len(place) == 3 and all(type(each) is int for each in place):
            index, offset, size = place
            if -1 <= index < len(self._memories) and self._memories:
                memory = self._memories[index]
                if min(offset, size) >= 0 and offset + size <= memory.size:
                    return memory.block(offset, size)
        raise Garbled("a message refers to memory that was not sent with it")


def _choice(kinds: Sequence[Any], value: Any) -> Any:
    """The one of several types that fits a value."""
    if value is None:
        return type(None)
    if isinstance(value, dict):
        named = [each for each in kinds if getattr(each, "__name__", "") == value.get(_CLASS)]
        return named[0] if named else next((each for each in kinds if get_origin(each) is not None), kinds[0])
    if isinstance(value, list):
        return next((each for each in kinds if get_origin(each) in _SEQUENCES), kinds[0])
    if type(value) in kinds:
        return type(value)
    wider = {int: float, str: Path}.get(type(value))
    return wider if wider in kinds else Any if Any in kinds else kinds[0]


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 60 else text[:57] + "..."


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
        encoder = _Encoder()
        encoded = encoder.encode(message)
        with ExitStack() as stack:
            descriptors = encoder.descriptors
            if encoder.loose:
                descriptors.append(_filled(encoder.end, encoder.loose))
                stack.callback(os.close, descriptors[-1])
            text = json.dumps([len(descriptors), encoded]).encode()
            number = self._sent = self._sent + 1 & 0xFFFFFFFF
            head = _HEAD.pack(_BEGIN, number, len(text))
            rest = memoryview(head + text + _TAIL.pack(number, _END))
            if descriptors:
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))
                rest = rest[self._socket.sendmsg([rest], [rights]) :]
            while rest:
                rest = rest[self._socket.send(rest) :]

    def receive(self, expected: Sequence[type[_Message]], deadline: float | None = None) -> _Message:
        """The next message, which must be of one of the expected classes.

        Raises EOFError when the other end is closed, TimeoutError after the deadline, UnknownMessage for another class
        or other fields, Garbled for anything else.
        """
        encoded, memories = self._frame(deadline)
        name = encoded.get(_CLASS) if isinstance(encoded, dict) else None
        kind = next((each for each in expected if each.__name__ == name), None)
        if kind is None:
            raise UnknownMessage(f"`{name}` is unknown" if isinstance(name, str) else "it has no class")
        found: _Message = _Decoder(memories).decode(kind, encoded)
        return found

    def close(self) -> None:
        """Close it, and the descriptors that were received but not used."""
        self._socket.close()
        for fd in self._descriptors:
            os.close(fd)
        self._descriptors.clear()

    def _frame(self, deadline: float | None) -> tuple[Any, list[SharedMemory]]:
        self._received = self._received + 1 & 0xFFFFFFFF
        mark, number, length = _HEAD.unpack(self._take(_HEAD.size, deadline, _BEGIN))
        if mark != _BEGIN or number != self._received or length > _LONGEST:
            raise Garbled("foreign bytes were received before a message")
        text = self._take(length, deadline)
        if _TAIL.unpack(self._take(_TAIL.size, deadline)) != (number, _END):
            raise Garbled("foreign bytes were received inside a message")
        try:
            count, encoded = json.loads(text)
        except (ValueError, TypeError, RecursionError) as fault:
            raise Garbled(f"a message is not valid JSON: {fault}") from fault
        if type(count) is not int or not 0 <= count <= len(self._descriptors):
            raise Garbled("a message was received without the memory that it refers to")
        memories = []
        for fd in [self._descriptors.pop(0) for _ in range(count)]:
            try:
                memories.append(SharedMemory.received(fd))
            finally:
                os.close(fd)
        return encoded, memories

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
