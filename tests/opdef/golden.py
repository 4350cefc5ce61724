"""The output of `udogen check` for every broken config, kept under golden/ so that changed messages are visible."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.opdef.broken_cases import GOLDEN, golden_text, names


def write_golden() -> None:
    """Rewrite golden/."""
    GOLDEN.mkdir(exist_ok=True)
    for stale in set(GOLDEN.iterdir()) - {GOLDEN / f"{name}.txt" for name in names()}:
        stale.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        for name in names():
            (GOLDEN / f"{name}.txt").write_text(golden_text(name, Path(scratch)), "utf-8")
