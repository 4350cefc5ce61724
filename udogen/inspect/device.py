"""Registers an op package in the HTP library of a DSP, which a loader of udogen loads under qemu-hexagon.

The loader uses exported names of both libraries, and what both write to the log.  No part of them is stored.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from udogen import process, resources
from udogen.build import qemu_hexagon, tools
from udogen.build.dwarf import demangled
from udogen.build.elf import Elf
from udogen.build.emulator import KeptBuild, compile_or_fail, kept_build
from udogen.build.qemu import find_qemu
from udogen.build.zig_libraries import BASE, HEXAGON
from udogen.tables import many

_SOURCES = ("loader", "system")
_SECONDS = 60.0
_NAME = re.compile(r"[\w$.]+")
_NUMBERS = re.compile(r"(\d+) (\d+) ", re.ASCII)
_STEPS = {
    "relocate skel": "relocating it",
    "initialize skel": "its initializers",
    "relocate package": "relocating the package",
    "initialize package": "the initializers of the package",
    "qhpi_init package": "qhpi_init of the package",
}
_REFUSED = re.compile(r"\bERROR\b|\b[Ff]ailed\b")


@dataclass(frozen=True)
class DeviceRegistration:
    """What happened when a package was registered in the library of a DSP."""

    skel: Elf
    step: str  # the last that was begun: a key of _STEPS, empty before all
    end: str  # done, or why the loader stopped; empty if it crashed or did not end
    text: str  # what belongs to `end`
    log: tuple[str, ...]  # what was written while the package was loaded
    codes: tuple[tuple[int, int], ...]  # of qhpi_register_ops_v1: its answer, the number of ops
    package: str
    timed_out: bool = False

    @property
    def ops(self) -> int:
        """How many ops were registered."""
        return sum(count for code, count in self.codes if code == 0)

    @property
    def refused(self) -> tuple[str, ...]:
        """The lines of the log about what was refused."""
        return tuple(line for line in self.log if _REFUSED.search(line))

    @property
    def limit(self) -> str:
        """Why nothing is known about the package, which is not to blame; empty otherwise."""
        if self.end in ("unsupported", "unreadable"):
            return f"the loader does not support {self.text}"
        if self.end != "done" and not self.step.endswith(" package"):
            return f"{self.skel.path.name} could not be loaded: {self._how_it_ended()}"
        if self.end in ("called", "thrown") and not self.refused:
            return f"the loader cannot go on: {self._how_it_ended()}"
        return ""

    @property
    def fault(self) -> str:
        """Why the package was not registered; empty if it was."""
        codes = [code for code, _ in self.codes if code]
        if self.limit:
            return ""
        if self.refused or codes:
            code = f" (qhpi_register_ops_v1 returned {codes[0]})" if codes else ""
            return f"{self.skel.path.name} refused an op or a kernel{code}"
        if self.end != "done":
            return self._how_it_ended()
        if not self.ops:
            return "its qhpi_init registered no op"
        return "" if self.package else "its qhpi_init returned no name of a package"

    def _how_it_ended(self) -> str:
        where = _STEPS.get(self.step, "the start of the loader")
        if self.timed_out:
            return f"{where} did not end within {_SECONDS:.0f} s"
        if self.end == "called":
            return f"{where} called {demangled(self.text)}, which only a DSP has"
        if self.end == "thrown":
            name = demangled(f"_ZTI{self.text}").removeprefix("typeinfo for ")
            return f"{where} threw a C++ exception ({name})"
        return f"{where} crashed"

    def summary(self) -> str:
        """What was done, and what it proves."""
        return (
            f"{many(self.ops, 'op')} in {self.skel.path.name} under qemu-hexagon; this proves symbols, relocations, "
            "initializers and unique names of kernels, not signatures or execution"
        )


def register(package: Elf, skel: Elf) -> DeviceRegistration:
    """Register a QHPI package in the library of a DSP, in a process of its own."""
    qemu = find_qemu()
    compiled = _build().ready()
    with tempfile.TemporaryDirectory(prefix="udogen-") as scratch:
        folder = Path(scratch)
        names = {symbol.name for library in (package, skel) for symbol in library.imports}
        (folder / "names").write_text("\n".join(f"-Wl,-u,{name}" for name in sorted(names) if _NAME.fullmatch(name)))
        objects = [str(compiled / f"{name}.o") for name in _SOURCES]
        link = [*tools.zig(), "c++", *HEXAGON.flags, "-Wl,--no-gc-sections", *objects, "@names", "-o", "loader"]
        compile_or_fail(link, folder, "the loader for qemu-hexagon")
        loader = str(folder / "loader")
        argv = [
            qemu.path,
            "-cpu",
            tools.QEMU_CPU,
            loader,
            loader,
            str(skel.path.resolve()),
            str(package.path.resolve()),
        ]
        done = process.run(argv, cwd=folder, timeout=_SECONDS, starting=process.Tied)
    return _read(done, skel)


def _build() -> KeptBuild:
    """How udogen's part of the loader is compiled; zig adds its C and C++ libraries at each link."""
    folder = resources.emulator("device")
    argv = [*qemu_hexagon.compiler(BASE, "cc"), "-O2", "-std=gnu11", "-Wall", "-Wextra", "-c"]
    # One by one: a call of zig writes only one object.
    commands = [[*argv, folder / f"{name}.c", "-o", f"{name}.o"] for name in _SOURCES]
    HEXAGON.ready()
    title, headers = "the loader for qemu-hexagon", sorted(folder.glob("*.h"))
    return kept_build("hexagon", "loader", title, commands, headers=headers, seconds=2)


def _rows(printed: str) -> Iterator[tuple[str, str]]:
    for line in printed.splitlines():
        word, _, text = line.partition(" ")
        yield word, text


def _read(done: process.Completed, skel: Elf) -> DeviceRegistration:
    step, end, text, package = "", "", "", ""
    log: list[str] = []
    codes: list[tuple[int, int]] = []
    for word, rest in _rows(done.stdout):
        if word == "step":
            step = rest
        elif word == "log" and step.endswith(" package"):
            log.append(rest.partition(" ")[2].strip())
        elif word == "ops" and (numbers := _NUMBERS.match(rest)):  # a package may print lines of its own
            codes.append((int(numbers[1]), int(numbers[2])))
        elif word == "package":
            package = rest
        elif word in ("done", "called", "thrown", "unsupported", "unreadable"):
            end, text = word, rest
    return DeviceRegistration(skel, step, end, text, tuple(log), tuple(codes), package, done.timed_out)
