"""`udogen inspect`: will this library register, and if not, why."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from udogen.cli import output


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path), metavar="LIBRARY|FOLDER")
@click.option(
    "--against",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="LIB",
    help="A runtime library to compare with, or the folder of one; may repeat "
    "(default: the runtime of this machine, and QNN_SDK_ROOT's for a device).",
)
@click.option("--no-register", is_flag=True, help="Only read the file; run nothing of it.")
@click.option("-v", "--verbose", is_flag=True, help="Show every kernel record.")
@output.json_option
@click.pass_context
def command(
    context: click.Context,
    path: Path,
    against: tuple[Path, ...],
    no_register: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Say of a built library, or of all in a folder, what it is and whether a QNN runtime will take it.

    A library for this machine is registered in the real runtime, in a child process.  Exit code 0: every library will
    register; 5: one will not; 3: one cannot be judged, because there is no runtime to compare it with.
    """
    from udogen.build import tools
    from udogen.errors import RunFailed, ToolMissing
    from udogen.inspect import report
    from udogen.inspect.checks import STOPS, UNKNOWN
    from udogen.inspect.folder import inspect_all
    from udogen.inspect.library import How

    how = How(against, tools.environment(), register=not no_register)
    if path.is_dir():
        with output.progress("inspect") as advance:
            found = inspect_all(path, how, on_library=advance)
    else:
        found = inspect_all(path, how)
    weights = {each.weight for each in found.judged}
    code = RunFailed.exit_code if STOPS in weights else ToolMissing.exit_code if UNKNOWN in weights else 0
    if as_json:
        output.answer({"ok": code == 0, **report.as_json(found)})
    else:
        text = "\n".join(report.lines(found, width=shutil.get_terminal_size().columns, everything=verbose))
        output.say(text.rstrip("\n"))
    context.exit(code)
