"""The runtime that a library is compared with: the one given, else the one of this machine or of the SDK."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from udogen import backends
from udogen.build import elf, tools
from udogen.build.elf import Elf
from udogen.errors import ToolMissing, UsageError
from udogen.inspect.kinds import Facts
from udogen.runtime.library import find_runtime

_OF_BACKEND = re.compile(r"lib(?:Qnn|Snpe)(?P<backend>Cpu|Htp|Gpu|Dsp|Lpai)")


@dataclass(frozen=True)
class Reference:
    """The libraries of a runtime; none where there is nothing to compare with."""

    libraries: tuple[Elf, ...]
    origin: str
    sdk: str = ""
    hint: str = ""  # how to get one, where there is none

    @property
    def backend(self) -> str:
        """cpu, htp …, by the name of the first library that has one."""
        for each in self.libraries:
            if match := _OF_BACKEND.match(each.soname) or _OF_BACKEND.match(each.path.name):
                return match["backend"].lower()
        return ""

    @property
    def main(self) -> Elf:
        """The library that registers."""
        return self.libraries[0]

    @property
    def title(self) -> str:
        """Its name and release, for sentences."""
        names = " and ".join(each.path.name for each in self.libraries)
        release = f" {self.sdk}" if self.sdk else ""
        return f"{names}{release} ({self.origin})"


NONE = Reference((), "")


def find(
    facts: Facts, given: tuple[Path, ...], *, backend: str, env: tools.Environment, choose: bool = False
) -> Reference:
    """The runtime for a library of this machine and backend; `choose` leaves out what is given for other ones."""
    paths = dict.fromkeys(path for each in given for path in _expand(each, facts.elf, backend, choose=choose))
    libraries = [_read(path) for path in paths]
    if choose:
        libraries = [each for each in libraries if (each.machine, each.arch) == (facts.elf.machine, facts.elf.arch)]
    if libraries:
        return _reference(libraries, "given")
    if facts.elf.machine == platform.machine() and facts.elf.bits == 64:
        if backend not in backends.RUNTIMES:
            return Reference((), "", hint=f"no runtime of this machine runs {backend} packages")
        try:
            runtime = find_runtime(backend, environment=env)
        except ToolMissing as missing:
            return Reference((), "", hint=f"{missing.message}: {missing.hint}")
        beside = [runtime.path.with_name(name) for name in _names(facts.elf, backend)]
        paths = dict.fromkeys([runtime.path, *(path for path in beside if path.is_file())])
        return _reference([elf.read(path) for path in paths], runtime.origin)
    found = _in_sdk(facts.elf, backend, env)
    if found:
        return _reference([elf.read(path) for path in found], "QNN_SDK_ROOT")
    wanted = ", ".join(_names(facts.elf, backend)) or "runtime"
    return Reference((), "", hint=f"give the {wanted} of the device with --against, or set QNN_SDK_ROOT")


def _reference(libraries: list[Elf], origin: str) -> Reference:
    releases = next((found for each in libraries if (found := elf.sdk_releases(each.path))), [])
    return Reference(tuple(libraries), origin, releases[0] if len(releases) == 1 else "")


def _names(found: Elf, backend: str) -> list[str]:
    """The libraries of a backend's runtime, on the machine of a library, that have functions which packages call."""
    row = backends.ALL.get(backend)
    if row is None:
        return []
    if found.machine == "hexagon":
        return [name.format(arch=found.arch.upper()) for name in row.skels]
    if row.runtime is None or found.machine not in row.runtime.machines:
        return []
    return [row.runtime.library, *(row.device_libraries if found.machine == "aarch64" else ())]


def _expand(given: Path, found: Elf, backend: str, *, choose: bool) -> list[Path]:
    """A folder stands for the right libraries in it; a library brings along those it opens beside it."""
    if not given.is_dir():
        siblings = [given.with_name(name) for name in _names(found, backend)] if found.machine == "aarch64" else []
        return [given, *(each for each in siblings if each.is_file() and given.name in _names(found, backend))]
    names = _names(found, backend)
    there = [given / name for name in names if (given / name).is_file()]
    if not there and not (choose and any(given.glob("libQnn*.so"))):
        wanted = " or ".join(names) or f"runtime for {found.processor}"
        raise UsageError(f"--against {given}: there is no {wanted} in it", hint="give the runtime library itself")
    return there


def _read(path: Path) -> Elf:
    try:
        return elf.read(path)
    except elf.NotElf as fault:
        raise UsageError(
            f"--against: {fault.message}", hint="give a runtime library, for example libQnnHtp.so"
        ) from fault


def _in_sdk(found: Elf, backend: str, env: tools.Environment) -> list[Path]:
    root = Path(env.qnn_sdk_root or "/nowhere") / "lib"
    if found.machine == "hexagon":
        folders = [root / f"hexagon-{found.arch}" / "unsigned", root / f"hexagon-{found.arch}"]
    else:
        android = "libc.so" in found.needed
        folders = sorted(root.glob(f"{found.machine}-android*" if android else f"{found.machine}-*linux*"))
    for folder in folders:
        there = [folder / name for name in _names(found, backend) if (folder / name).is_file()]
        if there:
            return there
    return []
