"""Nodes of type EPContext: how ONNX names a graph of a context binary, and what of a binary it can name.

Names and rules: the schema of EPContext in onnxruntime 1.24, onnx_ctx_model_helper.cc and qnn_model.cc of
onnxruntime-qnn 2.0.0; io_name_overrides came with its pull request 544.  All were run
with 2.3.0 and 2.7.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen.errors import RunFailed
from udogen.opdef import datatypes
from udogen.opdef.onnx import reading
from udogen.qnn.system import BinaryInfo, GraphInfo, TensorInfo
from udogen.runtime.contexts import binary_info, manifest
from udogen.runtime.contexts.binaries import system_library_of

OP, DOMAIN = "EPContext", "com.microsoft"
SOURCES = ("qnn", "qnnexecutionprovider")  # in any case
BACKENDS = {4: "GPU", 5: "DSP", 6: "HTP"}  # by their numbers in the API: the provider restores no others
EMBEDDED_MOST = (1 << 31) - (1 << 20)  # of protobuf, with room for the rest of the model


@dataclass(frozen=True)
class ContextNode:
    """One EPContext node: `file` or `data` holds the binary of a main one, the others are in its context."""

    name: str
    source: str
    main: bool
    file: str
    data: bytes | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    overrides: dict[str, str]  # name in the model -> name in the binary


def nodes_of(path: Path) -> tuple[ContextNode, ...]:
    """The EPContext nodes of a model; others are not looked at."""
    graph = reading.read_proto(path).graph
    return tuple(_node(each) for each in graph.node if each.op_type == OP and each.domain == DOMAIN)


def _node(proto: Any) -> ContextNode:
    given = {each.name: each for each in proto.attribute}

    def text(name: str) -> bytes:
        return bytes(given[name].s) if name in given else b""

    def number(name: str) -> int:
        return int(given[name].i) if name in given else 1

    embedded = number("embed_mode") != 0
    pairs = text("io_name_overrides").decode("utf-8", "replace").split(";")
    return ContextNode(
        name=proto.name,
        source=text("source").decode("utf-8", "replace"),
        main=number("main_context") != 0,
        file="" if embedded else text("ep_cache_context").decode("utf-8", "surrogateescape"),
        data=text("ep_cache_context") if embedded else None,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        overrides=dict(pair.split("=", 1) for pair in pairs if "=" in pair),
    )


# --- binaries ----------------------------------------------------------------------------------------------


def describe(file: Path) -> BinaryInfo:
    """What is in a binary that ONNX Runtime shall restore.

    It is read in a child: libQnnSystem.so brings along an unwinder of its own, and in a process that imports
    onnxruntime after it every C++ exception of that is the end (measured: wheel 2.3.0 with onnxruntime 1.27.0).
    """
    head = binary_info.head_of(file)
    if head.emulator:
        raise RunFailed(
            f"{file} was made by udogen's emulator, and no backend of ONNX Runtime restores it",
            hint="make it with Qualcomm's libraries: --runtime real",
        )
    manifest.check(file).refuse()
    return binary_info.file_info(system_library_of(head), file)


# --- what of a binary can be named ------------------------------------------------------------------------


def stored_type(dtype: str) -> str:
    """The element type of ONNX that has the bits of a stored tensor, as numpy calls it; empty where none has."""
    row = datatypes.BY_NAME.get(dtype)
    # Of 64-bit floats the provider does not know the size.
    return row.numpy if row is not None and dtype != "FLOAT_64" else ""


def faults_of(info: BinaryInfo, graphs: Sequence[GraphInfo]) -> Iterator[tuple[str, str]]:
    """(why the provider would not take a binary, or some graph of it, what to do)."""
    if info.backend_id not in BACKENDS:
        yield (
            "it is not made for HTP: the provider restores contexts of HTP, DSP and GPU alone",
            "make it with --backend htp; a package for the CPU runs from the ONNX model itself",
        )
    for graph in graphs:
        for side, tensors in (("inputs", graph.inputs), ("outputs", graph.outputs)):
            if not tensors:
                yield f"graph {graph.name} has no {side}, which the provider refuses", "give the graph some"
            for tensor in tensors:
                yield from _tensor_faults(f"{side[:-1]} {tensor.name} of graph {graph.name}", tensor)


def _tensor_faults(where: str, tensor: TensorInfo) -> Iterator[tuple[str, str]]:
    if not stored_type(tensor.dtype):
        yield f"{where} is {tensor.dtype}, which no element type of ONNX Runtime stores", "cast it in the graph"
    if not tensor.shape:
        yield f"{where} has no dimensions, which the provider refuses", "make it a tensor of one number: [1]"
    if tensor.dynamic:
        yield f"{where} has dimensions that may change, which the provider refuses", "make them fixed"
