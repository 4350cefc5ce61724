"""The body that a model has for a custom op -> a kernel, as for nodes that are fused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from udogen.errors import UsageError
from udogen.fuse.ops import title
from udogen.fuse.subgraph import SourceModel
from udogen.fuse.write import FusedOp, fused_op, kernel_text
from udogen.opdef.names import identifier
from udogen.opdef.onnx.reading import onnx_module

_FLOAT = 1  # of AttributeProto


@dataclass(frozen=True)
class BodyInput:
    """An input of the op in one use: its name in the config, ONNX's type, and its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class CustomOp:
    """An op that a model uses and defines."""

    name: str
    file: str  # the model's
    body: Any  # FunctionProto
    call: Any  # a node of it
    uses: Sequence[Sequence[BodyInput]]
    outputs: Sequence[str]  # names in the config


def kernel_of_function(op: CustomOp) -> str:
    """The kernel; raises where one cannot be written."""
    made = [_fused(op, inputs) for inputs in op.uses]
    if len({tuple(each.shape for each in inputs) for inputs in op.uses}) > 1 and not all(each.flat for each in made):
        raise UsageError(
            f"the model uses {op.name} with several shapes", hint="write the kernel with views of Rows or Whole"
        )
    return kernel_text(made[0])


def _fused(op: CustomOp, inputs: Sequence[BodyInput]) -> FusedOp:
    """The op with the names of the config."""
    source, params = _source(op, inputs)
    nodes = [node for node in source.nodes if not all(name in source.static for name in node.output if name)]
    made = fused_op(op.name, op.file, source.subgraph(nodes, source.feeds({})))
    names = {value: identifier(each.name) for value, each in zip(op.body.input, inputs, strict=True)}
    names |= {value: identifier(name) for value, name in zip(op.body.output, op.outputs, strict=True)}
    return replace(
        made,
        inputs=tuple(replace(port, name=names.get(port.value, port.name)) for port in made.inputs),
        outputs=tuple(replace(port, name=names[port.value]) for port in made.outputs),
        params=params,
    )


def _source(op: CustomOp, inputs: Sequence[BodyInput]) -> tuple[SourceModel, Mapping[str, str]]:
    """The body as a model, and the values in it that are parameters of the op."""
    helper, types = onnx_module("helper"), onnx_module().TensorProto.DataType
    given = {each.name: each for each in (*op.body.attribute_proto, *op.call.attribute)}
    params, nodes = {}, []
    for node in op.body.node:
        copy = type(node).FromString(node.SerializeToString())
        for attribute in copy.attribute:
            name = attribute.ref_attr_name
            if not name:
                continue
            if name not in given:
                raise UsageError(f"{title(copy)} takes the attribute `{name}`, which a node leaves out", hint="")
            own = attribute.name
            attribute.CopyFrom(given[name])
            attribute.name = own
            if copy.op_type != "Constant" or attribute.type != _FLOAT:
                raise UsageError(
                    f"{title(copy)} takes the attribute `{name}` of {op.name}", hint="write the kernel by hand"
                )
            params[copy.output[0]] = identifier(name)
        nodes.append(copy)
    rows = [
        helper.make_tensor_value_info(value, types.Value(each.dtype), each.shape)
        for value, each in zip(op.body.input, inputs, strict=True)
    ]
    results = [helper.make_tensor_value_info(name, 0, None) for name in op.body.output]
    graph = helper.make_graph(nodes, op.name, rows, results)
    made = helper.make_model(graph, opset_imports=list(op.body.opset_import), ir_version=8)
    return SourceModel(made, op.file, {}), params
