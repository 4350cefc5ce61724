"""Directories of context binaries for the tests of this folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.making import LONG, ROOT, need_runtime


@pytest.fixture(scope="session")
def sharded_llm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`sharded_llm("real")`, `sharded_llm("emulator")`: examples/sharded_llm, built once."""

    @cache
    def build(kind: str) -> Path:
        if kind == "real":
            need_runtime("htp")
        out = tmp_path_factory.mktemp(f"llm-{kind}")
        argv = [sys.executable, ROOT / "examples/sharded_llm/build.py", "--out", out, "--runtime", kind]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG)
        assert done.returncode == 0, done.stderr[-3000:]
        return out

    return build
