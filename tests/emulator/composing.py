"""Graphs of built-in ops and of package ops, for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from udogen.qnn.handles import BackendHandle, ContextHandle, GraphHandle
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, STATIC, Param, QnnTensor
from udogen.runtime import OpConfig, Scalar
from udogen.runtime.built import Built

SHAPE = (2, 3, 4)
X = np.random.default_rng(7).normal(size=SHAPE).astype(np.float32)
QTI = "qti.aisw"


def register(backend: BackendHandle, built: Built) -> None:
    """Register a package with the backend."""
    backend.register(Path(built.library), built.provider)


class Maker:
    """A graph under construction."""

    def __init__(self, context: ContextHandle, name: str = "graph") -> None:
        self.graph, self._count = context.graph(name), 0

    def tensor(self, role: str, shape: tuple[int, ...] = SHAPE, dtype: str = "FLOAT_32", **more: Any) -> QnnTensor:
        self._count += 1
        return self.graph.add_tensor(QnnTensor(f"t{self._count}", dtype=dtype, shape=shape, role=role, **more))

    def node(
        self, op: str, inputs: list[QnnTensor], output: QnnTensor, *params: Param, package: str = QTI
    ) -> QnnTensor:
        self._count += 1
        node = OpConfig(
            f"n{self._count}", package=package, op_type=op, inputs=inputs, outputs=[output], params=list(params)
        )
        self.graph.add_node(node)
        return output


def run(graph: GraphHandle, inputs: dict[QnnTensor, np.ndarray], output: QnnTensor) -> np.ndarray:
    for tensor, array in inputs.items():
        tensor.bind(bytearray(np.ascontiguousarray(array).tobytes()))
    room = bytearray(output.nbytes)
    output.bind(room)
    graph.execute(list(inputs), [output])
    kind = {"FLOAT_32": np.float32, "UFIXED_POINT_8": np.uint8, "FLOAT_16": np.float16}[output.dtype]
    return np.frombuffer(room, kind).reshape(output.shape)


def mixed(context: ContextHandle, package: str, name: str = "graph") -> tuple[Maker, QnnTensor, QnnTensor]:
    """Compose Transpose, LeakyRelu (of the package), a sum with a constant, Softmax, with native tensors between."""
    make = Maker(context, name)
    x = make.tensor(APP_WRITE)
    turned, leaked, summed = (make.tensor(NATIVE, (4, 2, 3)) for _ in range(3))
    bias = make.tensor(STATIC, (3,), data=bytearray(np.float32([1, -2, 3]).tobytes()))
    y = make.tensor(APP_READ, (4, 2, 3))
    perm = QnnTensor("perm", dtype="UINT_32", shape=(3,), role=STATIC, data=bytearray(np.uint32([2, 0, 1]).tobytes()))
    make.node("Transpose", [x], turned, make.graph.add_tensor(perm))
    make.node("LeakyRelu", [turned], leaked, Scalar("alpha", "FLOAT_32", 0.25), package=package)
    make.node("ElementWiseAdd", [leaked, bias], summed)
    make.node("Softmax", [summed], y)
    return make, x, y


def mixed_in_numpy(x: np.ndarray) -> np.ndarray:
    turned = x.transpose(2, 0, 1)
    summed = np.where(turned > 0, turned, 0.25 * turned) + np.float32([1, -2, 3])
    powers = np.exp(summed - summed.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))
