"""What follows for values that custom ops block, from those who take them: onnx's inference only looks forward.

Each rule is a conclusion that a person could check: it says why.  What only may be so is not said here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from udogen.opdef.onnx import custom
from udogen.opdef.onnx.model import Graph, Model, Node, ValueType, type_in, walk

# Ops whose output has the shape of their first input, whatever it is.
_KEEP_SHAPE = frozenset(
    """Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh
    DequantizeLinear Dropout Elu Erf Exp Floor Gelu GroupNormalization HardSigmoid HardSwish Hardmax Identity
    InstanceNormalization IsInf IsNaN LRN LayerNormalization LeakyRelu Log LogSoftmax LpNormalization
    MeanVarianceNormalization Mish Neg Not QuantizeLinear Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh
    Softmax Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu Trilu""".split()
)


TypeOf = Callable[[str], ValueType]  # what is known of a value where a node sees it
# What a node returns, as far as somebody knows it; nothing, or UNKNOWN, where nobody does.
Outputs = Callable[[Node, tuple[Graph, ...], TypeOf], Sequence[ValueType]]


def nothing(_node: Node, _scopes: tuple[Graph, ...], _type_of: TypeOf) -> Sequence[ValueType]:
    """Nothing is known of any node."""
    return ()


@dataclass(frozen=True)
class Conclusion:
    """A value's type, and why it must be so."""

    graph: Graph
    value: str
    type: ValueType
    why: str


@dataclass(frozen=True)
class _Taker:
    """A node that takes a value, at which input, and the graphs around it."""

    node: Node
    place: int
    scopes: tuple[Graph, ...]

    def type(self, name: str) -> ValueType:
        return type_in(name, self.scopes) if name else ValueType()


def told(model: Model, outputs: Outputs) -> list[Conclusion]:
    """New types of values that `outputs` knows; also those of nodes that take such a value."""
    found: dict[tuple[int, str], Conclusion] = {}
    for node, scopes in walk(model.graph):

        def type_of(name: str, scopes: tuple[Graph, ...] = scopes) -> ValueType:
            fresh = (found[key] for graph in reversed(scopes) if (key := (id(graph), name)) in found)
            return next((each.type for each in fresh), type_in(name, scopes))

        if all(not name or type_of(name).complete for name in node.outputs):
            continue
        for name, said in zip(node.outputs, outputs(node, scopes, type_of), strict=False):
            if name and said.complete and not type_of(name).complete:
                why = f"the config of {node.op.type} says it"
                found[id(scopes[-1]), name] = Conclusion(scopes[-1], name, said, why)
    return list(found.values())


def conclude(model: Model) -> list[Conclusion]:
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


def _takers(model: Model) -> Mapping[tuple[int, str], Sequence[_Taker]]:
    """Who takes a value, by the graph that makes it: also graphs inside that one see it."""
    found: dict[tuple[int, str], list[_Taker]] = {}
    for node, scopes in walk(model.graph):
        for place, name in enumerate(node.inputs):
            for graph in scopes:
                found.setdefault((id(graph), name), []).append(_Taker(node, place, scopes))
    return found


def _dtype(users: Sequence[_Taker], model: Model) -> tuple[str, str]:
    for user in users:
        found = _asked_by(user, model)
        if found:
            return found, f"{user.node.op.type}, which takes it, wants {found}"
    return "", ""


def _asked_by(user: _Taker, model: Model) -> str:
    """The type that a standard op needs at this input: the only one it takes, or that of another input or output."""
    schema = custom.schema(user.node.op, model.opsets)
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
