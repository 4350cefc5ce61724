"""Libraries that are compiled once and cached: `udogen doctor --warm` compiles them before a verb needs them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from udogen import backends, process
from udogen.build import emulator, qemu, qemu_hexagon, zig_libraries
from udogen.build.emulator import KeptBuild
from udogen.build.zig_libraries import ZigLibraries
from udogen.errors import ToolMissing, UsageError
from udogen.findings import suggestion


@dataclass(frozen=True)
class WarmResult:
    """The result for an item: warm, compiled, or missing (its tool is missing)."""

    id: str
    title: str
    state: str  # warm, compiled, missing
    seconds: float = 0.0
    message: str = ""
    hint: str = ""


def _itself(row: ZigLibraries) -> ZigLibraries:
    return row


# The slowest first, because they are compiled in parallel.
_ITEMS: dict[str, Callable[[], KeptBuild | ZigLibraries]] = {
    **{row.id: partial(_itself, row) for row in zig_libraries.ALL},
    **{f"{name}-emulator": partial(emulator.backend_build, name) for name, row in backends.ALL.items() if row.emulator},
    "watch": emulator.watch_build,
    "qemu-plugin": lambda: qemu_hexagon.plugin_build(qemu.find_qemu()),
}
_PLACES = {"dsp": "hexagon", "gpu": "gpu-emulator"}  # place of tests -> item that it needs


def names_of(chosen: Sequence[str]) -> list[str]:
    """The items with these names (`hexagon`, `htp_v68`, `gpu`); all items if `chosen` is empty."""
    names = []
    for name in chosen:
        item = "hexagon" if name.startswith(("htp_v", "dsp_v")) else _PLACES.get(name, name)
        if item not in _ITEMS:
            raise UsageError(
                f"nothing is compiled once for `{name}`",
                hint=suggestion(name, _ITEMS, "choose among " + ", ".join(_ITEMS)),
            )
        names.append(item)
    return list(dict.fromkeys(names)) or list(_ITEMS)


def warm(names: Sequence[str], *, required: bool, on_step: Callable[[str], None]) -> list[WarmResult]:
    """Compile all cold items, several in parallel; `required`: a missing tool is an error, not a result."""

    def one(name: str) -> WarmResult:
        begun = time.perf_counter()
        result = WarmResult(name, name, "warm")
        try:
            item = _ITEMS[name]()
            result = replace(result, title=item.title)
            if not item.is_warm:
                item.ready()
                result = replace(result, state="compiled", seconds=round(time.perf_counter() - begun, 1))
        except ToolMissing as fault:
            if required:
                raise
            result = replace(result, state="missing", message=fault.message, hint=fault.hint)
        on_step(f"{result.id}: {result.state}")
        return result

    return process.at_once([partial(one, name) for name in names], os.cpu_count() or 1)
