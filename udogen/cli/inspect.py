"""`udogen inspect`: whether a library will register, and if not, why; or what is in a context binary."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from udogen.cli import output


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path), metavar="LIBRARY|FOLDER|FILE.bin")
@click.option(
    "--against",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="LIB",
    help="A runtime library to compare with, or the folder of one; may repeat "
    "(default: the runtime of this machine, and QNN_SDK_ROOT's for a device).",
)
@click.option("--no-register", is_flag=True, help="Only read the file; run nothing of it.")
@click.option("-v", "--verbose", is_flag=True, help="Show every kernel record, and every tensor.")
@click.option("--write-manifest", is_flag=True, help="Of a context binary: write its checksum beside it, anew.")
@click.option(
    "--json-out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Of a context binary: write what is in it, as qnn-context-binary-utility does.",
)
@output.json_option
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Show what a built library is, or all in a folder, and whether a QNN runtime will take it.

    A library for this machine is registered in the real runtime, in a child process.  Exit code 0: every library will
    register; 5: one will not; 3: one cannot be judged, because no runtime was found to compare it with.

    Of a context binary: its graphs, tensors and who made it; whether it matches its manifest, and whether the JSON
    beside it agrees.  Exit code 5: it is damaged, or not the one that was written; 2: the JSON is wrong.
    """
    from udogen.inspect.context import is_context_binary

    options = InspectArguments(**given)
    context.exit(_context(options) if is_context_binary(options.path) else _libraries(options))


@dataclass(frozen=True)
class InspectArguments:
    """The options of the command line."""

    path: Path
    against: tuple[Path, ...]
    no_register: bool
    verbose: bool
    write_manifest: bool
    json_out: Path | None
    as_json: bool


def _libraries(options: InspectArguments) -> int:
    from udogen.build import tools
    from udogen.errors import RunFailed, ToolMissing, UsageError
    from udogen.inspect import report
    from udogen.inspect.inspection import InspectOptions, inspect_all
    from udogen.inspect.rules import STOPS, UNKNOWN

    path = options.path
    if options.write_manifest or options.json_out:
        option = "--write-manifest" if options.write_manifest else "--json-out"
        raise UsageError(f"{option} is for context binaries; {path} is not one", hint="leave it out")
    inspect_options = InspectOptions(options.against, tools.environment(), register=not options.no_register)
    if path.is_dir():
        with output.progress("inspect") as advance:
            found = inspect_all(path, inspect_options, on_library=advance)
    else:
        found = inspect_all(path, inspect_options)
    weights = {each.weight for each in found.judged}
    code = RunFailed.exit_code if STOPS in weights else ToolMissing.exit_code if UNKNOWN in weights else 0
    if options.as_json:
        output.print_json({"ok": code == 0, **report.as_json(found)})
    else:
        width = shutil.get_terminal_size().columns
        output.print_result("\n".join(report.lines(found, width=width, everything=options.verbose)).rstrip("\n"))
    return code


def _context(options: InspectArguments) -> int:
    from udogen.inspect import context
    from udogen.runtime.contexts import context_json, manifest

    path, library = options.path, None
    if options.against:
        first = options.against[0]
        library = first if first.is_dir() else first.with_name("libQnnSystem.so")
    with output.progress("inspect") as advance:
        found = context.inspect_context(path, system_library=library, on_step=advance)
        if options.write_manifest:
            manifest.write(path, build_id=found.info.build_id)
            found = context.inspect_context(path, system_library=library, on_step=advance)
    if options.json_out is not None:
        manifest.write_atomically(options.json_out, context_json.info_json(found.info).encode())
    if options.as_json:
        output.print_json({"ok": found.exit_code == 0, "context": context.as_json(found)})
    else:
        width = shutil.get_terminal_size().columns
        output.print_result("\n".join(context.lines(found, width=width, everything=options.verbose)))
    return found.exit_code
