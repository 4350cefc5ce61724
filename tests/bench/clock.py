"""Cold processes, timed pair by pair: what shares a machine with others must be compared within one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_COMPILED = tempfile.TemporaryDirectory(prefix="udogen-bench-")


def seconds(argv: Sequence[str], before: Callable[[], None] = lambda: None) -> float:
    """One cold process, from start to end."""
    before()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": _COMPILED.name}  # as where udogen is installed
    began = time.perf_counter()
    subprocess.run(argv, check=True, cwd=ROOT, env=env, capture_output=True)
    return time.perf_counter() - began


def ratio(
    first: Sequence[str], second: Sequence[str], *, before: Callable[[], None] = lambda: None, rounds: int = 15
) -> tuple[float, float, float]:
    """The medians of both in seconds, and the median of the ratios of neighbours."""
    for argv in (first, second):
        seconds(argv, before)
    pairs = [(seconds(first, before), seconds(second, before)) for _ in range(rounds)]
    medians = (statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs))
    return (*medians, statistics.median(a / b for a, b in pairs))


def python(*arguments: str) -> list[str]:
    """A process of this interpreter."""
    return [sys.executable, *arguments]
