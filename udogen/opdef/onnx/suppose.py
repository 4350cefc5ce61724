"""Suppose that an output of a custom op has the shape of an input: does the rest of the model agree?

What the model declares (its outputs, and values that exporters described) is the judge: it is taken away, inferred
again under the assumption, and compared.  An assumption that nothing confirms, or anything contradicts, is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from udogen.opdef.onnx.model import Graph, Model, Node, OpName, ValueType, type_in, walk
from udogen.opdef.onnx.spread import Conclusion

_MOST_TRIES = 12  # each is a few runs of inference
_ROUNDS = 6

Tell = Callable[[Any, Graph, Sequence[Conclusion]], None]
Infer = Callable[[Any], tuple[Any, Model]]


@dataclass(frozen=True)
class Rule:
    """Output `output` of every use of an op has type and shape of its input `input`."""

    op: OpName
    output: int
    input: int


def confirmed(proto: Any, model: Model, ops: Sequence[OpName], *, infer: Infer, tell: Tell) -> list[Rule]:
    """The assumptions that the model confirms, for the ops of which a shape is not known."""
    found: list[Rule] = []
    judges = _declared(model.graph)
    if not judges:
        return []
    for tried, rule in enumerate(_candidates(model, ops)):
        if tried >= _MOST_TRIES:
            break
        if any((each.op, each.output) == (rule.op, rule.output) for each in found):
            continue
        if _agrees(proto, [*found, rule], judges, infer=infer, tell=tell):
            found.append(rule)
    return found


def apply(model: Model, rules: Sequence[Rule]) -> list[Conclusion]:
    """What the rules say of values that are not known yet."""
    found = []
    for node, scopes in walk(model.graph):
        for rule in rules:
            if node.op == rule.op and max(rule.input - len(node.inputs), rule.output - len(node.outputs)) < 0:
                known, source = (type_in(name, scopes) for name in (node.outputs[rule.output], node.inputs[rule.input]))
                made = ValueType(known.dtype or source.dtype, known.shape if known.shape is not None else source.shape)
                if made != known and made.dtype:
                    why = (
                        f"supposing that output {rule.output} of {rule.op.type} is like input {rule.input}, "
                        "the rest of the model comes out as it declares it"
                    )
                    found.append(Conclusion(scopes[-1], node.outputs[rule.output], made, why))
    return found


def _candidates(model: Model, ops: Sequence[OpName]) -> Iterator[Rule]:
    """Rules for outputs of unknown shape: each input that is not constant, in order."""
    asked: dict[Rule, None] = {}
    for node, scopes in walk(model.graph):
        if node.op not in ops:
            continue
        for output, name in enumerate(node.outputs):
            if name and type_in(name, scopes).shape is None:
                inputs = [place for place, each in enumerate(node.inputs) if each and not _is_constant(each, scopes)]
                asked.update({Rule(node.op, output, place): None for place in inputs})
    yield from asked


def _is_constant(name: str, scopes: tuple[Graph, ...]) -> bool:
    return any(name in graph.constants for graph in scopes)


def _declared(graph: Graph) -> Mapping[str, ValueType]:
    """The outputs of the model that have a declared shape."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    return {
        name: graph.types[name]
        for name in graph.outputs
        if name in makers and name in graph.types and graph.types[name].complete
    }


def _agrees(proto: Any, rules: Sequence[Rule], judges: Mapping[str, ValueType], *, infer: Infer, tell: Tell) -> bool:
    copy = type(proto)()
    copy.CopyFrom(proto)
    for row in copy.graph.output:
        if row.name in judges:
            row.type.tensor_type.ClearField("shape")
    for _ in range(_ROUNDS):
        copy, model = infer(copy)
        news = apply(model, rules)
        if not news:
            break
        tell(copy.graph, model.graph, news)
    found = {name: model.graph.types.get(name, ValueType()) for name in judges}
    if any(not _alike(found[name], declared) for name, declared in judges.items()):
        return False
    newest = rules[-1]
    return any(found[name].shape is not None and _depends(name, newest.op, model.graph) for name in judges)


def _alike(found: ValueType, declared: ValueType) -> bool:
    """Nothing contradicts: ranks and all sizes that both know are the same."""
    if found.shape is None or declared.shape is None:
        return True
    return len(found.shape) == len(declared.shape) and all(
        one == other for one, other in zip(found.shape, declared.shape, strict=True) if one and other
    )


def _depends(name: str, op: OpName, graph: Graph) -> bool:
    """Whether a value comes, through whatever nodes, from a use of this op."""
    makers: dict[str, Node] = {each: node for node in graph.nodes for each in node.outputs if each}
    todo, seen = [name], {name}
    while todo:
        node = makers.get(todo.pop())
        if node is None:
            continue
        if node.op == op or any(inner.op == op for _, body in node.graphs for inner, _ in walk(body)):
            return True
        fresh = [each for each in node.inputs if each and each not in seen]
        seen.update(fresh)
        todo += fresh
    return False
