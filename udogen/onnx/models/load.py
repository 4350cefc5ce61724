"""Path -> the frozen model with all known properties of its values, and its custom ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen.errors import UsageError
from udogen.onnx.models import custom_ops, reading
from udogen.onnx.models.from_proto import freeze
from udogen.onnx.models.model import Node, OnnxGraph, OnnxModel, OpName, ValueType, type_in, walk

TypeOf = Callable[[str], ValueType]  # what is known about a value where a node sees it
# What a node returns, as far as it is known; empty or UNKNOWN where it is not.
Outputs = Callable[[Node, tuple[OnnxGraph, ...], TypeOf], Sequence[ValueType]]


def no_outputs(_node: Node, _scopes: tuple[OnnxGraph, ...], _type_of: TypeOf) -> Sequence[ValueType]:
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
    inside = custom_ops.containers(model, named)
    if inside:
        proto = _inlined(proto, inside, notes)
        model = freeze(proto, path.name)
    ops = tuple(dict.fromkeys(named)) if named else custom_ops.custom_ops(model)
    proto, model = _typed(proto, path.name, notes, outputs)
    return Loaded(model, ops, proto, tuple(notes))


def _named(text: str, model: OnnxModel) -> list[OpName]:
    found = custom_ops.find(text, model)
    if found:
        return found
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
    """Inference by onnx, and what `outputs` knows of nodes, by turns, until nothing new comes."""
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
            return next((each.type for each in fresh), type_in(name, scopes))

        if all(not name or type_of(name).complete for name in node.outputs):
            continue
        for name, stated in zip(node.outputs, outputs(node, scopes, type_of), strict=False):
            if name and stated.complete and not type_of(name).complete:
                new[id(scopes[-1]), name] = _Stated(scopes[-1], name, stated)
    return list(new.values())


def _tell(proto: Any, graph: OnnxGraph, found: Sequence[_Stated]) -> None:
    """Write conclusions into the protobuf, each into its own graph."""
    onnx = reading.onnx_module()
    mine = [each for each in found if each.graph is graph]
    rows = {row.name: row for row in (*proto.value_info, *proto.output)} if mine else {}
    for each in mine:
        row = rows[each.value] if each.value in rows else proto.value_info.add(name=each.value)
        number = onnx.TensorProto.DataType.Value(each.type.dtype)
        shape = None if each.type.shape is None else list(each.type.shape)
        row.type.CopyFrom(onnx.helper.make_tensor_type_proto(number, shape))
    for node, frozen in zip(proto.node, graph.nodes, strict=True):
        for inner, (_, known) in zip(reading.graphs_of(node), frozen.graphs, strict=True):
            _tell(inner, known, found)
