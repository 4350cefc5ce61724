"""The one place that starts programs: no shell, a process group of its own, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Completed:
    """What a program said and how it ended."""

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
) -> Completed:
    """Run a program to its end; `on_line` sees each line of its stdout as it comes, `keep` last lines are kept."""
    child = start(argv, cwd=cwd, env=env)
    out: deque[str] = deque(maxlen=keep)
    err: deque[str] = deque(maxlen=keep)

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
    ends_us = _end_on_sigterm()
    try:
        if timer:
            timer.start()
        assert child.stdout is not None
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
        reader.join(timeout=5)
        if ends_us:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return Completed(tuple(argv), child.returncode, "".join(out), "".join(err), timed_out.is_set())


def _end_on_sigterm() -> bool:
    """Let SIGTERM unwind the stack while a program runs, so that it is ended too; true where that was set."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return False

    def leave(_number: int, _frame: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)
    return True


def start(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a program in a process group of its own, its output piped; the caller ends it with `kill`."""
    return subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=None if env is None else {**os.environ, **env},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=tuple(pass_fds),
        start_new_session=True,
    )


def kill(child: subprocess.Popen[bytes]) -> None:
    """End a program and everything it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()
