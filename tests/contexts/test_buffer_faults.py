"""Memory faults, injected one at a time: each has its error message, the graph next to it keeps working, nothing leaks.

On the HTP emulator.  Faults that may end a process (limits, signals, a second process) are tested in child processes.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.contexts.adding import X, expected, run
from tests.contexts.conftest import nothing_left, refuses
from tests.making import ROOT
from udogen import UdogenError
from udogen.runtime import Buffer, Context, QnnError, Runtime
from udogen.runtime.buffers import buffer as buffer_module
from udogen.runtime.buffers.plan import PlannedBuffers, plan_buffers


@dataclass
class World:
    """A context with a graph that keeps running next to the fault."""

    runtime: Runtime
    context: Context
    stored: bytes
    patch: pytest.MonkeyPatch

    def plan(self) -> Any:
        return plan_buffers(0, self.context.info.graphs, shared=True, packed=True)

    def error(self, call: Callable[[], object]) -> UdogenError:
        """Return the error that a call raises."""
        with pytest.raises(UdogenError) as caught:
            call()
        assert (caught.value.hint or isinstance(caught.value, QnnError)) and caught.value.exit_code in (2, 3, 5)
        return caught.value


@pytest.fixture
def world(htp: Runtime, stored: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with nothing_left():
        with htp.restore(stored, name="m") as context:
            yield World(htp, context, stored, monkeypatch)
            monkeypatch.undo()
            if context.handle.raw is not None:
                np.testing.assert_array_equal(run(context, "two"), expected(X))
        assert not buffer_module._entries


# --- closing: twice, too early, too late ------------------------------------------------------------------------------


def test_freed_by_a_thread_while_another_executes(world: World) -> None:
    """The execution completes first; the next one is refused."""
    graph = world.context.graph("one")
    for _ in range(20):
        with PlannedBuffers(world.plan()) as buffers:
            buffers.bind(graph)
            graph.array("x")[:] = X
            [buffer] = buffers.buffers.values()
            messages, running = list[str](), threading.Event()

            def work(messages: list[str] = messages, running: threading.Event = running) -> None:
                def execute() -> None:
                    while True:
                        graph.execute()
                        running.set()

                messages.append(world.error(execute).message)

            thread = threading.Thread(target=work)
            thread.start()
            assert running.wait(10)
            buffer.close()
            thread.join(10)
            assert messages == ["graph `one` has no memory for `y`, `x`: buffer `shard 0` was closed"]


def test_the_runtime_ends_first(world: World) -> None:
    with Runtime("htp", runtime="emulator") as runtime:
        context = runtime.restore(world.stored)
        buffers = PlannedBuffers(world.plan())
        buffers.bind(context.graph("one"))
    buffers.close()


# --- the runtime refuses ----------------------------------------------------------------------------------------------


def test_registration_interrupted(world: World) -> None:
    class Interrupted(buffer_module.MemoryHandle):
        def __init__(self, *args: Any, **named: Any) -> None:
            if named["shared"].offset:
                raise KeyboardInterrupt
            super().__init__(*args, **named)

    world.patch.setattr(buffer_module, "MemoryHandle", Interrupted)
    with PlannedBuffers(world.plan()) as buffers:
        with pytest.raises(KeyboardInterrupt):
            buffers.bind(world.context.graph("one"))
        assert len(world.context.registrations) == 0 and not buffer_module._entries


def test_deregistration_fails(world: World) -> None:
    """The others are deregistered all the same, and the first error is raised."""
    ended = []

    class Failing(buffer_module.MemoryHandle):
        def close(self) -> None:
            handle, first = self.raw, not ended
            ended.append(handle)
            super().close()
            if handle is not None and first:
                raise QnnError("memDeRegister", 8001)

    world.patch.setattr(buffer_module, "MemoryHandle", Failing)
    buffers = PlannedBuffers(world.plan())
    buffers.bind(world.context.graph("one"))
    message = world.error(buffers.close).message
    assert message.startswith("memDeRegister failed with 8001") and len(ended) == 2
    assert all(buffer.closed for buffer in buffers.buffers.values())


# --- no memory --------------------------------------------------------------------------------------------------------


def test_no_memory_to_map_what_was_made(world: World) -> None:
    def fail(*_args: Any, **_named: Any) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    world.patch.setattr(mmap, "mmap", fail)
    for call in (lambda: Buffer("memfd", 64, name="b"), lambda: Buffer("client", 64, name="b")):
        assert world.error(call).message.endswith("Cannot allocate memory")
    with open("/dev/zero", "r+b", buffering=0) as file:
        refuses(
            lambda: Buffer("file", 8, fd=file.fileno(), name="p"),
            "buffer `p` cannot be allocated: 8 bytes of file memory: Cannot allocate memory",
        )


def test_no_seals(world: World) -> None:
    """The file already exists when sealing fails: it is closed again."""

    def fail(*_args: Any) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    world.patch.setattr(fcntl, "fcntl", fail)
    refuses(
        lambda: Buffer("memfd", 64, name="b"),
        "buffer `b` cannot be allocated: 64 bytes of memfd memory: Invalid argument",
    )


def child(program: str, *, limit: tuple[int, int] | None = None, **named: Any) -> subprocess.CompletedProcess[str]:
    """Run a program with the allocators in a child process, under a limit."""
    prelude = (
        "import os, sys\n"
        "from udogen.errors import UdogenError\n"
        "from udogen.runtime import Buffer\n"
        "Buffer('client', 64).close()\n"
        "def report(call):\n"
        "    try:\n"
        "        call()\n"
        "    except UdogenError as error:\n"
        "        print(error.message)\n"
    )
    before = None if limit is None else f"import resource\nresource.setrlimit({limit[0]}, ({limit[1]}, {limit[1]}))\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + (before or "") + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        **named,
    )


LIMITS = {  # limit -> program, the lines that it prints
    (resource.RLIMIT_AS, 2**30): (
        "for kind in ('client', 'memfd'): report(lambda: Buffer(kind, 2**31, name='b'))\n"
        "report(lambda: Buffer('ashmem', 2**31, name='p'))\n"
        "print(len(Buffer('memfd', 4096).view), len(os.listdir('/proc/self/fd')))",
        [
            "buffer `b` cannot be allocated: 2147483648 bytes of client memory: Cannot allocate memory",
            "buffer `b` cannot be allocated: 2147483648 bytes of memfd memory: Cannot allocate memory",
            "buffer `p` cannot be allocated: 2147483648 bytes of ashmem memory: Cannot allocate memory",
            "4096 4",
        ],
    ),
    (resource.RLIMIT_NOFILE, 32): (
        "kept = []\n"
        "report(lambda: [kept.append(Buffer('memfd', 64, name='b')) for _ in range(100)])\n"
        "print(0 < len(kept) < 32)\n"
        "kept.clear()\n"
        "print(Buffer('memfd', 64).size)",
        ["buffer `b` cannot be allocated: 64 bytes of memfd memory: Too many open files", "True", "64"],
    ),
    (resource.RLIMIT_FSIZE, 4096): (
        "report(lambda: Buffer('memfd', 2**20, name='b'))",
        ["buffer `b` cannot be allocated: 1048576 bytes of memfd memory: File too large"],
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_out_of_memory(limit: tuple[int, int]) -> None:
    program, lines = LIMITS[limit]
    done = child(program, limit=limit)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == lines


# --- a second process -------------------------------------------------------------------------------------------------


def test_a_second_process_writes(world: World) -> None:
    with PlannedBuffers(world.plan()) as buffers:
        graph = world.context.graph("one")
        buffers.bind(graph)
        place, [buffer] = buffers.plan.of(0, "one")[0], buffers.buffers.values()
        fd = buffer.descriptor()
        done = child(
            f"import numpy as np\n"
            f"with Buffer('file', 192, fd={fd}, offset={place.offset}) as pool:\n"
            f"    np.frombuffer(pool.view, np.float32)[:] = range(48)\n",
            pass_fds=(fd,),
        )
        assert done.returncode == 0, done.stderr
        graph.execute()
        np.testing.assert_array_equal(graph.array("y"), expected(X))
