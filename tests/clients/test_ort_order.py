"""Parameters of an op through the real ONNX Runtime: right for any order of a node's attributes.

ONNX Runtime's provider sends them in the order of its own hash table; HTP passes them to a kernel without names.
No part of udogen is involved except the package; what it refuses is tested in tests/generate/test_order.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime_qnn")

from onnx import helper

from tests.making import KERNELS, LONG, ROOT, cpu_package, htp_package, need_runtime
from tests.onnx_models import node, save
from udogen.runtime import find_runtime

ORDER = ROOT / "tests" / "configs" / "Order.xml"
DEFAULTS = {"b": 5.0, "c": 9.0, "d": [7.0, 8.0]}
# All orders of four parameters of one type, and nodes that omit one, at the end or before others.
ORDERS = [*permutations("abcd"), "a", "ac", "ca", "da", "dca", "cda", "bda"]


def write(model: Path) -> dict[str, float]:
    """Write a model with a node for each order; return the last number of each output."""
    nodes, right = [], {}
    for number, names in enumerate(ORDERS):
        values: dict[str, Any] = {"a": 1.0 + number, "b": 2.0 + number, "c": 30.0 + number, "d": [4.0 + number, 50.0]}
        nodes.append(node("Poly", "x", f"y{number}", f"n{number}", domain="tests"))
        nodes[-1].attribute.extend(helper.make_attribute(name, values[name]) for name in names)  # in this order
        seen = {**DEFAULTS, **{name: values[name] for name in names}}
        right[f"y{number}"] = 1000 * seen["a"] + 100 * seen["b"] + 10 * seen["c"] + 2 * seen["d"][0] + seen["d"][1]
    body = node("RandomNormalLike", "x", "y")  # an op that QNN does not support
    schema = helper.make_function("tests", "Poly", ["x"], ["y"], [body], [helper.make_opsetid("", 21)], [*"abcd"])
    save(model, nodes, {"x": [2, 3]}, dict.fromkeys(right, (2, 3)), opset=21, functions=[schema])
    return right


def run(model: Path, backend: str, library: Path, *context: Path) -> dict[str, float]:
    np.savez(model.with_suffix(".npz"), x=np.zeros((2, 3), np.float32))
    packages = f"Poly:{library}:OrderPackageInterfaceProvider:CPU"
    given = (model, find_runtime(backend).path, packages, model.with_suffix(".npz"), *context)
    argv = [sys.executable, *map(str, (Path(__file__).with_name("plain_ort.py"), *given))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr[-3000:]
    [reply] = [line.removeprefix("reply ") for line in done.stdout.splitlines() if line.startswith("reply ")]
    return {name: array[1][2] for name, array in json.loads(reply).items()}


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_every_order_in_one_model_and_from_its_stored_context(backend: str, tmp_path: Path) -> None:
    need_runtime(backend)
    library = {"cpu": cpu_package, "htp": htp_package}[backend](ORDER, tmp_path, KERNELS / "order").library
    right = write(tmp_path / "m.onnx")
    if backend == "cpu":  # ONNX Runtime cannot store contexts of the CPU
        assert run(tmp_path / "m.onnx", backend, library) == right
        return
    assert run(tmp_path / "m.onnx", backend, library, tmp_path / "stored.onnx") == right
    assert len(list(tmp_path.glob("*.bin"))) == 1
    assert run(tmp_path / "stored.onnx", backend, library) == right
