"""Several threads and waiting executions once more, with the emulator and its packages under ThreadSanitizer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.making import LONG, ROOT

TESTS = [ROOT / "tests" / "emulator" / f"test_{name}.py" for name in ("concurrent", "waiting")]

# Only Python needs the library: compilers and shells that have it crash.
START = "import os, sys, pytest; del os.environ['LD_PRELOAD']; sys.exit(pytest.main(sys.argv[1:]))"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_no_thread_races_another(backend: str) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    asked = subprocess.run(["g++", "-print-file-name=libtsan.so"], capture_output=True, text=True)
    library = Path(asked.stdout.strip())
    if not library.is_absolute():
        pytest.skip("g++ has no ThreadSanitizer")
    env = {
        **os.environ,
        "X86_CXX": "g++ -g -fsanitize=thread",
        "LD_PRELOAD": str(library),
        # Python itself is not instrumented: what it frees and what it locks is seen through the calls of libc.
        "TSAN_OPTIONS": "exitcode=0 report_signal_unsafe=0 ignore_noninstrumented_modules=1",
    }
    chosen = ["-k", "htp" if backend == "htp" else "not htp"]
    argv = [sys.executable, "-c", START, "-q", "-p", "no:cacheprovider", "-s", *chosen, *map(str, TESTS)]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LONG)
    said = done.stdout + done.stderr
    assert "WARNING: ThreadSanitizer" not in said, said[:6000]
    assert done.returncode == 0 and "passed" in done.stdout, said[-4000:]
