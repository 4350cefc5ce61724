"""What a person asks a script for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from udogen.clients.package import ANDROID, LINUX, PC


@dataclass(frozen=True)
class Wanted:
    """What a person asked for."""

    paths: tuple[Path, ...]
    client: str
    device: str
    target: str = ""
    linux: bool = False  # behind adb
    ops: tuple[str, ...] = ()
    model: Path | None = None
    context: Path | None = None
    graph: str = ""
    inputs: tuple[tuple[str, str], ...] = ()
    references: tuple[tuple[str, str], ...] = ()
    tolerance: tuple[float, float] | None = None
    devices: int = 1
    signed: bool = False
    logcat: bool = False
    prove: bool = False
    rules: Path | None = None
    remote: str = ""
    on_step: Callable[[str], None] = field(default=lambda _line: None)

    @property
    def system(self) -> str:
        """Where the client runs."""
        if self.device == "local":
            return PC
        return ANDROID if self.device == "adb" and not self.linux else LINUX
