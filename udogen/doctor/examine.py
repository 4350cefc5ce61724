"""The walk: every check at once, then the packages of a folder, then the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from udogen import process
from udogen.doctor.checks import ALL
from udogen.doctor.machine import Machine
from udogen.doctor.model import UNSET, WRONG, Check, Row
from udogen.doctor.variables import OF_ONE_VERSION
from udogen.errors import RunFailed, ToolMissing

_AT_ONCE = 8  # they wait for programs, not for the processor


@dataclass(frozen=True)
class Examination:
    """Everything that was looked at."""

    rows: tuple[Row, ...]
    packages: tuple[Row, ...] = ()

    @property
    def works(self) -> bool:
        """The open path: generate, build for this machine, run in the CPU runtime."""
        return not any(row.fails for row in self.rows)

    @property
    def exit_code(self) -> int:
        """What the command ends with."""
        if not self.works:
            return ToolMissing.exit_code
        return RunFailed.exit_code if any(row.found.state == WRONG for row in self.packages) else 0


def examine(machine: Machine, folder: Path | None = None, checks: Sequence[Check] = ALL) -> Examination:
    """Look at the machine, and at the packages in a folder."""
    found = process.at_once([partial(check.look, machine) for check in checks], _AT_ONCE)
    rows = (Row(check, each) for check, each in zip(checks, found, strict=True))
    shown = tuple(row for row in rows if row.check.id not in OF_ONE_VERSION or row.found.state != UNSET)
    if folder is None:
        return Examination(shown)
    from udogen.doctor.packages import packages_in  # reads libraries, which the other checks need not

    return Examination(shown, tuple(packages_in(folder, machine.env)))
