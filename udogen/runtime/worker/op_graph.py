"""In the worker: a graph of one op, as a call describes it, or as a context binary has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from udogen.errors import RunFailed
from udogen.qnn import system
from udogen.qnn.handles import ContextHandle, GraphHandle
from udogen.qnn.system import GraphInfo, TensorInfo
from udogen.qnn.tensors import (
    APP_READ,
    APP_WRITE,
    NULL,
    STATIC,
    OpConfig,
    Param,
    QnnTensor,
    Scalar,
    ScaleOffset,
)
from udogen.runtime.channel import Block
from udogen.runtime.op.calls import OpCall, ParamArg, TensorArg, tensor_of

OpGraph = tuple[GraphHandle, list[QnnTensor], list[QnnTensor]]  # with its inputs and outputs


class Rules(NamedTuple):
    """What a runtime does with nodes of custom ops."""

    delivers: Sequence[str] | None  # the data types that it hands to custom ops; None: all
    validate: Callable[[OpConfig], None] | None  # to be called where the runtime does not ask the package
    phase: Callable[[str], None]


def new_graph(context: ContextHandle, call: OpCall, rules: Rules) -> OpGraph:
    """A graph of the one op, not finalized yet."""
    rules.phase("create the graph")
    graph = context.graph("udogen")
    tensors = _Tensors()
    inputs = [graph.add_tensor(tensors.make(arg, _role(arg))) for arg in call.inputs]
    outputs = [graph.add_tensor(tensors.make(arg, APP_READ)) for arg in call.outputs]
    params = [_param(graph, tensors, each) for each in call.params]
    node = OpConfig(
        call.op_type, package=call.package, op_type=call.op_type, inputs=inputs, outputs=outputs, params=params
    )
    if rules.validate is not None:
        rules.phase("validate the node")
        rules.validate(node)
    rules.phase("add the node")
    graph.add_node(node)
    # Only after the package has validated the node: its own message is the better one.
    _refuse_undelivered([*inputs, *outputs, *(each for each in params if isinstance(each, QnnTensor))], rules.delivers)
    return graph, inputs, outputs


def tensors_of(call: OpCall) -> list[TensorArg]:
    """The inputs of a call, and the arrays among its parameters."""
    return [*call.inputs, *(tensor_of(each) for each in call.params if each.shape is not None)]


def block_of(arg: TensorArg) -> Block:
    """The shared memory in which the data of an argument lies."""
    block: Any = arg.array
    assert isinstance(block, Block)
    return block


def _role(arg: TensorArg) -> str:
    return NULL if arg.omitted else STATIC if arg.static else APP_WRITE


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


# --- of a context binary ----------------------------------------------------------------------------------------------


def only_graph(libraries: Path, binary: bytes) -> GraphInfo:
    """The one graph of a binary, read with the libQnnSystem.so among the runtime's libraries."""
    graphs = system.binary_info(libraries / "libQnnSystem.so", binary).graphs
    if len(graphs) != 1:
        names = ", ".join(graph.name for graph in graphs) or "none"
        raise RunFailed(f"the context has {len(graphs)} graphs, not one: {names}", hint="`run op` is for one op")
    return graphs[0]


def stored_tensors(what: str, wanted: Sequence[TensorInfo], args: Sequence[TensorArg], role: str) -> list[QnnTensor]:
    """A tensor for each that the graph has, in its order, described by the call's arguments of the same names."""
    by_name = {arg.name: arg for arg in args}
    if sorted(by_name) != sorted(info.name for info in wanted):
        has = ", ".join(info.name for info in wanted) or "none"
        raise RunFailed(f"the {what}s of the context are {has}, not {', '.join(by_name) or 'none'}", hint="name these")
    found = []
    for info in wanted:
        arg = by_name[info.name]
        if (info.dtype, tuple(info.shape)) != (arg.dtype, arg.shape):
            raise RunFailed(
                f"{what} `{info.name}` of the context is {info.dtype} {list(info.shape)}, "
                f"the call has {arg.dtype} {list(arg.shape)}",
                hint="a context is for the shapes and types it was made with",
            )
        found.append(QnnTensor(info.name, dtype=info.dtype, shape=arg.shape, role=role, id=info.id))
    return found
