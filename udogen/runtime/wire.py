"""How parent and worker talk: a line of JSON, then the bytes it announces; no pickle."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]


class Wire:
    """One end of the conversation, on two file descriptors of its own."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._pending = bytearray()
        self._poll = select.poll()
        self._poll.register(read_fd, select.POLLIN)

    def send(self, message: Message, buffers: Sequence[Any] = ()) -> None:
        """Write a message and its buffers."""
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        head = json.dumps({**message, "sizes": [len(view) for view in views]}) + "\n"
        for view in (memoryview(head.encode()), *views):
            rest = view
            while rest:
                rest = rest[os.write(self._write_fd, rest) :]

    def receive(self, deadline: float | None = None) -> tuple[Message, list[bytearray]]:
        """The next message; EOFError when the other end is gone, TimeoutError after the deadline."""
        while (end := self._pending.find(b"\n")) < 0:
            self._fill(deadline)
        message = json.loads(self._pending[:end])
        del self._pending[: end + 1]
        return message, [self._take(size, deadline) for size in message.pop("sizes")]

    def close(self) -> None:
        """Close both directions."""
        os.close(self._read_fd)
        os.close(self._write_fd)

    def _take(self, size: int, deadline: float | None) -> bytearray:
        while len(self._pending) < size:
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
