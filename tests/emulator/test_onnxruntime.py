"""A client that knows nothing of us: ONNX Runtime runs models in the emulator, as in libQnnCpu."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import onnx_bytes as onnx
from tests.making import LONG, need_runtime
from udogen.runtime import find_runtime
from udogen.runtime.built import Built

X = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
W = np.random.default_rng(2).normal(size=(2, 4, 5)).astype(np.float32)
B = np.float32([1, 2, 3, -4, 5])

pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("onnxruntime", "onnxruntime_qnn"))),
    reason="onnxruntime-qnn is not installed",
)


def answer(kind: str, folder: Path, model: bytes, packages: str = "") -> tuple[dict[str, list[str]], np.ndarray]:
    """Which provider had which ops, and what the model gave."""
    backend = find_runtime("cpu", kind=kind).path
    (folder / "model.onnx").write_bytes(model)
    np.save(folder / "x.npy", X)
    client = Path(__file__).with_name("ort_client.py")
    files = [folder / name for name in ("model.onnx", "x.npy", "y.npy")]
    argv = [sys.executable, client, *files, backend, *([packages] if packages else [])]
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), np.load(folder / "y.npy")


@pytest.mark.parametrize("kind", ["emulator", "real"])
def test_a_model_of_built_in_ops(kind: str, tmp_path: Path) -> None:
    need_runtime("cpu")
    nodes = [
        onnx.node("Relu", ["x"], ["r"]),
        onnx.node("MatMul", ["r", "w"], ["m"]),
        onnx.node("Add", ["m", "b"], ["y"]),
    ]
    model = onnx.model(nodes, inputs={"x": X.shape}, outputs={"y": (2, 3, 5)}, constants={"w": W, "b": B})
    placed, y = answer(kind, tmp_path, model)
    assert placed == {"QNN": ["Relu", "MatMul", "Add"]}
    assert np.abs(y - (np.maximum(X, 0) @ W + B)).max() <= 1e-5


@pytest.mark.parametrize("kind", ["emulator", "real"])
def test_a_model_with_an_op_of_a_package(kind: str, tmp_path: Path, cpu_leaky: Built) -> None:
    need_runtime("cpu")
    # The body only says which shape comes out; ONNX Runtime has no op of this name.
    schema = onnx.function(
        "LeakyRelu", ["a"], ["z"], [onnx.node("Identity", ["a"], ["z"])], domain="udogen", attributes=["alpha"]
    )
    nodes = [
        onnx.node("Add", ["x", "b"], ["s"]),
        onnx.node("LeakyRelu", ["s"], ["y"], domain="udogen", alpha=0.25),
    ]
    bias = B[:4]
    model = onnx.model(
        nodes,
        inputs={"x": X.shape},
        outputs={"y": X.shape},
        constants={"b": bias},
        functions=[schema],
        domain="udogen",
    )
    placed, y = answer(kind, tmp_path, model, f"LeakyRelu:{cpu_leaky.library}:{cpu_leaky.provider}")
    assert placed == {"QNN": ["Add", "LeakyRelu"]}
    s = X + bias
    assert np.abs(y - np.where(s > 0, s, 0.25 * s)).max() <= 1e-6
