"""A stranger as client: ONNX Runtime's QNN execution provider runs a model on the CPU emulator, placement verified."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tests.making import ROOT
from udogen.runtime import find_runtime

# In a process of its own: the provider stays loaded, and falls back to another one without a word.
CLIENT = """
import json, sys
import numpy as np, onnxruntime as ort, onnxruntime_qnn
ort.register_execution_provider_library("QNNExecutionProvider", onnxruntime_qnn.get_library_path())
devices = [each for each in ort.get_ep_devices() if each.ep_name == "QNNExecutionProvider"]
options = ort.SessionOptions()
options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
options.add_provider_for_devices(devices[:1], {"backend_path": sys.argv[1]})
session = ort.InferenceSession(sys.argv[2], options)
parts = session.get_provider_graph_assignment_info()
placed = {node.op_type: each.ep_name for each in parts for node in each.get_nodes()}
x = np.random.default_rng(1).normal(size=(2, 3)).astype("float32")
for _ in range(3):
    [y] = session.run(None, {"x": x})
summed = np.maximum(x, 0) * x + x
powers = np.exp(summed - summed.max(-1, keepdims=True))
error = float(np.abs(y - powers / powers.sum(-1, keepdims=True)).max())
print(json.dumps({"placed": placed, "error": error, "version": ort.__version__}))
"""


def field(number: int, value: int | str | bytes) -> bytes:
    """One field of a protobuf message; numbers below 128, texts and messages shorter than that squared."""
    if isinstance(value, int):
        return bytes([number << 3, value]) if number < 16 else bytes([number << 3 & 0x7F | 0x80, number >> 4, value])
    data = value.encode() if isinstance(value, str) else value
    tag = [number << 3 | 2] if number < 16 else [(number << 3 | 2) & 0x7F | 0x80, number >> 4]
    size = [len(data)] if len(data) < 128 else [len(data) & 0x7F | 0x80, len(data) >> 7]
    return bytes([*tag, *size]) + data


def model() -> bytes:
    """softmax(relu(x) * x + x), of ONNX opset 17; written by hand, so that nothing else is needed."""

    def node(op: str, inputs: str, output: str) -> bytes:
        return field(1, b"".join(field(1, each) for each in inputs) + field(2, output) + field(3, op) + field(4, op))

    def value(name: str) -> bytes:
        shape = b"".join(field(1, field(1, extent)) for extent in (2, 3))
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))

    nodes = [("Relu", "x", "a"), ("Mul", "ax", "b"), ("Add", "bx", "c"), ("Softmax", "c", "y")]
    graph = b"".join(node(*each) for each in nodes) + field(2, "graph") + field(11, value("x")) + field(12, value("y"))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def test_its_provider_runs_a_model_on_the_emulator(tmp_path: Path) -> None:
    try:
        version("onnxruntime")
        version("onnxruntime-qnn")
    except PackageNotFoundError as missing:
        pytest.skip(f"{missing} is not installed")
    (tmp_path / "model.onnx").write_bytes(model())
    argv = [sys.executable, "-c", CLIENT, find_runtime("cpu", kind="emulator").path, tmp_path / "model.onnx"]
    done = subprocess.run(list(map(str, argv)), cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert set(answer["placed"]) == {"Relu", "Mul", "Add", "Softmax"}
    assert set(answer["placed"].values()) == {"QNNExecutionProvider"}, done.stderr[-2000:]
    assert answer["error"] < 1e-6
