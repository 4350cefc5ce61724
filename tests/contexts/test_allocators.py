"""Buffers: where their memory comes from, and how it is released.  rpcmem is tested with a stand-in libcdsprpc.so."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.contexts.conftest import lines_of, refused, resources, stand_in
from tests.making import ROOT
from udogen import RunFailed, ToolMissing, UsageError
from udogen.runtime import Buffer
from udogen.runtime.buffers import memory
from udogen.runtime.buffers.memory import shared_allocator

HERE = ("client", "memfd")  # available on every Linux machine


@pytest.mark.parametrize("kind", HERE)
@pytest.mark.parametrize("alignment", [1, 64, 128, 4096])
def test_memory_is_aligned_zero_and_writable(tidy: None, kind: str, alignment: int) -> None:
    with Buffer(kind, 1001, alignment=alignment, name="x") as buffer:
        assert buffer.address % alignment == 0
        assert (buffer.size, len(buffer.view), buffer.kind, buffer.alignment) == (1001, 1001, kind, alignment)
        array = np.frombuffer(buffer.view, np.uint8)
        assert not array.any() and array.flags.writeable
        assert array.__array_interface__["data"][0] == buffer.address
        array[:] = 7
        assert bytes(buffer.view[999:]) == b"\7\7"
        del array
    assert buffer.closed


def test_a_memfd_is_shared_and_stays_as_long_as_it_is(tidy: None) -> None:
    with Buffer("memfd", 4096) as buffer:
        fd = buffer.descriptor()
        assert not os.get_inheritable(fd)
        os.pwrite(fd, b"seen", 100)
        assert bytes(buffer.view[100:104]) == b"seen"
        for size in (0, 8192):  # otherwise another owner of it could end this process with SIGBUS
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)


def test_client_memory_has_no_descriptor() -> None:
    with Buffer("client", 64, name="x") as buffer:
        assert buffer.fd is None
        with pytest.raises(RunFailed) as caught:
            buffer.descriptor()
    assert caught.value.message == "buffer `x` is client memory: it has no file descriptor to register"


@pytest.mark.parametrize("kind", HERE)
def test_arrays_outlive_the_buffer_and_the_bytes_go_with_the_last(kind: str) -> None:
    before = resources()
    buffer = Buffer(kind, 4096)
    array = np.frombuffer(buffer.view, np.float32)[3:]
    assert buffer.exported
    array[0] = 2.5
    buffer.close()
    buffer.close()
    assert buffer.closed and array[0] == 2.5
    del array
    assert resources() == before


def test_a_buffer_that_was_forgotten_is_closed(tidy: None) -> None:
    def forget() -> None:
        Buffer("memfd", 4096)

    forget()


def test_what_is_held_is_not_closed(tidy: None) -> None:
    buffer = Buffer("memfd", 64, name="kv")
    first, second = buffer.hold("context `a`"), buffer.hold("context `b`")
    with refused("buffer `kv` cannot be closed: it is in use by context `a`, context `b`"):
        buffer.close()
    first()
    first()
    assert buffer.held_by == ("context `b`",)
    with pytest.raises(RunFailed), buffer:
        pass
    second()
    buffer.close()


def test_a_held_buffer_goes_with_its_last_holder_after_an_error(tidy: None) -> None:
    with pytest.raises(ZeroDivisionError), Buffer("memfd", 64) as buffer:
        let_go = buffer.hold("a context")
        raise ZeroDivisionError
    assert not buffer.closed
    let_go()
    assert buffer.closed


def test_reserved_bytes_are_seen_by_nobody() -> None:
    with Buffer("memfd", 64, name="w") as buffer:
        view = buffer.view
        with refused(
            "buffer `w` cannot become the external weights buffer of `m`: arrays or views of its bytes are alive"
        ):
            buffer.reserve("external weights buffer of `m`")
        view.release()
        del view
        end = buffer.reserve("external weights buffer of `m`")
        with refused("buffer `w` belongs to QNN: it is the external weights buffer of `m`"):
            _ = buffer.view
        end()
        assert len(buffer.view) == 64


def test_a_closed_buffer_is_reported() -> None:
    buffer = Buffer("client", 64, name="x")
    buffer.close()
    assert repr(buffer) == "<Buffer x (client): closed>"
    for use in (
        lambda: buffer.view,
        lambda: buffer.fd,
        buffer.descriptor,
        lambda: buffer.hold("y"),
        lambda: buffer.reserve("y"),
        buffer.__enter__,
    ):
        with refused("buffer `x` is closed"):
            use()


def test_what_is_no_buffer() -> None:
    for alignment in (0, -64, 3, 96, 8192):
        with refused(f"buffers cannot be aligned to {alignment} bytes", error=UsageError):
            Buffer("client", 64, alignment=alignment)
    for size in (0, -1):
        with refused(f"buffer `x` cannot have {size} bytes", error=UsageError):
            Buffer("memfd", size, name="x")
    with refused("there is no memory of kind `ion`", error=UsageError):
        Buffer("ion", 64)


def test_shared_memory_is_that_of_the_machine() -> None:
    with Buffer("shared", 64) as buffer:
        assert buffer.kind == shared_allocator().allocator and buffer.fd is not None


@pytest.mark.parametrize("kind", HERE)
@pytest.mark.parametrize("size", [2**46 + 2**60, 2**63 - 1])
def test_more_memory_than_there_is(tidy: None, kind: str, size: int) -> None:
    with pytest.raises(RunFailed) as caught:
        Buffer(kind, size, name="big")
    assert caught.value.message.startswith(f"buffer `big` cannot be allocated: {size} bytes of {kind} memory: ")


# --- rpcmem -------------------------------------------------------------------------------------------------------


def test_rpcmem_is_asked_as_the_tutorial_does(tidy: None, device: ctypes.CDLL) -> None:
    with Buffer("rpcmem", 5000, alignment=128) as buffer:
        os.pwrite(buffer.descriptor(), b"by the device", 4096)
        assert bytes(buffer.view[4096:4109]) == b"by the device"
    assert lines_of(device) == ["rpcmem_alloc(25, 1, 5000)", "rpcmem_to_fd", "rpcmem_free"]


def test_rpcmem_is_freed_with_the_last_array(tidy: None, device: ctypes.CDLL) -> None:
    with Buffer("rpcmem", 4096) as buffer:
        array = np.frombuffer(buffer.view, np.uint8)
        assert buffer.exported
    assert "rpcmem_free" not in lines_of(device)
    array[0] = 1
    del array
    assert lines_of(device)[-1] == "rpcmem_free"


def test_rpcmem_of_more_than_an_int(tidy: None, device: ctypes.CDLL) -> None:
    with Buffer("rpcmem", 2**31 + 4096) as buffer:
        buffer.view[2**31] = 9
    assert lines_of(device)[0] == "rpcmem_alloc2(25, 1, 2147487744)"


def test_rpcmem_of_an_old_system_ends_at_an_int(tmp_path: Path) -> None:
    old = memory.Rpcmem(str(stand_in(tmp_path, "cdsprpc.c", "libold.so", "-DOLD")))
    with refused(
        "rpcmem_alloc cannot allocate 2147483648 bytes: its size is an int, and libcdsprpc.so has no rpcmem_alloc2"
    ):
        old.allocate(2**31)


def test_rpcmem_without_memory_or_descriptor(tidy: None, device: ctypes.CDLL) -> None:
    device.stand_in_limit(0)
    with refused("rpcmem_alloc has no 4096 bytes (heap 25)"):
        Buffer("rpcmem", 4096)
    device.stand_in_limit(-1)
    device.stand_in_blind(1)
    with refused("rpcmem_to_fd has no descriptor for 4096 bytes from rpcmem_alloc"):
        Buffer("rpcmem", 4096)
    assert lines_of(device)[-1] == "rpcmem_free"


def test_the_descriptor_zero_is_one(device: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that closed its standard input gets it."""
    opened = memory.open_rpcmem()
    monkeypatch.setattr(opened, "_to_fd", lambda _address: 0)
    assert opened.allocate(4096)[1] == 0


def test_code_of_ones_own_on_a_hexagon_sees_a_buffer_for_a_while(tidy: None, device: ctypes.CDLL) -> None:
    with Buffer("rpcmem", 4096, name="x") as buffer:
        with buffer.mapped_to_hexagon():
            assert buffer.fastrpc == 1
            with refused("buffer `x` cannot be closed: it is in use by fastrpc_mmap"):
                buffer.close()
        assert lines_of(device)[2:] == ["fastrpc_mmap(3, 0, 4096, 2)", "fastrpc_munmap(3, 4096)"]
        device.stand_in_blind(1)
        with (
            refused(f"fastrpc_mmap of descriptor {buffer.fd} failed with 0x8000040d"),
            buffer.mapped_to_hexagon(),
        ):
            pass
        assert not buffer.fastrpc and not buffer.held_by


def test_a_library_that_is_no_libcdsprpc() -> None:
    with pytest.raises(ToolMissing) as caught:
        memory.Rpcmem("libc.so.6")
    assert caught.value.message.startswith("libc.so.6 cannot be used: ")


def test_the_machine_chooses(rpcmem_library: Path) -> None:
    """In child processes, because a library that was opened once stays loaded."""
    program = "from udogen.runtime.buffers.memory import shared_allocator; print(*shared_allocator(), sep='|')"
    answers = []
    for folder in ("", str(rpcmem_library.parent)):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "LD_LIBRARY_PATH": folder},
            capture_output=True,
            text=True,
        )
        answers.append(done.stdout.strip())
    assert answers[0].startswith("memfd|libcdsprpc.so cannot be used: ")
    assert answers[1] == "rpcmem|libcdsprpc.so is present"
