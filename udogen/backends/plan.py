"""A package folder as data: its files, their sources and bytes, and which of them belong to the user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from udogen import resources


@dataclass(frozen=True)
class Part:
    """One library of a package folder, and how make builds it."""

    backend: str
    library: str  # the file's name
    provider: str  # the symbol that a client registers; empty for a registration library
    ops: tuple[str, ...]
    targets: tuple[str, ...]
    makefile: str = "Makefile"
    sources: tuple[str, ...] = ()
    api: str = ""  # the interface, if the backend has several
    op: str = ""  # its op, if each op has a library; goals of make end with it
    versions: tuple[str, ...] = ()  # of Hexagon, named by the config


class RegisterFunction(NamedTuple):
    """A function with which a kernel for HTP registers its ops."""

    name: str
    c_linkage: bool


@dataclass(frozen=True)
class Source:
    """The input of a plan in addition to the model: the configs' bytes, and the user's kernels."""

    configs: Mapping[str, bytes]  # file name in config/ -> content
    kernels: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)  # the user's: backend -> op -> source
    htp_api: str = "qhpi"  # the interface of HTP
    # Backend -> ops whose kernels are in the style of Qualcomm's generators (udogen.backends.vendor).
    vendor: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    registrations: tuple[RegisterFunction, ...] = ()  # of kernels for HTP in that style
    # Backend -> ops whose given kernel replaces a kernel of another style in the folder.
    restyled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Backend -> udogen's versions of the Hexagon SDK's headers that its kernels include.
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hooks: bool = False  # a kernel for HTP has hooks
    version_folders: bool = False  # layout snpe: a folder for each version of DSP

    @property
    def label(self) -> str:
        """The configs, as generated files name them."""
        return ", ".join(f"config/{name}" for name in self.configs)


class PlannedFile(NamedTuple):
    """One file: rendered from a template, copied, joined from several, or given as bytes."""

    path: str
    template: str = ""
    data: Mapping[str, Any] = {}
    copy: str = ""  # a file in templates/, or with the prefix `headers:` one of the QNN headers
    joined: tuple[str, ...] = ()  # C++ files in templates/ that become one
    head: str = ""  # what precedes them
    content: bytes | None = None
    user_owned: bool = False  # written once
    replaces: bool = False  # also replaces a file that the user edited, and keeps a copy of it

    @property
    def merges(self) -> bool:
        """Whether the user's edits are merged with later versions: only in files generated from the config."""
        return bool(self.template) and not self.user_owned

    def render(self) -> bytes:
        """Its bytes."""
        if self.content is not None:
            return self.content
        if self.copy:
            return _OWN_IN_COPIES.sub(b"", _static(self.copy))
        if self.joined:
            return _join(self.head, self.joined)
        from udogen.mako_templates import render_template  # Mako is slow to import

        return render_template(self.template, self.data).encode("utf-8")


@cache
def _static(name: str) -> bytes:
    kind, _, path = name.rpartition(":")
    return ((resources.qnn_headers() if kind == "headers" else resources.templates()) / path).read_bytes()


_INCLUDE = re.compile(r'#include (?:<.*>|".*")\n')
# A namespace that ends, and begins again after a comment.
_AGAIN = re.compile(r"\n}  // namespace udo\n((?:\n|//.*\n)*)\nnamespace udo {\n")


# Comments for readers of udogen's own code, which packages do not get: in copied files `#: …` and `//: …`; in the
# support library all but those for authors of kernels, which begin with `///`.
_OWN_COMMENT = re.compile(r" *//(?!/).*\n")
_OWN_IN_COPIES = re.compile(rb"^(?:#|//): .*\n", re.MULTILINE)


@cache
def _join(head: str, parts: tuple[str, ...]) -> bytes:
    """C++ files as one, without their own comments: their includes first, each once."""
    includes: dict[str, None] = {}
    bodies = []
    for part in parts:
        depth, body = 0, ""
        for line in _static(part).decode("utf-8").splitlines(keepends=True):
            depth += line.startswith("#if") - line.startswith("#endif")
            if depth == 0 and _INCLUDE.fullmatch(line):
                includes[line] = None
            elif not _OWN_COMMENT.fullmatch(line):
                body += line
            elif body.endswith(";\n\n") and not body.endswith("};\n\n"):
                body = body[:-1]  # the line that separated the comment from a declaration
        bodies.append(body.strip("\n"))
    ordered = sorted(includes, key=lambda line: (line.startswith('#include "'), line))
    text = "\n".join([head, "".join(ordered), "\n\n".join(bodies), ""])
    return re.sub(r"\n{3,}", "\n\n", _AGAIN.sub(r"\n\1", text)).encode("utf-8")


@dataclass(frozen=True)
class Plan:
    """One package folder."""

    package: str
    backend: str  # one backend, or `udo` for a library of each
    layout: str
    libraries: str  # the folder of built libraries, with a subfolder per target
    configs: tuple[str, ...]
    files: tuple[PlannedFile, ...]
    parts: tuple[Part, ...]
    folder: str = ""  # its name, if it is not the package's

    def part(self, backend: str) -> Part | None:
        """The library for a backend, or None."""
        return next((part for part in self.parts if part.backend == backend), None)

    def render(self) -> dict[str, bytes]:
        """Every file, by its path."""
        return {file.path: file.render() for file in self.files}
