"""`udogen explain`: what an error number, its name, or the lines of a log mean, and what to try."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from udogen.cli import output
from udogen.error_tables import INTERFACES


@click.command("explain", context_settings={"ignore_unknown_options": True})
@click.argument("errors", nargs=-1, required=True, type=click.UNPROCESSED, metavar="CODE|NAME|LOG...")
@click.option(
    "--of",
    type=click.Choice(INTERFACES),
    default=None,
    help="Whose number it is (default: everybody's who has it, the likeliest first).",
)
@output.json_option
def command(errors: tuple[str, ...], of: str | None, as_json: bool) -> None:
    """Say what an error means, why it comes, in the order of likelihood, and what to try.

    CODE is a number as any program prints it: 3110, 0x80000406, -2147482618.  LOG is a file of logcat, qnn-net-run,
    ONNX Runtime, ExecuTorch, SNPE or udogen: what is known in it is explained once, in order, with its line.
    """
    from udogen.clients.errors import decode, report
    from udogen.clients.errors.logs import explain_log

    width = min(shutil.get_terminal_size().columns, 120)
    texts, data = [], []
    for error in errors:
        path = Path(error)
        if decode.number(error) is None and path.exists():
            explained = explain_log(path)
            texts.append(report.log_text(explained, width=width))
            data.append(report.log_json(explained))
        else:
            readings = decode.explain(error, of=of or "")
            texts.append(report.readings_text(error, readings, width=width))
            data.append(report.readings_json(error, readings))
    if as_json:
        output.print_json({"ok": True, "errors": data})
    else:
        output.print_result("\n\n".join(texts))
