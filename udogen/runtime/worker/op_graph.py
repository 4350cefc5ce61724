"""In the child: a graph of one op, as an order of the parent describes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from udogen.errors import RunFailed
from udogen.qnn.handles import ContextHandle, GraphHandle
from udogen.qnn.tensors import NULL, STATIC, OpConfig, Param, Scalar, ScaleOffset, Tensor
from udogen.runtime.wire import Message

OpGraph = tuple[GraphHandle, list[Tensor], list[Tensor]]  # with its inputs and outputs


def new_graph(
    context: ContextHandle,
    order: Message,
    buffers: list[bytearray],
    *,
    delivers: Sequence[str] | None,
    validate: Callable[[OpConfig], None] | None,
    phase: Callable[[str], None],
) -> OpGraph:
    """A graph of the one op, not finalized yet; `delivers` are the data types that the runtime hands to custom ops.

    `validate` is called where the runtime itself does not ask the package.
    """
    phase("create the graph")
    graph, op = context.graph("udogen"), order["op"]
    tensor = _TensorMaker(buffers)
    inputs = [graph.add_tensor(tensor.make(row)) for row in order["inputs"]]
    outputs = [graph.add_tensor(tensor.make(row)) for row in order["outputs"]]
    params: list[Param] = [
        graph.add_tensor(tensor.make(row["tensor"])) if "tensor" in row else Scalar(**row) for row in order["params"]
    ]
    node = OpConfig(op, package=order["package"], op_type=op, inputs=inputs, outputs=outputs, params=params)
    if validate is not None:
        phase("validate the node")
        validate(node)
    phase("add the node")
    graph.add_node(node)
    # Only after the package had its say: its own message is the better one.
    _refuse_undelivered([*inputs, *outputs, *(each for each in params if isinstance(each, Tensor))], delivers)
    return graph, inputs, outputs


def _refuse_undelivered(tensors: Sequence[Tensor], delivers: Sequence[str] | None) -> None:
    for each in tensors:
        if delivers is not None and each.role != NULL and each.dtype not in delivers:
            raise RunFailed(
                f"`{each.name}` is {each.dtype}, and the runtime does not deliver such tensors to "
                "custom ops: the op would get unset pointers",
                hint=f"use one of {', '.join(sorted(delivers))}, "
                "and let the op's validateOpConfig refuse every other type",
            )


class _TensorMaker:
    """Makes a graph's tensors, with names that do not collide."""

    def __init__(self, buffers: list[bytearray]) -> None:
        self._buffers = buffers
        self._names: set[str] = set()

    def make(self, row: Message) -> Tensor:
        name = row["name"]
        while name in self._names:
            name += "_"
        self._names.add(name)
        return Tensor(
            name,
            dtype=row["dtype"],
            shape=row["shape"],
            role=row["role"],
            quant=ScaleOffset(*row["quant"]) if row["quant"] else None,
            data=self._buffers[row["buffer"]] if row["role"] == STATIC else None,
        )
