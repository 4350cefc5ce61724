"""A DequantizeLinear that several inputs read, beside a custom op: ONNX Runtime alone would end the process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime_qnn")

import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from tests.making import LONG, ROOT, cpu_package, htp_package, need_runtime
from tests.onnx_models import node, save

EXAMPLE = ROOT / "examples" / "leaky_relu"
X = np.random.default_rng(3).normal(size=(2, 4)).astype(np.float32) * 2
STEP = 0.0625
_BODY = ("If", "", "w")  # whose bodies read `a` twice
# Graphs of (op, inputs, output); the output of `8` is quantized and dequantized again.  The outputs of a graph are its
# capitals and `w`.
GRAPHS: dict[str, list[tuple[str, str, str]]] = {
    "by two ops": [("8", "x", "a"), ("LeakyRelu", "a", "l"), ("8", "l", "Y"), ("Neg", "a", "n"), ("8", "n", "Z")],
    "by two ops elsewhere": [
        ("8", "x", "a"), ("Neg", "a", "n"), ("8", "n", "b"), ("Mul", "a b", "m"), ("8", "m", "c"),
        ("LeakyRelu", "c", "l"), ("8", "l", "Y"),
    ],
    "twice by one op": [
        ("8", "x", "a"), ("Add", "a a", "s"), ("8", "s", "b"), ("LeakyRelu", "b", "l"), ("8", "l", "Y"),
    ],
    "by two custom ops": [
        ("8", "x", "a"), ("LeakyRelu", "a", "l"), ("8", "l", "Y"), ("LeakyRelu", "a", "m"), ("8", "m", "Z"),
    ],
    "around a custom op": [
        ("8", "x", "a"), ("LeakyRelu", "a", "l"), ("8", "l", "b"), ("Add", "a b", "s"), ("8", "s", "Y"),
    ],
    "and the graph": [
        ("8", "x", "A"), ("LeakyRelu", "A", "l"), ("8", "l", "Y"), ("Neg", "A", "n"), ("8", "n", "Z"),
    ],
    "of a constant": [
        ("DequantizeLinear", "bytes scale zero", "k"), ("8", "x", "a"), ("Add", "a k", "t"), ("8", "t", "b"),
        ("Mul", "b k", "m"), ("8", "m", "d"), ("LeakyRelu", "d", "l"), ("8", "l", "Y"),
    ],
    "of one QuantizeLinear": [
        ("QuantizeLinear", "x scale zero", "q"), ("DequantizeLinear", "q scale zero", "a"),
        ("DequantizeLinear", "q scale zero", "b"), ("LeakyRelu", "a", "l"), ("8", "l", "Y"), ("Neg", "b", "n"),
        ("8", "n", "c"), ("Add", "b c", "t"), ("8", "t", "Z"),
    ],
    "by the body of an If": [
        ("8", "x", "a"), ("LeakyRelu", "a", "l"), ("8", "l", "Y"), ("Neg", "a", "n"), ("8", "n", "Z"), _BODY,
    ],
}  # fmt: skip


def _body(out: str) -> Any:
    nodes = [node("Abs", "a", f"{out}1"), node("Add", f"a {out}1", out)]
    return onnx.helper.make_graph(nodes, out, [], [onnx.helper.make_tensor_value_info(out, 1, X.shape)])


def _model(path: Path, rows: list[tuple[str, str, str]]) -> tuple[list[str], list[Any]]:
    """Write the model; return the names of its outputs, and what onnx computes for them."""

    class LeakyRelu(OpRun):
        op_domain = "example"

        def _run(self, x: Any, alpha: float = 0.25) -> Any:
            return (np.where(x > 0, x, np.float32(alpha) * x),)

    values = {
        "scale": np.float32(STEP),
        "zero": np.uint8(128),
        "bytes": np.arange(124, 132, dtype=np.uint8).reshape(X.shape),
    }
    nodes = []
    for op, inputs, out in rows:
        if op == "8":
            nodes.append(node("QuantizeLinear", f"{inputs} scale zero", f"{out}8"))
            nodes.append(node("DequantizeLinear", f"{out}8 scale zero", out))
        elif op == "If":
            values["if"] = np.bool_(True)
            nodes.append(node("If", "if", out, then_branch=_body("yes"), else_branch=_body("no")))
        else:
            more: dict[str, Any] = {"domain": "example", "alpha": 0.25} if op == "LeakyRelu" else {}
            nodes.append(node(op, inputs, out, **more))
    outputs = [out for _, _, out in rows if out.isupper() or out == "w"]
    used = {name for each in nodes for name in each.input}
    constants = {name: value for name, value in values.items() if name in used}
    save(path, nodes, {"x": X.shape}, dict.fromkeys(outputs, X.shape), constants, opset=21)
    return outputs, ReferenceEvaluator(str(path), new_ops=[LeakyRelu]).run(None, {"x": X})


def test_each_reader_of_a_dequantized_tensor_gets_it(tmp_path: Path) -> None:
    need_runtime("cpu")
    config, kernels = EXAMPLE / "LeakyRelu.xml", EXAMPLE / "kernels"
    built = {
        "cpu": cpu_package(config, tmp_path / "cpu", kernels).library,
        "htp": htp_package(config, tmp_path / "htp", kernels).library,
    }
    np.savez(tmp_path / "x.npz", x=X)
    expected, cases = {}, {}
    for number, (name, rows) in enumerate(GRAPHS.items()):
        model = tmp_path / f"{number}.onnx"
        expected[name] = _model(model, rows)
        for backend, library in built.items():
            cases[f"{name}, {backend}"] = {
                "model": str(model), "packages": [str(library)], "backend": backend, "inputs": str(tmp_path / "x.npz"),
                "outputs": str(tmp_path / f"{number} {backend}.npz"),
            }  # fmt: skip
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    argv = [sys.executable, str(ROOT / "tests/clients/ort_cases_child.py"), str(tmp_path / "cases.json")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    replies = json.loads(done.stdout.splitlines()[-1])
    for name, (names, arrays) in expected.items():
        for backend in built:
            case = f"{name}, {backend}"
            assert replies[case] == names, case
            found = np.load(cases[case]["outputs"])
            for each, array in zip(names, arrays, strict=True):
                assert np.abs(found[each] - array).max() <= STEP, (case, each)
