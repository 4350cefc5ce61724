"""Several threads and waiting executions again, with the emulator and its packages under ThreadSanitizer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.making import LONG, ROOT

TESTS = [ROOT / "tests" / "emulator" / f"test_{name}.py" for name in ("concurrent", "waiting")]
COMPILER = ["g++", "-g", "-fsanitize=thread"]

# For Python only: compilers and shells crash with the library preloaded.
START = "import os, sys, pytest; del os.environ['LD_PRELOAD']; sys.exit(pytest.main(sys.argv[1:]))"

RACE = 'static int count; extern "C" void touch() { for (int i = 0; i < 1000000; ++i) ++count; }'
RACING = """
import ctypes, sys, threading
library, start = ctypes.CDLL(sys.argv[1]), threading.Barrier(2)
threads = [threading.Thread(target=lambda: (start.wait(), library.touch())) for _ in range(2)]
for each in threads: each.start()
for each in threads: each.join()
"""


def under_tsan(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with ThreadSanitizer loaded; skip the test if it is not available."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    asked = subprocess.run(["g++", "-print-file-name=libtsan.so"], capture_output=True, text=True)
    library = Path(asked.stdout.strip())
    if not library.is_absolute():
        pytest.skip("g++ has no ThreadSanitizer")
    env = {
        **os.environ,
        "X86_CXX": " ".join(COMPILER),
        "LD_PRELOAD": str(library),
        # Python itself is not instrumented: its locks are visible through the calls of libc. g++ 12 takes what lies
        # before the thread-local variables of a loaded library for their size, and stops on some of it.
        "TSAN_OPTIONS": "exitcode=0 report_signal_unsafe=0 ignore_noninstrumented_modules=1 intercept_tls_get_addr=0",
    }
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, timeout=LONG)


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_no_thread_races_another(backend: str) -> None:
    chosen = "htp" if backend == "htp" else "not htp"
    done = under_tsan("-c", START, "-q", "-p", "no:cacheprovider", "-s", "-k", chosen, *map(str, TESTS))
    log_lines = done.stdout + done.stderr
    assert "WARNING: ThreadSanitizer" not in log_lines, log_lines[:6000]
    assert done.returncode == 0 and "passed" in done.stdout, log_lines[-4000:]


def test_a_race_would_be_seen(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    (tmp_path / "race.cpp").write_text(RACE, "utf-8")
    library = str(tmp_path / "race.so")
    argv = [*COMPILER, "-shared", "-fPIC", str(tmp_path / "race.cpp"), "-o", library]
    subprocess.run(argv, check=True)
    assert "data race" in under_tsan("-c", RACING, library).stderr
