"""What the verbs print: results on stdout, all else on stderr, `--json` for programs, colour for people."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from udogen import __version__
from udogen.errors import UdogenError, UsageError
from udogen.opdef.problems import ConfigError, Problem, render, source_lines

_Command = TypeVar("_Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


def answer(data: Mapping[str, Any]) -> None:
    """The JSON answer of a verb."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def say(text: str) -> None:
    """A line of the result."""
    click.echo(text)


def note(text: str) -> None:
    """A line for the person who watches."""
    click.echo(text, err=True)


def warnings(problems: Iterable[Problem]) -> None:
    """Show problems on stderr with their lines."""
    lines: dict[str, list[str] | None] = {}
    for problem in problems:
        file = problem.location.file
        if file not in lines:
            lines[file] = source_lines(file)
        text = render(problem, lines[file])
        first, _, rest = text.partition("\n")
        word = "warning:" if problem.doubtful else "error:"
        click.echo(first.replace(word, _colour(word, problem.doubtful), 1) + ("\n" + rest if rest else ""), err=True)


def fail(fault: UdogenError) -> None:
    """Show an error: what, where, what next."""
    if wants_json():
        answer({"ok": False, "error": fault.as_json()})
        return
    if isinstance(fault, ConfigError) and fault.problems:
        warnings(fault.problems)
        click.echo(f"{_colour('error:', False)} {fault.message}" + (f" ({fault.hint})" if fault.hint else ""), err=True)
        return
    click.echo(f"{_colour('error:', False)} {fault.message}", err=True)
    for detail in fault.details:
        click.echo(f"  {detail}", err=True)
    if fault.hint:
        click.echo(f"  = {fault.hint}", err=True)


def misuse(fault: click.ClickException) -> None:
    """Show what is wrong with a command line."""
    if not wants_json():
        fault.show()
        return
    context = getattr(fault, "ctx", None)
    hint = f"see {context.command_path} --help" if context else "see udogen --help"
    answer({"ok": False, "error": UsageError(fault.format_message(), hint=hint).as_json()})


def wants_json() -> bool:
    """True where the command line asked for JSON, even if it was wrong in other ways."""
    return "--json" in sys.argv[1:]


def internal(fault: Exception) -> int:
    """A fault of ours: one sentence, and the traceback in a file for the report."""
    from udogen import resources

    text = f"udogen {__version__}\n{' '.join(sys.argv)}\n\n{traceback.format_exc()}"
    kept: Path | None = resources.cache_dir("crashes") / f"{resources.content_key(text.encode())}.txt"
    try:
        assert kept is not None
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(text, "utf-8")
    except OSError:
        kept = None
    where = f"the details are in {kept}" if kept else text
    if wants_json():
        error = UdogenError(f"{type(fault).__name__}: {str(fault)[:300]}", hint=f"please report it: {where}")
        answer({"ok": False, "error": {**error.as_json(), "kind": "internal"}})
        return 1
    click.echo(f"{_colour('internal error:', False)} {type(fault).__name__}: {str(fault)[:300]}", err=True)
    click.echo(f"  = this is a fault of udogen; please report it: {where}", err=True)
    return 1


def finish() -> None:
    """Bring everything that was said to whoever reads it."""
    if sys.stdout is not None:  # it is None where it was closed before we began
        sys.stdout.flush()


def reader_gone() -> int:
    """Whoever read our stdout has left: end quietly."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def unwritable(fault: OSError) -> int:
    """Our stdout takes nothing more."""
    reader_gone()
    fail(UsageError(f"the answer cannot be written: {fault.strerror}", hint="is the disk full?"))
    return UsageError.exit_code


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A plain table, as wide as its cells."""
    lines = [list(head), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A bar while a person watches; otherwise a plain line per step.  A step may count for nothing: `by=0`."""
    if not sys.stderr.isatty() or wants_json():
        quiet = wants_json()

        def plain(step: str, by: int = 1) -> None:
            if not quiet:
                click.echo(f"  {step}", err=True)

        yield plain
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=total)

        def advance(step: str, by: int = 1) -> None:
            bars.update(task, description=f"{title}: {step[-60:]}")
            bars.advance(task, by)

        yield advance


@contextmanager
def emulator_steps(backend: str, kind: str) -> Iterator[Callable[[str], None]]:
    """Who hears of the compiling of the emulator, where that may be needed."""
    from udogen.build import emulator

    if kind == "real" or backend not in emulator.ALL:
        yield lambda _line: None
        return
    with progress(f"the {backend} emulator", total=emulator.steps(backend)) as advance:
        yield advance


def paint(text: str, state: str) -> str:
    """A word of the result in the colour of what it says; plain where nobody watches."""
    colour = {"found": "green", "missing": "yellow", "wrong": "red"}.get(state)
    if colour is None or os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return text
    return click.style(text, fg=colour)


def _colour(text: str, doubtful: bool) -> str:
    if os.environ.get("NO_COLOR") or not sys.stderr.isatty():
        return text
    return click.style(text, fg="yellow" if doubtful else "red", bold=True)
