"""Runs all checks, inspects the packages of a folder, and reports the verdict."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from udogen import process
from udogen.backends.backend import PROVIDER
from udogen.build.package import MANIFEST
from udogen.build.sdks import text_of
from udogen.build.tools import Environment
from udogen.doctor.checks import ALL, OF_ONE_VERSION
from udogen.doctor.model import FOUND, MISSING, UNSET, WRONG, CheckOutcome, CheckResult, Machine, MachineCheck
from udogen.errors import RunFailed, ToolMissing
from udogen.inspect.inspection import InspectOptions, inspect_all
from udogen.inspect.rules import STOPS, UNKNOWN
from udogen.opdef.problems import wrapped
from udogen.tables import many

if TYPE_CHECKING:
    from udogen.inspect.inspection import InspectedLibrary

_AT_ONCE = 8  # checks mostly wait for programs


@dataclass(frozen=True)
class Examination:
    """The results of all checks."""

    rows: tuple[CheckResult, ...]
    packages: tuple[CheckResult, ...] = ()

    @property
    def works(self) -> bool:
        """Whether the open path works: generate, build for this machine, run in the CPU runtime."""
        return not any(row.fails for row in self.rows)

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        if not self.works:
            return ToolMissing.exit_code
        return RunFailed.exit_code if any(row.outcome.state == WRONG for row in self.packages) else 0


def examine(machine: Machine, folder: Path | None = None) -> Examination:
    """Check the machine, and the packages in a folder."""
    found = process.at_once([partial(check.look, machine) for check in ALL], _AT_ONCE)
    rows = (CheckResult(check, each) for check, each in zip(ALL, found, strict=True))
    shown = tuple(row for row in rows if row.check.id not in OF_ONE_VERSION or row.outcome.state != UNSET)
    if folder is None:
        return Examination(shown)
    return Examination(shown, tuple(packages_in(folder, machine.env)))


# --- packages of a folder --------------------------------------------------------------------------------------------


GROUP = "Packages"
_PROVIDER = re.compile(rf"\b([A-Za-z_]\w*){PROVIDER}\s*\(")
_FROM_FOLDER = re.compile(r"^\s*(?:export\s+)?PACKAGE_NAME\s*[:?]?=\s*\$\(notdir\b", re.MULTILINE)


def packages_in(folder: Path, env: Environment) -> Iterator[CheckResult]:
    """A row for each package and library; they are only read, not run."""
    found = inspect_all(folder, InspectOptions((), env, register=False))
    for package in found.packages:
        name = package.folder.name
        yield _row(f"{name} ({package.folder.backend})", CheckOutcome(FOUND, "", str(package.folder.path)))
        for note in package.notes:
            yield _row(name, CheckOutcome(WRONG, "", str(package.folder.path), note))
        yield from (_library(each) for each in package.built)
        if package.not_built:
            names = " ".join(each.target for each in package.not_built)
            command = f"udogen build TARGET -C {shlex.quote(str(package.folder.path))}"
            yield _row("not built", CheckOutcome(MISSING, "", str(package.folder.path), names, command))
    yield from (_library(each) for each in found.others if each in found.judged)
    yield from _named_by_folder(folder)


def _library(found: InspectedLibrary) -> CheckResult:
    name = found.target or found.path.name
    fault = next((each for each in found.findings if each.weight in (STOPS, UNKNOWN)), None)
    machine = found.evidence.facts.elf.processor if found.evidence else ""
    if fault is None:
        return _row(name, CheckOutcome(FOUND, machine, str(found.path)))
    state = WRONG if fault.weight == STOPS else MISSING
    return _row(name, CheckOutcome(state, machine, str(found.path), f"{found.path}: {fault.message}", fault.remedy))


def _named_by_folder(folder: Path) -> Iterator[CheckResult]:
    """Packages of the vendor's generator, whose Makefile takes the package's name from the folder."""
    for each in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())) if folder.is_dir() else ():
        if (each / MANIFEST).exists() or not _FROM_FOLDER.search(text_of(each / "Makefile")):
            continue
        interfaces = sorted((each / "src").glob("*Interface.cpp"))
        names = dict.fromkeys(match[1] for path in interfaces if (match := _PROVIDER.search(text_of(path))))
        called = each.resolve().name
        if names and called not in names:
            name = next(iter(names))
            message = f"{each} is called {called}, so PACKAGE_NAME is {called}, but its provider is {name}{PROVIDER}"
            yield _row(name, CheckOutcome(WRONG, "", str(each), message, f"rename the folder to {name}"))


def _row(name: str, found: CheckOutcome) -> CheckResult:
    return CheckResult(MachineCheck(name, GROUP, "", "", lambda _machine: found), found)


# --- as text -------------------------------------------------------------------------------------------------------


Paint = Callable[[str, str], str]  # (text, state) -> the text to print

MARKS = {FOUND: "+", MISSING: "-", WRONG: "x", UNSET: "."}
_WORDS = {MISSING: "", WRONG: "wrong"}
_SHORT = 30  # a message up to this length is printed next to the name, a longer one below it
_LEAST = 14  # the minimal width of the column of names


def lines(found: Examination, *, width: int, paint: Paint = lambda text, _state: text) -> Iterator[str]:
    """The report, line by line."""
    for title, rows in groupby((*found.rows, *found.packages), key=lambda row: row.check.group):
        yield title
        yield from _group(list(rows), width, paint)
        yield ""
    if found.works:
        yield "The open path works: generate, build for this machine, run in the CPU runtime."
    else:
        names = ", ".join(row.check.id for row in found.rows if row.fails)
        yield from textwrap.wrap(f"The open path does not work: see {names} above.", width)
    wrong = [row for row in found.packages if row.outcome.state == WRONG]
    if wrong:
        yield f"{many(len(wrong), 'problem')} with the packages."


def _group(rows: Sequence[CheckResult], width: int, paint: Paint) -> Iterator[str]:
    named = max([_LEAST, *(len(row.check.id) for row in rows)])
    numbered = max(len(row.outcome.version) for row in rows if row.outcome.state == FOUND) if _any_found(rows) else 0
    for row in rows:
        state = WRONG if row.fails else row.outcome.state
        head = f"  {paint(MARKS[row.outcome.state], state)} {row.check.id:<{named}}"
        if row.outcome.state == FOUND:
            before = f"{head}  {row.outcome.version:<{numbered}}  " if numbered else f"{head}  "
            yield (before + _fitted(row.outcome.where, width - named - numbered - 8)).rstrip()
        elif row.outcome.state == UNSET:
            yield f"{head}  {_fitted(f'not set: {row.check.purpose}', width - named - 6)}"
        else:
            short = row.outcome.message if len(row.outcome.message) <= _SHORT else ""
            yield f"{head}  {paint(short or _WORDS[row.outcome.state], state)}".rstrip()
            yield from _more(row, "" if short else row.outcome.message, width)


def _more(row: CheckResult, message: str, width: int) -> Iterator[str]:
    for label, text in (("", message), ("for: ", row.check.purpose), ("get: ", row.outcome.get or row.check.get)):
        if text:
            yield from wrapped(" " * 8 + label, text, width)


def _any_found(rows: Sequence[CheckResult]) -> bool:
    return any(row.outcome.state == FOUND for row in rows)


def _fitted(text: str, width: int) -> str:
    """Shorten a text to a width; a path keeps its end, the more useful part."""
    limit = max(width, 12)
    if len(text) <= limit:
        return text
    return "…" + text[1 - limit :] if text.startswith("/") else text[: limit - 1] + "…"
