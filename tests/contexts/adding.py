"""Small context binaries of built-in ops: each graph adds a row twice, through an internal tensor."""

from __future__ import annotations

import numpy as np

from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, STATIC, OpConfig, QnnTensor
from udogen.runtime.contexts.context import Context
from udogen.runtime.contexts.runtime import Runtime

SHAPE = (1, 2, 3, 8)
X = np.arange(48, dtype=np.float32).reshape(SHAPE)
ROW = np.arange(8, dtype=np.float32).reshape(1, 1, 1, 8)
NBYTES = X.nbytes


def expected(x: np.ndarray, *, row: float = 1.0) -> np.ndarray:
    return x + 2 * row * ROW


def binary(runtime: Runtime, *names: str, row: float = 1.0, shape: tuple[int, ...] = SHAPE) -> bytes:
    """Return the binary of a context with these graphs."""
    with runtime.new_context() as context:
        for name in names:
            graph = context.new_graph(name)
            weights = (row * ROW).astype(np.float32).tobytes()
            x, added, middle, y = (
                graph.add_tensor(QnnTensor(each, dtype="FLOAT_32", shape=size, role=role, data=data))
                for each, size, role, data in (
                    ("x", shape, APP_WRITE, None),
                    ("row", ROW.shape, STATIC, bytearray(weights)),
                    ("middle", shape, NATIVE, None),
                    ("y", shape, APP_READ, None),
                )
            )
            for number, (given, made) in enumerate([(x, middle), (middle, y)]):
                graph.add_node(
                    OpConfig(
                        f"{name}_{number}",
                        package="qti.aisw",
                        op_type="ElementWiseAdd",
                        inputs=[given, added],
                        outputs=[made],
                    )
                )
            graph.finalize()
        stored: bytes = context.binary()
        return stored


def run(context: Context, name: str, x: np.ndarray = X) -> np.ndarray:
    """Return the output of a graph that is called with arrays."""
    y = np.empty_like(x)
    context.graph(name)({"x": x}, out={"y": y})
    return y
