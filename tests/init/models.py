"""ONNX models with custom nodes, each in the style of a typical exporter or author."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.onnx_models import model, node

FLOAT, INT64, UINT8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8


def torch_style() -> onnx.ModelProto:
    """Autograd functions as torch.onnx.export writes them: names with paths, weights by module, no type after ops."""
    random = np.random.default_rng(2026)
    weights = {
        "backbone.conv.weight": random.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "backbone.norm.weight": np.ones(8, np.float32),
        "backbone.norm.bias": np.zeros(8, np.float32),
        "head.norm.weight": np.ones(8, np.float32),
        "head.norm.bias": np.zeros(8, np.float32),
    }
    norm = {"domain": "mycompany.ops", "epsilon": 1e-5, "groups": 4}
    one, two = "/backbone/conv/Conv_output_0", "/backbone/norm/ScaledNorm_output_0"
    first, last = "backbone.norm.weight backbone.norm.bias", "head.norm.weight head.norm.bias"
    nodes = [
        node("Conv", "image backbone.conv.weight", one, pads=[1, 1, 1, 1]),
        node("ScaledNorm", f"{one} {first}", two, "/backbone/norm/ScaledNorm", **norm),
        node("Relu", two, "/backbone/act/Relu_output_0"),
        node("ScaledNorm", f"/backbone/act/Relu_output_0 {last}", "features", "/head/norm/ScaledNorm", **norm),
    ]
    made = model(nodes, {"image": ["batch", 3, 16, 16]}, {"features": ["batch", 8, 16, 16]}, weights)
    made.producer_name, made.producer_version = "pytorch", "2.5.1"
    return made


_FUNCTION = """
<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
main (float[2, 6] x) => (float[2, 6] y) {
  scaled = local.Swish <beta = 1.5> (x)
  y = Neg (scaled)
}
<opset_import: ["" : 20], domain: "local">
Swish <beta: float = 1.0> (data) => (result) {
  factor = Constant <value_float: float = @beta> ()
  scaled = Mul (data, factor)
  gate = Sigmoid (scaled)
  result = Mul (data, gate)
}
"""

_OPTIONAL = """
<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>
detector (float[1, 100, 4] boxes, float[1, 80, 100] scores, float[1] limit)
    => (float[1, 50, 4] kept, float[1, 50, 4] some)
<float[1, 50] weights, int32[1, 50] classes> {
  kept, weights, classes = acme.BoxFilter <most = 50> (boxes, scores, limit)
  some = acme.BoxFilter <most = 50> (boxes, , limit)
}
"""

_REPEATED = """
<ir_version: 10, opset_import: ["" : 20, "acme" : 2]>
fusion (float[1, 4, 8] a, float[1, 4, 8] b, float[1, 4, 8] c) => (float[1, 4, 16] ab, float[1, 4, 24] abc) {
  ab = acme.Interleave (a, b)
  abc = acme.Interleave (a, b, c)
}
"""

_SUBGRAPHS = """
<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>
loops (float[3, 5] x, bool flag, int64 times) => (float[3, 5] y, float[3, 5] z) {
  keep = Constant <value = bool {1}> ()
  y = Loop (times, keep, x) <body = step (int64 i, bool go, float[3, 5] state) => (bool again, float[3, 5] next) {
    again = Identity (go)
    next = acme.Decay <rate = 0.5> (state)
  }>
  z = If (flag) <
    then_branch = yes () => (float[3, 5] t) { t = acme.Decay <rate = 0.25> (x) },
    else_branch = no () => (float[3, 5] e) { e = Relu (x) }
  >
}
"""


def function_style() -> onnx.ModelProto:
    """A model-local function: the model defines the behaviour of the op."""
    return onnx.parser.parse_model(_FUNCTION)


def optional_inputs() -> onnx.ModelProto:
    """Inputs that are omitted by an empty name, and outputs without a consumer."""
    return onnx.parser.parse_model(_OPTIONAL)


def repeated_inputs() -> onnx.ModelProto:
    """A variable number of inputs."""
    return onnx.parser.parse_model(_REPEATED)


def subgraphs() -> onnx.ModelProto:
    """Nodes in the bodies of Loop and If."""
    return onnx.parser.parse_model(_SUBGRAPHS)


def attributes() -> onnx.ModelProto:
    """Every kind of attribute that ONNX has."""
    inner = helper.make_graph(
        [helper.make_node("Identity", ["i"], ["o"])], "inner", [], [helper.make_tensor_value_info("o", FLOAT, [1])]
    )
    given = {
        "number": 3,
        "large": 1 << 40,
        "real": 0.1,
        "mode": "bilinear",
        "settings": '{"a": [1, 2]}',
        "pads": [0, 1, 2, 3],
        "scales": [0.5, 2.0],
        "names": ["one", "two"],
        "table": numpy_helper.from_array(np.arange(6, dtype=np.int64).reshape(2, 3), "table"),
        "single": numpy_helper.from_array(np.float32(2.5), "single"),
        "body": inner,
        "class": 1,
    }
    nodes = [node("Everything", "x", "y", "every", domain="acme", **given)]
    return model(nodes, {"x": [2, 3]}, {"y": [2, 3]}, opset=20)


def quantized() -> onnx.ModelProto:
    """QDQ around the node, with 8 bits outside and per-channel weights."""
    weights = {
        "s": np.float32(0.05), "z": np.uint8(128), "so": np.float32(0.1), "zo": np.uint8(3),
        "gain_q": np.arange(16, dtype=np.int8), "gain_s": np.float32(0.25), "gain_z": np.int8(0),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "xq"),
        node("DequantizeLinear", "xq s z", "xd"),
        node("DequantizeLinear", "gain_q gain_s gain_z", "gain"),
        node("Gain", "xd gain", "yd", "gained", domain="acme"),
        node("QuantizeLinear", "yd so zo", "yq"),
        node("DequantizeLinear", "yq so zo", "y"),
    ]
    return model(nodes, {"x": [1, 4, 16]}, {"y": [1, 4, 16]}, weights, opset=19)


ALL: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "torch_style": torch_style,
    "function_style": function_style,
    "optional_inputs": optional_inputs,
    "repeated_inputs": repeated_inputs,
    "attributes": attributes,
    "quantized": quantized,
    "subgraphs": subgraphs,
}


def save(name: str, folder: Path) -> Path:
    """Save one of the models to a file."""
    path = folder / f"{name}.onnx"
    onnx.save(ALL[name](), path)
    return path
