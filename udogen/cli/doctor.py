"""`udogen doctor`: the tools and SDKs of this machine, problems with them, and how to get the missing ones."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass

from udogen.backends import architectures, targets
from udogen.build import toolchains
from udogen.cli import output
from udogen.cli.lazy import NameChoice
from udogen.cli.options import json_option, option, verb
from udogen.qnn import socs
from udogen.tables import table


def _targets() -> list[tuple[str, ...]]:
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


def _archs() -> list[tuple[str, ...]]:
    return [
        (
            arch.name,
            f"0x{arch.flags:x}",
            ", ".join(f"{release.sdk} with tools {release.tools}" for release in arch.releases),
            " ".join(soc.name for soc in socs.ALL.values() if soc.arch == arch.name),
        )
        for arch in architectures.ALL.values()
    ]


# Name -> its columns, and its rows.
_REGISTRIES = {
    "targets": (("target", "backend", "machine", "sdk", "open", "verified"), _targets),
    "archs": (("arch", "e_flags", "hexagon sdk", "processors"), _archs),
}


def _print_registry(what: str, *, as_json: bool) -> None:
    """Print a registry: what udogen can build, generate or compile with."""
    head, rows = _REGISTRIES[what]
    if as_json:
        output.print_json({"ok": True, what: [dict(zip(head, row, strict=True)) for row in rows()]})
    else:
        output.print_result("\n".join(table(head, rows(), output.width())))


@dataclass(frozen=True)
class DoctorOptions:
    """The options of the command line."""

    warm: str | None = option(
        "--warm", is_flag=False, flag_value="all", metavar="[NAME,...]",
        help="Compile shared code in advance (zig's libraries for Hexagon, emulators, checkers), or only these: "
        "hexagon, aarch64, x86_64, cpu-emulator, gpu-emulator, htp-emulator, watch, qemu-plugin.",
    )  # fmt: skip
    registry: str | None = option(
        "--list", type=NameChoice(list(_REGISTRIES)), help="List the available choices instead."
    )
    as_json: bool = json_option()


@verb("doctor", DoctorOptions)
def command(options: DoctorOptions) -> int:
    """Example: udogen doctor

    List the tools, SDKs, variables, runtimes and emulators of this machine, and what works with them.

    Exit code 0: a package can be generated, built for this machine and run in the CPU runtime; 3: it cannot.
    """
    if options.registry is not None:
        _print_registry(options.registry, as_json=options.as_json)
        return 0
    if options.warm is not None:
        _warm([] if options.warm == "all" else options.warm.split(","), options.as_json)
        return 0
    from udogen.doctor.checks import examine, lines, this_machine

    report = examine(this_machine())
    if options.as_json:
        output.print_json({"ok": report.works, "rows": [row.as_json() for row in report.rows]})
    else:
        width = min(shutil.get_terminal_size().columns, 100)
        output.print_result("\n".join(lines(report, width=width, paint=output.paint)))
        if report.works:
            output.print_next("`udogen new scale && cd scale && make test`")
    return report.exit_code


def _warm(chosen: list[str], as_json: bool) -> None:
    from udogen.doctor.warm import names_of
    from udogen.doctor.warm import warm as make_warm

    names = names_of(chosen)
    with output.progress("warming", total=len(names)) as advance:
        results = make_warm(names, required=bool(chosen), on_step=advance)
    if as_json:
        output.print_json({"ok": True, "items": [asdict(result) for result in results]})
        return
    for result in results:
        took = f" in {result.seconds} s" if result.seconds else ""
        why = f": {result.message} ({result.hint})" if result.message else ""
        output.print_result(f"{result.id}: {result.state}{took}{why}")
