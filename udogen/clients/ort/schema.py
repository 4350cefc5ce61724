"""Schemas for custom ops: model-local functions, by which ONNX Runtime knows an op that is none of its own.

The body of a function says which types and shapes come out, and cannot be executed: where an execution provider does
not take the node, ONNX Runtime puts the body in its place, and a body that computed something would be a wrong answer
without a word.  It fails instead, and the name of its node says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen.clients.ort import shapes
from udogen.clients.package import Package
from udogen.errors import UsageError
from udogen.opdef.model import Op
from udogen.opdef.onnx import custom_ops, reading, serialized, shape_propagation
from udogen.opdef.onnx.load import load_model
from udogen.opdef.onnx.model import UNKNOWN, Model, Node, OpName, ValueType, type_in, walk

_OPSET, _FUNCTION, _GRAPH, _IR_VERSION = 8, 25, 7, 1  # fields of ModelProto (onnx.proto3)
_VALUE_INFO = 13  # of GraphProto
_FUNCTIONS_SINCE = 8  # the IR version
_NEWEST_OPSET = 21  # where a model names none
_UNKNOWN_DTYPE = "FLOAT"
MARK = "was_not_taken_by_QNN"


@dataclass(frozen=True)
class Schemas:
    """What is to be added behind a model's bytes, so that ONNX Runtime knows its custom ops."""

    model: Model
    custom: tuple[OpName, ...]  # all that the model does not define itself
    ops: tuple[OpName, ...]  # those of them that got a schema
    added: bytes
    notes: tuple[str, ...]
    external: tuple[str, ...]  # files beside it in which some of its data lies
    edits: tuple[tuple[int, bytes], ...] = ()  # what is to be written over a model's bytes, and where

    @property
    def changes(self) -> bool:
        """Whether the model is to be another one."""
        return bool(self.added or self.edits)

    def of(self, path: Path) -> bytes:
        """The model as it is to be."""
        data = bytearray(path.read_bytes())
        for at, text in self.edits:
            data[at : at + len(text)] = text
        return bytes(data) + self.added


@dataclass(frozen=True)
class _Use:
    """One node, with what is known of what goes in and out."""

    node: Node
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]


def schemas_of(
    path: Path,
    wanted: Sequence[str] = (),
    *,
    outputs: shape_propagation.Outputs = shape_propagation.no_outputs,
    params: Mapping[str, Sequence[str]] | None = None,
    known: Sequence[OpName] = (),
) -> Schemas:
    """Schemas for the custom ops of a model, or for the wanted ones; ops that it defines itself are left alone.

    `outputs` says the shapes of what custom nodes return; `params` the parameters of ops in the order of their config;
    `known` are ops that ONNX Runtime knows without a schema.
    """
    loaded = load_model(path, tuple(wanted), outputs)
    raw = reading.read_proto(path)
    ours = [op for op in loaded.ops if loaded.model.function(op) is None]
    if wanted:  # built-in ops that a package shall take need none
        ours = [op for op in ours if custom_ops.is_custom(op, loaded.model)]
    ops = [op for op in ours if op not in known]
    uses: dict[OpName, list[_Use]] = defaultdict(list)
    for node, scopes in walk(loaded.model.graph):
        if node.op in ours:
            types = (tuple(type_in(name, scopes) for name in names) for names in (node.inputs, node.outputs))
            uses[node.op].append(_Use(node, *types))
    notes = [f"{op} is defined by the model itself: that is kept" for op in loaded.ops if loaded.model.function(op)]
    opset = loaded.model.opsets.get("", _NEWEST_OPSET)
    added = b"".join(_field(_FUNCTION, _function(op, uses[op], opset, notes)) for op in ops)
    added += _missing_types(raw, [use for each in ours for use in uses[each]])
    imported = {row.domain for row in raw.opset_import}
    for domain in dict.fromkeys(op.domain for op in ops):
        if domain not in imported:
            added += _field(_OPSET, _opset(domain))
    if ops and raw.ir_version < _FUNCTIONS_SINCE:
        added += _number(_IR_VERSION << 3) + _number(_FUNCTIONS_SINCE)
    return Schemas(
        loaded.model,
        tuple(ours),
        tuple(ops),
        added,
        (*loaded.notes, *notes),
        tuple(dict.fromkeys(_external(raw.graph))),
        # The provider sends up to three attributes in reverse order, more in an order of its own (measured: 2.3.0).
        serialized.reordered_attributes(path, {op: tuple(reversed(names)) for op, names in (params or {}).items()}),
    )


def for_packages(
    path: Path, packages: Sequence[Package], rules: Path | None = None, *, known: Sequence[OpName] = ()
) -> Schemas:
    """Schemas for the ops of packages in a model, with what their configs and rules say."""
    return schemas_of(
        path,
        [op for package in packages for op in package.ops],
        outputs=shapes.of_packages(packages, rules),
        params=params_of(op for package in packages for op in package.models),
        known=known,
    )


def params_of(ops: Iterable[Op]) -> dict[str, tuple[str, ...]]:
    """The parameters of each op in the order of its config."""
    return {op.name: tuple(each.name for each in op.params) for op in ops}


def without_shape(found: Schemas) -> list[str]:
    """The tensors that custom nodes return, and nothing says the shape of, in words."""
    return [
        f"nothing says the shape of tensor `{name}`, which node `{node.name or name}` of op {node.op.type} returns"
        for node, scopes in walk(found.model.graph)
        if node.op in found.custom
        for name in node.outputs
        if name and type_in(name, scopes).shape is None
    ]


def add_schemas(
    path: Path,
    out: Path,
    wanted: Sequence[str] = (),
    *,
    outputs: shape_propagation.Outputs = shape_propagation.no_outputs,
    params: Mapping[str, Sequence[str]] | None = None,
) -> Schemas:
    """Write a model with schemas for its custom ops; its weights are copied as they are."""
    found = schemas_of(path, wanted, outputs=outputs, params=params)
    if out.exists() and out.samefile(path):
        raise UsageError(f"{out} is the model itself", hint="write it under another name")
    if found.external and out.resolve().parent != path.resolve().parent:
        raise UsageError(
            f"{path} has data in files beside it, which would not be found from {out}",
            hint=f"write it into the same folder: -o {path.resolve().parent / out.name}",
        )
    try:
        with path.open("rb") as source, out.open("wb") as target:
            while block := source.read(1 << 20):
                target.write(block)
            target.write(found.added)
            for at, text in found.edits:
                target.seek(at)
                target.write(text)
    except OSError as fault:
        raise UsageError(f"{out} cannot be written: {fault.strerror}", hint="give another -o") from fault
    return found


def library_of(ops: Sequence[Op], domain: str) -> bytes:
    """A model without nodes that holds a function for each op of a config, for `model.functions.extend(…)`."""
    onnx = reading.onnx_module()
    helper = reading.onnx_module("helper")
    functions = []
    for op in ops:
        inputs, outputs = ([each.name for each in tensors] for tensors in (op.inputs, op.outputs))
        nodes = [node for name in outputs for node in _like(helper, inputs[0], name, op.name)] if inputs else []
        attributes, opsets = [each.name for each in op.params], [helper.make_opsetid("", _NEWEST_OPSET)]
        functions.append(helper.make_function(domain, op.name, inputs, outputs, nodes, opsets, attributes))
    graph = helper.make_graph([], "schemas", [], [])
    imports = [helper.make_opsetid("", _NEWEST_OPSET), helper.make_opsetid(domain, 1)]
    made = helper.make_model(graph, functions=functions, opset_imports=imports, producer_name="udogen")
    made.ir_version = max(_FUNCTIONS_SINCE, min(made.ir_version, onnx.IR_VERSION, 10))
    data: bytes = made.SerializeToString(deterministic=True)
    return data


# --- functions --------------------------------------------------------------------------------------


def _function(op: OpName, uses: Sequence[_Use], opset: int, notes: list[str]) -> bytes:
    helper = reading.onnx_module("helper")
    inputs = [f"in{index}" for index in range(max(len(use.node.inputs) for use in uses))]
    outputs = [f"out{index}" for index in range(max(len(use.node.outputs) for use in uses))]
    if not inputs:
        raise UsageError(f"op {op} has no inputs: its types cannot be told from them", hint="give it a constant input")
    nodes = []
    for index, name in enumerate(outputs):
        pairs = [_pair(use, index) for use in uses if index < len(use.outputs)]
        if all(_alike(*pair) for pair in pairs):
            nodes += _like(helper, inputs[0], name, op.type)
            if any(out is UNKNOWN for _, out in pairs):
                notes.append(f"output {index} of {op}: taken to have the type and shape of its first input")
        else:
            nodes += _declared(helper, inputs[0], name, op, {_dtype(*pair) for pair in pairs})
    attributes = sorted({each.name for use in uses for each in use.node.attributes})
    made = helper.make_function(
        op.domain, op.type, inputs, outputs, nodes, [helper.make_opsetid("", opset)], attributes
    )
    data: bytes = made.SerializeToString(deterministic=True)
    return data


def _pair(use: _Use, index: int) -> tuple[ValueType, ValueType]:
    return (use.inputs[0] if use.inputs else UNKNOWN), use.outputs[index]


def _alike(given: ValueType, out: ValueType) -> bool:
    """Nothing is known of the output that is not so of the first input."""
    return out.dtype in ("", given.dtype) and out.shape in (None, given.shape)


def _dtype(given: ValueType, out: ValueType) -> str:
    return out.dtype or given.dtype or _UNKNOWN_DTYPE


def _like(helper: Any, given: str, out: str, op: str) -> list[Any]:
    """Type and shape of the input; to execute it is an error whatever the input is: no index is that large."""
    index = f"{out}_index"
    tensor = helper.make_tensor(index, 7, [1, 1], [2**31 - 1])  # 7: INT64
    return [
        helper.make_node("Constant", [], [index], value=tensor),
        helper.make_node("ScatterND", [given, index, given], [out], name=f"{op}_{MARK}"),
    ]


def _declared(helper: Any, given: str, out: str, op: OpName, dtypes: set[str]) -> list[Any]:
    """A type, and a shape that only the model's own declarations tell; to execute it is an error: a size of -1."""
    if len(dtypes) > 1:
        raise UsageError(
            f"op {op} has outputs of several types: {', '.join(sorted(dtypes))}",
            hint="one schema holds one type: give the op a name for each",
        )
    number = reading.onnx_module().TensorProto.DataType.Value(dtypes.pop())
    minus = f"{out}_minus"
    return [
        helper.make_node("Constant", [], [minus], value=helper.make_tensor(minus, 7, [1], [-1])),
        helper.make_node("NonZero", [given], [f"{out}_places"]),
        helper.make_node("Reshape", [f"{out}_places", minus], [f"{out}_flat"]),
        helper.make_node("Concat", [f"{out}_flat", minus], [f"{out}_shape"], axis=0),
        helper.make_node(
            "ConstantOfShape",
            [f"{out}_shape"],
            [out],
            name=f"{op.type}_{MARK}",
            value=helper.make_tensor("value", number, [1], [0]),
        ),
    ]


def _missing_types(raw: Any, uses: Sequence[_Use]) -> bytes:
    """What was inferred of outputs, and the file itself does not say, as further value_info of its graph."""
    helper, onnx = reading.onnx_module("helper"), reading.onnx_module()
    declared = {row.name for row in (*raw.graph.value_info, *raw.graph.output) if row.type.HasField("tensor_type")}
    top = {name for node in raw.graph.node for name in node.output}
    rows = []
    for use in uses:
        for name, found in zip(use.node.outputs, use.outputs, strict=True):
            if name and name in top and name not in declared and found.complete:
                number = onnx.TensorProto.DataType.Value(found.dtype)
                rows.append(helper.make_tensor_value_info(name, number, list(found.shape or ())))
    graph = b"".join(_field(_VALUE_INFO, row.SerializeToString(deterministic=True)) for row in rows)
    return _field(_GRAPH, graph) if graph else b""  # protobuf merges a message that comes twice


def _external(graph: Any) -> Iterator[str]:
    for each in graph.initializer:
        if each.data_location == 1:
            yield next((row.value for row in each.external_data if row.key == "location"), "")
    for node in graph.node:
        for body in reading.graphs_of(node):
            yield from _external(body)


# --- protobuf ---------------------------------------------------------------------------------------


def _opset(domain: str) -> bytes:
    row = reading.onnx_module("helper").make_opsetid(domain, 1)
    data: bytes = row.SerializeToString(deterministic=True)
    return data


def _field(number: int, data: bytes) -> bytes:
    return _number(number << 3 | 2) + _number(len(data)) + data


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
