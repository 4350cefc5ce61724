"""Measures the tolerances of networks with 8 bits (ALLOWED) on Qualcomm's libraries, with several shapes and ranges."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.making import need_runtime
from tests.onnx_models import node, save
from udogen.onnx.network.compare import ALLOWED, Allowed, run_network
from udogen.onnx.network.execute import NetworkOptions

RNG = np.random.default_rng(3)
# Largest own errors in steps that were measured, with libraries of 2.47; all other ops: at most 1.
MEASURED = {"cpu": {}, "htp": {"MatMul": 2, "LogSoftmax": 2, "Softmax": 240}}
ROWS = [(4, 10), (4, 32), (4, 100), (2, 300), (1, 1000)]
PRODUCTS = [(1, 8, 8, 8), (1, 16, 16, 16), (2, 16, 64, 16), (1, 64, 256, 64), (1, 16, 1024, 16), (2, 4, 7, 5)]
ONE_INPUT = ("Softmax", "LogSoftmax", "Relu", "Sigmoid", "Tanh", "Exp", "Abs", "HardSwish")
TWO_INPUTS = ("Add", "Sub", "Mul", "Max", "Min")


def save_ops(backend: str, folder: Path) -> dict[str, Path]:
    """Write a network of independent nodes, and the files of its inputs."""
    nodes, files, inputs, outputs = [], {}, {}, {}  # type: ignore[var-annotated]

    def add(op: str, made: tuple[int, ...], *values: Any) -> None:
        name = f"y{len(nodes)}"
        for index, value in enumerate(values):
            files[f"{name}x{index}"] = folder / f"{name}x{index}.npy"
            np.save(files[f"{name}x{index}"], value.astype("f"))
            inputs[f"{name}x{index}"] = value.shape
        nodes.append(node(op, " ".join(f"{name}x{index}" for index in range(len(values))), name))
        outputs[name] = made

    for shape in ROWS:
        for scale in (0.3, 1, 3):
            for op in ONE_INPUT:
                if (backend, op) != ("cpu", "LogSoftmax"):  # QNN's provider does not take it
                    add(op, shape, RNG.normal(size=shape) * scale)
            for op in TWO_INPUTS:
                add(op, shape, RNG.normal(size=shape) * scale, RNG.normal(size=shape) + scale)
    for batch, rows, inner, cols in PRODUCTS:
        one, other = RNG.normal(size=(batch, rows, inner)), RNG.normal(size=(batch, inner, cols))
        for pair in ((one, other), (abs(one), abs(other)), (one + 2, other - 1)):
            add("MatMul", (batch, rows, cols), *pair)
    save(folder / "net.onnx", nodes, inputs, outputs)
    return files


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_right_ops_of_the_runtime_are_within_the_tolerances(backend: str, tmp_path: Path) -> None:
    """And a row is there only if an op needs it."""
    need_runtime(backend)
    found = run_network(
        NetworkOptions(tmp_path / "net.onnx", backend=backend, bits="8", inputs=save_ops(backend, tmp_path))
    )
    assert found.fault == "" and found.elsewhere == ()
    steps: dict[str, float] = defaultdict(float)
    for layer in found.layers:
        steps[layer.op] = max(steps[layer.op], layer.steps or 0)
    for op, most in steps.items():
        assert most <= MEASURED[backend].get(op, 1) + 0.01, (op, most)
        assert ((backend, op) in ALLOWED) == (most > Allowed().steps), (op, most)
