"""How parent and worker talk: frames of JSON, each followed by the bytes that it announces; no pickle.

An op can write to every descriptor of the process that it runs in.  So a frame begins with a mark, its number and a
checksum of its JSON, and ends with the number and another mark: bytes of somebody else in front of a frame, or in the
middle of one, are noticed (`Garbled`), and never taken for a message.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
import zlib
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]

_HEAD = struct.Struct("<8sIII")  # the mark, the number of the frame, how many bytes of JSON, their CRC-32
_TAIL = struct.Struct("<I8s")  # the number of the frame, the other mark
_BEGIN, _END = b"\x89udogen<", b">udogen\x98"
_LONGEST = 1 << 28  # bytes of JSON
_LARGEST = 1 << 40  # bytes of a buffer


class Garbled(Exception):
    """What came is no message of the other end."""


class Wire:
    """One end of the conversation, on two file descriptors of its own."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._pending = bytearray()
        self._sent = self._received = 0
        self._poll = select.poll()
        self._poll.register(read_fd, select.POLLIN)

    def send(self, message: Message, buffers: Sequence[Any] = ()) -> None:
        """Write a message and its buffers."""
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        text = json.dumps({**message, "sizes": [len(view) for view in views]}).encode()
        number = self._sent = self._sent + 1 & 0xFFFFFFFF
        head = _HEAD.pack(_BEGIN, number, len(text), zlib.crc32(text)) + text
        for view in (memoryview(head), *views, memoryview(_TAIL.pack(number, _END))):
            rest = view
            while rest:
                rest = rest[os.write(self._write_fd, rest) :]

    def receive(self, deadline: float | None = None) -> tuple[Message, list[bytearray]]:
        """The next message.

        EOFError when the other end is gone, TimeoutError after the deadline, Garbled where it is no message.
        """
        self._received = self._received + 1 & 0xFFFFFFFF
        mark, number, length, checksum = _HEAD.unpack(self._take(_HEAD.size, deadline, _BEGIN))
        if mark != _BEGIN or number != self._received or length > _LONGEST:
            raise Garbled("other bytes came where a message should begin")
        text = self._take(length, deadline)
        if zlib.crc32(text) != checksum:
            raise Garbled("other bytes came in the middle of a message")
        message = _parsed(text)
        buffers = [self._take(size, deadline) for size in message.pop("sizes")]
        if _TAIL.unpack(self._take(_TAIL.size, deadline)) != (number, _END):
            raise Garbled("other bytes came in the middle of a message")
        return message, buffers

    def close(self) -> None:
        """Close both directions."""
        os.close(self._read_fd)
        os.close(self._write_fd)

    def _take(self, size: int, deadline: float | None, mark: bytes = b"") -> bytearray:
        while len(self._pending) < size:
            if not mark.startswith(bytes(self._pending[: len(mark)])):
                raise Garbled("other bytes came where a message should begin")  # more may never come
            self._fill(deadline)
        taken = self._pending[:size]
        del self._pending[:size]
        return taken

    def _fill(self, deadline: float | None) -> None:
        wait = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        if not self._poll.poll(wait):
            raise TimeoutError
        chunk = os.read(self._read_fd, 1 << 20)
        if not chunk:
            raise EOFError
        self._pending += chunk


def _parsed(text: bytearray) -> Message:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise Garbled(f"a message is no JSON: {fault}") from fault
    sizes = message.get("sizes") if isinstance(message, dict) else None
    if not isinstance(sizes, list) or not all(type(size) is int and 0 <= size <= _LARGEST for size in sizes):
        raise Garbled("a message does not say which buffers follow")
    return dict(message)
