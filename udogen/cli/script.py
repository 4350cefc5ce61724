"""`udogen script`: a runnable folder that takes packages to a device, runs a client there and compares numbers."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from udogen.cli import output
from udogen.cli.options import repeated_pairs
from udogen.errors import UsageError

# Named here too, so that --help imports none of them; tests hold them to the tables.
CLIENTS = "cpp ort qnn-net-run qnn-context-binary-generator snpe-net-run executorch litert".split()
OTHERS = "genie tflite java snpe-dlc-quantize".split()  # refused, with what to use


@click.command("script")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="LIB|DIR...")
@click.option(
    "--client", required=True, type=click.Choice([*CLIENTS, *OTHERS]), metavar="NAME",
    help=f"The program to run: {', '.join(CLIENTS)}.",
)  # fmt: skip
@click.option("--device", required=True, type=click.Choice(["adb", "ssh", "local"]), help="Where it runs.")
@click.option(
    "-o", "--output", "out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="The folder to write.",
)  # fmt: skip
@click.option(
    "--target", default="", metavar="TARGET",
    help="cpu, gpu, htp (with every version of Hexagon that is built), v75 (default: the package's only backend).",
)  # fmt: skip
@click.option("--linux", is_flag=True, help="The device behind adb has Linux, not Android.")
@click.option("--op", "ops", multiple=True, metavar="NAME", help="Only this op of the packages; may repeat.")
@click.option("--model", type=click.Path(path_type=Path), metavar="FILE", help="The model, as the client takes it.")
@click.option("--context", type=click.Path(path_type=Path), metavar="FILE", help="A context binary, in its place.")
@click.option("--graph", default="", metavar="NAME", help="Which graph of the context binary, where it has several.")
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=FILE",
    help="An input, .npy or raw bytes; the same name again is the next sample.",
)  # fmt: skip
@click.option(
    "--reference", "references", multiple=True, metavar="NAME=FILE",
    help="What an output shall be, .npy or raw (float32 where nothing tells); once for each sample.",
)  # fmt: skip
@click.option(
    "--tolerance", default="", metavar="ABS[,REL]",
    help="How far an output may be from its reference (default: as `udogen test`, by type).",
)  # fmt: skip
@click.option("--devices", type=click.IntRange(1, 64), default=1, metavar="N", help="Run on HTP0 … HTP(N-1), at once.")
@click.option("--signed-pd", "signed", is_flag=True, help="HTP: in a signed process domain, not an unsigned one.")
@click.option("--logcat", is_flag=True, help="Keep the device's log of the run (adb: logcat; ssh: the kernel's).")
@click.option("--prove", is_flag=True, help="Fail where the packages' own kernels did not run.")
@click.option(
    "--rules", type=click.Path(path_type=Path), metavar="FILE.py",
    help="ort: rules for the shapes that the model's custom ops return, where their configs say none.",
)  # fmt: skip
@click.option("--folder", default="", metavar="DIR", help="Where things go on the device; run.py --remote changes it.")
@output.json_option
def command(
    paths: tuple[Path, ...],
    client: str,
    device: str,
    out: Path,
    target: str,
    linux: bool,
    ops: tuple[str, ...],
    model: Path | None,
    context: Path | None,
    graph: str,
    inputs: tuple[str, ...],
    references: tuple[str, ...],
    tolerance: str,
    devices: int,
    signed: bool,
    logcat: bool,
    prove: bool,
    rules: Path | None,
    folder: str,
    as_json: bool,
) -> None:
    """Write a folder that runs built op packages in a client, on a device or on this machine: `python3 DIR/run.py`.

    It pushes the libraries that fit what the device reports, the model and the inputs, sets LD_LIBRARY_PATH and
    ADSP_LIBRARY_PATH, runs the client, brings the outputs back and compares them with the references.  Programs and
    libraries of the vendor are found when it runs (QNN_SDK_ROOT, SNPE_ROOT, or on the device), never copied into DIR.
    """
    from udogen.clients.scripts import plan as plans
    from udogen.clients.scripts import write
    from udogen.clients.scripts.making import make_plan
    from udogen.clients.scripts.wanted import Wanted

    with output.progress("script") as advance:
        plan, kept = make_plan(
            Wanted(
                paths=paths,
                client=client,
                device=device,
                target=target,
                linux=linux,
                ops=ops,
                model=model,
                context=context,
                graph=graph,
                inputs=tuple(repeated_pairs(inputs, "--input")),
                references=tuple(repeated_pairs(references, "--reference")),
                tolerance=_tolerance(tolerance),
                devices=devices,
                signed=signed,
                logcat=logcat,
                prove=prove,
                rules=rules,
                remote=folder,
                on_step=advance,
            )
        )
        written = write.write(out, write.render(plan, kept))
    if as_json:
        output.print_json({"ok": True, "folder": str(out), "written": written, "plan": plans.as_json(plan)})
        return
    output.print_result(f"{out}: {plan.title} ({len(written)} files written)")
    output.print_result(f"  python3 {shlex.quote(str(out / 'run.py'))}")
    for note in plan.notes:
        output.print_note(f"note: {note}")


def _tolerance(text: str) -> tuple[float, float] | None:
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
