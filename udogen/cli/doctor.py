"""`udogen doctor`: the tools and SDKs of this machine, problems with them, and how to get the missing ones."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass

from udogen.cli import output
from udogen.cli.options import json_option, option, verb


@dataclass(frozen=True)
class DoctorOptions:
    """The options of the command line."""

    warm: str | None = option(
        "--warm", is_flag=False, flag_value="all", metavar="[NAME,...]",
        help="Compile shared code in advance (zig's libraries for Hexagon, emulators, checkers), or only these: "
        "hexagon, aarch64, x86_64, cpu-emulator, gpu-emulator, htp-emulator, watch, qemu-plugin.",
    )  # fmt: skip
    as_json: bool = json_option()


@verb("doctor", DoctorOptions)
def command(options: DoctorOptions) -> int:
    """Example: udogen doctor

    List the tools, SDKs, variables, runtimes and emulators of this machine, and what works with them.

    Exit code 0: a package can be generated, built for this machine and run in the CPU runtime; 3: it cannot.
    """
    if options.warm is not None:
        _warm([] if options.warm == "all" else options.warm.split(","), options.as_json)
        return 0
    from udogen.doctor import checks

    results = checks.examine(checks.this_machine())
    code = checks.exit_code(results)
    if options.as_json:
        output.print_json({"ok": code == 0, "rows": [result.as_json() for result in results]})
    else:
        width = min(shutil.get_terminal_size().columns, 100)
        output.print_result("\n".join(checks.lines(results, width=width, paint=output.paint)))
        if code == 0:
            output.print_next("`udogen new scale && cd scale && make test`")
    return code


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
