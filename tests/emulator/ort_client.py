"""ONNX Runtime as a client, in a process of its own: `ort_client.py MODEL X.npy Y.npy BACKEND [OP_PACKAGES]`.

Writes the model's output and prints, as JSON, which execution provider has which ops.
"""

import json
import sys

import numpy as np
import onnxruntime
import onnxruntime_qnn

model, given, into, backend, *packages = sys.argv[1:]
onnxruntime.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
device = next(each for each in onnxruntime.get_ep_devices() if each.ep_name == "QNN")
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
wanted = {"backend_path": backend}
if packages:
    wanted["op_packages"] = packages[0]
options.add_provider_for_devices([device], wanted)
session = onnxruntime.InferenceSession(model, options)
[output] = session.run(None, {"x": np.load(given)})
np.save(into, output)
parts = session.get_provider_graph_assignment_info()
print(json.dumps({part.ep_name: [node.op_type for node in part.get_nodes()] for part in parts}))
