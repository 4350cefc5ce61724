"""A context binary -> scene: each stored graph with what goes in and what comes out."""

from __future__ import annotations

from udogen.backends import by_number
from udogen.draw.diagram import Box, Row, Scene, Section, head, quiet, shape_text
from udogen.qnn.system import BinaryInfo, GraphInfo, TensorInfo
from udogen.runtime.contexts.context_json import describe_quantization


def scene(info: BinaryInfo, name: str) -> Scene:
    """The graphs of a context binary."""
    count = len(info.graphs)
    found = by_number(info.backend_id)
    backend = found.id.upper() if found else f"BACKEND {info.backend_id}"
    graphs = f"{count} graph{'' if count == 1 else 's'}"
    told = f"Context binary for {backend}, {graphs}; made by {info.build_id or 'an SDK that is not told'}."
    facts = {"kind": "context", "backend": backend, "graphs": [graph.name for graph in info.graphs]}
    return Scene(name, told, tuple(_graph(each, backend) for each in info.graphs), facts)


def _graph(graph: GraphInfo, backend: str) -> Section:
    rows = [head(graph.name), quiet(f"graph of {backend}")]
    if graph.htp is not None:
        sizes = {"VTCM": graph.htp.vtcm, "spill/fill": graph.htp.spill_fill, "constants": graph.htp.constants}
        rows += [Row(f"{label}: {size:,} bytes") for label, size in sizes.items() if size]
    told = f"graph {graph.name}: {len(graph.inputs)} in, {len(graph.outputs)} out"
    boxes = [Box("graph", "op", tuple(rows), told)]
    boxes += [_tensor(each, "input") for each in graph.inputs]
    boxes += [_tensor(each, "static", "updateable") for each in graph.updateable]
    boxes += [_tensor(each, "output") for each in graph.outputs]
    edges = [(box.id, "graph") if box.kind != "output" else ("graph", box.id) for box in boxes[1:]]
    return Section(f"graph {graph.name}", tuple(boxes), tuple(edges), sides=True)


def _tensor(tensor: TensorInfo, kind: str, word: str = "") -> Box:
    dynamic = tensor.dynamic or (False,) * len(tensor.shape)
    shape = shape_text(
        [f"{n}?" if free else n for n, free in zip(tensor.shape, dynamic, strict=False)]
    )  # 4?: may change
    rows = [head(tensor.name), quiet(f"{word or kind}: {tensor.dtype} {shape}")]
    quant = describe_quantization(tensor.quant) if tensor.quant else ""
    if quant:
        rows.append(quiet(quant))
    told = f"{word or kind} {tensor.name}: {tensor.dtype} {shape}, id {tensor.id}" + (f", {quant}" if quant else "")
    return Box(f"{kind} {tensor.id} {tensor.name}", kind, tuple(rows), told)
