"""The graph of a context binary: which tensors it wants, held against those of a call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from udogen.errors import RunFailed
from udogen.qnn import system
from udogen.qnn.system import GraphInfo, TensorInfo
from udogen.qnn.tensors import Tensor
from udogen.runtime.wire import Message


def only_graph(libraries: Path, binary: bytes) -> GraphInfo:
    """The one graph of a binary, read with the libQnnSystem.so among the runtime's libraries."""
    graphs = system.binary_info(libraries / "libQnnSystem.so", binary).graphs
    if len(graphs) != 1:
        names = ", ".join(graph.name for graph in graphs) or "none"
        raise RunFailed(f"the context has {len(graphs)} graphs, not one: {names}", hint="`run op` is for one op")
    return graphs[0]


def bind(what: str, wanted: Sequence[TensorInfo], rows: Sequence[Message]) -> list[Tensor]:
    """A tensor for each that the graph wants, in its order, described by the call's rows of the same names."""
    by_name = {row["name"]: row for row in rows}
    if sorted(by_name) != sorted(info.name for info in wanted):
        has = ", ".join(info.name for info in wanted) or "none"
        raise RunFailed(f"the {what}s of the context are {has}, not {', '.join(by_name) or 'none'}", hint="name these")
    found = []
    for info in wanted:
        row = by_name[info.name]
        if (info.dtype, tuple(info.shape)) != (row["dtype"], tuple(row["shape"])):
            raise RunFailed(
                f"{what} `{info.name}` of the context is {info.dtype} {list(info.shape)}, "
                f"the call has {row['dtype']} {row['shape']}",
                hint="a context is for the shapes and types it was made with",
            )
        found.append(Tensor(info.name, dtype=info.dtype, shape=row["shape"], role=row["role"], id=info.id))
    return found
