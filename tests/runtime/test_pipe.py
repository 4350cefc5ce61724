"""If an op damages any descriptor of its process, the parent raises an error that names the op."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from probe import X, call

from tests.making import ROOT
from udogen import RunFailed, UdogenError, UsageError
from udogen.errors import of_json, of_limit
from udogen.runtime import OpCrashed, Scalar
from udogen.runtime.channel import Done, Failed, Quit
from udogen.runtime.failures import Situation
from udogen.runtime.ops import OpSession
from udogen.runtime.package_queries import LibraryLocated, LocateLibrary, ask
from udogen.runtime.worker_process import _KEPT_BYTES, WorkerProcess, _Tail


def scribble(size: int, first: int = 3) -> tuple[Scalar, ...]:
    return Scalar("bytes", "UINT_32", size), Scalar("first", "UINT_32", first)


@pytest.mark.parametrize("size", [1, 7, 20, 4096])
def test_an_op_that_writes_to_every_descriptor(session: OpSession, size: int) -> None:
    with pytest.raises(OpCrashed, match="op `Scribble` wrote to a file descriptor that is not its own") as caught:
        session.run(call("Scribble", params=scribble(size)))
    assert caught.value.exit_code == 5
    assert "`execute`" in caught.value.message
    assert np.array_equal(session.run(call("AddOne")).outputs["y"], X + 1)


def test_stdout_and_stderr_are_chatter_and_no_messages(session: OpSession) -> None:
    with pytest.raises(OpCrashed, match="op `Scribble` wrote"):
        session.run(call("Scribble", params=scribble(64, first=1)))


def test_small_numbers_are_not_those_of_the_channel(session: OpSession) -> None:
    session.run(call("AddOne"))
    links = Path(f"/proc/{session.pid}/fd")
    ways = [int(each.name) for each in links.iterdir() if os.readlink(each).startswith(("pipe:", "socket:", "/memfd"))]
    assert not [way for way in ways if 2 < way < 128]


def test_an_op_that_pretends_to_be_the_watching_library(session: OpSession) -> None:
    with pytest.raises(OpCrashed, match="crashed with SIGABRT"):
        session.run(call("Pretend"))


def test_a_crash_outside_of_the_package(session: OpSession) -> None:
    with pytest.raises(OpCrashed, match="crashed with SIGABRT") as caught:
        session.run(call("CrashElsewhere"))
    assert caught.value.hint == "it crashed in /nowhere/libOther.so, and no function of the op package was active"


def test_an_op_that_closes_every_descriptor(session: OpSession) -> None:
    with pytest.raises(OpCrashed, match="op `Close` closed a file descriptor that is not its own"):
        session.run(call("Close"))
    assert np.array_equal(session.run(call("AddOne")).outputs["y"], X + 1)


@dataclass(frozen=True)
class Dance:
    """A command that the worker does not have."""

    steps: int = 1


def test_an_unknown_command_is_an_error_and_not_the_end() -> None:
    with pytest.raises(UdogenError, match="does not understand a command: `Dance` is unknown"):
        ask(Dance(), Done, Situation("x.so"), 20)
    worker = WorkerProcess("udogen.runtime.worker.query_worker")
    try:
        failed = worker.ask(Dance(), Done)
        assert isinstance(failed, Failed)
        assert "`Dance` is unknown" in failed.message
        found = worker.ask(LocateLibrary("libc.so.6"), LibraryLocated)
        assert isinstance(found, LibraryLocated)
        assert found.path
    finally:
        worker.end()


_LIMITED = """
import resource, sys
kind, value, library = getattr(resource, sys.argv[1]), int(sys.argv[2]), sys.argv[3]
from udogen.cli import main
resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))
sys.argv[1:] = ["run", "op", library, "AddOne", "--input", "x=x.npy"]
main.main()
"""


@pytest.mark.parametrize(
    ("kind", "value"),
    [("NOFILE", 6), ("NOFILE", 10), ("NOFILE", 14), ("AS", 60 << 20), ("AS", 170 << 20)],
)
def test_limits_of_the_shell(probe: Path, kind: str, value: int, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, f"RLIMIT_{kind}", str(value), str(probe)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode in (0, 3, 5), done.stderr
    assert done.returncode == 0 or "ulimit" in done.stderr, done.stderr
    assert "internal error" not in done.stderr


def test_a_worker_that_is_dying_ends_by_itself_and_leaves_nothing_open(tmp_path: Path) -> None:
    dying = "import os, sys, time\ndef main():\n    os.close(int(sys.argv[1]))\n    time.sleep(0.5)\n    sys.exit(7)\n"
    (tmp_path / "dying.py").write_text(dying)
    before = len(os.listdir("/proc/self/fd"))
    worker = WorkerProcess("dying", env={"PYTHONPATH": str(tmp_path)})
    with pytest.raises(EOFError):
        worker.ask(Quit(), Done)
    assert worker.end(10) == 7
    assert len(os.listdir("/proc/self/fd")) == before


def test_limits_are_known_by_their_kind_and_not_by_their_words() -> None:
    assert isinstance(of_limit(MemoryError()), RunFailed)
    assert isinstance(of_limit(OSError(errno.EMFILE, "anything")), RunFailed)
    assert of_limit(OSError(errno.ENOENT, "Too many open files")) is None
    assert of_limit(RuntimeError("can't start new thread")) is None


def test_errors_keep_everything_on_their_way() -> None:
    row = {**UsageError("what", hint="do this", details=["one", "two"]).as_json(), "exit_code": 2}
    found = of_json(row)
    assert type(found) is UsageError
    assert str(found) == "what\n  one\n  two\n  = do this"
    assert type(of_json({**row, "kind": "of a module that is not loaded", "exit_code": 5})) is RunFailed


@pytest.mark.parametrize("chunks", [[10], [16_384], [16_385], [65_536] * 4, [1_000_000, 5]])
def test_only_the_last_bytes_of_what_an_op_prints_are_kept(chunks: list[int]) -> None:
    reading, writing = os.pipe()
    tail = _Tail(os.fdopen(reading, "rb"))
    printed = b"".join(bytes([97 + number]) * size for number, size in enumerate(chunks))
    with os.fdopen(writing, "wb") as stream:
        stream.write(printed)
    tail.join()
    assert tail.lines() == [printed[-_KEPT_BYTES:].decode()]
