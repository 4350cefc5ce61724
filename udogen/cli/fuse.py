"""`udogen onnx fuse`: nodes of an ONNX model become one custom op, which is built and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from udogen.cli import output
from udogen.cli.options import pairs, sizes


def _files(_context: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[str, Path]:
    return {name: Path(file) for name, file in pairs(texts, "--feed")}


@click.command("fuse")
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL.onnx")
@click.option(
    "--nodes", required=True, metavar="A..B",
    help="The nodes: all on paths from A to B (names of nodes or tensors), or a list separated by commas.",
)  # fmt: skip
@click.option("--name", required=True, metavar="NAME", help="The name of the new op.")
@click.option("-o", "out", type=click.Path(path_type=Path), metavar="DIR", help="The output folder (default: NAME).")
@click.option(
    "--feed", "feeds", multiple=True, metavar="NAME=FILE.npy", callback=_files,
    help="An input of the model; may repeat.  Others are random.",
)  # fmt: skip
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", callback=lambda *given: sizes(given[2]),
              help="The size of an open dimension; may repeat.")  # fmt: skip
@click.option(
    "--backend", "backends", multiple=True, type=click.Choice(["cpu", "htp"]),
    help="The backend to compare the new model on; may repeat (default: both).",
)  # fmt: skip
@click.option("--no-run", is_flag=True, help="Only write the files.")
@output.json_option
@click.pass_context
def command(
    click_context: click.Context, /, name: str, out: Path | None, no_run: bool, as_json: bool, **given: Any
) -> None:
    """Example: udogen onnx fuse model.onnx --nodes conv_1..relu_1 --name ConvRelu

    Make one custom op from nodes of an ONNX model.

    Writes to DIR a config, a kernel in Python with a line for each node, ONNX's own reference, and test cases with the
    values of the model.  DIR also gets the model with the op in place of the nodes.  Then that model runs in ONNX
    Runtime with Qualcomm's provider, and is compared with the original.  The exit code is 6 if they differ, otherwise
    that of the backend that failed: 3 without a tool, 4 if it does not build, 5 if it does not run.
    """
    from udogen.fuse import run

    backends = () if no_run else given.pop("backends") or ("cpu", "htp")
    options = run.FuseOptions(name=name, out=out or Path(name), **{**given, "backends": backends})
    fused = run.fuse(options, output.print_note if not as_json else lambda _line: None)
    if as_json:
        output.print_json(run.as_json(fused))
    else:
        for line in run.lines(fused):
            output.print_result(line)
    click_context.exit(fused.exit_code)
