"""`udogen adopt`: an old package -> a project of udogen."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from udogen.cli import output

if TYPE_CHECKING:
    from udogen.adopt.project import AdoptReport


@click.command("adopt")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "-o", "out", type=click.Path(path_type=Path), metavar="DIR",
    help="The folder to write, which must be new (default: <DIR>-udogen, here).",
)  # fmt: skip
@click.option("--to", "target", type=click.Choice(["qhpi"]), help="Do what is mechanical of a port of HTP kernels.")
@output.json_option
def command(folder: Path, out: Path | None, target: str | None, as_json: bool) -> None:
    """Make a package of Qualcomm's generators, or one by hand in their style, a project of udogen.

    Its config is copied, or read out of the sources; kernels are copied as they are; first tests are written.  DIR is
    only read.
    """
    from udogen.adopt.project import AdoptOptions, adopt

    chosen = out or Path(f"{folder.resolve().name}-udogen")
    report = adopt(AdoptOptions(folder, chosen, to_qhpi=target == "qhpi"), log=output.print_note)
    if as_json:
        output.print_json(
            {
                "ok": True,
                "folder": str(chosen),
                "config": str(report.config),
                "recognized": list(report.recognized),
                "decide": list(report.decide),
                "port": list(report.port),
                "packages": [str(each.folder) for each in report.packages],
            }
        )
    else:
        _print(report, chosen)


def _print(report: AdoptReport, out: Path) -> None:
    for title, lines in (
        ("recognized", report.recognized),
        ("TODO", report.decide),
        ("a port to QHPI", report.port),
    ):
        if lines:
            output.print_result(f"{title}:")
        for line in lines:
            output.print_result(f"  {line}")
    for each in report.packages:
        kinds = " ".join(dict.fromkeys(part.backend for part in each.plan.parts))
        output.print_result(f"{each.folder}: {kinds} package {each.plan.package}")
    output.print_note(f"  next: `udogen build -C {shlex.quote(str(out))}`; then write the references of `udogen test`")
