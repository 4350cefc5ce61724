"""Helpers for the tests of `udogen inspect`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from udogen.inspect.inspection import InspectedLibrary

Make = Callable[..., Path]
Look = Callable[..., InspectedLibrary]


def shown(found: InspectedLibrary) -> str:
    """Return all findings, as one text."""
    return "\n".join(f"{finding.severity}: {finding.message} = {finding.hint}" for finding in found.findings)
