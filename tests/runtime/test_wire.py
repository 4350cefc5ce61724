"""Messages and buffers arrive as they were sent, however the pipe cuts them."""

from __future__ import annotations

import os
import struct
import threading
import time
import zlib

import pytest

from udogen.runtime.wire import Garbled, Wire


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


def frames(*messages: dict, buffers: tuple[bytes, ...] = ()) -> bytes:
    """What a wire writes."""
    read_fd, write_fd = os.pipe()
    sender = Wire(os.open(os.devnull, os.O_RDONLY), write_fd)
    for message in messages:
        sender.send(message, buffers)
    sender.close()
    with open(read_fd, "rb") as stream:
        return stream.read()


def received(data: bytes, count: int = 1) -> list[tuple[dict, list[bytearray]]]:
    read_fd, write_fd = os.pipe()
    os.write(write_fd, data)
    wire = Wire(read_fd, write_fd)
    try:
        return [wire.receive(time.monotonic() + 0.2) for _ in range(count)]
    finally:
        wire.close()


def head(text: bytes, *, number: int = 1, length: int | None = None, checksum: int | None = None) -> bytes:
    crc = zlib.crc32(text) if checksum is None else checksum
    return struct.pack("<8sIII", b"\x89udogen<", number, len(text) if length is None else length, crc) + text


GARBAGE = {
    "a byte in front": b"x" + frames({"n": 1}),
    "a line of JSON": b'{"event": "done", "sizes": []}\n' + frames({"n": 1}),
    "a longer text": b"z" * 5000,
    "a byte in the JSON": (good := frames({"text": "abcdef"}))[:30] + b"x" + good[30:],
    "bytes in a buffer": (good := frames({"n": 1}, buffers=(b"0123456789",)))[:-15] + b"xy" + good[-15:],
    "a byte between two frames": frames({"n": 1}) + b"\0" + frames({"n": 2}),
    "a frame twice": frames({"n": 1}) * 2,
    "a wrong checksum": head(b'{"sizes": []}', checksum=1),
    "a length beyond all": head(b"{}", length=0xFFFFFFFF),
    "no JSON": head(b"{"),
    "nested without end": head(b"[" * 60_000),
    "a list": head(b"[]"),
    "no sizes": head(b"{}"),
    "a negative size": head(b'{"sizes": [-1]}'),
    "a size beyond all": head(b'{"sizes": [1e999]}'),
    "a size that is true": head(b'{"sizes": [true]}'),
    "sizes that are a text": head(b'{"sizes": "12"}'),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=list(GARBAGE))
def test_what_is_no_message_is_noticed(data: bytes) -> None:
    with pytest.raises(Garbled):
        received(data, 2)


def test_frames_are_numbered() -> None:
    assert [message for message, _ in received(frames({"n": 1}, {"n": 2}), 2)] == [{"n": 1}, {"n": 2}]
