"""What a check is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from udogen.doctor.machine import Machine

FOUND, MISSING, WRONG, UNSET = "found", "missing", "wrong", "unset"


class Found(NamedTuple):
    """What a check found."""

    state: str
    version: str = ""
    where: str = ""  # the path, or in words what stands for it
    message: str = ""  # what is wrong
    get: str = ""  # what helps, where that is not what the check says


class Check(NamedTuple):
    """One row of the answer, before anybody has looked."""

    id: str
    group: str
    purpose: str
    get: str  # how to get it
    look: Callable[[Machine], Found]
    essential: bool = False  # the open path does not work without it


class Row(NamedTuple):
    """One row of the answer."""

    check: Check
    found: Found

    @property
    def fails(self) -> bool:
        """True where the open path does not work because of it."""
        return self.check.essential and self.found.state != FOUND

    def as_json(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        return {
            "id": self.check.id,
            "group": self.check.group,
            "state": self.found.state,
            "version": self.found.version,
            "where": self.found.where,
            "message": self.found.message,
            "needed_for": self.check.purpose,
            "get": self.found.get or self.check.get,
            "essential": self.check.essential,
        }
