"""In the worker: a graph of one op, from a call or a context binary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from udogen.errors import RunFailed
from udogen.qnn.handles import GraphHandle
from udogen.qnn.quantization import ScaleOffset
from udogen.qnn.system import TensorInfo
from udogen.qnn.tensors import APP_READ, APP_WRITE, NULL, STATIC, OpConfig, Param, QnnTensor, Scalar
from udogen.runtime.channel import Block
from udogen.runtime.contexts.context import Context
from udogen.runtime.contexts.graph import Graph
from udogen.runtime.op.calls import OpCall, ParamArg, TensorArg, tensor_of


class Rules(NamedTuple):
    """How a runtime treats nodes of custom ops."""

    delivers: Sequence[str] | None  # the data types that it passes to custom ops; None: all
    validates: bool  # whether it calls the package's validation
    phase: Callable[[str], None]


def new_graph(context: Context, call: OpCall, rules: Rules) -> GraphHandle:
    """A graph of the one op, not finalized yet."""
    rules.phase("create the graph")
    graph = context.new_graph("udogen")
    tensors = _Tensors()
    roles = [NULL if arg.omitted else STATIC if arg.static else APP_WRITE for arg in call.inputs]
    inputs = [graph.add_tensor(tensors.make(arg, role)) for arg, role in zip(call.inputs, roles, strict=True)]
    outputs = [graph.add_tensor(tensors.make(arg, APP_READ)) for arg in call.outputs]
    params = [_param(graph, tensors, each) for each in call.params]
    node = OpConfig(
        call.op_type, package=call.package, op_type=call.op_type, inputs=inputs, outputs=outputs, params=params
    )
    if not rules.validates:
        rules.phase("validate the node")
        context.runtime.validate(node)
    rules.phase("add the node")
    graph.add_node(node)
    # Checked after the package has validated the node, because its own message is better.
    _refuse_undelivered(graph.tensors, rules.delivers)
    return graph


def bound_inputs(graph: Graph, call: OpCall) -> dict[str, TensorArg]:
    """The arguments of a call by the names of the graph's inputs, without constants."""
    args = [arg for arg in call.inputs if not arg.static and not arg.omitted]
    if call.context is not None:  # in the order of the stored graph
        by_name = {arg.name: arg for arg in args}
        args = [by_name[each.name] for each in graph.inputs]
    return {each.name: arg for each, arg in zip(graph.inputs, args, strict=True)}


def tensors_of(call: OpCall) -> list[TensorArg]:
    """The inputs of a call, and the arrays among its parameters."""
    return [*call.inputs, *(tensor_of(each) for each in call.params if each.shape is not None)]


def block_of(arg: TensorArg) -> Block:
    """The shared memory of an argument."""
    block: Any = arg.array
    assert isinstance(block, Block)
    return block


def _param(graph: GraphHandle, tensors: _Tensors, param: ParamArg) -> Param:
    if param.shape is not None:
        return graph.add_tensor(tensors.make(tensor_of(param), STATIC))
    value: Any = param.value
    return Scalar(param.name, param.dtype, value)


def _refuse_undelivered(tensors: Sequence[QnnTensor], delivers: Sequence[str] | None) -> None:
    for each in tensors:
        if delivers is not None and each.role != NULL and each.dtype not in delivers:
            raise RunFailed(
                f"`{each.name}` is {each.dtype}, and the runtime does not deliver such tensors to "
                "custom ops: the op would get unset pointers",
                hint=f"use one of {', '.join(sorted(delivers))}, "
                "and let the op's validateOpConfig refuse every other type",
            )


class _Tensors:
    """Makes a graph's tensors, with names that do not collide."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def make(self, arg: TensorArg, role: str) -> QnnTensor:
        name = arg.name
        while name in self._names:
            name += "_"
        self._names.add(name)
        return QnnTensor(
            name,
            dtype=arg.dtype,
            shape=arg.shape,
            role=role,
            quant=ScaleOffset(*arg.quant) if arg.quant else None,
            data=block_of(arg).data if role == STATIC else None,
        )


# --- from a context binary --------------------------------------------------------------------------------------------


def stored_graph(context: Context, call: OpCall) -> Graph:
    """The one graph of a restored context, which must have the inputs and outputs of the call."""
    if len(context.names) != 1:
        names = ", ".join(context.names) or "none"
        raise RunFailed(f"the context has {len(context.names)} graphs, not one: {names}", hint="`run op` is for one op")
    [info] = context.info.graphs
    given = [arg for arg in call.inputs if not arg.static and not arg.omitted]  # static ones are in the binary
    _check_stored("input", info.inputs, given)
    _check_stored("output", info.outputs, call.outputs)
    return context.graph(info.name)


def _check_stored(what: str, stored: Sequence[TensorInfo], args: Sequence[TensorArg]) -> None:
    by_name = {arg.name: arg for arg in args}
    if sorted(by_name) != sorted(info.name for info in stored):
        has = ", ".join(info.name for info in stored) or "none"
        raise RunFailed(f"the {what}s of the context are {has}, not {', '.join(by_name) or 'none'}", hint="name these")
    for info in stored:
        arg = by_name[info.name]
        if (info.dtype, tuple(info.shape)) != (arg.dtype, arg.shape):
            raise RunFailed(
                f"{what} `{info.name}` of the context is {info.dtype} {list(info.shape)}, "
                f"the call has {arg.dtype} {list(arg.shape)}",
                hint="use the shapes and types that the context was made with",
            )
