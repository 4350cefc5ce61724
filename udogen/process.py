"""The only module that starts programs: without a shell, in a new process group, leaving no process behind."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from udogen.supervisor import PID

_Result = TypeVar("_Result")

_UNTIL_STARTED = 10.0  # seconds
_UNTIL_ENDED = 6.0
_TO_CLEAN_UP = 20.0
_ROOT = str(Path(__file__).resolve().parents[1])


def python_program(module: str, *, supervised: bool = False) -> str:
    """The program (`python -c`) that calls `main` of a module of udogen."""
    first = "from udogen.supervisor import supervise\nsupervise()" if supervised else ""
    # The empty entry is the current folder: a folder named udogen there must not be imported.
    return f"""
import sys
sys.path = [entry for entry in sys.path if entry]
if {_ROOT!r} not in sys.path:
    sys.path.insert(0, {_ROOT!r})
{first}
from {module} import main
main()
"""


@dataclass(frozen=True)
class Completed:
    """The output of a program, and how it ended."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    timeout: float | None = None,
    keep: int | None = None,
    starting: Callable[..., subprocess.Popen[bytes]] | None = None,
) -> Completed:
    """Run a program to its end; `on_line` gets each line of its stdout at once; `keep` limits output to the last lines.

    `starting` is what starts it: `start`, `Tied`, `supervised` or `graceful`.
    """
    child = (starting or start)(argv, cwd=cwd, env=env)
    out: deque[str] = deque(maxlen=keep)
    err: deque[str] = deque(maxlen=keep)

    assert child.stdout is not None and child.stderr is not None

    def drain() -> None:
        assert child.stderr is not None
        err.extend(line.decode("utf-8", "replace") for line in child.stderr)

    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    timed_out = threading.Event()

    def stop() -> None:
        timed_out.set()
        kill(child)

    timer = threading.Timer(timeout, stop) if timeout else None
    with _ended_by_sigterm():
        _running.add(child)
        try:
            if timer:
                timer.start()
            for raw in child.stdout:
                line = raw.decode("utf-8", "replace")
                out.append(line)
                if on_line:
                    on_line(line.rstrip("\n"))
            child.wait()
        finally:
            if timer:
                timer.cancel()
            kill(child)
            _running.discard(child)
            reader.join(timeout=5)
            if not reader.is_alive():  # now, not at garbage collection: tests count open files
                child.stdout.close()
                child.stderr.close()
    return Completed(tuple(argv), child.returncode, "".join(out), "".join(err), timed_out.is_set())


class _Child(subprocess.Popen[bytes]):
    """A program that needs more than SIGKILL to its process group when it ends."""

    def end(self) -> bool:
        """End it cleanly; False if `kill` must end the process group."""
        raise NotImplementedError

    def _ended(self, seconds: float) -> bool:
        try:
            self.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


class Tied(_Child):
    """A program that ends, with its process group, when this process ends, even by SIGKILL.

    The tie is a pipe that only this process holds open: when it closes, a background shell ends the group.
    """

    # The program replaces the first shell; the background shell has only the pipe open.
    _SCRIPT = 'exec 3<&0 </dev/null; { read -r _ <&3; kill -9 0; } >/dev/null 2>&1 & exec "$@" 3<&-'

    def __init__(self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        end, self._own = os.pipe()  # closed in every child except the one whose stdin it is
        try:
            super().__init__(["/bin/sh", "-c", self._SCRIPT, "sh", *argv], stdin=end, **_how(cwd, env))
        except BaseException:
            os.close(self._own)
            raise
        finally:
            os.close(end)

    def end(self) -> bool:
        """Close the tie."""
        own, self._own = self._own, -1
        if own >= 0:
            os.close(own)
        return False


_SUPERVISOR = (sys.executable, "-I", "-S", "-c", python_program("udogen.supervisor"))


class Supervised(_Child):
    """A supervisor and its program, which calls `supervisor.supervise()` first; `kill` ends both.

    A socket, the standard input of the supervisor, ties it to this process.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._program = 0
        self._tie, its = socket.socketpair()
        with its:
            try:
                super().__init__(list(argv), stdin=its.fileno(), **_how(cwd, env, pass_fds))
            except BaseException:
                self._tie.close()
                raise

    @property
    def program(self) -> int:
        """The process id of the program itself."""
        if not self._program:
            self._tie.settimeout(_UNTIL_STARTED)
            try:
                data = self._tie.recv(PID.size, socket.MSG_WAITALL)
            except OSError:  # closed, or no reply
                data = b""
            self._program = PID.unpack(data)[0] if len(data) == PID.size else self.pid
        return self._program

    def end(self) -> bool:
        """Make the supervisor end all its processes."""
        try:
            self._tie.shutdown(socket.SHUT_RDWR)  # a forked process may have the socket open, too
        except OSError:
            pass
        self._tie.close()
        return self._ended(_UNTIL_ENDED)


def supervised(argv: Sequence[str], **options: Any) -> Supervised:
    """Start a program that does not call `supervise` itself: all processes it starts, even daemons, end with it."""
    return Supervised([*_SUPERVISOR, *argv], **options)


class _Graceful(_Child):
    """A program that cleans up when it gets SIGTERM."""

    def end(self) -> bool:
        """Send SIGTERM."""
        self.terminate()
        return self._ended(_TO_CLEAN_UP)


def graceful(argv: Sequence[str], *, cwd: Path | None, env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    """Start a program to which `kill` first sends SIGTERM, with time to clean up."""
    return _Graceful(list(argv), stdin=subprocess.DEVNULL, **_how(cwd, env))


_running: set[subprocess.Popen[bytes]] = set()  # programs of `run` in all threads


def at_once(calls: Sequence[Callable[[], _Result]], workers: int) -> list[_Result]:
    """The results of functions that run programs, several at a time; an interrupt ends all those programs.

    The first failure in the order of the functions is raised, after the started ones have ended.
    """
    if workers < 2 or len(calls) < 2:
        return [call() for call in calls]
    from concurrent.futures import ThreadPoolExecutor

    with _ended_by_sigterm(), ThreadPoolExecutor(min(workers, len(calls))) as pool:
        futures = [pool.submit(call) for call in calls]
        try:
            return [future.result() for future in futures]
        except BaseException as fault:
            pool.shutdown(wait=False, cancel_futures=True)
            while not isinstance(fault, Exception) and not all(future.done() for future in futures):
                for child in list(_running):
                    kill(child)
                time.sleep(0.01)  # another may be starting
            raise


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the stack while programs run, so that they are ended too."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def leave(_number: int, _frame: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


SPARED = "UDOGEN_BUILD"  # in the environment of builds, whose daemons (sccache) may stay
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


@contextmanager
def leaving_none() -> Iterator[None]:
    """End the processes, daemons too, that code of the user starts in this process inside the block."""
    libc, before = ctypes.CDLL(None), set(_children())
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        until = time.monotonic() + _UNTIL_ENDED
        while (
            left := [pid for pid in _children() if pid not in before and _is_left(pid)]
        ) and time.monotonic() < until:
            for pid in left:  # their children become children of this process in the next round
                try:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                except OSError:
                    pass  # another thread has waited for it
        libc.prctl(_SUBREAPER, 0, 0, 0, 0)


def _children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended meanwhile
            found += map(int, task.read_text("ascii").split())
    return found


def _is_left(pid: int) -> bool:
    try:
        return f"{SPARED}=".encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False  # of another user, or gone


def start(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a new process group, with piped output; the caller ends it with `kill`."""
    return subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, **_how(cwd, env))


def _how(cwd: Path | None, env: Mapping[str, str] | None, pass_fds: Sequence[int] = ()) -> dict[str, Any]:
    return {
        "cwd": cwd,
        "env": None if env is None else {**os.environ, **env},
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "pass_fds": tuple(pass_fds),
        "start_new_session": True,
    }


def kill(child: subprocess.Popen[bytes]) -> None:
    """End a program and everything it started."""
    if isinstance(child, _Child) and child.end():
        return
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()
