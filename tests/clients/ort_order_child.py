"""Plain ONNX Runtime with OrderPackage: `ort_order_child.py BACKEND_LIBRARY OP_PACKAGE MODEL [CONTEXT]`; prints JSON.

MODEL.json describes the model: its nodes, each with its attributes in their order.  With CONTEXT the binary that QNN
made of the model is stored.  It prints a line for each output, or the error of ONNX Runtime.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import onnxruntime_qnn
from onnx import TensorProto, helper

backend, package, model, *context = sys.argv[1:]


def make() -> None:
    """Write the model, with a schema for the op: a model-local function."""
    nodes, names = [], set()
    for number, attributes in enumerate(json.loads(Path(f"{model}.json").read_text("utf-8"))):
        made = helper.make_node("Poly", ["x"], [f"y{number}"], domain="tests", name=f"n{number}")
        made.attribute.extend(helper.make_attribute(name, value) for name, value in attributes)
        names |= {name for name, _ in attributes}
        nodes.append(made)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("tests", 1)]
    body = helper.make_node("RandomNormalLike", ["x"], ["y"])  # an op that QNN does not support
    schema = helper.make_function("tests", "Poly", ["x"], ["y"], [body], opsets[:1], attributes=sorted(names))
    x, *outputs = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", *(n.output[0] for n in nodes))
    )
    graph = helper.make_graph(nodes, "g", [x], outputs)
    onnx.save(helper.make_model(graph, opset_imports=opsets, functions=[schema], ir_version=10), model)


if Path(f"{model}.json").is_file():
    make()
onnxruntime.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
device = next(each for each in onnxruntime.get_ep_devices() if each.ep_name == "QNN")
options = onnxruntime.SessionOptions()
if "Htp" in backend:  # with this option the provider takes no node for QNN's CPU backend
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
if context:
    for key, value in (("enable", "1"), ("file_path", context[0]), ("embed_mode", "0")):
        options.add_session_config_entry(f"ep.context_{key}", value)
packages = f"Poly:{package}:OrderPackageInterfaceProvider:CPU"
options.add_provider_for_devices([device], {"backend_path": backend, "op_packages": packages})
try:
    session = onnxruntime.InferenceSession(model, options)
    found = session.run(None, {"x": np.zeros((2, 3), np.float32)})
    reply: object = {row.name: float(y[1, 2]) for row, y in zip(session.get_outputs(), found, strict=True)}
    del session
except Exception as fault:  # ONNX Runtime's exceptions have no common class
    reply = str(fault)
print("\nreply " + json.dumps(reply), flush=True)
