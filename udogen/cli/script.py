"""`udogen script`: a runnable folder that takes packages to a device, runs a client there and compares numbers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from udogen.cli import output
from udogen.cli.options import repeated_pairs
from udogen.errors import UsageError

# Repeated here so that --help imports no client; tests compare them with the tables.
CLIENTS = "cpp ort qnn-net-run qnn-context-binary-generator snpe-net-run executorch litert".split()
OTHERS = "genie tflite java snpe-dlc-quantize".split()  # refused, with an alternative


def _pairs(_context: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(repeated_pairs(texts, param.opts[0]))


def _tolerance(_context: click.Context, _param: click.Parameter, text: str) -> tuple[float, float] | None:
    if not text:
        return None
    absolute, _, relative = text.partition(",")
    try:
        found = (float(absolute), float(relative or "0"))
    except ValueError:
        found = (-1.0, 0.0)
    if not (0 <= found[0] < float("inf") and 0 <= found[1] < float("inf")):
        raise UsageError(f"--tolerance {text}: this is not ABS[,REL]", hint="as in --tolerance 1e-3,1e-2")
    return found


@click.command("script")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="LIB|DIR...")
@click.option(
    "--client", required=True, type=click.Choice([*CLIENTS, *OTHERS]), metavar="NAME",
    help=f"The program to run: {', '.join(CLIENTS)}.",
)  # fmt: skip
@click.option("--device", required=True, type=click.Choice(["adb", "ssh", "local"]), help="The machine to run on.")
@click.option(
    "-o", "--output", "out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="The folder to write.",
)  # fmt: skip
@click.option(
    "--target", default="", metavar="TARGET",
    help="cpu, gpu, htp (with every Hexagon version that is built), v75 (default: the package's only backend).",
)  # fmt: skip
@click.option("--linux", is_flag=True, help="The device behind adb has Linux, not Android.")
@click.option("--op", "ops", multiple=True, metavar="NAME", help="Only this op of the packages; may repeat.")
@click.option(
    "--model", type=click.Path(path_type=Path), metavar="FILE", help="The model, in the format of the client."
)
@click.option("--context", type=click.Path(path_type=Path), metavar="FILE", help="A context binary instead of a model.")
@click.option("--graph", default="", metavar="NAME", help="The graph of the context binary, if it has several.")
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=FILE", callback=_pairs,
    help="An input, .npy or raw bytes; repeat the name for further samples.",
)  # fmt: skip
@click.option(
    "--reference", "references", multiple=True, metavar="NAME=FILE", callback=_pairs,
    help="The expected output, .npy or raw (float32 if its type is unknown); once for each sample.",
)  # fmt: skip
@click.option(
    "--tolerance", default="", metavar="ABS[,REL]", callback=_tolerance,
    help="The allowed difference from the reference (default: by type, as in `udogen test`).",
)  # fmt: skip
@click.option("--devices", type=click.IntRange(1, 64), default=1, metavar="N", help="Run on HTP0 … HTP(N-1) at once.")
@click.option("--signed-pd", "signed", is_flag=True, help="HTP: in a signed process domain.")
@click.option("--logcat", is_flag=True, help="Keep the device's log of the run (adb: logcat; ssh: the kernel's).")
@click.option("--prove", is_flag=True, help="Fail if the packages' own kernels did not run.")
@click.option(
    "--rules", type=click.Path(path_type=Path), metavar="FILE.py",
    help="ort: rules for the output shapes of the model's custom ops, if their configs define none.",
)  # fmt: skip
@click.option(
    "--folder", "remote", default="", metavar="DIR", help="The folder on the device; `run.py --remote` overrides it."
)
@output.json_option
def command(out: Path, as_json: bool, **options: Any) -> None:
    """\b
    Example: udogen script out --client cpp --device local --target htp \\
               --context scale.bin --input x=x.npy -o here

    Write a folder that runs built op packages in a client, on a device or on this machine: `python3 DIR/run.py`.

    run.py pushes the matching libraries, the model and the inputs, sets LD_LIBRARY_PATH and ADSP_LIBRARY_PATH, runs the
    client, fetches the outputs and compares them with the references.  It searches for the vendor's programs and
    libraries when it runs (QNN_SDK_ROOT, SNPE_ROOT, or on the device); they are never copied into DIR.
    """
    from udogen.clients.scripts import write
    from udogen.clients.scripts.make_plan import make_plan
    from udogen.clients.scripts.options import ScriptOptions

    with output.progress("script") as advance:
        plan, references = make_plan(ScriptOptions(**options, on_step=advance))
        written = write.write(out, write.render(plan, references))
    if as_json:
        output.print_json({"ok": True, "folder": str(out), "written": written, "plan": plan.as_json()})
        return
    output.print_result(f"{out}: {plan.title} ({len(written)} files written)")
    output.print_result(f"  python3 {shlex.quote(str(out / 'run.py'))}")
    for note in plan.notes:
        output.print_note(f"note: {note}")
