"""What a toolchain answers."""

from __future__ import annotations

from typing import NamedTuple


class Choice(NamedTuple):
    """This is how: the variables that make is given."""

    toolchain: str
    title: str  # for the person who watches: compiler and headers
    variables: tuple[tuple[str, str], ...]


class Unfit(NamedTuple):
    """This is why not, and what would help."""

    toolchain: str
    why: str
    how: str
