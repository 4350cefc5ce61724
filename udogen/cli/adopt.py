"""`udogen new --from-package`: an old package -> a project of udogen."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from udogen.cli import output

if TYPE_CHECKING:
    from udogen.adopt.project import Report


def adopt(folder: Path, out: Path | None, *, to_qhpi: bool, as_json: bool) -> None:
    """Make the project OUT of a package; FOLDER is only read."""
    from udogen.adopt import project

    chosen = out or Path(f"{folder.resolve().name}-udogen")
    report = project.adopt(project.AdoptOptions(folder, chosen, to_qhpi=to_qhpi), log=output.print_note)
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


def _print(report: Report, out: Path) -> None:
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
    output.print_next(
        f"`udogen build -C {shlex.quote(str(out))}`, then write {shlex.quote(str(out))}/reference.py for `udogen test`"
    )
