"""A context of one gigabyte, restored by a client in C and by ours: what the library takes, and what we add to it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contexts import c_client
from tests.contexts.large import GRAPH
from tests.making import LONG, ROOT, need_runtime
from udogen.runtime import find_runtime

MEGABYTES = 1024
NEEDS = 4500  # megabytes of memory to make it (seen: 4.3 GB); restoring takes 2.2 GB


def available() -> int:
    """Megabytes that processes may still take."""
    lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) // 1024


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The context binary."""
    need_runtime("htp")
    room = tmp_path_factory.mktemp("large")
    disk = shutil.disk_usage(room).free >> 20
    if available() < NEEDS or disk < 2 * MEGABYTES:
        pytest.skip(f"{available()} MB of memory and {disk} MB of disk are too little for a context of {MEGABYTES} MB")
    place = room / "large.bin"
    argv = [sys.executable, "-m", "tests.contexts.large", place, str(MEGABYTES)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr[-2000:]
    assert place.stat().st_size > MEGABYTES << 20
    return place


@pytest.mark.slow
def test_restoring_a_gigabyte_takes_what_the_library_takes(large: Path, tmp_path: Path) -> None:
    runtime = find_runtime("htp", kind="real").path
    client = c_client.build(tmp_path)
    theirs = c_client.run([client], large, runtime=runtime, graph=GRAPH, loops=0, room=tmp_path)
    ours = c_client.run(c_client.PYTHON, large, runtime=runtime, graph=GRAPH, loops=0, room=tmp_path)
    print(f"\npeak {ours.peak:.0f} MB, a client in C {theirs.peak:.0f} MB; start to first execution "
          f"{ours.start:.2f} s, in C {theirs.start:.2f} s")  # fmt: skip
    assert theirs.peak > 2 * MEGABYTES, "the library holds the binary and its own copy"
    assert ours.peak <= 1.1 * theirs.peak
    assert ours.peak - theirs.peak <= 50, "megabytes: the interpreter, numpy and all of ours"
