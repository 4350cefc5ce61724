"""ONNX Runtime without udogen: `plain_ort.py MODEL BACKEND OP_PACKAGES INPUTS.npz [CONTEXT.onnx]`.

Runs the model once and prints its outputs as JSON; with CONTEXT.onnx it stores the binary that QNN made of it.
"""

import json
import sys

import numpy as np
import onnxruntime
import onnxruntime_qnn

model, backend, packages, inputs, *context = sys.argv[1:]
onnxruntime.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
device = next(each for each in onnxruntime.get_ep_devices() if each.ep_name == "QNN")
options = onnxruntime.SessionOptions()
if context:
    for key, value in (("enable", "1"), ("file_path", context[0]), ("embed_mode", "0")):
        options.add_session_config_entry(f"ep.context_{key}", value)
options.add_provider_for_devices([device], {"backend_path": backend, "op_packages": packages})
session = onnxruntime.InferenceSession(model, options)
names = [row.name for row in session.get_outputs()]
found = session.run(None, dict(np.load(inputs)))
del session  # libQnnHtp prints lines of its own, also at the end
reply = {name: array.tolist() for name, array in zip(names, found, strict=True)}
print("\nreply " + json.dumps(reply), flush=True)
