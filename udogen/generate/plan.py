"""What will be written, as data: files, where their text comes from, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Source:
    """What a plan is made from besides the model: the configs, byte for byte, and the user's ready kernels."""

    configs: Mapping[str, bytes]  # file name -> content, as they will lie in config/
    kernels: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)  # the user's: backend -> op -> source
    htp_api: str = "qhpi"  # which interface of HTP the package speaks

    @property
    def label(self) -> str:
        """How generated files name their config."""
        return ", ".join(f"config/{name}" for name in self.configs)


@dataclass(frozen=True)
class PlannedFile:
    """One file: rendered from a template, copied as it is, or given as bytes."""

    path: str
    template: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    copy: str = ""  # a file under templates/, or under our headers with the prefix `headers:`
    content: bytes | None = None
    yours: bool = False  # the user's: written once, then never touched


@dataclass(frozen=True)
class Plan:
    """One package folder."""

    package: str
    backend: str
    layout: str
    libraries: str  # the folder of built libraries, one folder per target in it
    library: str  # the library's file name
    provider: str
    ops: tuple[str, ...]
    configs: tuple[str, ...]
    targets: tuple[str, ...]
    files: tuple[PlannedFile, ...]
    api: str = ""  # where the backend has several interfaces: which one
    folder: str = ""  # its name, where it is not the package's


def record(**facts: Any) -> SimpleNamespace:
    """A plain value for a template: dotted names, no behaviour."""
    return SimpleNamespace(**facts)
