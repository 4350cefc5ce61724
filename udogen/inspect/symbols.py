"""The runtime that a library is compared with (given, of this machine, of the SDK), and missing symbols."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from udogen import backends
from udogen.backends import architectures
from udogen.build import elf, tools
from udogen.build.elf import Elf
from udogen.errors import ToolMissing, UsageError
from udogen.inspect.kinds import LibraryFacts
from udogen.runtime.library import find_runtime

_OF_BACKEND = re.compile(r"lib(?:Qnn|Snpe)(?P<backend>Cpu|Htp|Gpu|Dsp|Lpai)")


@dataclass(frozen=True)
class ComparedRuntime:
    """The libraries of a runtime; empty if none was found."""

    libraries: tuple[Elf, ...]
    origin: str
    sdk: str = ""
    hint: str = ""  # how to get one, if none was found

    @property
    def backend(self) -> str:
        """cpu, htp …, by the name of the first library that has one."""
        for library in self.libraries:
            if match := _OF_BACKEND.match(library.soname) or _OF_BACKEND.match(library.path.name):
                return match["backend"].lower()
        return ""

    @property
    def main(self) -> Elf:
        """The library that registers packages."""
        return self.libraries[0]

    @property
    def title(self) -> str:
        """Its name and release, for messages."""
        names = " and ".join(library.path.name for library in self.libraries)
        release = f" {self.sdk}" if self.sdk else ""
        return f"{names}{release} ({self.origin})"


NO_RUNTIME = ComparedRuntime((), "")


def find_compared(
    facts: LibraryFacts, given: tuple[Path, ...], *, backend: str, env: tools.Environment, choose: bool = False
) -> ComparedRuntime:
    """The runtime for a library of this machine and backend; `choose` ignores given ones for other machines."""
    paths = dict.fromkeys(path for root in given for path in _expand(root, facts.elf, backend, choose=choose))
    libraries = [_read(path) for path in paths]
    if choose:
        machine = (facts.elf.machine, facts.elf.arch)
        libraries = [library for library in libraries if (library.machine, library.arch) == machine]
    if libraries:
        return _compared(libraries, "given")
    if facts.elf.machine == platform.machine() and facts.elf.bits == 64:
        return _native_runtime(facts.elf, backend, env)
    names = ", ".join(_names(facts.elf, backend)) or "runtime"
    return ComparedRuntime((), "", hint=f"give the {names} of the device with --against")


def _native_runtime(library: Elf, backend: str, env: tools.Environment) -> ComparedRuntime:
    """The runtime of this machine, with the libraries next to it that packages call."""
    if backend not in backends.RUNTIMES:
        return ComparedRuntime((), "", hint=f"no runtime of this machine runs {backend} packages")
    try:
        runtime = find_runtime(backend, environment=env)
    except ToolMissing as missing:
        return ComparedRuntime((), "", hint=f"{missing.message}: {missing.hint}")
    beside = [runtime.path.with_name(name) for name in _names(library, backend)]
    paths = dict.fromkeys([runtime.path, *(path for path in beside if path.is_file())])
    return _compared([elf.read(path) for path in paths], runtime.origin)


def _compared(libraries: list[Elf], origin: str) -> ComparedRuntime:
    releases = next((found for library in libraries if (found := elf.sdk_releases(library.path))), [])
    return ComparedRuntime(tuple(libraries), origin, releases[0] if len(releases) == 1 else "")


def _names(library: Elf, backend: str) -> list[str]:
    """The libraries of a backend's runtime whose functions packages call, for the machine of a library."""
    row = backends.ALL.get(backend)
    if row is None:
        return []
    if library.machine == "hexagon":
        return [name.format(arch=library.arch.upper()) for name in row.skels]
    if row.runtime is None or library.machine not in row.runtime.machines:
        return []
    return [row.runtime.library, *(row.device_libraries if library.machine == "aarch64" else ())]


def _expand(given: Path, found: Elf, backend: str, *, choose: bool) -> list[Path]:
    """The libraries of a path: those of the backend in a folder, or a library with those next to it that it opens."""
    if not given.is_dir():
        siblings = [given.with_name(name) for name in _names(found, backend)] if found.machine == "aarch64" else []
        return [given, *(path for path in siblings if path.is_file() and given.name in _names(found, backend))]
    names = _names(found, backend)
    there = [given / name for name in names if (given / name).is_file()]
    if not there and not (choose and any(given.glob("libQnn*.so"))):
        wanted = " or ".join(names) or f"runtime for {found.processor}"
        raise UsageError(f"--against {given}: it has no {wanted}", hint="give the runtime library itself")
    return there


def _read(path: Path) -> Elf:
    try:
        return elf.read(path)
    except elf.NotElf as fault:
        raise UsageError(
            f"no runtime to compare with: {fault.message}", hint="give a runtime library, for example libQnnHtp.so"
        ) from fault


# --- symbols ---------------------------------------------------------------------------------------------------------


# Libraries that every system has together with its C library.
_SYSTEMS = {
    "libc.so.6": (
        "glibc",
        ("libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2"),
    ),
    "libc.so": ("Android", ("libc.so", "libm.so", "libdl.so", "liblog.so")),
}


# Qualcomm's compiler names it in each library for a DSP (16 public ones, whose author ran them on a device); the DSP
# has it without a file.
_DSP = ("libgcc.so",)


@dataclass(frozen=True)
class Resolution:
    """The libraries and symbols that a library needs, found or missing."""

    undefined: int
    needed: Mapping[str, str]  # the path of each library, or the evidence for it; empty if it was not found
    missing: tuple[str, ...]
    assumed: tuple[str, ...]  # not found, but expected on the device
    wrapped: tuple[str, ...] = ()  # missing, but available as __wrap_...: a DSP has malloc only under that name
    seen: bool = True  # false without libraries to search, and on this machine, where the loader finds them

    @property
    def absent(self) -> tuple[str, ...]:
        """Libraries that were not found."""
        return tuple(name for name, path in self.needed.items() if not path)


def resolve(library: Elf, runtime: ComparedRuntime) -> Resolution:
    """Find every undefined symbol of a library: those that the runtime exports, or imports and therefore finds."""
    wanted = [symbol for symbol in library.imports if not symbol.weak]
    exported = _exports_of_device(library, runtime)
    uses = {symbol.name: symbol.weak for other in runtime.libraries for symbol in other.imports}
    beside = _libraries_of_device(library, runtime)
    missing: list[str] = []
    assumed: list[str] = []
    for symbol in wanted:
        if symbol.name in exported or uses.get(symbol.name) is False:
            continue
        if (symbol.version and symbol.origin in beside) or symbol.name in uses:
            assumed.append(symbol.name)
        else:
            missing.append(symbol.name)
    needed = {name: beside.get(name, "") for name in library.needed}
    wrapped = tuple(name for name in missing if f"__wrap_{name}" in uses)
    return Resolution(len(wanted), needed, tuple(missing), tuple(assumed), wrapped, seen=bool(runtime.libraries))


def _exports_of_device(library: Elf, runtime: ComparedRuntime) -> set[str]:
    exported = {name for other in runtime.libraries for name in other.exports}
    if library.machine == "hexagon" and runtime.libraries:
        row = architectures.ALL.get(library.arch)
        exported |= backends.ALL[row.backend].dsp_symbols if row else frozenset()
    return exported


def _libraries_of_device(library: Elf, runtime: ComparedRuntime) -> dict[str, str]:
    """Libraries that are loaded with the runtime -> the evidence."""
    beside = {name: other.path.name for other in runtime.libraries for name in other.needed}
    beside.update({other.soname or other.path.name: str(other.path) for other in runtime.libraries})
    if library.machine == "hexagon" and runtime.libraries:
        beside.update({name: "the DSP's system" for name in _DSP if name not in beside})
    for name, (system, names) in _SYSTEMS.items():
        if name in library.needed and library.machine == "aarch64" and runtime.libraries:
            beside.update({other: system for other in names if other not in beside})
    return beside
