"""The probe op package, built once per session."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from probe import PROVIDER, Build

from udogen import ToolMissing, resources
from udogen.runtime import find_runtime
from udogen.runtime.ops import OpSession

SOURCE = Path(__file__).with_name("probe_package.cpp")


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Return a function that builds the probe package, with additional flags of g++ if needed."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    try:
        find_runtime("cpu")
    except ToolMissing as problem:
        pytest.skip(f"{problem.message}: {problem.hint}")

    def run(*flags: str) -> Path:
        made = tmp_path_factory.mktemp("probe") / "libProbe.so"
        argv = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC", f"-I{resources.qnn_headers()}", *flags]
        subprocess.run([*argv, "-c", SOURCE, "-o", made.with_suffix(".o")], check=True)  # through ccache
        subprocess.run(["g++", "-shared", *flags, made.with_suffix(".o"), "-o", made], check=True)
        return made

    return run


@pytest.fixture(scope="session")
def probe(build: Build) -> Path:
    """Return the probe package without faults."""
    return build()


@pytest.fixture(scope="module")
def session(probe: Path) -> Iterator[OpSession]:
    """Yield a session with it."""
    with OpSession(probe, PROVIDER, timeout=20) as opened:
        yield opened
