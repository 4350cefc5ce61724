"""The kernel records of a QHPI package, read in a child process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from udogen.runtime.failures import Situation
from udogen.runtime.op.commands import ReadRecords, RecordsRead
from udogen.runtime.worker_process import ask_once


def read_records(library: Path, undefined: Sequence[str], *, timeout: float = 30.0) -> RecordsRead:
    """Run `qhpi_init` of a package with a stub of the runtime that records what is registered.

    `undefined` are the symbols that neither the package nor the libraries it needs have.
    """
    command = ReadRecords(library.resolve(), tuple(undefined))
    return ask_once(command, RecordsRead, Situation(str(library)), timeout)
