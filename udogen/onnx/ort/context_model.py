"""Writes an ONNX model that executes a context binary: one EPContext node for each of its graphs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from udogen.errors import UsageError, writing
from udogen.findings import unknown
from udogen.onnx.models import reading
from udogen.onnx.ort import contexts
from udogen.onnx.ort.contexts import DOMAIN, EMBEDDED_MOST, OP, Fault
from udogen.qnn.system import BinaryInfo, GraphInfo
from udogen.qnn.tensors import QnnTensor
from udogen.runtime.contexts.context_json import describe_quantization

_OPSET, _IR_VERSION = 21, 10  # since onnxruntime 1.20


@dataclass(frozen=True)
class Port:
    """An input or output of the model, and its tensor in the graph."""

    name: str
    tensor: QnnTensor

    @property
    def dtype(self) -> str:
        """The model's element type, as numpy calls it."""
        return contexts.stored_type(self.tensor.dtype)


@dataclass(frozen=True)
class ContextModelFile:
    """The files and graphs of a written model."""

    model: Path
    binary: Path
    reference: str  # path of the binary relative to the model's folder; empty if it is embedded
    graphs: tuple[tuple[GraphInfo, tuple[Port, ...], tuple[Port, ...]], ...]


class ContextRefused(UsageError):
    """A context binary that ONNX Runtime would refuse."""

    kind = "ort-context"


def write_model(binary: Path, out: Path, *, graphs: Sequence[str] = (), embed: bool = False) -> ContextModelFile:
    """Write a model with which ONNX Runtime restores and executes a context binary; an existing file is an error.

    `graphs` selects graphs.  The model names the binary relative to its own folder, or contains it (`embed`).
    Tensors have their stored types.
    """
    info = contexts.describe(binary)
    data = None
    if embed and binary.stat().st_size <= EMBEDDED_MOST:
        data = binary.read_bytes()
    chosen = _chosen(binary, info, graphs)
    several = len(chosen) > 1
    rows = [(graph, *_ports(graph, several=several)) for graph in chosen]
    faults = [*contexts.faults_of(info, chosen)]
    if not faults:
        faults += [fault for row in rows for fault in _port_faults(*row, several=several)]
    if embed and data is None:
        faults.append(("it is too large for a model, which is limited to 2 GiB", "leave --embed out"))
    if faults:
        raise ContextRefused(
            f"{binary} cannot be a model of ONNX Runtime: {faults[0][0]}",
            details=[text for text, _ in faults[1:]],
            hint="; ".join(dict.fromkeys(remedy for _, remedy in faults)),
        )
    reference = "" if embed else _reference(binary, out)
    model = _model(info, rows, reference=reference, data=data)
    _write(out, model.SerializeToString(deterministic=True))
    return ContextModelFile(out, binary, reference, tuple(rows))


def _chosen(binary: Path, info: BinaryInfo, names: Sequence[str]) -> list[GraphInfo]:
    known = [graph.name for graph in info.graphs]
    for name in names:
        if name not in known:
            raise unknown(f"{binary} has no graph", name, known)
    graphs = [graph for graph in info.graphs if not names or graph.name in names]
    if not graphs:
        raise ContextRefused(f"{binary} has no graph", hint="make it again")
    return graphs


def _reference(binary: Path, out: Path) -> str:
    """The path from the model to the binary; ONNX Runtime accepts none that leads out of the model's folder."""
    here = Path(os.path.abspath(out)).parent
    path = os.path.relpath(os.path.abspath(binary), here)
    if path.startswith(".."):  # perhaps the same folder under another name
        path = os.path.relpath(binary.resolve(), here.resolve())
    if ".." in path:  # anywhere, even within a name
        raise ContextRefused(
            f"{binary} is not beside or below {out}" if path.startswith("..") else f"the path {path} contains `..`",
            details=["ONNX Runtime refuses paths with `..`, and absolute ones, to the file of a context"],
            hint=f"write the model beside it: -o {binary.parent / out.name}; or embed it: --embed",
        )
    return path


def _write(out: Path, data: bytes) -> None:
    if out.exists():
        raise UsageError(f"{out} already exists", hint="choose another -o, or remove it")
    with writing(out, hint="give another -o"):
        file = out.open("xb")
        try:
            with file:
                file.write(data)
        except BaseException:
            out.unlink(missing_ok=True)
            raise


# --- names ------------------------------------------------------------------------------------------------


def _ports(graph: GraphInfo, *, several: bool) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """The inputs and outputs of the model, named GRAPH/TENSOR if it has several graphs."""

    def port(tensor: QnnTensor) -> Port:
        return Port(f"{graph.name}/{tensor.name}" if several else tensor.name, tensor)

    return tuple(map(port, graph.inputs)), tuple(map(port, graph.outputs))


def _port_faults(
    graph: GraphInfo, inputs: Sequence[Port], outputs: Sequence[Port], *, several: bool
) -> Iterator[Fault]:
    names = [tensor.name for tensor in (*inputs, *outputs)]
    for name in sorted({name for name in names if names.count(name) > 1 or not name}):
        yield f"graph {graph.name} has two tensors called `{name}`", "give them different names"
    for name in names if several else ():
        if {";", "="} & {*name}:
            yield (
                f"tensor {name} has a `;` or `=` in its name, the separators of the provider",
                "write a model for each graph: --graph",
            )


# --- the model --------------------------------------------------------------------------------------------


def _model(info: BinaryInfo, rows: Sequence[Any], *, reference: str, data: bytes | None) -> Any:
    helper = reading.onnx_module("helper")
    nodes = []
    ends: tuple[list[Any], list[Any]] = [], []

    def value(port: Port) -> Any:
        number = helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype))
        return helper.make_tensor_value_info(port.name, number, list(port.tensor.shape), _meaning(port.tensor))

    for number, (graph, inputs, outputs) in enumerate(rows):
        for side, ports in zip(ends, (inputs, outputs), strict=True):
            side.extend(map(value, ports))
        nodes.append(_node(info, graph, (inputs, outputs), reference=reference, data=data, main=not number))
        if len(rows) > 1:
            pairs = ";".join(f"{tensor.name}={tensor.tensor.name}" for tensor in (*inputs, *outputs))
            nodes[-1].attribute.append(helper.make_attribute("io_name_overrides", pairs))
    graph = helper.make_graph(nodes, "context", *ends)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(DOMAIN, 1)]
    made = helper.make_model(graph, opset_imports=opsets, producer_name="udogen")
    made.ir_version = _IR_VERSION
    return made


def _node(
    info: BinaryInfo,
    graph: GraphInfo,
    ports: tuple[Sequence[Port], Sequence[Port]],
    *,
    reference: str,
    data: bytes | None,
    main: bool,
) -> Any:
    """The node of a graph; the first contains the context or names its file, the others share that context."""
    helper = reading.onnx_module("helper")
    # The provider finds each graph of a binary by the name of its node.
    made = helper.make_node(OP, *([port.name for port in side] for side in ports), name=graph.name, domain=DOMAIN)
    attributes = {
        "main_context": int(main),
        "embed_mode": int(data is not None),
        "source": "QNN",
        "partition_name": graph.name,
        **({"ep_sdk_version": info.build_id} if info.build_id else {}),
    }
    if main:
        attributes["ep_cache_context"] = data if data is not None else os.fsencode(reference)
        if data is None:
            attributes["max_size"] = max((each.htp.spill_fill for each in info.graphs if each.htp), default=0)
    made.attribute.extend(helper.make_attribute(name, attributes[name]) for name in sorted(attributes))
    return made


def _meaning(tensor: QnnTensor) -> str:
    """A description of a tensor's quantization, for people who read the model."""
    if tensor.scale_offset is not None:
        scale, offset = tensor.scale_offset
        return f"{tensor.dtype}: real = (stored {offset:+d}) * {scale:.9g}"
    return tensor.dtype + (f": {describe_quantization(tensor.quant)}" if tensor.quant else "")


def as_json(file: ContextModelFile) -> dict[str, Any]:
    """Everything as plain data."""

    def port(each: Port) -> dict[str, Any]:
        scale, offset = each.tensor.scale_offset or (None, None)
        return {
            "name": each.name,
            "tensor": each.tensor.name,
            "type": each.dtype,
            "shape": list(each.tensor.shape),
            "stored": each.tensor.dtype,
            "scale": scale,
            "offset": offset,
        }

    return {
        "written": str(file.model),
        "binary": str(file.binary),
        "reference": file.reference or None,
        "graphs": [
            {"name": graph.name, "inputs": [*map(port, inputs)], "outputs": [*map(port, outputs)]}
            for graph, inputs, outputs in file.graphs
        ],
    }
