"""Programs that a child of udogen starts end with it, daemons too; programs of others do not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from probe import PROVIDER, alive, call

from udogen import process
from udogen.runtime import OpCrashed, Scalar
from udogen.runtime.ops import OpSession

# Leaves its session, is an orphan, and writes its process id.
DAEMON = '(setsid sh -c "sleep 600 & echo \\$! > {file}; wait" >/dev/null 2>&1 &) ; while [ ! -s {file} ]; do :; done;'


def ends(pid: int, seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(pid)


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[int]:
    """A daemon that the user's shell has started."""
    subprocess.run(["sh", "-c", DAEMON.format(file=tmp_path / "neighbour")], check=True, start_new_session=True)
    pid = int((tmp_path / "neighbour").read_text())
    yield pid
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("end", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", -11), ("kill -KILL 0", -9)])
def test_a_daemon_ends_with_its_program(tmp_path: Path, neighbour: int, end: str, code: int) -> None:
    file = tmp_path / "daemon"
    done = process.run(["sh", "-c", DAEMON.format(file=file) + "echo printed; " + end], starting=process.supervised)
    assert (done.returncode, done.stdout) == (code, "printed\n")
    assert not alive(int(file.read_text()))


def test_a_program_that_is_stopped_takes_its_daemon_along(tmp_path: Path) -> None:
    file = tmp_path / "daemon"
    done = process.run(["sh", "-c", DAEMON.format(file=file) + "sleep 600"], starting=process.supervised, timeout=2)
    assert done.timed_out and done.returncode == -9
    assert not alive(int(file.read_text()))


def test_a_program_that_is_missing(tmp_path: Path) -> None:
    done = process.run([str(tmp_path / "none")], starting=process.supervised)
    assert done.returncode == 127 and "No such file" in done.stderr


def daemon_of(session: OpSession) -> int:
    return int(session.run(call("Daemon")).outputs["y"][0, 0])


def test_the_daemon_of_an_op_ends_with_its_session(probe: Path, neighbour: int) -> None:
    with OpSession(probe, PROVIDER, timeout=20) as session:
        pid = daemon_of(session)
        assert alive(pid)
        assert session.run(call("AddOne")).outputs["y"][0, 0] == np.float32(1)
    assert not alive(pid)


def test_the_daemon_of_an_op_that_crashes(probe: Path) -> None:
    with OpSession(probe, PROVIDER, timeout=20) as session:
        with pytest.raises(OpCrashed) as caught:
            session.run(call("Daemon", params=(Scalar("crash", "FLOAT_32", 1.0),)))
        [printed] = [line for line in caught.value.details if "daemon " in line]
        assert not alive(int(printed.rpartition("daemon ")[2].split()[0]))


def test_the_daemon_of_an_op_ends_when_we_are_killed(probe: Path) -> None:
    program = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from probe import *
        from udogen.runtime.ops import OpSession
        with OpSession(Path({str(probe)!r}), PROVIDER) as session:
            print(int(session.run(call("Daemon")).outputs["y"][0, 0]), session.pid, flush=True)
            session.run(call("Spin"))
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True) as ours:
        assert ours.stdout is not None
        pids = [int(each) for each in ours.stdout.readline().split()]
        assert len(pids) == 2 and all(map(alive, pids))
        ours.kill()
    assert all(map(ends, pids))
