"""The process between udogen and a program that runs a user's code: nothing that the program starts outlives it.

It is a child subreaper: processes that leave the program's session or outlive the program become its children, and it
ends them.  It imports little, because every such program waits for its imports.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Callable

PID = struct.Struct("=i")  # its first message over the tie: the process id of the program
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # what ends a command from outside
_SECONDS = 4.0  # to end the remaining processes; the parent waits a little longer


def supervise() -> None:
    """Return in a child process, the program; this process waits, ends what remains, and exits as the program did.

    The standard input is the tie, a socket: when its other end closes, all processes are ended.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    supervisor = os.getpid()
    program = os.fork()
    if program:
        _wait(program)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(1)
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def continue_apart(ended: Callable[[int, int], None]) -> None:
    """Return in a child process, which continues; this one waits for it, calls `ended`, and exits as the child did.

    `ended` is called with the process id of the child and its wait status.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*ENDS, signal.SIGCHLD})
    child, how = os.fork(), None
    if not child:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # as its parent, see `process.leaving_none`
        return
    while how is None:
        got = signal.sigwaitinfo({*ENDS, signal.SIGCHLD})
        if got.si_signo != signal.SIGCHLD:
            if got.si_code <= 0:  # not by the terminal, which signals to the child too
                os.kill(child, got.si_signo)
        elif os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            how = os.waitpid(child, 0)[1]
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    ended(child, how)
    _exit_as(how)


def main() -> None:
    """Supervise the program that the arguments name."""
    supervise()
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as fault:
        sys.stderr.write(f"{sys.argv[1]}: {fault.strerror}\n")
        sys.stderr.flush()
    os._exit(127)


def _wait(program: int) -> None:
    """Wait for the program or for the other end of the tie; does not return."""
    tie = 0
    for fd in [int(name) for name in os.listdir("/proc/self/fd") if int(name) != tie]:
        try:
            os.close(fd)  # the program's pipes must close when it ends
        except OSError:
            pass
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        os.write(tie, PID.pack(program))
    except OSError:
        pass  # the parent has ended
    poll = select.poll()
    poll.register(tie, select.POLLIN)
    poll.register(woken, select.POLLIN)
    how: int | None = None
    while how is None:
        how = _reap(program)[1]
        if how is None:
            ready = [fd for fd, _ in poll.poll()]
            if tie in ready:
                break
            os.read(woken, 4096)
    how = end_all(program, how)
    _exit_as(signal.SIGKILL if how is None else how)


def _reap(program: int) -> tuple[bool, int | None]:
    """Whether any child remains, and the wait status of the program, if it has ended."""
    how = None
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True, how
            if pid == program:
                how = status
    except ChildProcessError:
        return False, how


def end_all(program: int, how: int | None) -> int | None:
    """End the program, if it is running, and all children of this process; returns the program's wait status."""
    until = time.monotonic() + _SECONDS
    if how is None:
        _kill(program, group=True)
    while True:
        some, ended = _reap(program)
        how = ended if how is None else how
        if not some or time.monotonic() > until:
            return how
        for pid in _children():  # their children become children of this process in the next round
            _kill(pid)
        time.sleep(0.001)


def _kill(pid: int, *, group: bool = False) -> None:
    try:
        (os.killpg if group else os.kill)(pid, signal.SIGKILL)
    except OSError:  # it has ended, has no group yet, or runs as another user
        pass


def _children() -> list[int]:
    me = os.getpid()
    try:
        return [int(pid) for pid in _read(f"/proc/{me}/task/{me}/children").split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return [int(name) for name in os.listdir("/proc") if name.isdecimal() and _parent(name) == me]


def _parent(pid: str) -> int:
    try:
        stat = _read(f"/proc/{pid}/stat")
    except OSError:
        return 0
    return int(stat.rpartition(b")")[2].split()[1])


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _exit_as(how: int) -> None:
    """End as the program did, by the same signal or with the same code."""
    if os.WIFSIGNALED(how):
        number = os.WTERMSIG(how)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # only the program's own core dump is useful
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pause()
    os._exit(os.waitstatus_to_exitcode(how))
