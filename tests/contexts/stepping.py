"""Contexts with two small graphs of built-in ops, for every backend: step (next = state + x), look (seen = a + b)."""

from __future__ import annotations

from functools import cache

import numpy as np

from tests.making import need_runtime
from udogen import GraphBuilder
from udogen.runtime import Runtime

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
    with open_runtime(backend, kind) as runtime, GraphBuilder(backend, runtime=runtime) as builder:
        for name, (inputs, output) in GRAPHS.items():
            with builder.graph(name, outputs=[output]) as graph:
                given = [graph.input(tensor, "FLOAT_32", shape) for tensor in inputs]
                graph.op("ElementWiseAdd", given, output, like=given[0])
        return builder.context.binary()
