"""ONNX models for tests: a node in a line, a model in a call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def model(
    nodes: Sequence[Any], inputs: Mapping[str, Any], outputs: Collection[str] | Mapping[str, Any],
    constants: Mapping[str, Any] | None = None, *, opset: int = 17, types: Mapping[str, int] | None = None,
    ir_version: int = 10, functions: Sequence[Any] = (),
) -> Any:  # fmt: skip
    """Return a model; shapes may contain names; without shapes of outputs, ONNX infers all that it can."""
    kinds, shapes = types or {}, outputs if isinstance(outputs, Mapping) else dict.fromkeys(outputs)
    ends = [
        [helper.make_tensor_value_info(name, kinds.get(name, FLOAT), shape) for name, shape in side.items()]
        for side in (inputs, shapes)
    ]
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    inside = [inner for each in nodes for attribute in each.attribute for inner in attribute.g.node]
    domains = dict.fromkeys(function.domain for function in (*nodes, *inside, *functions) if function.domain)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    graph = helper.make_graph(nodes, "graph", *ends, arrays)
    made = helper.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=functions)
    return made if shapes is outputs else onnx.shape_inference.infer_shapes(made)


def save(path: Path, *parts: Any, **options: Any) -> Path:
    """Write a model to a file."""
    onnx.save(model(*parts, **options), str(path))
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
