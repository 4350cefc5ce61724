"""What follows for values that custom ops block: onnx's inference stops at an op that it does not know.

Each rule is a conclusion that a person could check: it says why.  What only may be so is not said here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from udogen.opdef.onnx import custom
from udogen.opdef.onnx.model import Graph, Model, Node, OpName, ValueType, type_in, walk

# Ops whose output has the shape of their first input, whatever it is.
_KEEP_SHAPE = frozenset(
    """Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh
    DequantizeLinear Dropout Elu Erf Exp Floor Gelu GroupNormalization HardSigmoid HardSwish Hardmax Identity
    InstanceNormalization IsInf IsNaN LRN LayerNormalization LeakyRelu Log LogSoftmax LpNormalization
    MeanVarianceNormalization Mish Neg Not QuantizeLinear Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh
    Softmax Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu Trilu""".split()
)


@dataclass(frozen=True)
class Conclusion:
    """A value's type, and why it must be so."""

    graph: Graph
    value: str
    type: ValueType
    why: str


@dataclass(frozen=True)
class _Site:
    """A node, and the graphs around it."""

    node: Node
    scopes: tuple[Graph, ...]

    def type(self, name: str) -> ValueType:
        return type_in(name, self.scopes) if name else ValueType()


def conclude(model: Model) -> list[Conclusion]:
    """New types of outputs that onnx could not infer; nothing where there are none."""
    sites = [_Site(node, scopes) for node, scopes in walk(model.graph)]
    twins = _twins(sites)
    users = _users(sites)
    found: list[Conclusion] = []
    for site in sites:
        for place, name in enumerate(site.node.outputs):
            known = site.type(name)
            if not name or known.complete or known.other or name in site.scopes[-1].constants:
                continue
            by_use = [*users.get((id(site.scopes[-1]), name), ())]
            dtype, shape, reasons = known.dtype, known.shape, []
            if not dtype:
                dtype, why = _dtype(site, place, by_use, twins, model)
                reasons.append(why)
            if shape is None:
                shape, why = _shape(site, place, by_use, twins)
                reasons.append(why)
            if dtype and (dtype, shape) != (known.dtype, known.shape):
                why = "; ".join(reason for reason in reasons if reason)
                found.append(Conclusion(site.scopes[-1], name, ValueType(dtype, shape), why))
    return found


def _users(sites: list[_Site]) -> Mapping[tuple[int, str], list[tuple[_Site, int]]]:
    """Who takes a value, by the graph that makes it: also graphs inside that one see it."""
    found: dict[tuple[int, str], list[tuple[_Site, int]]] = {}
    for site in sites:
        for place, name in enumerate(site.node.inputs):
            for graph in site.scopes:
                found.setdefault((id(graph), name), []).append((site, place))
    return found


def _twins(sites: list[_Site]) -> Mapping[OpName, list[_Site]]:
    """The uses of each op that onnx does not know."""
    found: dict[OpName, list[_Site]] = {}
    for site in sites:
        if not custom.knows(site.node.op):
            found.setdefault(site.node.op, []).append(site)
    return found


def _dtype(
    site: _Site, place: int, users: list[tuple[_Site, int]], twins: Mapping[OpName, list[_Site]], model: Model
) -> tuple[str, str]:
    for user, at in users:
        found = _asked_by(user, at, model)
        if found:
            return found, f"{user.node.op.type}, which takes it, wants {found}"
    for rule in _like_twins(site, place, twins, lambda each: each.dtype):
        return rule[0], f"the type is that of input {rule[1]}, as in other uses of {site.node.op.type}"
    return "", ""


def _asked_by(user: _Site, at: int, model: Model) -> str:
    """The type that a standard op needs at this input: the only one it takes, or that of another input or output."""
    schema = custom.schema(user.node.op, model.opsets)
    if schema is None or not schema.inputs:
        return ""
    formal = schema.inputs[min(at, len(schema.inputs) - 1)]
    if formal.type_str.startswith("tensor("):
        return _onnx_type(formal.type_str)
    allowed: list[str] = next(
        (row.allowed_type_strs for row in schema.type_constraints if row.type_param_str == formal.type_str), []
    )
    if len(allowed) == 1:
        return _onnx_type(allowed[0])
    for names, formals in ((user.node.inputs, schema.inputs), (user.node.outputs, schema.outputs)):
        for index, name in enumerate(names):
            if name and formals and formals[min(index, len(formals) - 1)].type_str == formal.type_str:
                found = user.type(name).dtype
                if found and (formals is not schema.inputs or index != at):
                    return found
    return ""


def _onnx_type(text: str) -> str:
    return text.removeprefix("tensor(").removesuffix(")").upper() if text.startswith("tensor(") else ""


def _shape(
    site: _Site, place: int, users: list[tuple[_Site, int]], twins: Mapping[OpName, list[_Site]]
) -> tuple[tuple[int | str | None, ...] | None, str]:
    for user, at in users:
        if at == 0 and user.node.op.domain == "" and user.node.op.type in _KEEP_SHAPE and user.node.outputs:
            found = user.type(user.node.outputs[0]).shape
            if found is not None:
                return found, f"the shape is that which {user.node.op.type} makes of it"
    for shape, index in _like_twins(site, place, twins, lambda each: each.shape):
        return shape, f"the shape is that of input {index}, as in other uses of {site.node.op.type}"
    return None, ""


def _like_twins(site: _Site, place: int, twins: Mapping[OpName, list[_Site]], what: Any) -> Iterator[tuple[Any, int]]:
    """Values of inputs that this output equals in every other use where both are known, and the input's number."""
    others = [each for each in twins.get(site.node.op, ()) if each is not site and place < len(each.node.outputs)]
    for index, name in enumerate(site.node.inputs):
        here = what(site.type(name))
        pairs = [
            (what(each.type(each.node.inputs[index])), what(each.type(each.node.outputs[place])))
            for each in others
            if index < len(each.node.inputs)
        ]
        known = [(one, other) for one, other in pairs if one and other]
        if here and known and all(one == other for one, other in known):
            yield here, index
