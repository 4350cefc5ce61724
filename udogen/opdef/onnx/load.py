"""Path -> the frozen model with everything that can be known of its values, and its custom ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen.errors import UsageError
from udogen.opdef.onnx import custom, reading, spread, suppose
from udogen.opdef.onnx.freeze import freeze
from udogen.opdef.onnx.model import Graph, Model, OpName, ValueType, walk

_ROUNDS = 12  # of inference and guessing: a chain of as many custom ops, each of which waits for the one before


@dataclass(frozen=True)
class Loaded:
    """A model, which ops of it are asked for, and what was strange about it."""

    model: Model
    ops: tuple[OpName, ...]
    proto: Any  # the protobuf of it, without large data
    notes: tuple[str, ...] = ()
    # Values of which type or shape was not told but concluded: (graph's name, value) -> how.
    concluded: tuple[tuple[str, str, str], ...] = ()


def load_model(path: Path, wanted: Sequence[str] = ()) -> Loaded:
    """The model; its ops are the wanted ones (`DOMAIN::TYPE` or `TYPE`), otherwise the custom ones."""
    notes: list[str] = []
    proto = reading.read_proto(path)
    model = freeze(proto, path.name)
    asked = tuple(op for text in wanted for op in _asked(text, model))
    reading.prepare(proto)
    inside = custom.containers(model, asked)
    if inside:
        proto = _inlined(proto, inside, notes)
        model = freeze(proto, path.name)
    ops = tuple(dict.fromkeys(asked)) if asked else custom.custom_ops(model)
    proto, model, concluded = _typed(proto, path.name, ops, notes)
    return Loaded(model, ops, proto, tuple(notes), tuple(concluded))


def _asked(text: str, model: Model) -> list[OpName]:
    found = custom.find(text, model)
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


def _typed(
    proto: Any, file: str, ops: Sequence[OpName], notes: list[str]
) -> tuple[Any, Model, list[tuple[str, str, str]]]:
    """Inference by onnx and conclusions of ours by turns, until nothing new comes."""
    concluded: list[tuple[str, str, str]] = []
    rules: list[suppose.Rule] = []
    supposed = False

    def infer(known: Any) -> tuple[Any, Model]:
        more = reading.inferred(known, notes)
        return more, freeze(more, file)

    for _ in range(_ROUNDS):
        proto, model = infer(proto)
        found = spread.conclude(model) or suppose.apply(model, rules)
        if not found and not supposed:
            supposed = True
            rules = suppose.confirmed(proto, model, ops, infer=infer, tell=_tell)
            found = suppose.apply(model, rules)
        if not found:
            break
        concluded += [(each.graph.name, each.value, each.why) for each in found]
        _tell(proto.graph, model.graph, found)
    return proto, freeze(proto, file), concluded


def _tell(proto: Any, graph: Graph, found: Sequence[spread.Conclusion]) -> None:
    """Write conclusions into the protobuf, each into its own graph."""
    onnx = reading.onnx_module()
    for each in found:
        if each.graph is graph:
            row = next((row for row in (*proto.output, *proto.value_info) if row.name == each.value), None)
            _write(onnx, row if row is not None else proto.value_info.add(name=each.value), each.type)
    for node, frozen in zip(proto.node, graph.nodes, strict=True):
        bodies = [body for row in node.attribute for body in ([row.g] if row.type == 5 else row.graphs)]
        for inner, (_, known) in zip(bodies, frozen.graphs, strict=True):
            _tell(inner, known, found)


def _write(onnx: Any, row: Any, found: ValueType) -> None:
    shape = None if found.shape is None else list(found.shape)
    number = onnx.TensorProto.DataType.Value(found.dtype or "UNDEFINED")
    row.type.CopyFrom(onnx.helper.make_tensor_type_proto(number, shape))
