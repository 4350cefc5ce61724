"""The graph of a context binary: which tensors it wants, held against those of a call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from udogen.errors import RunFailed
from udogen.qnn import system
from udogen.qnn.system import GraphInfo, TensorInfo
from udogen.qnn.tensors import Tensor
from udogen.runtime.op.calls import TensorArg


def only_graph(libraries: Path, binary: bytes) -> GraphInfo:
    """The one graph of a binary, read with the libQnnSystem.so among the runtime's libraries."""
    graphs = system.binary_info(libraries / "libQnnSystem.so", binary).graphs
    if len(graphs) != 1:
        names = ", ".join(graph.name for graph in graphs) or "none"
        raise RunFailed(f"the context has {len(graphs)} graphs, not one: {names}", hint="`run op` is for one op")
    return graphs[0]


def bind(what: str, wanted: Sequence[TensorInfo], args: Sequence[TensorArg], role: str) -> list[Tensor]:
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
        found.append(Tensor(info.name, dtype=info.dtype, shape=arg.shape, role=role, id=info.id))
    return found
