"""Types and shapes of values that custom ops block: onnx's inference does not know their outputs.

Where an output of an op is like one of its inputs, inference can look through it.  Such a rule comes from other uses of
the op, where both are known; or it is assumed, and the model confirms it: what it declares of its outputs is removed,
inferred again under the assumption, and compared.

What remains follows from the nodes that take a value.  Each conclusion has a reason, so that a person can check it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from udogen.onnx.models import custom_ops
from udogen.onnx.models.model import Node, OnnxGraph, OnnxModel, OpName, ValueType, type_in, walk
from udogen.onnx.models.reading import domain_of, graphs_of, onnx_module
from udogen.tables import many

_MOST_TRIES = 16  # each is a run of inference

Infer = Callable[[Any], OnnxModel]


@dataclass(frozen=True)
class Rule:
    """Output `output` of every use of an op has the shape of its input `input`, and its type, or else `dtype`."""

    op: OpName
    output: int
    input: int
    dtype: str = ""
    why: str = ""

    @property
    def place(self) -> tuple[OpName, int]:
        """What it is about: there is one rule for each output."""
        return self.op, self.output


def with_identities(proto: Any, rules: Sequence[Rule]) -> Any:
    """A copy in which ops with rules are what they are like: an Identity, or a Cast."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    by_op: dict[OpName, list[Rule]] = {}
    for rule in rules:
        by_op.setdefault(rule.op, []).append(rule)
    _replace(copy.graph, by_op)
    return copy


def _replace(graph: Any, by_op: Mapping[OpName, Sequence[Rule]]) -> None:
    helper, numbers = onnx_module("helper"), onnx_module().TensorProto.DataType
    nodes = []
    for node in graph.node:
        for body in graphs_of(node):
            _replace(body, by_op)
        own = by_op.get(OpName(domain_of(node), node.op_type), ())
        fitting = [
            rule
            for rule in own
            if rule.output < len(node.output) and rule.input < len(node.input) and node.input[rule.input]
        ]
        for rule in fitting:
            ends = ([node.input[rule.input]], [node.output[rule.output]])
            nodes.append(
                helper.make_node("Cast", *ends, to=numbers.Value(rule.dtype))
                if rule.dtype
                else helper.make_node("Identity", *ends)
            )
        if not fitting:
            nodes.append(node)
    if len(nodes) != len(graph.node) or any(one is not other for one, other in zip(nodes, graph.node, strict=True)):
        kept = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)


# --- from other uses --------------------------------------------------------------------------------------------------


def rules_from_uses(model: OnnxModel, known: Sequence[Rule]) -> list[Rule]:
    """Rules that hold in every use where both ends are known, for outputs that are not known in another use."""
    sites: dict[OpName, list[tuple[Node, tuple[OnnxGraph, ...]]]] = {}
    for node, scopes in walk(model.graph):
        sites.setdefault(node.op, []).append((node, scopes))
    found: dict[tuple[OpName, int], Rule] = {rule.place: rule for rule in known}
    for op, uses in sites.items():
        if len(uses) < 2 or custom_ops.knows(op):
            continue
        for output in range(max(len(node.outputs) for node, _ in uses)):
            types = [_type(node.outputs, output, scopes) for node, scopes in uses]
            if (op, output) not in found and any(each is not None and not each.complete for each in types):
                rule = _held(op, output, uses, types)
                if rule is not None:
                    found[rule.place] = rule
    return list(found.values())[len(known) :]


def _held(
    op: OpName,
    output: int,
    uses: Sequence[tuple[Node, tuple[OnnxGraph, ...]]],
    types: Sequence[ValueType | None],
) -> Rule | None:
    for place in range(max(len(node.inputs) for node, _ in uses)):
        pairs = [
            (one, made)
            for (node, scopes), made in zip(uses, types, strict=True)
            if made is not None and made.complete and (one := _type(node.inputs, place, scopes)) and one.complete
        ]
        alike = pairs and all(one.shape == made.shape for one, made in pairs)
        if alike and (rule := _like(op, output, place, pairs)):
            return rule
    return None


def _like(op: OpName, output: int, place: int, pairs: Sequence[tuple[ValueType, ValueType]]) -> Rule | None:
    """The output is like an input, and of the same type or always of one."""
    kinds = {made.dtype for _, made in pairs}
    same = all(one.dtype == made.dtype for one, made in pairs)
    if not same and len(kinds) > 1:
        return None
    count = many(len(pairs), "other use")
    why = f"it is like input {place}, as in {count} of {op.type}"
    return Rule(op, output, place, "" if same else kinds.pop(), why)


def _type(names: Sequence[str], place: int, scopes: tuple[OnnxGraph, ...]) -> ValueType | None:
    return type_in(names[place], scopes) if place < len(names) and names[place] else None


# --- supposed ---------------------------------------------------------------------------------------------------------


def confirmed_rules(
    proto: Any, model: OnnxModel, ops: Sequence[OpName], known: Sequence[Rule], infer: Infer
) -> list[Rule]:
    """Rules for outputs of unknown shape that the model confirms, each by itself, and nothing contradicts."""
    judges = _declared(model.graph)
    found: list[Rule] = []
    for tried, rule in enumerate(_candidates(model, ops) if judges else ()):
        if tried >= _MOST_TRIES:
            break
        taken = {each.place for each in (*known, *found)}
        if rule.place not in taken and _agrees(proto, [*known, *found], [rule], judges, infer):
            found.append(rule)
    return found


def confirmed_chain(
    proto: Any, model: OnnxModel, ops: Sequence[OpName], known: Sequence[Rule], infer: Infer
) -> list[Rule]:
    """Rules for outputs of unknown shape that the model confirms only together."""
    judges = _declared(model.graph)
    unknown, taken = {each.place for each in _candidates(model, ops)}, {each.place for each in known}
    first: dict[tuple[OpName, int], Rule] = {}
    for rule in _candidates(model, ops, judges):
        if rule.place not in taken:
            first.setdefault(rule.place, rule)
    agree = judges and unknown & first.keys() and _agrees(proto, known, list(first.values()), judges, infer)
    return [rule for place, rule in first.items() if place in unknown] if agree else []


def _candidates(model: OnnxModel, ops: Sequence[OpName], judges: Iterable[str] = ()) -> Iterator[Rule]:
    """Rules for outputs of unknown shape, or of values in `judges`: each input that is not constant, in order."""
    found: dict[Rule, None] = {}
    for node, scopes in walk(model.graph):
        if node.op not in ops:
            continue
        for output, name in enumerate(node.outputs):
            if name and (name in judges or type_in(name, scopes).shape is None):
                for place, each in enumerate(node.inputs):
                    if each and not any(each in graph.constants for graph in scopes):
                        why = f"with the shape of input {place} the rest of the model has its declared shapes"
                        found[Rule(node.op, output, place, why=why)] = None
    yield from found


def _declared(graph: OnnxGraph) -> Mapping[str, ValueType]:
    """The outputs of the model of which it declares the shape."""
    makers = {name for node in graph.nodes for name in node.outputs}
    return {name: graph.types[name] for name in graph.outputs if name in makers and graph.types[name].complete}


def _agrees(
    proto: Any, known: Sequence[Rule], supposed: Sequence[Rule], judges: Mapping[str, ValueType], infer: Infer
) -> bool:
    copy = with_identities(proto, [*known, *supposed])
    for row in copy.graph.output:
        if row.name in judges:
            row.type.tensor_type.ClearField("shape")
    model = infer(copy)
    found = {name: model.graph.types.get(name, ValueType()) for name in judges}
    if any(not _alike(found[name], declared) for name, declared in judges.items()):
        return False
    confirmed = [name for name in judges if found[name].shape is not None]
    return bool(confirmed) and all(_depends(confirmed, rule.op, proto.graph) for rule in supposed)


def _alike(found: ValueType, declared: ValueType) -> bool:
    """Nothing contradicts: ranks, and all sizes that both know."""
    if found.shape is None or declared.shape is None:
        return True
    return len(found.shape) == len(declared.shape) and all(
        one == other for one, other in zip(found.shape, declared.shape, strict=True) if one and other
    )


def _depends(names: Sequence[str], op: OpName, graph: Any) -> bool:
    """Whether one of these values comes, through whatever nodes, from a use of the op."""
    makers = {each: node for node in graph.node for each in node.output if each}
    todo, seen = list(names), set(names)
    while todo:
        node = makers.get(todo.pop())
        if node is None:
            continue
        inner = [node, *(each for body in graphs_of(node) for each in _all_nodes(body))]
        if any(OpName(domain_of(each), each.op_type) == op for each in inner):
            return True
        fresh = {name for each in inner for name in each.input if name and name not in seen}
        seen |= fresh
        todo += fresh
    return False


def _all_nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for body in graphs_of(node):
            yield from _all_nodes(body)


# Ops whose output has the shape of their first input, regardless of its kind.
_KEEP_SHAPE = frozenset(
    """Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh
    DequantizeLinear Dropout Elu Erf Exp Floor Gelu GroupNormalization HardSigmoid HardSwish Hardmax Identity
    InstanceNormalization IsInf IsNaN LRN LayerNormalization LeakyRelu Log LogSoftmax LpNormalization
    MeanVarianceNormalization Mish Neg Not QuantizeLinear Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh
    Softmax Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu Trilu""".split()
)


TypeOf = Callable[[str], ValueType]  # what is known about a value where a node sees it
# What a node returns, as far as it is known; empty or UNKNOWN where it is not.
Outputs = Callable[[Node, tuple[OnnxGraph, ...], TypeOf], Sequence[ValueType]]


def no_outputs(_node: Node, _scopes: tuple[OnnxGraph, ...], _type_of: TypeOf) -> Sequence[ValueType]:
    """No node has known properties."""
    return ()


@dataclass(frozen=True)
class Conclusion:
    """A value's type, and why it must be so."""

    graph: OnnxGraph
    value: str
    type: ValueType
    why: str


@dataclass(frozen=True)
class _Taker:
    """A node that takes a value, at which input, and the graphs around it."""

    node: Node
    place: int
    scopes: tuple[OnnxGraph, ...]

    def type(self, name: str) -> ValueType:
        return type_in(name, self.scopes) if name else ValueType()


def from_outputs(model: OnnxModel, outputs: Outputs) -> list[Conclusion]:
    """New types of values that `outputs` knows; also those of nodes that take such a value."""
    found: dict[tuple[int, str], Conclusion] = {}
    for node, scopes in walk(model.graph):

        def type_of(name: str, scopes: tuple[OnnxGraph, ...] = scopes) -> ValueType:
            fresh = (found[key] for graph in reversed(scopes) if (key := (id(graph), name)) in found)
            return next((each.type for each in fresh), type_in(name, scopes))

        if all(not name or type_of(name).complete for name in node.outputs):
            continue
        for name, stated in zip(node.outputs, outputs(node, scopes, type_of), strict=False):
            if name and stated.complete and not type_of(name).complete:
                why = f"from the config of {node.op.type}"
                found[id(scopes[-1]), name] = Conclusion(scopes[-1], name, stated, why)
    return list(found.values())


def from_consumers(model: OnnxModel) -> list[Conclusion]:
    """New types of values that onnx could not infer; nothing where there are none."""
    takers = _takers(model)
    found: list[Conclusion] = []
    for node, scopes in walk(model.graph):
        for name in node.outputs:
            known = type_in(name, scopes) if name else ValueType(other="left out")
            if known.complete or known.other:
                continue
            users = takers.get((id(scopes[-1]), name), ())
            dtype, why_type = (known.dtype, "") if known.dtype else _dtype(users, model)
            shape, why_shape = (known.shape, "") if known.shape is not None else _shape(users)
            if dtype and (dtype, shape) != (known.dtype, known.shape):
                why = "; ".join(each for each in (why_type, why_shape) if each)
                found.append(Conclusion(scopes[-1], name, ValueType(dtype, shape), why))
    return found


def _takers(model: OnnxModel) -> Mapping[tuple[int, str], Sequence[_Taker]]:
    """Who takes a value, by the graph that makes it: also graphs inside that one see it."""
    found: dict[tuple[int, str], list[_Taker]] = {}
    for node, scopes in walk(model.graph):
        for place, name in enumerate(node.inputs):
            for graph in scopes:
                found.setdefault((id(graph), name), []).append(_Taker(node, place, scopes))
    return found


def _dtype(users: Sequence[_Taker], model: OnnxModel) -> tuple[str, str]:
    for user in users:
        found = _asked_by(user, model)
        if found:
            return found, f"{user.node.op.type}, which takes it, requires {found}"
    return "", ""


def _asked_by(user: _Taker, model: OnnxModel) -> str:
    """The type that a standard op needs at this input: the only one it takes, or that of another input or output."""
    schema = custom_ops.schema(user.node.op, model.opsets)
    if schema is None or not schema.inputs:
        return ""
    formal = schema.inputs[min(user.place, len(schema.inputs) - 1)]
    if formal.type_str.startswith("tensor("):
        return _onnx_type(formal.type_str)
    allowed: list[str] = next(
        (row.allowed_type_strs for row in schema.type_constraints if row.type_param_str == formal.type_str), []
    )
    if len(allowed) == 1:
        return _onnx_type(allowed[0])
    for names, formals in ((user.node.inputs, schema.inputs), (user.node.outputs, schema.outputs)):
        for index, name in enumerate(names):
            itself = formals is schema.inputs and index == user.place
            if name and not itself and formals and formals[min(index, len(formals) - 1)].type_str == formal.type_str:
                found = user.type(name).dtype
                if found:
                    return found
    return ""


def _onnx_type(text: str) -> str:
    return text.removeprefix("tensor(").removesuffix(")").upper() if text.startswith("tensor(") else ""


def _shape(users: Sequence[_Taker]) -> tuple[tuple[int | str | None, ...] | None, str]:
    for user in users:
        op = user.node.op
        if user.place == 0 and not op.domain and op.type in _KEEP_SHAPE and user.node.outputs:
            found = user.type(user.node.outputs[0]).shape
            if found is not None:
                return found, f"{op.type}, which takes it, keeps its shape"
    return None, ""
