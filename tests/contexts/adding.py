"""Small context binaries of built-in ops: each graph adds a row twice, through an internal tensor."""

from __future__ import annotations

import numpy as np

from udogen import GraphBuilder
from udogen.runtime import Context, Runtime

SHAPE = (1, 2, 3, 8)
X = np.arange(48, dtype=np.float32).reshape(SHAPE)
ROW = np.arange(8, dtype=np.float32).reshape(1, 1, 1, 8)
NBYTES = X.nbytes


def expected(x: np.ndarray, *, row: float = 1.0) -> np.ndarray:
    return x + 2 * row * ROW


def binary(runtime: Runtime, *names: str, row: float = 1.0, shape: tuple[int, ...] = SHAPE) -> bytes:
    """Return the binary of a context with these graphs."""
    with GraphBuilder(runtime.backend, runtime=runtime) as builder:
        for name in names:
            with builder.graph(name, outputs=["y"]) as graph:
                x, added = graph.input("x", "FLOAT_32", shape), graph.weight("row", np.float32(row) * ROW)
                middle = graph.op("ElementWiseAdd", [x, added], "middle", like=x)
                graph.op("ElementWiseAdd", [middle, added], "y", like=x)
        return builder.context.binary()


def run(context: Context, name: str, x: np.ndarray = X) -> np.ndarray:
    """Return the output of a graph that is called with arrays."""
    y = np.empty_like(x)
    context.graph(name)({"x": x}, out={"y": y})
    return y
