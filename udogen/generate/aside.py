"""A package folder that gives way to a new one: moved aside whole, for a person's kernels are in it."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from udogen.build.package import ASIDE
from udogen.errors import UsageError


def free_name(folder: Path) -> Path:
    """Where this folder can be moved to: `<name>.bak-1`, or the next number that is free."""
    for number in count(1):
        found = folder.with_name(f"{folder.name}{ASIDE}{number}")
        if not os.path.lexists(found):
            return found
    raise AssertionError("numbers do not end")


def move(folder: Path, to: Path) -> None:
    """Move it there."""
    try:
        folder.rename(to)
    except OSError as fault:
        raise UsageError(
            f"cannot move {folder} aside: {fault.strerror}", hint="move it yourself, or choose another folder with -o"
        ) from fault
