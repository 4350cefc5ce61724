"""Fixtures for the tests of the QNN API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.making import need_runtime
from udogen.qnn.interface import Interface
from udogen.runtime.library import find_runtime


@pytest.fixture(scope="session")
def interface() -> Interface:
    """Return the function table of Qualcomm's CPU runtime."""
    need_runtime("cpu")
    return Interface.load(find_runtime("cpu").path)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path / "udogen" / "abi"
