"""Fixtures for the tests of the QNN API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from udogen.errors import ToolMissing
from udogen.qnn.interface import Interface
from udogen.runtime.library import RuntimeLibrary, find_runtime


@pytest.fixture(scope="session")
def cpu_runtime() -> RuntimeLibrary:
    """Qualcomm's CPU runtime, from the wheel or the SDK."""
    try:
        return find_runtime("cpu")
    except ToolMissing as problem:
        pytest.skip(f"{problem.message}: {problem.hint}")


@pytest.fixture(scope="session")
def interface(cpu_runtime: RuntimeLibrary) -> Interface:
    """Its function table."""
    return Interface.load(cpu_runtime.path)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path / "udogen" / "abi"
