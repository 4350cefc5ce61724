"""Path -> the frozen model with all known properties of its values, and its custom ops.

An op is custom if it is of an unpublished domain, or of a type that its domain does not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen.errors import UsageError, nearest
from udogen.onnx.models import reading
from udogen.onnx.models.model import Function, OnnxGraph, OnnxModel, OnnxNode, OpName, ValueType, type_in, walk
from udogen.onnx.models.reading import freeze, onnx_module

TypeOf = Callable[[str], ValueType]  # what is known about a value where a node sees it
# What a node returns, as far as it is known; empty or UNKNOWN where it is not.
Outputs = Callable[[OnnxNode, tuple[OnnxGraph, ...], TypeOf], Sequence[ValueType]]


def no_outputs(_node: OnnxNode, _scopes: tuple[OnnxGraph, ...], _type_of: TypeOf) -> Sequence[ValueType]:
    """No node has known properties."""
    return ()


@dataclass(frozen=True)
class Loaded:
    """A model, which of its ops are requested, and what was strange about it."""

    model: OnnxModel
    ops: tuple[OpName, ...]
    proto: Any  # the protobuf of it, without large data
    notes: tuple[str, ...] = ()


def load_model(path: Path, wanted: Sequence[str] = (), outputs: Outputs = no_outputs) -> Loaded:
    """The model; its ops are the wanted ones (`DOMAIN::TYPE` or `TYPE`), otherwise the custom ones.

    `outputs` gives what a node returns, as far as it is known: onnx's inference knows no custom op.
    """
    notes: list[str] = []
    proto = reading.read_proto(path)
    model = freeze(proto, path.name)
    named = tuple(op for text in wanted for op in _named(text, model))
    reading.prepare(proto)
    inside = containers(model, named)
    if inside:
        proto = _inlined(proto, inside, notes)
        model = freeze(proto, path.name)
    ops = tuple(dict.fromkeys(named)) if named else custom_ops(model)
    proto, model = _typed(proto, path.name, notes, outputs)
    return Loaded(model, ops, proto, tuple(notes))


def _named(text: str, model: OnnxModel) -> list[OpName]:
    nodes = ops_named(text, model)
    if nodes:
        return nodes
    used = Counter(str(node.op) for node, _ in walk(model.graph))
    shown = ", ".join(f"{name} ({count})" for name, count in used.most_common(12))
    raise UsageError(f"{model.file} has no node of type {text}", hint=f"it has: {shown or 'no nodes at all'}")


def _inlined(proto: Any, functions: Sequence[OpName], notes: list[str]) -> Any:
    """The model with the bodies of these functions where they are called."""
    names = [(op.domain, op.type) for op in functions]
    try:
        return reading.onnx_module("inliner").inline_selected_functions(proto, names)
    except Exception as fault:  # a C++ library
        first = " ".join(str(fault).split())[:200]
        notes.append(
            f"onnx cannot put the bodies of functions where they are called ({first}); they are not looked into"
        )
        return proto


def _typed(proto: Any, file: str, notes: list[str], outputs: Outputs) -> tuple[Any, OnnxModel]:
    """Infer types by onnx and by `outputs`, in turn, until neither adds a type."""
    while True:
        seen = reading.inferred(proto, notes)
        model = freeze(seen, file)
        news = _stated(model, outputs)
        if not news:
            return seen, model
        _tell(proto.graph, model.graph, news)


@dataclass(frozen=True)
class _Stated:
    """The type of a value that onnx cannot infer."""

    graph: OnnxGraph
    value: str
    type: ValueType


def _stated(model: OnnxModel, outputs: Outputs) -> list[_Stated]:
    """New types of values that `outputs` knows; also those of nodes that take such a value."""
    new: dict[tuple[int, str], _Stated] = {}
    for node, scopes in walk(model.graph):

        def type_of(name: str, scopes: tuple[OnnxGraph, ...] = scopes) -> ValueType:
            fresh = (new[key] for graph in reversed(scopes) if (key := (id(graph), name)) in new)
            return next((candidate.type for candidate in fresh), type_in(name, scopes))

        if all(not name or type_of(name).complete for name in node.outputs):
            continue
        for name, stated in zip(node.outputs, outputs(node, scopes, type_of), strict=False):
            if name and stated.complete and not type_of(name).complete:
                new[id(scopes[-1]), name] = _Stated(scopes[-1], name, stated)
    return list(new.values())


def _tell(proto: Any, graph: OnnxGraph, found: Sequence[_Stated]) -> None:
    """Write conclusions into the protobuf, each into its own graph."""
    onnx = reading.onnx_module()
    mine = [fact for fact in found if fact.graph is graph]
    rows = {row.name: row for row in (*proto.value_info, *proto.output)} if mine else {}
    for fact in mine:
        row = rows[fact.value] if fact.value in rows else proto.value_info.add(name=fact.value)
        number = onnx.TensorProto.DataType.Value(fact.type.dtype)
        shape = None if fact.type.shape is None else list(fact.type.shape)
        row.type.CopyFrom(onnx.helper.make_tensor_type_proto(number, shape))
    for node, frozen in zip(proto.node, graph.nodes, strict=True):
        for inner, (_, known) in zip(reading.graphs_of(node), frozen.graphs, strict=True):
            _tell(inner, known, found)


# --- custom ops ---------------------------------------------------------------------------------------------------

# Domains whose ops are documented and which converters know; of the first ones onnx itself knows every op.
_WITH_SCHEMAS = ("", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "ai.onnx.preview")
_PUBLISHED = (
    "com.microsoft", "com.microsoft.nchwc", "com.microsoft.experimental", "com.microsoft.extensions",
    "com.microsoft.dml", "com.ms.internal.nhwc",
)  # fmt: skip
# Functions that exporters write for modules and library functions: their bodies are what counts.
_EXPORTERS = ("pkg.", "torch.", "aten", "prims", "onnxscript.", "local_function", "this")


def is_custom(op: OpName, model: OnnxModel) -> bool:
    """Neither standard, nor published, nor a function of which only the body counts."""
    if op.domain in _PUBLISHED:
        return False
    if model.function(op) is not None:
        return not _is_container(op, model, frozenset())
    return op.domain not in _WITH_SCHEMAS or not knows(op)


def knows(op: OpName) -> bool:
    """Whether onnx has a schema for it, of any version."""
    return bool(onnx_module("defs").has(op.type, op.domain))


def nearest_standard(name: str) -> str:
    """The standard op whose name is like this one; empty if there is none."""
    return nearest(
        name, [schema.name for schema in onnx_module("defs").get_all_schemas() if not schema.domain], cutoff=0.8
    )


def schema_of(op: OpName, opsets: Mapping[str, int]) -> Any | None:
    """onnx's own description of an op, as of the version that the model uses."""
    defs = onnx_module("defs")
    if not defs.has(op.type, op.domain):
        return None
    try:
        return defs.get_schema(op.type, opsets.get(op.domain, 1), op.domain)
    except Exception:  # SchemaError of its C++ half: it came later than the model's opset
        return defs.get_schema(op.type, op.domain)


def custom_ops(model: OnnxModel) -> tuple[OpName, ...]:
    """The custom ops of a model, in the order of their first use."""
    return tuple(dict.fromkeys(node.op for node, _ in walk(model.graph) if is_custom(node.op, model)))


def containers(model: OnnxModel, wanted: Iterable[OpName] = ()) -> list[OpName]:
    """The functions that are to be replaced by their bodies: all that are neither custom ops nor requested."""
    keep = set(wanted)
    return [
        function.op for function in model.functions if function.op not in keep and not is_custom(function.op, model)
    ]


def _is_container(op: OpName, model: OnnxModel, above: frozenset[OpName]) -> bool:
    """An exporter's function, or one around custom ops: the ops are inside."""
    function = model.function(op)
    if function is None or op in above:
        return False
    if op.domain.startswith(_EXPORTERS):
        return True
    return any(_hides_custom(node, model, above | {op}) for node in _nodes(function))


def _hides_custom(node: OnnxNode, model: OnnxModel, above: frozenset[OpName]) -> bool:
    """A node of a body that is neither a standard op nor made of standard ops alone."""
    op = node.op
    if model.function(op) is not None:
        return _is_container(op, model, above) and not op.domain.startswith(_EXPORTERS)
    return op.domain not in _PUBLISHED and (op.domain not in _WITH_SCHEMAS or not knows(op))


def _nodes(function: Function) -> list[OnnxNode]:
    """The nodes of a body, and of the graphs in it."""
    body = OnnxGraph("", function.inputs, function.outputs, function.nodes)
    return [node for node, _ in walk(body)]


def ops_named(text: str, model: OnnxModel) -> list[OpName]:
    """The ops that `DOMAIN::TYPE`, or `TYPE` alone, means among those the model uses."""
    domain, colons, name = text.rpartition("::")
    domain = "" if domain == "ai.onnx" else domain
    used = dict.fromkeys([node.op for node, _ in walk(model.graph)] + [function.op for function in model.functions])
    return [op for op in used if op.type == name and (not colons or op.domain == domain)]
