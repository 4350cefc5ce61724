"""`udogen doctor`: what this machine has, what is wrong, and how to get the rest."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from udogen.cli import output


@click.command("doctor")
@click.argument("folder", type=click.Path(exists=True, path_type=Path), metavar="[DIR]", required=False)
@output.json_option
@click.pass_context
def command(context: click.Context, folder: Path | None, as_json: bool) -> None:
    """Show which tools, SDKs, variables, runtimes and emulators this machine has, and what works with them.

    With DIR the packages in it too.  Exit code 0: a package can be generated, built for this machine and run in the CPU
    runtime; 3: it cannot; 5: that works, but a package in DIR is not right.
    """
    from udogen.doctor import report
    from udogen.doctor.examination import examine
    from udogen.doctor.model import this_machine

    found = examine(this_machine(), folder)
    if as_json:
        output.print_json(
            {
                "ok": found.exit_code == 0,
                "works": found.works,
                "rows": [row.as_json() for row in found.rows],
                "packages": [row.as_json() for row in found.packages],
            }
        )
    else:
        width = min(shutil.get_terminal_size().columns, 100)
        output.print_result("\n".join(report.lines(found, width=width, paint=output.paint)))
    context.exit(found.exit_code)
