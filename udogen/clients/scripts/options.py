"""The options of a script, and errors for those that a client does not support."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from udogen import backends
from udogen.clients import programs
from udogen.clients.client import Client, check_rules
from udogen.clients.package import ANDROID, LINUX, PC, Package, PackageOptions, find_packages
from udogen.clients.scripts import commands
from udogen.clients.scripts.commands import ScriptClient
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
    ops: tuple[str, ...] = ()
    model: Path | None = None
    context: Path | None = None
    graph: str = ""
    inputs: tuple[tuple[str, str], ...] = ()
    references: tuple[tuple[str, str], ...] = ()
    tolerance: tuple[float, float] | None = None
    devices: int = 1
    signed: bool = False
    logcat: bool = False
    prove: bool = False
    rules: Path | None = None
    remote: str = ""
    on_step: Callable[[str], None] = field(default=lambda _line: None)

    @property
    def system(self) -> str:
        """The system on which the client runs."""
        if self.device == "local":
            return PC
        return ANDROID if self.device == "adb" and not self.linux else LINUX


def find_client(options: ScriptOptions) -> tuple[ScriptClient, Client]:
    """The client of the options; an error if it has no script."""
    client = programs.ALL[options.client]
    if options.client in commands.NO_COMMAND:
        why, alternative = commands.NO_COMMAND[options.client]
        raise UsageError(
            f"there is no script for {options.client}: {why}", hint=f"--client {alternative}; or `udogen register`"
        )
    script_client = commands.find(options.client)
    if script_client is None:  # the client's own rules explain why
        check_rules(client, find_packages(options.paths, PackageOptions(options.target, ops=options.ops)))
        raise UsageError(f"there is no script for {options.client}", hint="one of " + ", ".join(commands.ALL))
    return script_client, client


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


def check_options(options: ScriptOptions, client: ScriptClient, packages: Sequence[Package]) -> None:
    """Raise one error for all options that the client, or a script for it, does not support."""
    hexagon = backends.ALL[packages[0].backend].two_halves and options.system != PC
    rows = (*_of_devices(options, client, hexagon=hexagon), *_of_clients(options, client))
    if faults := [text for wrong, text in rows if wrong]:
        raise UsageError(faults[0], details=faults[1:], hint="see udogen script --help")


def _of_devices(options: ScriptOptions, client: ScriptClient, *, hexagon: bool) -> Iterator[tuple[object, str]]:
    """(whether it is an error, message) for the options for devices."""
    several = options.devices > 1
    yield several and not hexagon, "--devices is for several HTP devices: HTP on a device behind adb or ssh"
    refused = several and hexagon and client.no_devices
    yield refused, f"{options.client} takes no --devices: {client.no_devices}"
    signing = ", ".join(name for name, row in commands.ALL.items() if row.signs)
    yield options.signed and not (client.signs and hexagon), f"--signed-pd is for HTP on a device, with {signing}"
    yield options.logcat and options.device == "local", "--logcat is for devices"
    wrong = options.linux and options.device != "adb"
    yield wrong, "--linux is for devices behind adb; those behind ssh have Linux"
    no_log = options.linux or options.device == "ssh"
    yield (
        options.prove and hexagon and no_log,
        ("--prove: executions on Hexagon are counted there, and only Android (adb) has a log with the counts"),
    )


def _of_clients(options: ScriptOptions, client: ScriptClient) -> Iterator[tuple[object, str]]:
    """(whether it is an error, message) for the options that only some clients have."""
    name = options.client
    no_outputs = options.references and client.output is None
    yield no_outputs, f"{name} writes no outputs to compare: leave --reference out"
    for option, given in (("--input", options.inputs), ("--prove", options.prove)):
        yield given and not client.executes, f"{name} executes nothing: leave {option} out"
    yield options.rules and client.prepare is None, f"{name} takes no --rules: shapes are added only to models of ort"
    yield options.graph and options.context is None, "--graph chooses among the graphs of --context"
    yield options.system == ANDROID and client.no_android, client.no_android
