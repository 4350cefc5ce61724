"""`udogen register`: the options, code and files with which a client uses an op package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from udogen.cli import output
from udogen.cli.lazy import NameChoice, completed, known_targets
from udogen.cli.options import argument, json_option, option, verb
from udogen.plugins import names

# Repeated here so that --help imports no client; a test compares it with `programs.ALL`.
CLIENTS = (
    "executorch litert qnn-net-run qnn-context-binary-generator tflite snpe-net-run snpe-dlc-quantize cpp java"
).split() + names("clients")


@dataclass(frozen=True)
class RegisterOptions:
    """The options of the command line."""

    paths: tuple[Path, ...] = argument(required=True, metavar="LIB|DIR...")
    client: str = option(
        "--client", required=True, type=NameChoice(CLIENTS), metavar="NAME",
        help=f"The program that registers the package: {', '.join(CLIENTS)}.",
    )  # fmt: skip
    target: str = option(
        "--target", metavar="TARGET", shell_complete=completed(known_targets),
        help="The machine: cpu, gpu or htp (this PC), v75 (a device with HTP), cpu_android … (default: this PC).",
    )  # fmt: skip
    android: bool = option("--android", help="The device has Android; otherwise Linux.")
    ops: tuple[str, ...] = option("--op", metavar="NAME", help="Only this op; may repeat.")
    only: str = option("--only", metavar="KIND", help="Print only one part: option, flag, python, cpp …")
    as_json: bool = json_option()


@verb("register", RegisterOptions)
def command(options: RegisterOptions) -> None:
    """Example: udogen register out --client ort --target htp

    Print what a client needs to use built op packages: option, flag, code, environment, with their paths and names.

    The client's own rules are checked first: anything that it would refuse, or silently skip, is an error.
    """
    from udogen.clients import programs
    from udogen.clients.client import register
    from udogen.clients.package import ANDROID, PackageOptions, find_packages

    system = ANDROID if options.android else ""
    packages = find_packages(options.paths, PackageOptions(options.target, system, options.ops))
    registration = register(programs.ALL[options.client], packages, only=options.only)
    if options.as_json:
        output.print_json({"ok": True, **registration.as_json()})
        return
    output.print_result(registration.as_text(only=bool(options.only)))
    if not options.only:
        for note in registration.notes:
            output.print_note(f"note: {note}")
        output.print_next("put this into your program, or `udogen script --help` for a device")
