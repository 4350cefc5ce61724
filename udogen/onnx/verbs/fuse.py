"""`udogen onnx fuse`: nodes of an ONNX model become one custom op, which is built and compared."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from udogen.cli import output
from udogen.cli.options import argument, json_option, option, pairs, same_options, sizes, verb


def _files(_context: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> dict[str, Path]:
    return {name: Path(file) for name, file in pairs(texts, "--feed")}


@dataclass(frozen=True)
class FuseArguments:
    """The options of the command line."""

    model: Path = argument(metavar="MODEL.onnx")
    nodes: str = option(
        "--nodes", required=True, metavar="A..B",
        help="The nodes: all on paths from A to B (names of nodes or tensors), or a list separated by commas.",
    )  # fmt: skip
    name: str = option("--name", required=True, metavar="NAME", help="The name of the new op.")
    out: Path | None = option("-o", metavar="DIR", help="The output folder (default: NAME).")
    feeds: Mapping[str, Path] = option(
        "--feed", multiple=True, metavar="NAME=FILE.npy", callback=_files,
        help="An input of the model; may repeat.  Others are random.",
    )  # fmt: skip
    dims: Mapping[str, int] = option(
        "--dim", multiple=True, metavar="NAME=SIZE", callback=lambda *given: sizes(given[2]),
        help="The size of an open dimension; may repeat.",
    )  # fmt: skip
    backends: tuple[str, ...] = option(
        "--backend", type=click.Choice(["cpu", "htp"]),
        help="The backend to compare the new model on; may repeat (default: both).",
    )  # fmt: skip
    no_run: bool = option("--no-run", help="Only write the files.")
    as_json: bool = json_option()


@verb("fuse", FuseArguments, short_help="Make one custom op from nodes of a model.")
def command(options: FuseArguments) -> int:
    """Example: udogen onnx fuse model.onnx --nodes conv_1..relu_1 --name ConvRelu

    Make one custom op from nodes of an ONNX model.

    Writes to DIR a config, a kernel in Python with a line for each node, ONNX's own reference, and test cases with the
    values of the model.  DIR also gets the model with the op in place of the nodes.  Then that model runs in ONNX
    Runtime with Qualcomm's provider, and is compared with the original.  The exit code is 6 if they differ, otherwise
    that of the backend that failed: 3 without a tool, 4 if it does not build, 5 if it does not run.
    """
    from udogen.onnx.fuse import run

    backends = () if options.no_run else options.backends or ("cpu", "htp")
    asked = same_options(run.FuseOptions, options, out=options.out or Path(options.name), backends=backends)
    fused = run.fuse(asked, output.print_note if not options.as_json else lambda _line: None)
    if options.as_json:
        output.print_json(run.as_json(fused))
    else:
        for line in run.lines(fused):
            output.print_result(line)
        output.print_next(f"`udogen test {shlex.quote(str(asked.out))}` compares the op alone, on every backend")
    return fused.exit_code
