"""Libraries that are compiled once and kept: `udogen doctor --warm` compiles them before a verb has to wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from udogen import backends, process
from udogen.build import emulator, qemu_hexagon, zig_libraries
from udogen.errors import ToolMissing, UsageError

OnStep = Callable[[str], None]


@dataclass(frozen=True)
class WarmItem:
    """Something that is compiled once."""

    id: str
    title: str
    seconds: int  # an estimate
    is_warm: bool
    make: Callable[[], object]


@dataclass(frozen=True)
class WarmResult:
    """The result for an item: warm, compiled, or missing (no tool for it)."""

    id: str
    title: str
    state: str  # warm, compiled, missing
    seconds: float = 0.0
    message: str = ""
    hint: str = ""


def _zig(row: zig_libraries.ZigLibraries) -> WarmItem:
    return WarmItem(row.id, row.title, row.seconds, row.is_warm, row.make)


def _emulator(backend: str) -> WarmItem:
    kept = emulator.backend_build(backend)
    return WarmItem(f"{backend}-emulator", kept.title, kept.seconds, kept.is_warm, kept.ready)


def _watch() -> WarmItem:
    libraries = [emulator.c_build(*emulator.WATCH), emulator.c_build(*emulator.LOOP)]
    return WarmItem(
        "watch",
        "libraries that watch kernels and repeat graphs",
        sum(each.seconds for each in libraries),
        all(each.is_warm for each in libraries),
        lambda: [each.ready() for each in libraries],
    )


def _plugin() -> WarmItem:
    kept = qemu_hexagon.plugin_build(qemu_hexagon.find_qemu())
    return WarmItem("qemu-plugin", kept.title, kept.seconds, kept.is_warm, kept.ready)


# The longest first, as they are compiled in parallel.
_ITEMS: dict[str, Callable[[], WarmItem]] = {
    **{row.id: partial(_zig, row) for row in zig_libraries.ALL},
    **{f"{name}-emulator": partial(_emulator, name) for name, row in backends.ALL.items() if row.emulator},
    "watch": _watch,
    "qemu-plugin": _plugin,
}
_PLACES = {"dsp": "hexagon", "gpu": "gpu-emulator"}  # places of tests -> what they need


def names_of(chosen: Sequence[str]) -> list[str]:
    """The items of these names (`hexagon`, `htp_v68`, `gpu`); all of them where none is chosen."""
    found = []
    for name in chosen:
        item = "hexagon" if name.startswith(("htp_v", "dsp_v")) else _PLACES.get(name, name)
        if item not in _ITEMS:
            raise UsageError(f"nothing is compiled once for `{name}`", hint="choose among " + ", ".join(_ITEMS))
        found.append(item)
    return list(dict.fromkeys(found)) or list(_ITEMS)


def warm(names: Sequence[str], *, required: bool, on_step: OnStep) -> list[WarmResult]:
    """Compile what is cold, several at a time; `required`: a missing tool is an error, not a result."""

    def one(name: str) -> WarmResult:
        begun = time.perf_counter()
        title = name
        try:
            item = _ITEMS[name]()
            title = item.title
            if item.is_warm:
                result = WarmResult(name, title, "warm")
            else:
                item.make()
                result = WarmResult(name, title, "compiled", round(time.perf_counter() - begun, 1))
        except ToolMissing as fault:
            if required:
                raise
            result = WarmResult(name, title, "missing", message=fault.message, hint=fault.hint)
        on_step(f"{result.id}: {result.state}")
        return result

    return process.at_once([partial(one, name) for name in names], os.cpu_count() or 1)
