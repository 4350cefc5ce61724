"""`udogen onnx context`: a context binary as a model for ONNX Runtime."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import click

from udogen.cli import output
from udogen.cli.options import argument, json_option, option, verb


@dataclass(frozen=True)
class OnnxContextOptions:
    """The options of the command line."""

    binary: Path = argument(metavar="FILE.bin")
    out: Path = option(
        "-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="MODEL.onnx",
        help="The model to write: beside the binary, or in a folder above it.",
    )  # fmt: skip
    graphs: tuple[str, ...] = option("--graph", metavar="NAME", help="Only this graph; may repeat.  Default: all.")
    embed: bool = option("--embed", help="Embed the binary in the model instead of naming its file.")
    floats: bool = option("--float", help="Real numbers where tensors are quantized; converted on the CPU.")
    as_json: bool = json_option()


@verb("context", OnnxContextOptions, short_help="Wrap a context binary in a model for ONNX Runtime.")
def command(options: OnnxContextOptions) -> None:
    """Example: udogen onnx context scale.bin -o scale.onnx

    Write an ONNX model with which ONNX Runtime restores and executes a context binary (EPContext).

    Names, types and shapes are those of the binary; with several graphs, tensors are called GRAPH/TENSOR.  ONNX
    Runtime needs the op packages of the binary: `udogen register`, or `udogen.onnx.ort.session`.
    """
    from udogen.onnx.ort import context_model

    made = context_model.write_model(
        options.binary, options.out, graphs=options.graphs, embed=options.embed, floats=options.floats
    )
    if options.as_json:
        output.print_json({"ok": True, **context_model.as_json(made)})
        return
    for graph, inputs, outputs in made.graphs:
        output.print_result(f"{options.out}: graph {graph.name}")
        for what, side in (("input", inputs), ("output", outputs)):
            for port in side:
                shape = "x".join(map(str, port.tensor.shape))
                output.print_result(f"  {what} {port.name}: {port.dtype} {shape}")
    if made.reference:
        output.print_note(f"  the model names {made.reference}, relative to its own folder: keep them together")
    model = shlex.quote(str(options.out))
    output.print_next(f"`udogen inspect {model}` shows it; udogen.onnx.ort.session opens it (docs/clients.md)")
