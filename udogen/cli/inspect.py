"""`udogen inspect`: will this library register, and if not, why; or: what is in this context binary."""

from __future__ import annotations

import shutil
from pathlib import Path

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
def command(
    context: click.Context,
    path: Path,
    against: tuple[Path, ...],
    no_register: bool,
    verbose: bool,
    write_manifest: bool,
    json_out: Path | None,
    as_json: bool,
) -> None:
    """Say of a built library, or of all in a folder, what it is and whether a QNN runtime will take it.

    A library for this machine is registered in the real runtime, in a child process.  Exit code 0: every library will
    register; 5: one will not; 3: one cannot be judged, because there is no runtime to compare it with.

    Of a context binary: its graphs, tensors and who made it; whether it is as its manifest says, and whether the JSON
    beside it says the same.  Exit code 5: it is damaged, or not the one that was written; 2: the JSON is wrong.
    """
    from udogen.inspect.context import is_context_binary

    if is_context_binary(path):
        context.exit(_context(path, against, verbose, write_manifest, json_out, as_json))
    if write_manifest or json_out:
        from udogen.errors import UsageError

        what = "--write-manifest" if write_manifest else "--json-out"
        raise UsageError(f"{what} is for context binaries; {path} is none", hint="leave it out")
    from udogen.build import tools
    from udogen.errors import RunFailed, ToolMissing
    from udogen.inspect import report
    from udogen.inspect.inspection import How, inspect_all
    from udogen.inspect.rules import STOPS, UNKNOWN

    how = How(against, tools.environment(), register=not no_register)
    if path.is_dir():
        with output.progress("inspect") as advance:
            found = inspect_all(path, how, on_library=advance)
    else:
        found = inspect_all(path, how)
    weights = {each.weight for each in found.judged}
    code = RunFailed.exit_code if STOPS in weights else ToolMissing.exit_code if UNKNOWN in weights else 0
    if as_json:
        output.print_json({"ok": code == 0, **report.as_json(found)})
    else:
        text = "\n".join(report.lines(found, width=shutil.get_terminal_size().columns, everything=verbose))
        output.print_result(text.rstrip("\n"))
    context.exit(code)


def _context(
    path: Path, against: tuple[Path, ...], verbose: bool, write_manifest: bool, json_out: Path | None, as_json: bool
) -> int:
    from udogen.inspect import context
    from udogen.runtime.contexts import context_json, manifest

    library = None
    if against:
        library = against[0] if against[0].is_dir() else against[0].with_name("libQnnSystem.so")
    with output.progress("inspect") as advance:
        found = context.inspect_context(path, system_library=library, on_step=advance)
        if write_manifest:
            manifest.write(path, build_id=found.info.build_id)
            found = context.inspect_context(path, system_library=library, on_step=advance)
    if json_out is not None:
        manifest.write_atomically(json_out, context_json.info_json(found.info).encode())
    if as_json:
        output.print_json({"ok": found.exit_code == 0, "context": context.as_json(found)})
    else:
        width = shutil.get_terminal_size().columns
        output.print_result("\n".join(context.lines(found, width=width, everything=verbose)))
    return found.exit_code
