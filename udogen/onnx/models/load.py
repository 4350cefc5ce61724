"""Path -> the frozen model with all known properties of its values, and its custom ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udogen.errors import UsageError
from udogen.onnx.models import custom_ops, reading, shape_propagation
from udogen.onnx.models.from_proto import freeze
from udogen.onnx.models.model import OnnxGraph, OnnxModel, OpName, type_in, walk
from udogen.onnx.models.shape_propagation import Outputs, no_outputs

_ROUNDS = 12  # of inference and conclusions, beside one for each custom node; most models need one or two


@dataclass(frozen=True)
class Loaded:
    """A model, which of its ops are requested, and what was strange about it."""

    model: OnnxModel
    ops: tuple[OpName, ...]
    proto: Any  # the protobuf of it, without large data
    notes: tuple[str, ...] = ()
    # Values whose type or shape was concluded: (graph's name, value) -> how.
    concluded: tuple[tuple[str, str, str], ...] = ()


def load_model(path: Path, wanted: Sequence[str] = (), outputs: Outputs = no_outputs, *, chains: bool = True) -> Loaded:
    """The model; its ops are the wanted ones (`DOMAIN::TYPE` or `TYPE`), otherwise the custom ones.

    `outputs` gives what a node returns, as far as it is known; this comes before all that is concluded.
    `chains`: shapes between custom ops in a row are concluded too, which is a guess for a person to check.
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
    proto, model, concluded = _typed(proto, path.name, ops, notes, outputs, chains=chains)
    return Loaded(model, ops, proto, tuple(notes), tuple(concluded))


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


def _typed(
    proto: Any, file: str, ops: Sequence[OpName], notes: list[str], outputs: Outputs, *, chains: bool
) -> tuple[Any, OnnxModel, list[tuple[str, str, str]]]:
    """Inference by onnx, then conclusions and rules, by turns, until nothing new comes."""

    def infer(known: Any) -> OnnxModel:
        return freeze(reading.inferred(known, notes), file)

    concluded: dict[tuple[str, str], str] = {}
    rules: list[shape_propagation.Rule] = []
    supposed = False
    nodes = sum(node.op in ops for node, _ in walk(freeze(proto, file).graph))
    for _ in range(_ROUNDS + nodes):
        seen = reading.inferred(shape_propagation.with_identities(proto, rules) if rules else proto, notes)
        known = type(proto)()
        known.CopyFrom(proto)
        _take_types(known.graph, seen.graph)
        model = freeze(known, file)
        news = shape_propagation.from_outputs(model, outputs) or shape_propagation.from_consumers(model)
        concluded |= {(each.graph.name, each.value): each.why for each in news}
        _tell(proto.graph, model.graph, news)
        more = shape_propagation.rules_from_uses(model, rules)
        if not (news or more or supposed):
            supposed = True
            more = shape_propagation.confirmed_rules(proto, model, ops, rules, infer)
            if chains and not more:
                more = shape_propagation.confirmed_chain(proto, model, ops, rules, infer)
        if not (news or more):
            break
        rules += more
    concluded |= _by_rules(freeze(proto, file), rules)
    return known, model, [(graph, value, why) for (graph, value), why in concluded.items()]


def _by_rules(model: OnnxModel, rules: Sequence[shape_propagation.Rule]) -> dict[tuple[str, str], str]:
    """The values that follow from rules alone, with the reason."""
    return {
        (scopes[-1].name, node.outputs[rule.output]): rule.why
        for node, scopes in walk(model.graph)
        for rule in rules
        if node.op == rule.op and rule.output < len(node.outputs)
        if not type_in(node.outputs[rule.output], scopes).complete
    }


def _take_types(graph: Any, seen: Any) -> None:
    """Copy what inference found; the other graph may lack ops that have been looked through."""
    for rows in ("value_info", "output", "input"):
        del getattr(graph, rows)[:]
        getattr(graph, rows).extend(getattr(seen, rows))
    bodies = {tuple(node.output): list(reading.graphs_of(node)) for node in seen.node}
    for node in graph.node:
        for inner, other in zip(reading.graphs_of(node), bodies.get(tuple(node.output), ()), strict=False):
            _take_types(inner, other)


def _tell(proto: Any, graph: OnnxGraph, found: Sequence[shape_propagation.Conclusion]) -> None:
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
