"""Which undefined symbols of a library somebody has: the runtime, what the loader finds, the system of a device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from udogen import backends
from udogen.backends import architectures
from udogen.build import elf
from udogen.build.elf import Elf, Symbol
from udogen.inspect import symbols
from udogen.inspect.symbols import Reference

# Libraries that are always there together with the C library, whatever a runtime needs.
_SYSTEMS = {
    "libc.so.6": (
        "glibc",
        ("libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2"),
    ),
    "libc.so": ("Android", ("libc.so", "libm.so", "libdl.so", "liblog.so")),
}


class Needed(NamedTuple):
    """A library that is needed, and where it is; an empty place where nobody has it."""

    name: str
    place: str


class Assumed(NamedTuple):
    """A symbol that was not seen anywhere, but will be there."""

    name: str
    why: str


@dataclass(frozen=True)
class Resolution:
    """What becomes of everything that a library needs from outside."""

    undefined: int
    needed: tuple[Needed, ...]
    missing: tuple[str, ...]
    assumed: tuple[Assumed, ...]
    old: tuple[symbols.Old, ...] = ()
    wrapped: tuple[str, ...] = ()  # missing, but there as __wrap_...: a DSP has malloc under that name only
    seen: bool = True  # false where there was nothing to look into

    @property
    def absent(self) -> tuple[str, ...]:
        """Libraries that nobody has."""
        return tuple(each.name for each in self.needed if not each.place)


def resolve(found: Elf, reference: Reference, *, native: bool) -> Resolution:
    """Look for every undefined symbol of a library."""
    wanted = [symbol for symbol in found.imports if not symbol.weak]
    return (_native if native else _foreign)(found, wanted, reference)


def _native(found: Elf, wanted: list[Symbol], reference: Reference) -> Resolution:
    loaded = symbols.needed_by(found.path)
    if loaded is None:
        return _foreign(found, wanted, reference)
    runtime = {each.soname or each.path.name: each for each in reference.libraries}
    exports = {name for each in runtime.values() for name in each.exports}
    for each in runtime.values():  # is loaded for all to see, and all that it needs with it
        beside = symbols.needed_by(each.path)
        exports |= _exports_of(beside.found.values()) if beside else set()
    exports |= _exports_of(loaded.found.values())
    needed = tuple(
        Needed(name, str(runtime[name].path if name in runtime else loaded.found.get(name, "")))
        for name in found.needed
    )
    further = tuple(Needed(name, "") for name in loaded.absent if name not in found.needed)
    missing = tuple(symbol.name for symbol in wanted if symbol.name not in exports)
    seen = bool(runtime) or not missing
    return Resolution(len(wanted), needed + further, missing, (), loaded.old, seen=seen)


def _exports_of(paths: Iterable[object]) -> set[str]:
    names: set[str] = set()
    for path in dict.fromkeys(map(str, paths)):
        names |= _exports(path)
    return names


_kept: dict[str, frozenset[str]] = {}


def _exports(path: str) -> frozenset[str]:
    if path not in _kept:
        try:
            _kept[path] = frozenset(elf.read(Path(path)).exports)
        except elf.NotElf:
            _kept[path] = frozenset()
    return _kept[path]


def _foreign(found: Elf, wanted: list[Symbol], reference: Reference) -> Resolution:
    """For another machine: what its runtime has, and what it needs itself, which must be there too."""
    libraries = reference.libraries
    has = {name for each in libraries for name in each.exports}
    if found.machine == "hexagon" and libraries:
        row = architectures.ALL.get(found.arch)
        has |= backends.ALL[row.backend].dsp_symbols if row else frozenset()
    uses = {symbol.name: symbol.weak for each in libraries for symbol in each.imports}
    beside = {name: each.path.name for each in libraries for name in each.needed}
    beside.update({each.soname or each.path.name: str(each.path) for each in libraries})
    for name, (system, names) in _SYSTEMS.items():
        if name in found.needed and found.machine == "aarch64" and libraries:
            beside.update({each: system for each in names if each not in beside})
    missing: list[str] = []
    assumed: list[Assumed] = []
    for symbol in wanted:
        if symbol.name in has or uses.get(symbol.name) is False:
            continue
        if symbol.version and symbol.origin in beside:
            assumed.append(Assumed(symbol.name, f"{symbol.version} of the device's {symbol.origin}"))
        elif symbol.name in uses:
            assumed.append(Assumed(symbol.name, "the runtime uses it where it is there"))
        else:
            missing.append(symbol.name)
    needed = tuple(Needed(name, beside.get(name, "")) for name in found.needed)
    wrapped = tuple(name for name in missing if f"__wrap_{name}" in uses)
    return Resolution(len(wanted), needed, tuple(missing), tuple(assumed), wrapped=wrapped, seen=bool(libraries))
