"""`udogen doctor --list`: the registries, as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from udogen.cli import output
from udogen.tables import table


class _Registry(NamedTuple):
    """One registry: its columns, and its rows."""

    head: Sequence[str]
    rows: Callable[[], list[tuple[str, ...]]]


def _targets() -> list[tuple[str, ...]]:
    from udogen.backends import targets
    from udogen.build import toolchains

    return [
        (
            row.id,
            row.backend,
            row.machine,
            *(chain.compiler_of(row) for chain in toolchains.ALL.values()),
            row.verified.replace("`", ""),
        )
        for table in (targets.ALL, targets.UDO)
        for row in table.values()
        if table is targets.ALL or row.id not in targets.ALL
    ]


def _backends() -> list[tuple[str, ...]]:
    from udogen import backends

    return [(row.id, row.title, "yes", ", ".join(row.delivers) or "-") for row in backends.ALL.values()]


def _layouts() -> list[tuple[str, ...]]:
    from udogen.generate import layouts

    return [(name, layout.title) for name, layout in layouts.ALL.items()]


def _toolchains() -> list[tuple[str, ...]]:
    from udogen.build import toolchains

    return [
        (chain.name, machine, compiler.replace("`", ""))
        for chain in toolchains.ALL.values()
        for machine, compiler in chain.compilers.items()
    ]


def _archs() -> list[tuple[str, ...]]:
    from udogen.backends import architectures
    from udogen.qnn import socs

    return [
        (
            arch.name,
            f"0x{arch.flags:x}",
            ", ".join(f"{release.sdk} with tools {release.tools}" for release in arch.releases),
            " ".join(soc.name for soc in socs.ALL.values() if soc.arch == arch.name),
        )
        for arch in architectures.ALL.values()
    ]


REGISTRIES = {
    "targets": _Registry(("target", "backend", "machine", "sdk", "open", "verified"), _targets),
    "backends": _Registry(("backend", "title", "generated", "delivers"), _backends),
    "layouts": _Registry(("layout", "title"), _layouts),
    "toolchains": _Registry(("toolchain", "for", "compiler"), _toolchains),
    "archs": _Registry(("arch", "e_flags", "hexagon sdk", "processors"), _archs),
}


def print_registry(what: str, *, as_json: bool) -> None:
    """Print what udogen can build, generate or compile with."""
    head, rows = REGISTRIES[what]
    if as_json:
        output.print_json({"ok": True, what: [dict(zip(head, row, strict=True)) for row in rows()]})
    else:
        output.print_result("\n".join(table(head, rows(), output.width())))
