"""The options that check a kernel's safety, for every verb that runs ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from udogen.cli import output

if TYPE_CHECKING:
    from udogen.verify.results import Finding

_Command = TypeVar("_Command", bound=Callable[..., Any])

HEAP_HELP = "Report heap use during execution, with function and line."


def safety_options(command: _Command) -> _Command:
    """--heap, --guard, --leaks, --sanitize: parameters `heap`, `guard`, `leaks`, `sanitize`."""
    for option in reversed(
        (
            click.option("--heap", is_flag=True, help=HEAP_HELP),
            click.option("--guard", is_flag=True, help="Report reads and writes outside of tensors, with guard pages."),
            click.option(
                "--leaks", is_flag=True, help="Report memory that is never freed, over 1,000 executions and 100 graphs."
            ),
            click.option(
                "--sanitize",
                multiple=True,
                metavar="NAME[,NAME]",
                help="Build and run with sanitizers: address, undefined, thread (two graphs at once); may repeat.",
            ),
        )
    ):
        command = option(command)
    return command


def print_findings(findings: Iterable[Finding]) -> None:
    """Print findings for a person."""
    for finding in findings:
        output.print_result(f"{output.paint(finding.cause, 'wrong')}: {finding.sentence}")
        for line in finding.evidence.splitlines():
            output.print_result(f"  {line}")
        if finding.hint:
            output.print_result(f"  = {finding.hint}")
