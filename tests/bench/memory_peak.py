"""A program that watches how much memory two processes have together, until its input ends; prints the most of it."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def memory_of(pids: Sequence[int]) -> int:
    """The bytes that the processes have; what several share counts once (PSS)."""
    found = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:  # it has ended
            continue
        found += int(text.partition("\nPss:")[2].split()[0]) << 10
    return found


@contextmanager
def peak(pids: Sequence[int]) -> Iterator[list[int]]:
    """Gives a list; at the end the most that the processes had together, beyond what they began with, is in it."""
    before, found = memory_of(pids), list[int]()
    argv = [sys.executable, __file__, *map(str, pids)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as watcher:
        assert watcher.stdout is not None
        watcher.stdout.read(1)  # it has begun
        yield found
        output, _ = watcher.communicate()
    found.append(int(output) - before)


if __name__ == "__main__":
    sys.stdout.write(" ")
    sys.stdout.flush()
    most = 0
    while not select.select([sys.stdin], [], [], 0.001)[0]:
        most = max(most, memory_of([int(pid) for pid in sys.argv[1:]]))
    print(most)
