"""Messages and buffers arrive as they were sent, however the pipe cuts them."""

from __future__ import annotations

import os
import threading
import time

import pytest

from udogen.runtime.wire import Wire


def test_messages_larger_than_a_pipe_and_smaller_than_a_read() -> None:
    read_fd, write_fd = os.pipe()
    wire = Wire(read_fd, write_fd)
    big = os.urandom(3_000_000)
    sent = [({"n": 0}, []), ({"n": 1, "text": "é\n"}, [b"", b"\n\n"]), ({"n": 2}, [big, b"x"])]
    thread = threading.Thread(target=lambda: [wire.send(message, buffers) for message, buffers in sent])
    thread.start()
    received = [wire.receive(time.monotonic() + 10) for _ in sent]
    thread.join()
    assert [(message, [bytes(each) for each in buffers]) for message, buffers in received] == sent
    wire.close()


def test_silence_and_the_end_are_two_things() -> None:
    read_fd, write_fd = os.pipe()
    spare = os.open(os.devnull, os.O_WRONLY)
    wire = Wire(read_fd, spare)
    with pytest.raises(TimeoutError):
        wire.receive(time.monotonic() + 0.05)
    os.close(write_fd)
    with pytest.raises(EOFError):
        wire.receive(time.monotonic() + 5)
    wire.close()
