"""Misuse, memory and waiting executions again, with the emulator under AddressSanitizer and UBSan."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.making import LONG, ROOT, need_opencl

TESTS = [ROOT / "tests" / "emulator" / f"test_{name}.py" for name in ("gpu_misuse", "memory", "waiting", "cpu_graphs")]


def test_misuse_is_clean_under_the_sanitizers(tmp_path: Path) -> None:
    need_opencl()
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    libraries = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    if not all(Path(library).is_absolute() for library in libraries):
        pytest.skip("g++ has no sanitizers")
    env = {
        **os.environ,
        "X86_CXX": "g++ -g -fsanitize=address,undefined -fno-sanitize-recover=undefined",
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",  # leaks of Python and the OpenCL driver
    }
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-s", *map(str, TESTS)]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0 and "passed" in done.stdout, (done.stdout + done.stderr)[-4000:]
    assert "runtime error" not in done.stdout + done.stderr
