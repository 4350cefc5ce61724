"""What every test run does: slow tests run as long as there is time for them."""

from __future__ import annotations

import os
import time

import pytest

# CI must end in 25 minutes on whatever machine it gets: `.ci/run` says after how many seconds no slow test begins.
_LAST = float(os.environ.get("UDOGEN_SLOW_TESTS_BEFORE", "inf"))
_BEGUN = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("slow") and time.monotonic() - _BEGUN > _LAST:
        pytest.skip(f"slow, and the run is past its {_LAST / 60:.0f} minutes for slow tests")
