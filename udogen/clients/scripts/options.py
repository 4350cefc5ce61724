"""The options of a script, and errors for those that a client does not support."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from udogen import backends
from udogen.clients.package import ANDROID, LINUX, PC, Package
from udogen.clients.scripts import commands
from udogen.errors import UsageError, read_plain
from udogen.runtime.execution_counts import VARIABLE


@dataclass(frozen=True)
class ScriptOptions:
    """The options of `udogen script`."""

    paths: tuple[Path, ...]
    client: str
    device: str  # adb, ssh or local
    target: str = ""
    linux: bool = False  # the device behind adb has Linux
    model: Path | None = None
    context: Path | None = None
    graph: str = ""
    inputs: tuple[tuple[str, str], ...] = ()
    references: tuple[tuple[str, str], ...] = ()
    tolerance: tuple[float, float] | None = None
    signed: bool = False
    prove: bool = False
    on_step: Callable[[str], None] = field(default=lambda _line: None)

    @property
    def system(self) -> str:
        """The system on which the client runs."""
        if self.device == "local":
            return PC
        return ANDROID if self.device == "adb" and not self.linux else LINUX


def check_counts(packages: Sequence[Package]) -> None:
    """Raise if a library was built without counters, which `--prove` needs."""
    for package in packages:
        for library in package.libraries:
            if VARIABLE.encode() not in read_plain(library.file):
                where = f" -C {shlex.quote(str(package.built.path))}" if package.built else ""
                raise UsageError(
                    f"--prove: {library.file} writes no counts: it was built without --prove",
                    hint=f"build the library with `udogen build --prove{where}`",
                )


def check_options(options: ScriptOptions, packages: Sequence[Package]) -> None:
    """Raise one error for all options that the client, or a script for it, does not support."""
    hexagon = backends.ALL[packages[0].backend].two_halves and options.system != PC
    signing = [name for name, row in commands.ALL.items() if row.signs]
    rows = (
        (
            options.signed and not (options.client in signing and hexagon),
            f"--signed-pd is for HTP on a device, with {', '.join(signing)}",
        ),
        (
            options.linux and options.device != "adb",
            "--linux is for devices behind adb; those behind ssh have Linux",
        ),
        (
            options.prove and hexagon and (options.linux or options.device == "ssh"),
            "--prove: executions on Hexagon are counted there, and only Android (adb) has a log with the counts",
        ),
        (options.graph and options.context is None, "--graph chooses among the graphs of --context"),
    )
    if faults := [text for wrong, text in rows if wrong]:
        raise UsageError(faults[0], details=faults[1:], hint="see udogen script --help")
