"""Workers as forks of a process that has imported their modules: a start costs 20 ms of CPU time instead of 170.

Only the start differs.  A fork has the environment, folder, pipes, session and supervisor of the program that it
replaces, and no runtime library is loaded in it.  If a new program would read other settings at its start (LD_PRELOAD,
a limit of this process), the program itself is started.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import platform
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from udogen import process, supervisor

_MODULE = re.compile(r"supervise\(\)\nfrom (\S+) import main\n")
_READ_AT_START = re.compile(r"LD_|LC_|LANG|PYTHON|MALLOC|GLIBC|\w*SAN_|OMP_|OPENBLAS_NUM")
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine(), 0)  # the system call: os.fork has no flags
_CLONE_PARENT = 0x8000
_LARGEST = 1 << 20  # bytes of a request


def _taken_at_start(environment: dict[str, str]) -> tuple[object, object]:
    read = {name: value for name, value in environment.items() if _READ_AT_START.match(name)}
    return read, [resource.getrlimit(limit) for limit in _LIMITS]


class _Forks:
    """The connection of the tests to the process that forks."""

    def __init__(self) -> None:
        self._lock, self._owner, self._taken = threading.Lock(), os.getpid(), _taken_at_start(dict(os.environ))
        self._channel, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            root = Path(__file__).resolve().parents[1]
            argv = [sys.executable, "-m", "tests.worker_forks", str(far.fileno())]
            env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a fork would not have numpy's threads
            self._process = subprocess.Popen(argv, cwd=root, env=env, pass_fds=[far.fileno()])

    def start(self, module: str, cwd: str | None, env: dict[str, str] | None, files: list[int]) -> int:
        """Return the id of a new child of this process, or 0 if a new program is required."""
        environment = dict(os.environ) if env is None else env
        if os.getpid() != self._owner or _taken_at_start(environment) != self._taken:
            return 0
        with self._lock:
            try:
                socket.send_fds(self._channel, [pickle.dumps((module, cwd or os.getcwd(), environment))], files)
                return int(self._channel.recv(32) or 0)
            except OSError:
                return 0


def install() -> None:
    """Start workers of this process as forks from now on."""
    if not _CLONE:
        return
    forks = _Forks()
    start_program = process.Supervised._execute_child  # type: ignore[attr-defined]

    def start(
        self: Any, args: Any, executable: Any, preexec: Any, close: Any, kept: Any, cwd: Any, env: Any, *rest: Any
    ) -> None:
        pipes = rest[3:9]  # the ends of stdin, stdout and stderr, alternately for the child and for this process
        found = _MODULE.search(args[2]) if len(args) == 4 and args[:2] == [sys.executable, "-c"] else None
        if found and (pid := forks.start(found[1], cwd, env, [pipes[0], pipes[3], pipes[5], *kept])):
            self.pid, self._child_created = pid, True
            self._close_pipe_fds(*pipes)
        else:
            start_program(self, args, executable, preexec, close, kept, cwd, env, *rest)

    process.Supervised._execute_child = start  # type: ignore[attr-defined]


# --- in the process that forks ------------------------------------------------------------------------------------


def _serve(requests: socket.socket) -> str:
    """Fork at each request; return in the forks, with the module whose `main` they call."""
    libc = ctypes.CDLL(None)
    while True:
        data, files, _, _ = socket.recv_fds(requests, _LARGEST, 4)
        if not data:
            os._exit(0)
        # A child of the tests' process, which waits for it.  The supervisor forks again, through the C library.
        pid = libc.syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
        if pid:
            requests.send(str(max(pid, 0)).encode())
            for file in files:
                os.close(file)
            continue
        module, cwd, environment = pickle.loads(data)
        requests.close()
        os.setsid()
        for number, each in enumerate(files[:3]):
            os.dup2(each, number)
            os.close(each)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["-c", str(files[3])]
        return str(module)


def main() -> None:
    """Import the modules, fork, and run the workers in the forks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path = [entry for entry in sys.path if entry]
    import gc
    import importlib

    for module in ("numpy", "udogen.runtime.worker.main"):
        importlib.import_module(module)
    assert os.listdir("/proc/self/task") == [str(os.getpid())], "a fork would miss the other threads"
    gc.collect()
    gc.freeze()
    module = _serve(socket.socket(fileno=int(sys.argv[1])))
    supervisor.supervise()
    importlib.import_module(module).main()


if __name__ == "__main__":
    main()
