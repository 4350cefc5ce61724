"""What a client, or a script of it, cannot do."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from udogen.clients import programs
from udogen.clients.client import Client, check
from udogen.clients.package import ANDROID, PC, Package, Wish, find_packages
from udogen.clients.scripts import commands
from udogen.clients.scripts.commands import Runs
from udogen.clients.scripts.make_plan import in_folder
from udogen.clients.scripts.options import Wanted
from udogen.errors import UsageError, read_plain
from udogen.runtime.proof import VARIABLE

_SEPARATORS = ',:;"\n'
_ALWAYS = ":;\n"  # of LD_LIBRARY_PATH (glibc takes both), of ADSP_LIBRARY_PATH, of our own lists


def client_of(wanted: Wanted) -> tuple[Runs, Client]:
    client = programs.ALL[wanted.client]
    if wanted.client in commands.NO_COMMAND:
        why, instead = commands.NO_COMMAND[wanted.client]
        raise UsageError(
            f"there is no script for {wanted.client}: {why}", hint=f"--client {instead}; or `udogen register`"
        )
    if wanted.client not in commands.ALL:  # the client's own rules say why
        check(client, find_packages(wanted.paths, Wish(wanted.target, ops=wanted.ops)))
        raise UsageError(f"there is no script for {wanted.client}", hint="one of " + ", ".join(commands.ALL))
    return commands.ALL[wanted.client], client


def check_rules(client: Client, packages: Sequence[Package]) -> None:
    """The client's own rules, with our options for what they say of those of `udogen register`."""
    check(client, packages, script=True)


def refuse_options(wanted: Wanted, runs: Runs, packages: Sequence[Package]) -> None:
    hexagon = packages[0].backend == "htp" and wanted.system != PC
    faults = []
    if wanted.devices > 1 and not hexagon:
        faults.append("--devices is for several HTP devices: HTP on a device behind adb or ssh")
    elif wanted.devices > 1 and runs.no_devices:
        faults.append(f"{wanted.client} takes no --devices: {runs.no_devices}")
    if wanted.signed and not (runs.signs and hexagon):
        can = ", ".join(name for name, row in commands.ALL.items() if row.signs)
        faults.append(f"--signed-pd is for HTP on a device, with {can}")
    if wanted.references and runs.output is None:
        faults.append(f"{wanted.client} writes no outputs that could be compared: leave --reference out")
    if wanted.logcat and wanted.device == "local":
        faults.append("--logcat is for devices")
    if not runs.executes and (wanted.prove or wanted.inputs):
        option = "--prove" if wanted.prove else "--input"
        faults.append(f"{wanted.client} executes nothing: leave {option} out")
    if wanted.prove and hexagon and (wanted.linux or wanted.device == "ssh"):
        faults.append("--prove: what runs on Hexagon is counted there, and told in the log of Android (adb) alone")
    if wanted.rules is not None and wanted.client != "ort":
        faults.append("--rules are for ort: only its models are given shapes")
    if wanted.linux and wanted.device != "adb":
        faults.append("--linux is for devices behind adb; those behind ssh have Linux")
    if wanted.graph and wanted.context is None:
        faults.append("--graph chooses among the graphs of --context")
    if wanted.client == "ort" and wanted.system == ANDROID:
        faults.append("ONNX Runtime is run in Python, which Android has not: use --device ssh, or adb with --linux")
    if faults:
        raise UsageError(faults[0], details=faults[1:], hint="see udogen script --help")


def need_counts(packages: Sequence[Package]) -> None:
    """Raise where a library that `--prove` asks for its counts was built without the part that writes them."""
    for package in packages:
        for library in package.libraries:
            if not library.hexagon and VARIABLE.encode() not in read_plain(library.file):
                where = f" -C {shlex.quote(str(package.built.path))}" if package.built else ""
                raise UsageError(
                    f"--prove: {library.file} writes no counts, for it was built without them",
                    hint=f"build the library with `udogen build --prove{where}`",
                )


def forbidden(client: Client, packages: Sequence[Package]) -> str:
    """The characters that the client's own rules refuse in a path, for the folder is known when the script runs."""
    rules = [rule for rule in client.rules if rule.id == "separators"]
    found = [
        char
        for char in _SEPARATORS
        if any(True for rule in rules for _ in rule.broken([in_folder(each, f"/{char}") for each in packages]))
    ]
    return "".join(char for char in _SEPARATORS if char in found or char in _ALWAYS)
