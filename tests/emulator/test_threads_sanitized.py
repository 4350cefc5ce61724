"""Several threads and waiting executions again, with the emulator and its packages under ThreadSanitizer."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.making import LONG, ROOT

TESTS = [ROOT / "tests" / "emulator" / f"test_{name}.py" for name in ("concurrent", "waiting")]
PAUSED_LOCKS = ROOT / "tests" / "emulator" / "paused_locks.hpp"
COMPILER = ["g++", "-g", "-fsanitize=thread", "-include", str(PAUSED_LOCKS)]

# For Python only: compilers and shells crash with the library preloaded.
START = "import os, sys, pytest; del os.environ['LD_PRELOAD']; sys.exit(pytest.main(sys.argv[1:]))"


def under_tsan(backend: str, tests: Sequence[Path], *options: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a backend with ThreadSanitizer and options of the compiler; skip if it is not available."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    asked = subprocess.run(["g++", "-print-file-name=libtsan.so"], capture_output=True, text=True)
    library = Path(asked.stdout.strip())
    if not library.is_absolute():
        pytest.skip("g++ has no ThreadSanitizer")
    env = {
        **os.environ,
        "X86_CXX": shlex.join([*COMPILER, *options]),
        "LD_PRELOAD": str(library),
        # Python itself is not instrumented: its locks are visible through the calls of libc.
        # udogen/verify/safety/checks.py explains the last option.
        "TSAN_OPTIONS": "exitcode=0 report_signal_unsafe=0 ignore_noninstrumented_modules=1 intercept_tls_get_addr=0",
    }
    chosen = "htp" if backend == "htp" else "not htp"
    argv = [sys.executable, "-c", START, "-q", "-p", "no:cacheprovider", "-s", "-k", chosen, *map(str, tests)]
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LONG)


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_no_thread_races_another(backend: str) -> None:
    done = under_tsan(backend, TESTS)
    log_lines = done.stdout + done.stderr
    assert "WARNING: ThreadSanitizer" not in log_lines, log_lines[:6000]
    assert done.returncode == 0 and "passed" in done.stdout, log_lines[-4000:]


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_missing_locks_are_seen(backend: str) -> None:
    done = under_tsan(backend, TESTS[:1], "-DWITHOUT_LOCKS")
    assert "data race" in done.stderr
