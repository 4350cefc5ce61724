"""ONNX Runtime in a separate process: `ort_child.py FOLDER CPU HTP BROKEN`; prints the result of each case as JSON.

The arguments are package folders for CPU and HTP, and a library that cannot be registered.
"""

import itertools
import json
import os
import sys
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from tests.onnx_models import node, save
from udogen import UdogenError
from udogen.onnx.ort import session

FOLDER, CPU, HTP, BROKEN = Path(sys.argv[1]), *map(str, sys.argv[2:5])
SHAPE = (2, 3, 4)
X = np.random.default_rng(3).normal(size=SHAPE).astype(np.float32)
BIAS = np.float32([1, 2, 3, -4])


def model(name: str, *, dtype: int = TensorProto.FLOAT, nodes: int = 1, **attributes: Any) -> Path:
    """Write a model: Add, then LeakyRelu of udogen's domain, then Mul."""
    names = ["s", *(f"k{index}" for index in range(nodes))]
    own = [
        node("LeakyRelu", given, made, f"mine{index}", domain="udogen", **attributes)
        for index, (given, made) in enumerate(itertools.pairwise(names))
    ]
    every = [node("Add", "x b", "s"), *own, node("Mul", f"{names[-1]} b", "y")]
    bias = BIAS.astype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
    types = dict.fromkeys("xy", dtype)
    return save(FOLDER / f"{name}.onnx", every, {"x": SHAPE}, {"y": SHAPE}, {"b": bias}, opset=21, types=types)


def quantized(domain: str) -> Path:
    """Write a model: LeakyRelu between DequantizeLinear and QuantizeLinear, with steps of 1/8."""
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("LeakyRelu", "d", "l", domain=domain, alpha=0.25),
        node("QuantizeLinear", "l s z", "r"),
        node("DequantizeLinear", "r s z", "y"),
    ]
    constants = {"s": np.float32(0.125), "z": np.uint8(64)}
    return save(FOLDER / f"quantized{domain}.onnx", nodes, {"x": SHAPE}, {"y": SHAPE}, constants, opset=21)


def expected(alpha: float, nodes: int = 1) -> np.ndarray:
    found = X + BIAS
    for _ in range(nodes):
        found = np.where(found > 0, found, alpha * found)
    return found * BIAS


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


replies: dict[str, Any] = {}


def case(name: str, do: Any) -> None:
    """Keep the result of a case, or the error that it raised."""
    try:
        replies[name] = do()
    except UdogenError as fault:
        replies[name] = {**fault.as_json(), "type": type(fault).__name__}


def error_of(backend: str, packages: list[str], nodes: int = 1) -> float:
    made = session(model(f"good{nodes}", alpha=0.25, nodes=nodes), packages, backend=backend)
    return float(np.abs(made.run(None, {"x": X})[0] - expected(0.25, nodes)).max())


def quantized_error_of(domain: str) -> float:
    made = session(quantized(domain), [CPU])
    return float(np.abs(made.run(None, {"x": X})[0] - np.where(X > 0, X, 0.25 * X)).max())


def two_at_once() -> float:
    """Open two sessions at once; the second one outlives the first."""
    first, second = (session(model("good1", alpha=0.25), [CPU], prove=True) for _ in range(2))
    for each in (first, second):
        with each.proving():
            each.run(None, {"x": X})
    del first, each
    with second.proving():
        return float(np.abs(second.run(None, {"x": X})[0] - expected(0.25)).max())


def proof_of(backend: str, packages: list[str]) -> dict[str, Any]:
    """Return the counters of the package before and after a run, and the error if nothing was run."""
    made = session(model("good3", alpha=0.25, nodes=3), packages, backend=backend, prove=True)
    at_first = [astuple(row) for row in made.proof()]
    with made.proving():
        made.run(None, {"x": X})
    after = [astuple(row) for row in made.check()]
    try:
        with made.proving():
            pass
    except UdogenError as fault:
        return {"at first": at_first, "after": after, "idle": fault.as_json(), "exit code": fault.exit_code}
    return {}


def context() -> dict[str, Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    for key, value in (("enable", "1"), ("file_path", str(FOLDER / "made_ctx.onnx")), ("embed_mode", "0")):
        options.add_session_config_entry(f"ep.context_{key}", value)
    made = session(model("good1", alpha=0.25), [HTP], backend="htp", options=options)
    np.save(FOLDER / "x.npy", X)
    expected = made.run(None, {"x": X})[0]
    np.save(FOLDER / "y.npy", expected)
    del made
    again = session(FOLDER / "made_ctx.onnx", HTP, backend="htp")
    difference = float(np.abs(again.run(None, {"x": X})[0] - expected).max())
    return {"files": sorted(each.name for each in FOLDER.glob("*_ctx*")), "difference": difference}


case("cpu", lambda: error_of("cpu", [CPU]))
case("cpu, several nodes", lambda: error_of("cpu", [CPU], nodes=3))
case("htp", lambda: error_of("htp", [HTP]))
before = descriptors()
case("refused by the op", lambda: str(session(model("int", dtype=TensorProto.INT32), [CPU])))
case("not registered", lambda: str(session(model("good1", alpha=0.25), [BROKEN])))
case("unknown attribute", lambda: str(session(model("beta", alhpa=0.5), [CPU])))
case("another backend's", lambda: str(session(model("good1", alpha=0.25), [HTP])))
case("quantized", lambda: quantized_error_of("udogen"))
case("quantized, a built-in's name", lambda: quantized_error_of(""))
case("two at once", two_at_once)
case("proof, cpu", lambda: proof_of("cpu", [CPU]))
case("proof, htp", lambda: proof_of("htp", [HTP]))
replies["descriptors left"] = descriptors() - before
case("context", context)
print("stdout is back")
print(json.dumps(replies))
