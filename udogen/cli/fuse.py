"""`udogen onnx fuse`: nodes of an ONNX model become one custom op, which is built and compared."""

from __future__ import annotations

from pathlib import Path

import click

from udogen.cli import output
from udogen.cli.options import pairs, sizes
from udogen.errors import VerificationFailed


@click.command("fuse")
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL.onnx")
@click.option(
    "--nodes", required=True, metavar="A..B",
    help="The nodes: all on paths from A to B (names of nodes or of tensors), or several with commas between.",
)  # fmt: skip
@click.option("--name", required=True, metavar="NAME", help="What the op is called.")
@click.option("-o", "out", type=click.Path(path_type=Path), metavar="DIR", help="Where it is written (default: NAME).")
@click.option(
    "--feed", "feeds", multiple=True, metavar="NAME=FILE.npy",
    help="An input of the model; may repeat.  Others are random numbers.",
)  # fmt: skip
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="The size of an open dimension; may repeat.")
@click.option(
    "--backend", "backends", multiple=True, type=click.Choice(["cpu", "htp"]),
    help="Where the new model is compared; may repeat (default: both).",
)  # fmt: skip
@click.option("--no-run", is_flag=True, help="Only write the files.")
@output.json_option
@click.pass_context
def command(
    click_context: click.Context, /, model: Path, nodes: str, name: str, out: Path | None, feeds: tuple[str, ...],
    dims: tuple[str, ...], backends: tuple[str, ...], no_run: bool, as_json: bool,
) -> None:  # fmt: skip
    """Example: udogen onnx fuse model.onnx --nodes conv_1..relu_1 --name ConvRelu

    Make one custom op of nodes of an ONNX model.

    DIR gets its config, a kernel in Python with a line for each node, ONNX's own reference, and test cases with the
    values of the model.  DIR also gets the model with the op in place of the nodes.  Then that model runs in ONNX
    Runtime with Qualcomm's provider, and is compared with the original one; the exit code is 6 if they differ.
    """
    from udogen.fuse import run

    options = run.FuseOptions(
        model=model,
        nodes=nodes,
        name=name,
        out=out or Path(name),
        feeds={name: Path(file) for name, file in pairs(feeds, "--feed")},
        dims=sizes(dims),
        backends=() if no_run else backends or ("cpu", "htp"),
    )
    fused = run.fuse(options, output.print_note if not as_json else lambda _line: None)
    if as_json:
        output.print_json(run.as_json(fused))
    else:
        for line in run.lines(fused):
            output.print_result(line)
    if not all(each.right for each in fused.compared):
        click_context.exit(VerificationFailed.exit_code)
