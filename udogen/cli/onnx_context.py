"""`udogen onnx context`: a context binary as a model of ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import click

from udogen.cli import output


@click.command("context")
@click.argument("binary", type=click.Path(path_type=Path), metavar="FILE.bin")
@click.option(
    "-o", "--output", "out", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="MODEL.onnx",
    help="The model to write: beside the binary, or in a folder above it.",
)  # fmt: skip
@click.option("--graph", "graphs", multiple=True, metavar="NAME", help="Only this graph; may repeat.  Default: all.")
@click.option("--embed", is_flag=True, help="Embed the binary in the model instead of naming its file.")
@click.option("--float", "floats", is_flag=True, help="Real numbers where tensors are quantized; converted on the CPU.")
@output.json_option
def command(binary: Path, out: Path, graphs: tuple[str, ...], embed: bool, floats: bool, as_json: bool) -> None:
    """Example: udogen onnx context scale.bin -o scale.onnx

    Write an ONNX model with which ONNX Runtime restores and executes a context binary (EPContext).

    Names, types and shapes are those of the binary; with several graphs, tensors are called GRAPH/TENSOR.  ONNX
    Runtime needs the op packages of the binary: `udogen register`, or `udogen.clients.ort.session`.
    """
    from udogen.clients.ort import context_model

    made = context_model.write_model(binary, out, graphs=graphs, embed=embed, floats=floats)
    if as_json:
        output.print_json({"ok": True, **context_model.as_json(made)})
        return
    for graph, inputs, outputs in made.graphs:
        output.print_result(f"{out}: graph {graph.name}")
        for what, side in (("input", inputs), ("output", outputs)):
            for port in side:
                shape = "x".join(map(str, port.tensor.shape))
                output.print_result(f"  {what} {port.name}: {port.dtype} {shape}")
    if made.reference:
        output.print_note(f"  the model names {made.reference}, relative to its own folder: keep them together")
