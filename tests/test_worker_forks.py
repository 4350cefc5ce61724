"""Workers of tests are forks, except if a new program would start differently."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from udogen.runtime.worker_process import WorkerProcess


@contextmanager
def worker(env: dict[str, str] | None = None) -> Iterator[WorkerProcess]:
    made = WorkerProcess(env=env)
    try:
        yield made
    finally:
        assert made.end() == -signal.SIGKILL


def is_fork(made: WorkerProcess) -> bool:
    return b"tests.worker_forks" in Path(f"/proc/{made.pid}/cmdline").read_bytes()


def test_a_fork_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UDOGEN_ANYTHING", "1")
    with worker() as first, worker({"QNN_SDK_ROOT": "/nowhere"}) as second:
        assert is_fork(first) and is_fork(second)


def test_what_a_start_reads_makes_it_a_program() -> None:
    with worker({"LD_BIND_NOW": "1"}) as made:
        assert not is_fork(made)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        with worker() as made:
            assert not is_fork(made)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
