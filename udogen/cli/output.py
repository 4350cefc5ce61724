"""The output of verbs: results on stdout, everything else on stderr, `--json` for programs, colour on terminals."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import click

from udogen import __version__
from udogen.errors import UdogenError, UsageError
from udogen.findings import UNSEEN, ConfigError, Finding, render, source_lines, visible, wrapped

_STYLES = {  # a noncharacter, which marks the style until the text is written -> its escape sequence
    "\ufdd0": "\x1b[0m",
    "\ufdd1": "\x1b[31m",  # red
    "\ufdd2": "\x1b[32m",  # green
    "\ufdd3": "\x1b[33m",  # yellow
    "\ufdd4": "\x1b[1m",  # bold
}
_END, _RED, _GREEN, _YELLOW, _BOLD = _STYLES


def _print(text: str, *, err: bool = False) -> None:
    """The only function that writes text to the terminal: escapes all control characters except udogen's colours."""
    shown = visible(text)
    if err and sys.stderr.isatty():
        columns = width(err=True)
        shown = "\n".join(_fitted(line, columns) for line in shown.split("\n"))
    for mark, code in _STYLES.items():
        shown = shown.replace(mark, code)
    with suppress(OSError) if err else nullcontext():  # the result and the exit code matter more than a note
        click.echo(shown, err=err)


_WHOLE = re.compile(r"next: |\s*\d+ \| |\s*\| ")  # commands to copy, and lines of files


def _fitted(line: str, columns: int) -> str:
    """The line, broken between words if it is too long; text in backticks is not broken."""
    if len(line) <= columns or _WHOLE.match(line):
        return line
    kept = re.sub(r"`[^`]*`", lambda quoted: quoted[0].replace(" ", "\xa0"), line)
    start = len(line) - len(line.lstrip()) + 2
    return "\n".join(wrapped(kept[:start], kept[start:], columns)).replace("\xa0", " ")


def print_json(data: Mapping[str, Any]) -> None:
    """Print the JSON result of a verb."""
    click.echo(json_text(json.dumps(_finite(data), indent=2, ensure_ascii=False)))


def _finite(data: Any) -> Any:
    """The same data with strings for infinities and NaN, which JSON cannot express."""
    if isinstance(data, float):
        return data if math.isfinite(data) else str(data)
    if isinstance(data, Mapping):
        return {name: _finite(each) for name, each in data.items()}
    return [_finite(each) for each in data] if isinstance(data, list | tuple) else data


def json_text(text: str) -> str:
    """The same JSON, with escapes for characters that a terminal would interpret or hide."""
    return UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def xml_text(text: str) -> str:
    """The same XML, with references for characters that a terminal would interpret or hide."""
    return UNSEEN.sub(lambda match: f"&#x{ord(match[0]):X};", text)


def print_file(text: str) -> None:
    """Print a file as the result, after `json_text` or `xml_text`."""
    click.echo(text, nl=False)


def print_result(text: str) -> None:
    """Print a line of the result on stdout."""
    _print(text)


def print_note(text: str) -> None:
    """Print a line on stderr."""
    _print(text, err=True)


def print_next(text: str) -> None:
    """Print the last line of a verb on stderr: the next step."""
    print_note(f"next: {text}")


def make_command(goal: str, folders: Iterable[Path]) -> str:
    """`make GOAL` for the first of these folders that is a project with this goal; empty if none is."""
    for folder in folders:
        makefile = folder / "Makefile"
        is_project = (folder / "op_tests.toml").is_file() and makefile.is_file()
        if is_project and f"\n{goal}:" in makefile.read_text("utf-8", "replace"):
            here = os.path.relpath(folder)
            return f"make {goal}" if here == "." else f"make -C {shlex.quote(here)} {goal}"
    return ""


def warn(text: str) -> None:
    """Print a warning on stderr."""
    print_note(f"{_colour('warning:', True)} {text}")


def print_findings(findings: Iterable[Finding]) -> None:
    """Print the findings about a kernel."""
    for finding in findings:
        print_result(f"{paint(finding.kind, 'wrong')}: {finding.message}")
        for line in finding.evidence.splitlines():
            print_result(f"  {line}")
        if finding.hint:
            print_result(f"  = {finding.hint}")


def print_problems(findings: Iterable[Finding]) -> None:
    """Print problems on stderr, with the lines of the files."""
    lines: dict[str, list[str] | None] = {}
    for finding in findings:
        file = finding.location.file
        if file not in lines:
            lines[file] = source_lines(file)
        text = render(finding, lines[file], width=width(err=True))
        first, _, rest = text.partition("\n")
        word = "warning:" if not finding.is_error else "error:"
        print_note(first.replace(word, _colour(word, not finding.is_error), 1) + ("\n" + rest if rest else ""))


def print_error(fault: UdogenError) -> None:
    """Print an error: the problem, its place, the next step."""
    if json_requested():
        print_json({"ok": False, "error": fault.as_json()})
        return
    if isinstance(fault, ConfigError) and fault.findings:
        print_problems(fault.findings)
        print_note(f"{_colour('error:', False)} {fault.message}" + (f" ({fault.hint})" if fault.hint else ""))
        return
    # Further lines of a text are indented, so that they do not look like lines of udogen.
    print_note(f"{_colour('error:', False)} {_indented(fault.message)}")
    for detail in fault.details:
        print_note(f"  {_indented(detail)}")
    if fault.hint:
        print_note(f"  = {_indented(fault.hint)}")


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")


def print_usage_error(fault: click.ClickException) -> None:
    """Print the error in a command line."""
    if not json_requested():
        shown = StringIO()
        fault.show(file=shown)
        print_note(shown.getvalue().rstrip("\n"))
        return
    context = getattr(fault, "ctx", None)
    hint = f"see {context.command_path} --help" if context else "see udogen --help"
    print_json({"ok": False, "error": UsageError(fault.format_message(), hint=hint).as_json()})


def json_requested() -> bool:
    """True if the command line requests JSON, even if it has other errors."""
    return "--json" in sys.argv[1:]


def print_internal_error(fault: BaseException) -> int:
    """Report a bug of udogen: one sentence, and the traceback in a file; returns the exit code."""
    import traceback

    from udogen import resources

    text = f"udogen {__version__}\n{' '.join(sys.argv)}\n\n{traceback.format_exc()}"
    kept: Path | None = None
    try:
        kept = resources.cache_dir("crashes") / f"{resources.content_key(text.encode('utf-8', 'replace'))}.txt"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(text, "utf-8", "replace")
    except (OSError, ValueError, UsageError):
        kept = None
    where = f"the details are in {kept}" if kept else text
    if json_requested():
        error = UdogenError(f"{type(fault).__name__}: {str(fault)[:300]}", hint=f"please report it: {where}")
        print_json({"ok": False, "error": {**error.as_json(), "kind": "internal"}})
        return 1
    print_note(f"{_colour('internal error:', False)} {type(fault).__name__}: {_indented(str(fault)[:300])}")
    print_note(f"  = this is a fault of udogen; please report it: {where}")
    return 1


def reader_gone() -> int:
    """The exit code if the reader of stdout is gone; further output is discarded."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def stdout_failed(fault: OSError) -> int:
    """Report that stdout can no longer be written; returns the exit code."""
    reader_gone()
    print_error(UsageError(f"the result cannot be written: {fault.strerror}", hint="check whether the disk is full"))
    return UsageError.exit_code


def width(*, err: bool = False) -> int:
    """The columns of the terminal that shows the result (or stderr); 0 if it goes to a file or a program."""
    if not (sys.stderr if err else sys.stdout).isatty():
        return 0
    from shutil import get_terminal_size  # 3 ms that output to a file or a program does not need

    return get_terminal_size().columns


_BAR = 24  # columns of a progress bar


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A progress bar on a terminal, otherwise a line per step.  Steps with `by=0` do not advance the bar."""
    if not sys.stderr.isatty() or json_requested():
        quiet = json_requested()

        def plain(step: str, by: int = 1) -> None:
            if not quiet:
                print_note(f"  {step}")

        yield plain
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)  # last, so that the bar keeps its place and width
    columns = [BarColumn(bar_width=_BAR), MofNCompleteColumn(), TimeElapsedColumn(), text]
    bars = Progress(*columns, console=Console(stderr=True), transient=True)
    left = max(20, bars.console.width - _BAR - 20)  # the rest of the line
    task = bars.add_task(visible(title)[:left], total=total)

    def advance(step: str, by: int = 1) -> None:
        bars.start()  # not earlier: there may be no steps
        bars.update(task, description=visible(f"{title}: {step}")[:left])
        bars.advance(task, by)

    try:
        yield advance
    finally:
        bars.stop()


@contextmanager
def emulator_steps(backend: str, kind: str) -> Iterator[Callable[[str], None]]:
    """Show the progress of compiling the emulator, if it may have to be compiled."""
    from udogen import backends
    from udogen.build import emulator

    if kind == "real" or backend not in backends.ALL or backends.ALL[backend].emulator is None:
        yield lambda _line: None
        return
    with progress(f"the {backend} emulator", total=emulator.steps(backend)) as advance:
        yield advance


def paint(text: str, state: str) -> str:
    """A word of the result in the colour of its state; plain if stdout is not a terminal."""
    colour = {"found": _GREEN, "missing": _YELLOW, "wrong": _RED}.get(state)
    if colour is None or os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return text
    return f"{colour}{text}{_END}"


def _colour(text: str, doubtful: bool) -> str:
    if os.environ.get("NO_COLOR") or not sys.stderr.isatty():
        return text
    return f"{_YELLOW if doubtful else _RED}{_BOLD}{text}{_END}"
