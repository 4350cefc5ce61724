"""`udogen register`: what a client needs to use an op package."""

from __future__ import annotations

from pathlib import Path

import click

from udogen.cli import output

# Repeated here so that --help imports no client; a test compares it with `programs.ALL`.
CLIENTS = (
    "ort executorch litert qnn-net-run qnn-context-binary-generator tflite "
    "snpe-net-run snpe-dlc-quantize genie cpp java"
).split()


@click.command("register")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="LIB|DIR...")
@click.option(
    "--client", required=True, type=click.Choice(CLIENTS), metavar="NAME",
    help=f"The program that registers the package: {', '.join(CLIENTS)}.",
)  # fmt: skip
@click.option(
    "--target",
    default="",
    metavar="TARGET",
    help="The machine: cpu, gpu or htp (this PC), v75 (a device with HTP), cpu_android … (default: this PC).",
)
@click.option("--android", is_flag=True, help="The device has Android; otherwise Linux.")
@click.option("--op", "ops", multiple=True, metavar="NAME", help="Only this op; may repeat.")
@click.option("--folder", default="", metavar="DIR", help="The folder of the libraries on the device.")
@click.option("--only", default="", metavar="KIND", help="Print only one part: option, flag, python, cpp …")
@output.json_option
def command(
    paths: tuple[Path, ...],
    client: str,
    target: str,
    android: bool,
    ops: tuple[str, ...],
    folder: str,
    only: str,
    as_json: bool,
) -> None:
    """Example: udogen register out --client ort --target htp

    Print what a client needs to use built op packages: option, flag, code, environment, with their paths and names.

    The client's own rules are checked first: anything that it would refuse, or silently skip, is an error.
    """
    from udogen.clients import programs
    from udogen.clients.client import register
    from udogen.clients.package import PackageOptions, find_packages

    packages = find_packages(paths, PackageOptions(target, android, ops, folder))
    registration = register(programs.ALL[client], packages, only=only)
    if as_json:
        output.print_json({"ok": True, **registration.as_json()})
        return
    output.print_result(registration.as_text(only=bool(only)))
    if not only:
        for note in registration.notes:
            output.print_note(f"note: {note}")
