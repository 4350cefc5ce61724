"""An op that a model defines itself, as a model of its own: what its numbers can be held against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from udogen.opdef.onnx.model import OpName
from udogen.opdef.onnx.reading import graphs_of, onnx_module
from udogen.opdef.onnx.uses import Use


def model_of(proto: Any, op: OpName, uses: Sequence[Use]) -> bytes | None:
    """The op alone, with the attributes of its uses; None where uses differ in them, or its data is not at hand."""
    functions = {(each.domain, each.name): each for each in proto.functions}
    body = functions.get((op.domain, op.type))
    if body is None or not uses or not _whole(body):
        return None
    nodes = [node for node in _nodes(proto.graph) if (node.domain, node.op_type) == (op.domain, op.type)]
    calls = {tuple(sorted(each.SerializeToString() for each in node.attribute)) for node in nodes}
    if len(calls) != 1:
        return None
    helper, unknown = onnx_module("helper"), onnx_module().TensorProto.UNDEFINED
    kinds = [_type(uses, place) for place in range(len(body.input))]
    casts, given = [], []
    for name, kind in zip(body.input, kinds, strict=True):
        given.append(f"{name}_as_it_is" if kind else name)
        if kind:  # a test hands over numbers of other types: of 64 bits, or 32 where the model has 64
            casts.append(helper.make_node("Cast", [given[-1]], [name], to=kind))
    node = helper.make_node(op.type, list(body.input), list(body.output), domain=op.domain)
    node.attribute.extend(nodes[0].attribute)
    graph = helper.make_graph(
        [*casts, node],
        op.type,
        [helper.make_tensor_value_info(name, kind or unknown, None) for name, kind in zip(given, kinds, strict=True)],
        [helper.make_tensor_value_info(name, unknown, None) for name in body.output],
    )
    needed = [each for each in proto.functions if _whole(each)]
    made = helper.make_model(graph, functions=needed, opset_imports=list(proto.opset_import))
    made.ir_version, made.producer_name = max(proto.ir_version, 8), "udogen"
    data: bytes = made.SerializeToString(deterministic=True)
    return data


def _type(uses: Sequence[Use], place: int) -> int | None:
    found = next((use.inputs[place].type.dtype for use in uses if place < len(use.inputs)), "")
    number: int | None = onnx_module().TensorProto.DataType.Value(found) if found else None
    return number


def _nodes(graph: Any) -> list[Any]:
    found = list(graph.node)
    for node in graph.node:
        for body in graphs_of(node):
            found += _nodes(body)
    return found


def _whole(function: Any) -> bool:
    """Whether the data of all its constants is there."""
    to_array = onnx_module("numpy_helper").to_array
    for node in function.node:
        for attribute in node.attribute:
            if attribute.type == 4:
                try:
                    to_array(attribute.t)
                except Exception:  # left out with the weights, or in a file of its own
                    return False
    return True
