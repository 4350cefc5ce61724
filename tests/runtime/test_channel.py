"""Messages arrive unchanged, with their memory; other data is detected."""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
import threading
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from udogen.runtime.channel import GUARD, Channel, Garbled, SharedMemory, UnknownMessage


class Pair(NamedTuple):
    left: int
    right: float


@dataclass(frozen=True)
class Text:
    text: str = ""


@dataclass(frozen=True)
class Everything:
    number: int
    real: float
    maybe: str | None
    path: Path | None
    pairs: tuple[Pair, ...]
    either: Text | Pair
    names: Mapping[str, int]
    plain: Any
    data: Any
    copied: bytes | None
    long: bytes
    scale: Any


def ends() -> tuple[Channel, Channel]:
    one, other = socket.socketpair()
    return Channel(one.detach()), Channel(other.detach())


def test_a_message_of_everything() -> None:
    one, other = ends()
    content = np.arange(6, dtype=np.float16).reshape(2, 3)
    pairs = (Pair(1, 2.0), Pair(3, float("inf")))
    sent = Everything(
        1,
        2,
        None,
        Path("/x"),
        pairs,
        Pair(4, 0.5),
        {"é\n": 7},
        {"a": [None, True]},
        content.T,
        b"",
        b"l" * 9999,
        np.float64(0.5),
    )
    one.send(sent)
    found = other.receive([Text, Everything], time.monotonic() + 10)
    assert found.data.data.tobytes() == content.T.tobytes()
    names = [name for name in Everything.__dataclass_fields__ if name != "data"]
    assert [getattr(found, name) for name in names] == [getattr(sent, name) for name in names]


def test_messages_larger_than_a_socket_holds() -> None:
    one, other = ends()
    sent = [Text("x" * n) for n in (0, 3_000_000, 1)]
    thread = threading.Thread(target=lambda: [one.send(each) for each in sent])
    thread.start()
    assert [other.receive([Text], time.monotonic() + 10) for _ in sent] == sent
    thread.join()


@dataclass(frozen=True)
class Blocks:
    blocks: tuple[Any, ...]


def test_shared_memory_is_not_copied_and_needs_no_descriptor_afterwards() -> None:
    one, other = ends()
    before = len(os.listdir("/proc/self/fd"))
    mine = SharedMemory.of_sizes([10_000, 0, 3])
    mine[0].data[:] = bytes(10_000)
    one.send(Blocks((*mine, memoryview(b"other"), np.empty(0, np.uint8))))
    theirs = other.receive([Blocks]).blocks
    mine[2].data[:] = b"new"
    assert [bytes(their.data) for their in theirs] == [bytes(10_000), b"", b"new", b"other", b""]
    assert len(theirs[1].before) == len(theirs[1].behind) == len(mine[2].before) == len(mine[0].behind) == GUARD
    theirs[0].data[0] = 1
    theirs[0].before[:] = b"g" * len(theirs[0].before)
    assert not any(mine[0].data), "what a receiver writes is its own"
    del mine
    assert bytes(theirs[2].data) == b"new"
    assert len(os.listdir("/proc/self/fd")) == before
    view = theirs[2].data
    del theirs
    assert bytes(view) == b"new"


def test_silence_and_the_end_are_two_things() -> None:
    one, other = ends()
    with pytest.raises(TimeoutError):
        one.receive([Text], time.monotonic() + 0.05)
    other.close()
    with pytest.raises(EOFError):
        one.receive([Text], time.monotonic() + 5)
    with pytest.raises(BrokenPipeError):
        one.send(Text())


def frames(*messages: Any) -> bytes:
    """Return the bytes that a channel writes."""
    ours, theirs = socket.socketpair()
    sender = Channel(theirs.detach())
    for message in messages:
        sender.send(message)
    sender.close()
    with ours:
        return b"".join(iter(lambda: ours.recv(1 << 16), b""))


def received(data: bytes, count: int = 1, *, fd: int | None = None) -> list[Text]:
    ours, theirs = socket.socketpair()
    with theirs:
        if fd is None:
            theirs.sendall(data)
        else:
            theirs.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [fd]))])
        channel = Channel(ours.detach())
        try:
            return [channel.receive([Text, Blocks], time.monotonic() + 0.2) for _ in range(count)]  # type: ignore[list-item]
        finally:
            channel.close()


def frame(text: bytes, *, number: int = 1, length: int | None = None, count: int = 0) -> bytes:
    head = struct.pack("<8sIII", b"\x89udogen<", number, len(text) if length is None else length, count)
    return head + text + struct.pack("<I8s", number, b">udogen\x98")


def blocks(count: int, *places: Any) -> bytes:
    class Placed(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return value if value in places else None

    stream = io.BytesIO()
    Placed(stream).dump(Blocks(places))
    return frame(stream.getvalue(), count=count)


GARBAGE = {
    "a byte in front": b"x" + frames(Text("1")),
    "a line": b'{"class": "Text"}\n' + frames(Text("1")),
    "a longer text": b"z" * 5000,
    "a byte in the pickle": (good := frames(Text("abcdef")))[:30] + b"x" + good[30:],
    "bytes at the end": (good := frames(Text("0123456789")))[:-9] + b"xy" + good[-9:],
    "a byte between two frames": frames(Text("1")) + b"\0" + frames(Text("2")),
    "a frame twice": frames(Text("1")) * 2,
    "a length beyond all": frame(b"{}", length=0xFFFFFFFF),
    "no pickle": frame(b"{"),
    "nothing": frame(b""),
    "nested without end": frame(b"(" * 60_000),
    "cut off": frame(pickle.dumps(Text("abcdef"))[:-3]),
    "memory that did not come": blocks(1, (0, 0, 1, False)),
    "a place without memory": blocks(0, (0, 0, 0, False)),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=list(GARBAGE))
def test_what_is_no_message_is_noticed(data: bytes) -> None:
    with pytest.raises(Garbled):
        received(data, 2)


@pytest.mark.parametrize("foreign", [b"x", b">udogen\x98"], ids=repr)
def test_foreign_bytes_anywhere_in_a_frame_are_noticed(foreign: bytes) -> None:
    good = frames(Text("abcdef"))
    for at in range(len(good)):
        if good[at:] + foreign != foreign + good[at:]:  # otherwise the frame is whole, and they follow it
            with pytest.raises((Garbled, TimeoutError, EOFError)):
                received(good[:at] + foreign + good[at:])


@pytest.mark.parametrize("place", [(0, 4096, 5000), (0, -1, 1), (0, 0, -1), (1, 0, 1), (-2, 0, 1), (0, 0), (0.0, 0, 1)])
def test_a_place_outside_of_the_memory(place: tuple[Any, ...]) -> None:
    [block] = SharedMemory.of_sizes([10])
    with pytest.raises(Garbled, match="memory that was not sent with it"):
        received(blocks(1, (*place, False)), fd=block.memory.fd)


def test_memory_that_its_sender_can_cut_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb+") as file:
        file.truncate(8192)
        with pytest.raises((Garbled, OSError)):
            received(blocks(1, (0, 0, 1, False)), fd=file.fileno())
    fd = os.memfd_create("cut", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 8192)
    with pytest.raises(Garbled, match="can still shrink"):
        received(blocks(1, (0, 0, 1, False)), fd=fd)
    os.close(fd)


class Loud:
    """A pickle of it calls a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.getpid, ()


def test_a_message_of_another_class_is_named() -> None:
    for message, name in ((Pair(1, 2.0), "Pair"), (Text, "type"), (["a list"], "list")):
        with pytest.raises(UnknownMessage, match=f"`{name}` is unknown"):
            received(frame(pickle.dumps(message)))


REFUSED = {"reduce": Loud(), "print": print, "system": os.system, "array": array("i"), "class": Channel}


@pytest.mark.parametrize("inside", REFUSED.values(), ids=REFUSED)
def test_a_message_that_calls_anything_else_is_refused(inside: object) -> None:
    with pytest.raises(UnknownMessage, match="is unknown"):
        received(frame(pickle.dumps(Blocks((inside,)))))
