"""100,000 executions by four threads in three contexts, packages and memory registered in between: nothing grows."""

from __future__ import annotations

import mmap
import os
import re
import subprocess
import sys

import pytest

from tests.contexts.stepping import BACKENDS, array, binary, open_runtime
from tests.making import LONG, ROOT

ALLOWED = 2 << 20


def soak(backend: str, kind: str, executions: int) -> dict[str, list[int]]:
    """Return the measurements of `soaking.py`: resident bytes and open files, at each tenth."""
    open_runtime(backend, kind).close()  # skips the test if it is not installed
    done = subprocess.run(
        [sys.executable, "-m", "tests.contexts.soaking", backend, kind, str(executions)],
        cwd=ROOT,
        # One arena: otherwise those of threads are created one by one, whenever threads happen to collide.
        env={**os.environ, "PYTHONPATH": str(ROOT), "MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = re.findall(r"^soak (\d+) (\d+) (\d+)$", done.stdout, re.M)
    columns = zip(*(map(int, row) for row in rows), strict=True)
    return dict(zip(("executions", "rss", "fds"), map(list, columns), strict=True))


@pytest.mark.parametrize(("backend", "kind"), BACKENDS, ids=["-".join(row) for row in BACKENDS])
def test_nothing_grows(backend: str, kind: str) -> None:
    found = soak(backend, kind, 100_000)
    warm = slice(5, None)  # everything that is allocated once exists after half of them
    print(f"\n{backend} {kind}: {[round(each / 2**20, 1) for each in found['rss']]} MiB, {found['fds']} files")
    assert found["executions"][-1] >= 100_000
    assert len(set(found["fds"][warm])) == 1
    assert max(found["rss"][warm]) - min(found["rss"][warm]) <= ALLOWED


def test_resident_memory_is_that_of_this_process() -> None:
    """The soak test would detect a leak."""
    from tests.contexts.soaking import resident

    before = resident()
    with mmap.mmap(-1, 16 << 20) as kept:  # separate pages: the heap may have free ones
        kept.write(b"x" * len(kept))
        assert resident() - before >= len(kept) // 2


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_contexts_that_come_and_go_leave_nothing(backend: str) -> None:
    from tests.contexts.soaking import resident

    sizes = []
    with open_runtime(backend, "emulator") as runtime:
        for turn in range(400):
            with runtime.restore(binary(backend, "emulator")) as context:
                context.graph("step")(state=array(1), x=array(2))
            if turn % 100 == 99:
                sizes.append(resident())
    assert max(sizes[1:]) - min(sizes[1:]) <= ALLOWED
