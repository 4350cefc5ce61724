"""`udogen explain`: the meaning of an error number, its name, or the lines of a log, and remedies."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import click

from udogen.cli import output
from udogen.cli.options import argument, json_option, verb
from udogen.clients import explain


@dataclass(frozen=True)
class ExplainOptions:
    """The options of the command line."""

    errors: tuple[str, ...] = argument(required=True, type=click.UNPROCESSED, metavar="CODE|NAME|LOG...")
    as_json: bool = json_option()


@verb("explain", ExplainOptions, context_settings={"ignore_unknown_options": True})
def command(options: ExplainOptions) -> None:
    """Example: udogen explain 3110

    Explain errors: what they mean, their causes by likelihood, and what to try.

    CODE is a number as any program prints it: 3110, 0x80000406, -2147482618.  LOG is a file of logcat, qnn-net-run,
    ONNX Runtime, ExecuTorch, SNPE or udogen: each known error in it is explained once, in order, with its line.
    """
    width = min(shutil.get_terminal_size().columns, 120)
    texts, data = [], []
    for error in options.errors:
        path = Path(error)
        if explain.parse_number(error) is None and path.exists():
            log = explain.explain_log(path)
            texts.append(explain.log_text(log, width=width))
            data.append(explain.log_json(log))
        else:
            meanings = explain.explain_error(error)
            texts.append(explain.error_text(error, meanings, width=width))
            data.append(explain.error_json(error, meanings))
    if options.as_json:
        output.print_json({"ok": True, "errors": data})
    else:
        output.print_result("\n\n".join(texts))
        output.print_next("try the remedies (=) in this order; `udogen doctor` checks this machine")
