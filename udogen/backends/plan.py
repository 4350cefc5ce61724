"""What will be written, as data: files, where their text comes from, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PROVIDER = "InterfaceProvider"  # the ending of the symbol that a client registers, after the package's name


@dataclass(frozen=True)
class Part:
    """One library that a package folder makes, and how make is asked for it."""

    backend: str
    library: str  # the file's name
    provider: str  # the symbol that a client registers; none in a registration library
    ops: tuple[str, ...]
    targets: tuple[str, ...]
    makefile: str = "Makefile"
    sources: tuple[str, ...] = ()  # what is compiled for it
    api: str = ""  # where the backend has several interfaces: which one
    op: str = ""  # where each op has a library of its own: its op, whose name ends the goals of make
    versions: tuple[str, ...] = ()  # of Hexagon that the config names


class Registration(NamedTuple):
    """A function with which a kernel for HTP registers its ops."""

    name: str
    c_linkage: bool


@dataclass(frozen=True)
class Source:
    """What a plan is made from besides the model: the configs, byte for byte, and the user's ready kernels."""

    configs: Mapping[str, bytes]  # file name -> content, as they will lie in config/
    kernels: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)  # the user's: backend -> op -> source
    htp_api: str = "qhpi"  # which interface of HTP the package speaks
    # Backend -> the ops whose kernels are in the style of Qualcomm's generators (udogen.backends.vendor).
    vendor: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    registrations: tuple[Registration, ...] = ()  # of kernels for HTP in that style
    # Backend -> headers that stand for those of the Hexagon SDK which its kernels include.
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    version_folders: bool = False  # in the layout snpe, a folder for each version of DSP

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
    user_owned: bool = False  # the user's: written once, then never touched

    @property
    def merges(self) -> bool:
        """Whether edits in it are merged with what is generated later: it is made from the config."""
        return bool(self.template) and not self.user_owned


@dataclass(frozen=True)
class Plan:
    """One package folder."""

    package: str
    backend: str  # what it is for: one backend, or `udo` where it has a library for each
    layout: str
    libraries: str  # the folder of built libraries, one folder per target in it
    configs: tuple[str, ...]
    files: tuple[PlannedFile, ...]
    parts: tuple[Part, ...]
    folder: str = ""  # its name, where it is not the package's

    def part(self, backend: str) -> Part | None:
        """The library for a backend; None where there is none."""
        return next((part for part in self.parts if part.backend == backend), None)
