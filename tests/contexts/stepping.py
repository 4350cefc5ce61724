"""Contexts with two small graphs of built-in ops, for every backend: step (next = state + x), look (seen = a + b)."""

from __future__ import annotations

from functools import cache

import numpy as np

from tests.making import need_runtime
from udogen.qnn.tensors import APP_READ, APP_WRITE, OpConfig, QnnTensor
from udogen.runtime.contexts.context import Context
from udogen.runtime.contexts.runtime import Runtime

SHAPE = (1, 4, 8)
GRAPHS = {"step": (("state", "x"), "next"), "look": (("a", "b"), "seen")}
BACKENDS = [("cpu", "emulator"), ("htp", "emulator"), ("cpu", "real"), ("htp", "real")]


def array(value: float, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.full(shape, value, np.float32)


def open_runtime(backend: str, kind: str) -> Runtime:
    """Open the runtime; skip the test if a real one is not installed."""
    if kind == "real":
        need_runtime(backend)
    return Runtime(backend, runtime=kind)


@cache
def binary(backend: str, kind: str, shape: tuple[int, ...] = SHAPE) -> bytes:
    """Return a context binary with both graphs."""
    with open_runtime(backend, kind) as runtime, runtime.new_context() as context:
        for name, (inputs, output) in GRAPHS.items():
            _compose(context, name, inputs, output, shape)
        return context.binary()


def _compose(context: Context, name: str, inputs: tuple[str, ...], output: str, shape: tuple[int, ...]) -> None:
    graph = context.new_graph(name)
    given = [
        graph.add_tensor(QnnTensor(each, dtype="FLOAT_32", shape=shape, role=APP_WRITE))
        for each in dict.fromkeys(inputs)
    ]
    made = graph.add_tensor(QnnTensor(output, dtype="FLOAT_32", shape=shape, role=APP_READ))
    graph.add_node(OpConfig("add", package="qti.aisw", op_type="ElementWiseAdd", inputs=given, outputs=[made]))
    graph.finalize()
