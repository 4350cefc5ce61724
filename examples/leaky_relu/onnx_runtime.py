"""LeakyRelu inside a model of ONNX Runtime, on Qualcomm's libraries: `onnx_runtime.py PACKAGE [cpu|htp]`.

PACKAGE is a built folder of `udogen generate`, or its library.  It is an error here if ONNX Runtime runs the op on its
own CPU, or not at all, which it otherwise does silently.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from reference import leaky_relu

from udogen.onnx.ort import session

SHAPE, BIAS, ALPHA = (2, 3, 4), np.float32([1, 2, 3, -4]), 0.25


def write_model(path: Path) -> None:
    """Write a model with Add, LeakyRelu of the package, and Mul."""
    nodes = [
        helper.make_node("Add", ["x", "bias"], ["sum"]),
        helper.make_node("LeakyRelu", ["sum"], ["leaky"], domain="example", alpha=ALPHA),
        helper.make_node("Mul", ["leaky", "bias"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy")
    graph = helper.make_graph(nodes, "model", [x], [y], [numpy_helper.from_array(BIAS, "bias")])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("example", 1)]
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = 10
    onnx.save(model, path)


def main(package: str, backend: str = "cpu") -> None:
    """Run the model, and compare the result with numpy."""
    write_model(Path("model.onnx"))
    with_op = session("model.onnx", package, backend=backend)
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    [found] = with_op.run(None, {"x": x})
    error = np.abs(found - leaky_relu(x + BIAS, ALPHA) * BIAS).max()
    print(f"ONNX Runtime on QNN's {backend}: largest error {error:.2g}")
    assert error < 1e-5


if __name__ == "__main__":
    main(*sys.argv[1:])
