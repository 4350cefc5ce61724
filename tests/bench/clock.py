"""CPU time, and pairwise comparison of cold processes by it: on a busy machine wall-clock time is meaningless."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_COMPILED = tempfile.TemporaryDirectory(prefix="udogen-bench-")


def processor_seconds() -> float:
    """Return the CPU time of this process and of the children that it has waited for."""
    return sum(
        each.ru_utime + each.ru_stime
        for each in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def as_installed() -> dict[str, str]:
    """Return an environment in which all modules are already compiled, as in an installation of udogen."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return env | {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": _COMPILED.name}


def seconds(argv: Sequence[str], before: Callable[[], None] = lambda: None) -> float:
    """Return the CPU time of one cold process, from start to end."""
    before()
    begun = processor_seconds()
    subprocess.run(argv, check=True, cwd=ROOT, env=as_installed(), capture_output=True)
    return processor_seconds() - begun


def ratio(
    first: Sequence[str], second: Sequence[str], *, before: Callable[[], None] = lambda: None, rounds: int = 15
) -> tuple[float, float, float]:
    """Return both medians in seconds, and the median of the ratios of adjacent pairs."""
    for argv in (first, second):
        seconds(argv, before)
    pairs = [(seconds(first, before), seconds(second, before)) for _ in range(rounds)]
    medians = (statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs))
    return (*medians, statistics.median(a / b for a, b in pairs))


def python(*arguments: str) -> list[str]:
    """Return the command line of a process of this interpreter."""
    return [sys.executable, *arguments]
