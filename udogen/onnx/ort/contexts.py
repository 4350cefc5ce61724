"""Context binaries in ONNX: EPContext nodes, limits of ONNX Runtime for binaries, and checks of models against both.

Names and rules: the schema of EPContext in onnxruntime 1.24, onnx_ctx_model_helper.cc and qnn_model.cc of
onnxruntime-qnn 2.0.0; its pull request 544 added io_name_overrides.  All were run with 2.3.0 and 2.7.0.

ONNX Runtime compares only the sizes of tensors: a model that declares a uint8 tensor as int8, or its inputs in another
order, runs and computes wrong numbers.
"""

from __future__ import annotations

import mmap
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from udogen import backends
from udogen.build import elf
from udogen.clients.package import Package
from udogen.errors import RunFailed, UdogenError, UsageError
from udogen.onnx.models import reading
from udogen.onnx.models.model import ValueType
from udogen.onnx.models.reading import freeze
from udogen.opdef import datatypes
from udogen.qnn.system import BinaryInfo, GraphInfo
from udogen.qnn.tensors import QnnTensor
from udogen.runtime.contexts import binaries, manifest
from udogen.runtime.contexts.binaries import system_library_of
from udogen.runtime.contexts.manifest import mapped_file

OP, DOMAIN = "EPContext", "com.microsoft"
EMBEDDED_MOST = (1 << 31) - (1 << 20)  # the limit of protobuf, minus some bytes for the rest of the model
_SOURCES = ("qnn", "qnnexecutionprovider")  # in upper or lower case
_WRITE_AGAIN = "write the model again: udogen onnx context FILE.bin -o MODEL.onnx"
_QHPI = "qhpi_init"  # exported by a QHPI package; a context need not contain the names of other packages

Fault = tuple[str, str]  # problem, remedy


@dataclass(frozen=True)
class ContextNode:
    """One EPContext node: of a main node `file` or `data` is the binary; the others are graphs of its context."""

    name: str
    source: str
    main: bool
    file: str
    data: bytes | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    overrides: dict[str, str]  # name in the model -> name in the binary

    def __str__(self) -> str:
        return f"EPContext node `{self.name or (self.outputs or ('',))[0]}`"


@dataclass(frozen=True)
class ContextModel:
    """The EPContext nodes of a model, already compared with their binaries."""

    nodes: tuple[ContextNode, ...]
    package_names: frozenset[str]  # packages whose kernels are in the binaries
    builds: tuple[str, ...] = ()  # the SDK releases that made them


def nodes_of(path: Path) -> tuple[ContextNode, ...]:
    """The EPContext nodes of a model."""
    graph = reading.read_proto(path).graph
    return tuple(_node(node) for node in graph.node if node.op_type == OP and node.domain == DOMAIN)


def _node(proto: Any) -> ContextNode:
    given = {attribute.name: attribute for attribute in proto.attribute}

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


# --- binaries -------------------------------------------------------------------------------------------


def describe(file: Path) -> BinaryInfo:
    """The contents of a binary for ONNX Runtime.

    A worker reads it, because libQnnSystem.so has its own unwinder: if it is loaded before onnxruntime, every C++
    exception of onnxruntime ends the process (measured: wheel 2.3.0 with onnxruntime 1.27.0).
    """
    head = binaries.head_of(file)
    if head.emulator:
        raise RunFailed(
            f"{file} was made by udogen's emulator, and no backend of ONNX Runtime restores it",
            hint="make it with Qualcomm's libraries: --runtime real",
        )
    manifest.check(file).refuse()
    return binaries.file_info(system_library_of(head), file)


def stored_type(dtype: str) -> str:
    """The numpy name of the ONNX type with the bits of a stored tensor; empty if none exists."""
    row = datatypes.BY_NAME.get(dtype)
    # The provider does not know the size of 64-bit floats.
    return row.numpy if row is not None and dtype != "FLOAT_64" else ""


def faults_of(info: BinaryInfo, graphs: Sequence[GraphInfo]) -> Iterator[Fault]:
    """Why the provider would refuse a binary, or one of these graphs."""
    made_by = backends.by_number(info.backend_id)
    if made_by is None or not made_by.restored_by_ort:
        yield (
            "it is not made for HTP: the provider restores only contexts of HTP, DSP and GPU",
            "make it with --backend htp; a package for the CPU runs from the ONNX model itself",
        )
    for graph in graphs:
        for side, tensors in (("inputs", graph.inputs), ("outputs", graph.outputs)):
            if not tensors:
                yield f"graph {graph.name} has no {side}, which the provider refuses", "give the graph some"
            for tensor in tensors:
                yield from _tensor_faults(f"{side[:-1]} {tensor.name} of graph {graph.name}", tensor)


def _tensor_faults(where: str, tensor: QnnTensor) -> Iterator[Fault]:
    if not stored_type(tensor.dtype):
        yield f"{where} is {tensor.dtype}, which no element type of ONNX Runtime stores", "cast it in the graph"
    if not tensor.shape:
        yield f"{where} has no dimensions, which the provider refuses", "make it a tensor of one number: [1]"
    if tensor.dynamic:
        yield f"{where} has dynamic dimensions, which the provider refuses", "make them fixed"


# --- checks ---------------------------------------------------------------------------------------------


def check(path: Path, nodes: Sequence[ContextNode], packages: Sequence[Package]) -> ContextModel:
    """Compare the EPContext nodes of a model with their binaries; one error with every fault."""
    faults = [
        (f"{node} is of `{node.source}`, not of QNN", "it is for another execution provider")
        for node in nodes
        if node.source.lower() not in _SOURCES
    ]
    if not any(node.main for node in nodes):
        faults.append(("no EPContext node has main_context=1, so none has a context", _WRITE_AGAIN))
    types = freeze(reading.read_proto(path), path.name).graph.types
    found: list[_Binary] = []
    for main in (node for node in nodes if node.main):
        try:
            found.append(_binary_of(path, main))
        except UdogenError as fault:
            faults += [(fault.message, fault.hint), *((line, "") for line in fault.details)]
        else:
            faults += _main_faults(main, [node for node in nodes if not node.main], found[-1].info, types)
    names = frozenset(name for binary in found for name in binary.package_names)
    faults += [] if faults else _unused(packages, names)
    if faults:
        first, *more = dict.fromkeys(faults)
        raise UsageError(f"{path}: {first[0]}", details=[text for text, _ in more], hint=first[1])
    return ContextModel(tuple(nodes), names, tuple(binary.info.build_id for binary in found))


def _main_faults(
    main: ContextNode, others: Sequence[ContextNode], info: BinaryInfo, types: Mapping[str, ValueType]
) -> Iterator[Fault]:
    yield from faults_of(info, ())
    for node in (main, *others):
        yield from _node_faults(node, info, types, several=bool(others))


def _unused(packages: Sequence[Package], names: frozenset[str]) -> Iterator[Fault]:
    for package in packages:
        if package.name not in names and _QHPI in elf.read(package.library.file).exports:
            yield (
                f"no context of the model has a kernel of package {package.name}",
                "leave the package out, or make the context with it",
            )


def under_one_op(packages: Sequence[Package]) -> tuple[Package, ...]:
    """Each package with only one of its ops: that suffices to register it, and a context finds all its ops."""
    return tuple(replace(package, ops=(package.ops or (package.name,))[:1], models=()) for package in packages)


@dataclass(frozen=True)
class _Binary:
    info: BinaryInfo
    package_names: frozenset[str]


def _binary_of(model: Path, node: ContextNode) -> _Binary:
    if node.data is None:
        return _read_binary(_file_of(model, node))
    with tempfile.TemporaryDirectory(prefix="udogen-ort-") as folder:
        file = Path(folder, f"context of {node}".replace("/", " "))
        file.write_bytes(node.data)
        return _read_binary(file)


def _file_of(model: Path, node: ContextNode) -> Path:
    """The file of a node, by ONNX Runtime's rules."""
    named = f"{node} names the file `{os.fsencode(node.file).decode('utf-8', 'replace')}`"
    if not node.file:
        raise UsageError(f"{node} names no file", hint=_WRITE_AGAIN)
    if node.file.startswith("/") or ".." in node.file:
        raise UsageError(
            f"{named}: ONNX Runtime takes neither absolute paths nor any with `..`",
            hint="put the file beside the model, and name it by its file name",
        )
    file = model.parent / node.file
    if not file.is_file():
        raise UsageError(f"{named}, and {file} does not exist", hint="keep the file beside the model")
    return file


def _read_binary(file: Path) -> _Binary:
    info = describe(file)
    with mapped_file(file) as data:
        return _Binary(info, frozenset(_package_names_in(data)))


_LONGEST_NAME = 255
_LAST_WORD, _WORD = re.compile(rb"[A-Za-z_]\w*\Z"), re.compile(rb"[A-Za-z_]\w\w\w")


def _package_names_in(data: mmap.mmap) -> Iterator[str]:
    """PACKAGE of each kernel name PACKAGE::OP… in a binary; weights may look like such a name by chance."""
    at = data.find(b"::")
    while at >= 0:
        begin = max(at - _LONGEST_NAME, 0)
        if (name := _LAST_WORD.search(data[begin:at])) and _WORD.match(data[at + 2 : at + 6]):
            yield name[0].decode()
        at = data.find(b"::", at + 2)


def _node_faults(
    node: ContextNode, info: BinaryInfo, types: Mapping[str, ValueType], *, several: bool
) -> Iterator[Fault]:
    graphs = {graph.name: graph for graph in info.graphs}
    graph = graphs.get(node.name)
    if graph is None and len(graphs) == 1 and not several:
        graph = next(iter(graphs.values()))  # the provider ignores the name
    if graph is not None:
        for what, names, tensors in (("input", node.inputs, graph.inputs), ("output", node.outputs, graph.outputs)):
            yield from _side_faults(node, graph, what, names, tensors, types)
    elif node.main or not several:
        yield (
            f"{node} has the name of no graph of its context ({', '.join(graphs)})",
            "give it the name of the graph",
        )


def _side_faults(
    node: ContextNode,
    graph: GraphInfo,
    what: str,
    names: Sequence[str],
    tensors: Sequence[QnnTensor],
    types: Mapping[str, ValueType],
) -> Iterator[Fault]:
    """The faults of a node's inputs, or of its outputs."""
    # Additional inputs are accepted: an op of QNN may not have needed all of them.
    additional = what == "input" and {each.name for each in tensors} <= {
        node.overrides.get(name, name) for name in names
    }
    if len(names) != len(tensors) and not additional:
        yield f"{node} has {len(names)} {what}s, graph {graph.name} {len(tensors)}", _WRITE_AGAIN
        return
    rows, missing = _paired(node, names, tensors)
    if missing:
        known = ", ".join(each.name for each in tensors)
        yield f"{what} {missing} of {node} is not an {what} of graph {graph.name} ({known})", _WRITE_AGAIN
    for name, tensor in rows:
        yield from _type_faults(f"{what} {name} of {node}", types.get(name, ValueType()), graph, tensor)


def _paired(
    node: ContextNode, names: Sequence[str], tensors: Sequence[QnnTensor]
) -> tuple[list[tuple[str, QnnTensor]], str]:
    """(name, tensor) for a node's names, or a name without a tensor; if all names are unknown, they pair in order."""
    by_name = {tensor.name: tensor for tensor in tensors}
    inner = {name: node.overrides.get(name, name) for name in names}
    unknown = [name for name in names if inner[name] not in by_name]
    if len(unknown) == len(names) == len(tensors) and not node.overrides:
        return list(zip(names, tensors, strict=True)), ""
    if unknown and len(names) == len(tensors):
        return [], unknown[0]
    return [(name, by_name[inner[name]]) for name in names if inner[name] in by_name], ""


def _type_faults(where: str, declared: ValueType, graph: GraphInfo, tensor: QnnTensor) -> Iterator[Fault]:
    same_type = not declared.dtype or declared.dtype == _onnx_name(stored_type(tensor.dtype))
    if not same_type or (declared.shape is not None and declared.shape != tensor.shape):
        shape = list(declared.shape) if declared.shape is not None else "?"
        yield (
            f"{where} is {declared.dtype} {shape}; tensor {tensor.name} of graph "
            f"{graph.name} is {tensor.dtype} {list(tensor.shape)}",
            _WRITE_AGAIN,
        )


def _onnx_name(stored: str) -> str:
    """ONNX's name of a numpy type: FLOAT for float32."""
    if not stored:
        return ""
    number = reading.onnx_module("helper").np_dtype_to_tensor_dtype(np.dtype(stored))
    return str(reading.onnx_module().TensorProto.DataType.Name(number))
