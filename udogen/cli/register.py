"""`udogen register`: what a client must be told to use an op package."""

from __future__ import annotations

from pathlib import Path

import click

from udogen.cli import output

# Named here too, so that --help imports none of them; a test holds it to `programs.ALL`.
CLIENTS = (
    "ort executorch litert qnn-net-run qnn-context-binary-generator tflite "
    "snpe-net-run snpe-dlc-quantize genie cpp java"
).split()


@click.command("register")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="LIB|DIR...")
@click.option("--client", required=True, type=click.Choice(CLIENTS), help="The program that registers the package.")
@click.option(
    "--target",
    default="",
    metavar="TARGET",
    help="Where it runs: cpu, gpu or htp (this PC), v75 (a device with HTP), cpu_android … (default: this PC).",
)
@click.option("--android", is_flag=True, help="The device has Android; otherwise Linux.")
@click.option("--op", "ops", multiple=True, metavar="NAME", help="Only this op; may repeat.")
@click.option("--folder", default="", metavar="DIR", help="Where the libraries shall lie on the device.")
@click.option("--only", default="", metavar="KIND", help="Print one part alone: option, flag, python, cpp …")
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
    """Print what a client needs to use built op packages: option, flag, code, environment, with their paths and names.

    The client's own rules are checked first: what it would refuse, or leave out in silence, is an error here.
    """
    from udogen.clients import programs, telling
    from udogen.clients.package import Wish, find_packages

    found = programs.ALL[client]
    packages = find_packages(paths, Wish(target, android, ops, folder))
    told = telling.tell(found, packages, only=only)
    if as_json:
        output.print_json({"ok": True, **telling.as_json(told)})
        return
    output.print_result(telling.as_text(told, only=bool(only)))
    if not only:
        for note in told.notes:
            output.print_note(f"note: {note}")
