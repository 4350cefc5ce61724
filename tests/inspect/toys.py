"""What the tests of `udogen inspect` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from udogen.inspect.library import Inspected

Make = Callable[..., Path]
Look = Callable[..., Inspected]


def told(found: Inspected) -> str:
    """All findings, as one text."""
    return "\n".join(f"{each.weight}: {each.message} = {each.remedy}" for each in found.findings)
