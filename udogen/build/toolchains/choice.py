"""What a toolchain returns: its choice for a target, or why it is unfit."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from udogen.build import tools


class Choice(NamedTuple):
    """This is how: the variables that make is given."""

    toolchain: str
    title: str  # for the person who watches: compiler and headers
    variables: tuple[tuple[str, str], ...]
    folder: str = ""  # where the library goes, if not into the target's folder


class Unfit(NamedTuple):
    """This is why not, and what would help."""

    toolchain: str
    why: str
    how: str


def headers(root: Path | None) -> str:
    """Whose headers of QNN are used."""
    return f"headers of {root}" if root else "udogen's own headers"


def without_compiler(toolchain: str, variable: str, command: str) -> Unfit | None:
    """A variable of the user's names a program that is not there; None where it is, or none is named."""
    program = tools.missing_program(command)
    if not program:
        return None
    why = f"{variable} names `{program}`, but there is no such program"
    return Unfit(toolchain, why, f"set {variable} to a C++ compiler that is there, or unset it")
