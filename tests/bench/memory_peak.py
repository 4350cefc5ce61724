"""A program that samples the total memory of two processes until its input ends, and prints the peak."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def memory_of(pids: Sequence[int]) -> int:
    """Return the memory of the processes in bytes; shared pages count once (PSS)."""
    found = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:  # the process has ended
            continue
        found += int(text.partition("\nPss:")[2].split()[0]) << 10
    return found


@contextmanager
def peak(pids: Sequence[int]) -> Iterator[list[int]]:
    """Yield a list; at the end it holds the peak memory of the processes, minus what they used at the start."""
    before, found = memory_of(pids), list[int]()
    argv = [sys.executable, __file__, *map(str, pids)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as watcher:
        assert watcher.stdout is not None
        watcher.stdout.read(1)  # it has started
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
