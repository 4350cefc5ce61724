"""The machine as checks see it (tests use other machines), a check, and its result."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from udogen import process, resources
from udogen.backends.backend import Target
from udogen.build import elf, toolchains, tools
from udogen.build.toolchains import Choice
from udogen.errors import UdogenError
from udogen.runtime.library import RuntimeLibrary, find_runtime

_Answer = TypeVar("_Answer")

_SECONDS = 5.0  # for a program to print its version
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Machine:
    """A machine as checks see it."""

    env: tools.Environment
    program: Callable[[str], str]  # the path of a program; empty if missing
    version: Callable[[Sequence[str]], str]  # of a program; empty if it does not run
    wheel: Callable[[str], str]  # the version of an installed Python package; empty if missing
    choose: Callable[[Target], Choice | UdogenError]  # the toolchain for a target
    runtime: Callable[[str], RuntimeLibrary | UdogenError]  # of a backend
    release: Callable[[Path], str]  # the SDK release of a runtime library
    cache: Path
    opencl: tuple[Path, ...]  # the files that register OpenCL platforms


def this_machine() -> Machine:
    """This machine."""
    env = tools.environment()
    return Machine(
        env=env,
        program=tools.program,
        version=_version,
        wheel=_wheel,
        choose=lambda target: _or_fault(lambda: toolchains.choose(target, env)),
        runtime=lambda backend: _or_fault(lambda: find_runtime(backend, kind="real", environment=env)),
        release=lambda path: ", ".join(text.removeprefix("v") for text in elf.sdk_releases(path)),
        cache=resources.cache_path(),
        opencl=tuple(sorted(Path("/etc/OpenCL/vendors").glob("*.icd"))),
    )


def command(text: str) -> list[str]:
    """The words of a user's command line; the whole text if its quotes are unbalanced."""
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _or_fault(ask: Callable[[], _Answer]) -> _Answer | UdogenError:
    try:
        return ask()
    except UdogenError as fault:
        return fault


def _version(argv: Sequence[str]) -> str:
    try:
        done = process.run(argv, timeout=_SECONDS)
    except OSError:
        return ""
    match = _VERSION.search(done.stdout or done.stderr) if done.returncode == 0 else None
    return match[0] if match else ""


def _wheel(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


FOUND, MISSING, WRONG, UNSET = "found", "missing", "wrong", "unset"


class CheckOutcome(NamedTuple):
    """The outcome of a check."""

    state: str
    version: str = ""
    where: str = ""  # the path, or a description
    message: str = ""  # the problem
    get: str = ""  # the remedy, if it differs from `MachineCheck.get`


class MachineCheck(NamedTuple):
    """A check: what it looks for, why, and how to get it."""

    id: str
    group: str
    purpose: str
    get: str  # how to get it
    look: Callable[[Machine], CheckOutcome]
    essential: bool = False  # the open path does not work without it


class CheckResult(NamedTuple):
    """A check and its outcome: one row of the report."""

    check: MachineCheck
    outcome: CheckOutcome

    @property
    def fails(self) -> bool:
        """True if the open path does not work because of it."""
        return self.check.essential and self.outcome.state != FOUND

    @property
    def get(self) -> str:
        """How to get what is missing."""
        return self.outcome.get or self.check.get

    def as_json(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        check = {"id": self.check.id, "group": self.check.group, "essential": self.check.essential}
        return {**check, **self.outcome._asdict(), "needed_for": self.check.purpose, "get": self.get}
