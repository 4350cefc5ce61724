"""Every use of an op in a model: what goes in and comes out, which of it is constant, and how it is quantized.

An op that a model defines itself can be a model of its own, whose numbers are a reference for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from udogen.onnx.models.model import (
    UNKNOWN,
    Attribute,
    OnnxConstant,
    OnnxGraph,
    OnnxModel,
    OnnxNode,
    OpName,
    ValueType,
    type_in,
    walk,
)
from udogen.onnx.models.reading import bodies_of, onnx_module

_QUANTIZES, _DEQUANTIZES = "QuantizeLinear", "DequantizeLinear"
RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
_DEEPEST = 200  # nodes that a constant may come through


@dataclass(frozen=True)
class Quantized:
    """A value that is stored in fewer bits: real = scale * (stored - zero_point).

    `scale` is None where it is not one constant number: one for each channel, or computed.
    """

    dtype: str  # of ONNX, of what is stored
    scale: float | None
    zero_point: int = 0


@dataclass(frozen=True)
class Argument:
    """An input or output of one use; a name of "" means that it is left out."""

    name: str
    type: ValueType = UNKNOWN
    static: bool = False
    constant: OnnxConstant | None = None
    quantized: Quantized | None = None
    outside: bool = False  # an input or output of the graph, whose name people have chosen


@dataclass(frozen=True)
class Use:
    """One node."""

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    attributes: tuple[Attribute, ...]

    @property
    def title(self) -> str:
        """What a person finds it by."""
        return self.name or next((tensor.name for tensor in self.outputs if tensor.name), "?")


def uses_of(model: OnnxModel, op: OpName) -> list[Use]:
    """All uses of an op, in the order of the file, in subgraphs too."""
    finder = _Finder(model)
    return [finder.use(node, scopes) for node, scopes in walk(model.graph) if node.op == op]


class _Finder:
    """Knows who makes and who takes each value of each graph."""

    def __init__(self, model: OnnxModel) -> None:
        self._makers: dict[tuple[int, str], OnnxNode] = {}
        self._takers: dict[tuple[int, str], list[OnnxNode]] = {}
        self._static: dict[tuple[int, str], bool] = {}
        for node, scopes in walk(model.graph):
            graph = scopes[-1]
            self._makers.update({(id(graph), name): node for name in node.outputs if name})
            for name in node.inputs:
                self._takers.setdefault((id(graph), name), []).append(node)

    def use(self, node: OnnxNode, scopes: tuple[OnnxGraph, ...]) -> Use:
        return Use(
            name=node.name,
            inputs=_without_tail([self._input(name, scopes) for name in node.inputs]),
            outputs=_without_tail([self._output(name, scopes) for name in node.outputs]),
            attributes=node.attributes,
        )

    def _input(self, name: str, scopes: tuple[OnnxGraph, ...]) -> Argument:
        if not name:
            return Argument("")
        constant = self._constant(name, scopes)
        if constant is not None and 0 in constant.shape:  # how older opsets leave an input out
            return Argument("")
        return Argument(
            name=name,
            type=type_in(name, scopes),
            static=self._is_static(name, scopes),
            constant=constant,
            quantized=self._dequantized(name, scopes),
            outside=any(name in graph.inputs for graph in scopes[:1]),
        )

    def _output(self, name: str, scopes: tuple[OnnxGraph, ...]) -> Argument:
        return Argument(
            name=name,
            type=type_in(name, scopes) if name else ValueType(),
            quantized=self._quantized(name, scopes) if name else None,
            outside=name in scopes[0].outputs,
        )

    def _home(self, name: str, scopes: tuple[OnnxGraph, ...]) -> tuple[OnnxGraph, OnnxNode | None] | None:
        """The graph where a value is made, and the node that makes it; no node of constants and graph inputs."""
        for graph in reversed(scopes):
            node = self._makers.get((id(graph), name))
            if node is not None or name in graph.constants or name in graph.inputs:
                return graph, node
        return None

    def _is_static(self, name: str, scopes: tuple[OnnxGraph, ...], depth: int = 0) -> bool:
        """Constant, or made of constants by standard ops."""
        home = self._home(name, scopes)
        if home is None or depth > _DEEPEST:
            return False
        graph, node = home
        key = (id(graph), name)
        if key not in self._static:
            inside = scopes[: scopes.index(graph) + 1]
            self._static[key] = name in graph.constants or (
                node is not None
                and node.op.domain in ("", "com.microsoft")
                and node.op.type not in RANDOM
                and not node.graphs
                and all(not tensor or self._is_static(tensor, inside, depth + 1) for tensor in node.inputs)
            )
        return self._static[key]

    def _constant(self, name: str, scopes: tuple[OnnxGraph, ...]) -> OnnxConstant | None:
        """The constant itself, where the file holds it as it is."""
        home = self._home(name, scopes)
        if home is None:
            return None
        graph, node = home
        if name in graph.constants:
            return graph.constants[name]
        if node is not None and node.op == OpName("", "Constant"):
            return next((constant_of(attribute) for attribute in node.attributes), None)
        if node is not None and node.op == OpName("", "Identity") and node.inputs:
            return self._constant(node.inputs[0], scopes)
        return None

    def _dequantized(self, name: str, scopes: tuple[OnnxGraph, ...]) -> Quantized | None:
        home = self._home(name, scopes)
        if home is None or home[1] is None or home[1].op.type != _DEQUANTIZES:
            return None
        return self._read(home[1], type_in(home[1].inputs[0], scopes).dtype, scopes)

    def _quantized(self, name: str, scopes: tuple[OnnxGraph, ...]) -> Quantized | None:
        for node in self._takers.get((id(scopes[-1]), name), ()):
            if node.op.type == _QUANTIZES and node.inputs[0] == name:
                return self._read(node, type_in(node.outputs[0], scopes).dtype if node.outputs else "", scopes)
        return None

    def _read(self, node: OnnxNode, dtype: str, scopes: tuple[OnnxGraph, ...]) -> Quantized | None:
        """The quantization of a QuantizeLinear or DequantizeLinear."""
        scale = self._number(node.inputs[1], scopes) if len(node.inputs) > 1 else None
        has_zero = len(node.inputs) > 2 and node.inputs[2]
        zero = self._number(node.inputs[2], scopes) if has_zero else 0.0
        if has_zero and not dtype:
            dtype = type_in(node.inputs[2], scopes).dtype
        known = scale is not None and zero is not None and 0 < scale < float("inf")
        return Quantized(dtype or "UINT8", scale if known else None, int(zero or 0) if known else 0)

    def _number(self, name: str, scopes: tuple[OnnxGraph, ...]) -> float | None:
        constant = self._constant(name, scopes)
        if constant is None or constant.array is None or constant.array.size != 1:
            return None
        return float(constant.array.reshape(-1)[0])


def constant_of(attribute: Attribute) -> OnnxConstant | None:
    """What a Constant node holds, by its attribute; None for texts and sparse tensors."""
    import numpy as np

    value = attribute.value
    if isinstance(value, OnnxConstant):
        return value
    if attribute.name in ("value_int", "value_ints", "value_float", "value_floats"):
        array = np.asarray(value, np.int64 if "int" in attribute.name else np.float32)
        return OnnxConstant("INT64" if "int" in attribute.name else "FLOAT", tuple(array.shape), array)
    return None


def _without_tail(arguments: list[Argument]) -> tuple[Argument, ...]:
    """The arguments without those at the end that are left out."""
    last = max((index for index, argument in enumerate(arguments) if argument.name), default=-1)
    return tuple(arguments[: last + 1])


def definition(proto: Any, op: OpName) -> tuple[Any, list[Any]]:
    """The body that the model has for an op, and its nodes; no body where its data is not at hand."""
    body = next(
        (function for function in proto.functions if (function.domain, function.name) == (op.domain, op.type)), None
    )
    if body is None or not _whole(body):
        return None, []
    return body, [
        node
        for each in bodies_of(proto.graph)
        for node in each.node
        if (node.domain, node.op_type) == (op.domain, op.type)
    ]


def standalone_model(proto: Any, op: OpName, uses: Sequence[Use]) -> bytes | None:
    """The op alone; None where its data is not at hand, or uses differ in attributes that are not inputs here.

    Its inputs are those of the op, then the attributes that are only numbers in its body.
    """
    function, nodes = definition(proto, op)
    if function is None or not uses:
        return None
    body = type(function).FromString(function.SerializeToString())
    numbers = _as_inputs(body)
    calls = {
        tuple(sorted(attribute.SerializeToString() for attribute in node.attribute if attribute.name not in numbers))
        for node in nodes
    }
    if len(calls) != 1:
        return None
    model = _model_of_one(proto, body, nodes[0], uses, numbers)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _as_inputs(body: Any) -> list[str]:
    """Make attributes that are nothing but constants of one float inputs of a function, and return their names."""
    used = [attribute.ref_attr_name for node in body.node for attribute in node.attribute if attribute.ref_attr_name]
    constants = {
        node.attribute[0].ref_attr_name: node
        for node in body.node
        if node.op_type == "Constant" and node.attribute[0].name == "value_float"
    }
    names = [name for name in constants if used.count(name) == 1 and name not in body.input]
    for name in names:
        body.input.append(constants[name].output[0])
        body.node.remove(constants[name])
    return names


def _model_of_one(proto: Any, body: Any, call: Any, uses: Sequence[Use], numbers: Sequence[str]) -> Any:
    """A model of one node, the call of a function, with all functions of the model that it is from."""
    helper, tensor = onnx_module("helper"), onnx_module().TensorProto
    tensors = body.input[: len(body.input) - len(numbers)]
    kinds = [_type(uses, place) for place in range(len(tensors))]
    # A test hands over numbers of other types: of 64 bits, or 32 where the model has 64.
    typed = [(name, kind) for name, kind in zip(tensors, kinds, strict=True) if kind]
    casts = [helper.make_node("Cast", [f"{name}_as_it_is"], [name], to=kind) for name, kind in typed]
    given = [f"{name}_as_it_is" if kind else name for name, kind in zip(tensors, kinds, strict=True)]
    node = helper.make_node(call.op_type, [*tensors, *numbers], list(body.output), domain=call.domain)
    node.attribute.extend(attribute for attribute in call.attribute if attribute.name not in numbers)
    rows = [
        helper.make_tensor_value_info(name, kind or tensor.FLOAT, None) for name, kind in zip(given, kinds, strict=True)
    ]
    graph = helper.make_graph(
        [*casts, node],
        call.op_type,
        rows + [helper.make_tensor_value_info(name, tensor.FLOAT, []) for name in numbers],
        [onnx_module().ValueInfoProto(name=name) for name in body.output],
    )
    others = [function for function in proto.functions if (function.domain, function.name) != (body.domain, body.name)]
    needed = [body, *(other for other in others if _whole(other))]
    made = helper.make_model(graph, functions=needed, opset_imports=list(proto.opset_import))
    made.ir_version, made.producer_name = max(proto.ir_version, 8), "udogen"
    return made


def _type(uses: Sequence[Use], place: int) -> int | None:
    dtype = next((use.inputs[place].type.dtype for use in uses if place < len(use.inputs)), "")
    number: int | None = onnx_module().TensorProto.DataType.Value(dtype) if dtype else None
    return number


def _whole(function: Any) -> bool:
    """Whether the data of all its constants was kept."""
    to_array = onnx_module("numpy_helper").to_array
    for node in function.node:
        for attribute in node.attribute:
            if attribute.type == 4:
                try:
                    to_array(attribute.t)
                except Exception:  # left out with the weights, or in a file of its own
                    return False
    return True
