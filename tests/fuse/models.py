"""Models with nodes to be fused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def save(
    path: Path, nodes: list[Any], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Any] | None = None,
    *, opset: int = 17, types: dict[str, int] | None = None,
) -> Path:  # fmt: skip
    """Write a model to a file; shapes of inputs may contain names."""
    kinds = types or {}
    rows = [helper.make_tensor_value_info(name, kinds.get(name, FLOAT), shape) for name, shape in inputs.items()]
    results = [helper.make_tensor_value_info(name, kinds.get(name, FLOAT), None) for name in outputs]
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "graph", rows, results, arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), str(path))
    return path


def node(op: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> Any:
    """Return a node; inputs and outputs are names separated by blanks."""
    return helper.make_node(op, inputs.split(), outputs.split(), name=name, **attributes)


def attention(path: Path) -> Path:
    """Write scores of two heads, masked, in two outputs, between a Relu and a matrix product; ids select table rows."""
    random = np.random.default_rng(3)
    nodes = [
        node("Relu", "x", "r", "relu"),
        node("Mul", "r scale", "scaled", "scale"),
        node("Add", "scaled mask", "masked", "mask"),
        node("Softmax", "masked", "p", "softmax", axis=-1),
        node("ReduceSum", "p last", "total", "total", keepdims=0),
        node("Gather", "table ids", "rows", "rows", axis=0),
        node("Mul", "p rows", "weighted", "weighted"),
        node("MatMul", "weighted v", "y", "product"),
        node("Neg", "total", "z", "neg"),
    ]
    constants = {
        "scale": np.float32(0.5),
        "mask": random.normal(size=(1, 1, 6)).astype(np.float32),
        "last": np.array([-1], np.int64),
        "table": random.normal(size=(9, 6)).astype(np.float32),
        "v": random.normal(size=(6, 4)).astype(np.float32),
    }
    return save(
        path, nodes, {"x": [2, 5, "n"], "ids": [5]}, ["y", "z"], constants, types={"ids": TensorProto.INT64}
    )  # fmt: skip
