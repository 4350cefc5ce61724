"""`udogen script`: a runnable folder that copies packages to a device, runs a client there and compares outputs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import click

from udogen.cli import output
from udogen.cli.lazy import NameChoice, completed, known_targets
from udogen.cli.options import TOLERANCE, PathType, argument, json_option, option, repeated_pairs, same_options, verb

CLIENTS = ("cpp", "qnn-net-run", "snpe-net-run")  # so that --help imports none; a test compares it with their table


def _pairs(_context: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(repeated_pairs(texts, param.opts[0]))


@dataclass(frozen=True)
class ScriptArguments:
    """The options of the command line."""

    paths: tuple[Path, ...] = argument(required=True, metavar="LIB|DIR...")
    client: str = option(
        "--client", required=True, type=NameChoice(CLIENTS), metavar="NAME",
        help=f"The program to run: {', '.join(CLIENTS)}.",
    )  # fmt: skip
    model: Path = option(
        "--model", required=True, metavar="FILE",
        help="What to run: a context binary; for qnn-net-run also a model library; for snpe-net-run a .dlc.",
    )  # fmt: skip
    on: str = option(
        "--on", metavar="DEVICE",
        help="The device to run on: ssh:USER@HOST[:PORT], adb (Android), adb:SERIAL (default: this machine).",
    )  # fmt: skip
    out: Path = option(
        "-o", "--output", required=True, type=PathType(path_type=Path, file_okay=False), metavar="DIR",
        help="The folder to write.",
    )  # fmt: skip
    target: str = option(
        "--target", metavar="TARGET", shell_complete=completed(known_targets),
        help="cpu, gpu, htp, or v75 for HTP on a device with this Hexagon version (default: the only backend).",
    )  # fmt: skip
    graph: str = option("--graph", metavar="NAME", help="The graph of the context binary, if it has several.")
    inputs: tuple[tuple[str, str], ...] = option(
        "--input", metavar="NAME=FILE", callback=_pairs,
        help="An input, a .npy file; may repeat.",
    )  # fmt: skip
    references: tuple[tuple[str, str], ...] = option(
        "--reference", metavar="NAME=FILE", callback=_pairs,
        help="The expected output, a .npy file; may repeat.",
    )  # fmt: skip
    tolerance: float | None = option(
        "--tolerance", type=TOLERANCE, metavar="X",
        help="The allowed difference from the reference (default: by type, as in `udogen test`).",
    )  # fmt: skip
    as_json: bool = json_option()


@verb("script", ScriptArguments)
def command(options: ScriptArguments) -> None:
    """\b
    Example: udogen script out --client cpp --target htp \\
               --model scale.bin --input x=x.npy -o here

    Write a folder that runs built op packages in a client, on a device or on this machine: `python3 DIR/run.py`.

    run.py pushes the matching libraries, the model and the inputs, sets LD_LIBRARY_PATH and ADSP_LIBRARY_PATH, runs the
    client, fetches the outputs and compares them with the references.  It searches for the vendor's programs and
    libraries when it runs (QNN_SDK_ROOT, SNPE_ROOT, or on the device); they are never copied into DIR.
    """
    from udogen.clients.scripts.make_plan import ScriptOptions, make_plan
    from udogen.clients.scripts.plan import script_files, write_script

    with output.progress("script") as advance:
        plan, references = make_plan(same_options(ScriptOptions, options, on_step=advance))
        files = script_files(plan, references)
        write_script(options.out, files)
    if options.as_json:
        output.print_json({"ok": True, "folder": str(options.out), "written": list(files), "plan": plan.as_json()})
        return
    output.print_result(f"{options.out}: {plan.title} ({len(files)} files written)")
    for note in plan.notes:
        output.print_note(f"note: {note}")
    output.print_next(f"`python3 {shlex.quote(str(options.out / 'run.py'))}`")
