"""Silent failures of the real ONNX Runtime, each with the error that udogen.onnx.ort raises for it.

Mistakes that are found before a session is opened are in test_ort.py.
"""

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

from tests import onnx_models
from tests.command_line import udogen
from tests.making import LONG, ROOT, cpu_package, htp_package, make, make_packages, need_runtime

EXAMPLE = ROOT / "examples" / "leaky_relu"
SHAPE = (2, 3, 4)
X = np.random.default_rng(7).normal(size=SHAPE).astype(np.float32)
FAILING = """
#include "ops/LeakyRelu.hpp"
namespace ops::LeakyReluPackage::LeakyRelu {
udo::Status execute(const Args&) { return udo::error("it does not feel like it"); }
}
"""


def model(
    path: Path, *, domain: str = "example", dtype: int = 1, shape: tuple[int | str, ...] = SHAPE, body: bool = False
) -> Path:
    """Write a model with one LeakyRelu, optionally in both branches of an If."""

    def node(out: str) -> Any:
        return onnx_models.node("LeakyRelu", "x", out, f"the {out}", domain=domain, alpha=0.25)

    def branch(out: str) -> Any:
        value = onnx.helper.make_tensor_value_info(out, dtype, shape)
        return onnx.helper.make_graph([node(out)], out, [], [value])

    types = dict.fromkeys("xy", dtype)
    if not body:
        return onnx_models.save(path, [node("y")], {"x": shape}, {"y": shape}, types=types, opset=21)
    choice = onnx_models.node("If", "c", "y", then_branch=branch("t"), else_branch=branch("e"))
    return onnx_models.save(path, [choice], {"x": shape}, {"y": shape}, {"c": True}, types=types, opset=21)


def per_channel(path: Path) -> Path:
    """Write a model with a LeakyRelu of constants that have a scale for each channel."""
    constants = {
        "q": np.ones(SHAPE, np.uint8), "s": np.full(SHAPE[-1], 0.1, np.float32), "z": np.zeros(SHAPE[-1], np.uint8),
        "t": np.float32(0.1), "o": np.uint8(0),
    }  # fmt: skip
    nodes = [
        onnx_models.node("DequantizeLinear", "q s z", "w", axis=len(SHAPE) - 1),
        onnx_models.node("LeakyRelu", "w", "y", "the y", domain="example", alpha=0.25),
        onnx_models.node("QuantizeLinear", "y t o", "yq"),
        onnx_models.node("DequantizeLinear", "yq t o", "yd"),
        onnx_models.node("Add", "yd x", "out"),
    ]
    return onnx_models.save(path, nodes, {"x": SHAPE}, {"out": SHAPE}, constants, opset=21)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the example for both backends, one that fails when it executes, and one whose library is damaged."""
    out = tmp_path_factory.mktemp("packages")
    kernels = out / "kernels" / "cpu"
    kernels.mkdir(parents=True)
    (kernels / "LeakyRelu.cpp").write_text(FAILING)
    need_runtime("cpu")
    config = EXAMPLE / "LeakyRelu.xml"
    undefined = out / "undefined" / "cpu"
    undefined.mkdir(parents=True)
    (undefined / "LeakyRelu.cpp").write_text(
        "void undefined_symbol();\n" + FAILING.replace('udo::error("', '(undefined_symbol(), udo::error)("')
    )
    found = {
        "undefined": out / "no",
        "cpu": cpu_package(config, out / "cpu", EXAMPLE / "kernels").library,
        "htp": htp_package(config, out / "htp", EXAMPLE / "kernels").library,
        "failing": cpu_package(config, out / "failing", kernels.parent).library,
    }
    [made] = make_packages([config], out / "no", chosen=["cpu"], kernels=undefined.parent, layout="qnn")
    assert make(made.folder, "cpu_x86", EXTRA_LDFLAGS="-Wl,--unresolved-symbols=ignore-all").returncode == 0
    broken = cpu_package(config, out / "broken").library
    broken.write_bytes(broken.read_bytes()[:5000])
    return {**found, "damaged": out / "broken"}


@pytest.fixture(scope="module")
def replies(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the names of the outputs of each case, or its error; all run in one process."""
    here = tmp_path_factory.mktemp("models")
    np.savez(here / "x.npz", x=X)
    good = model(here / "good.onnx")
    dynamic = model(here / "dynamic.onnx", shape=("n", 3, 4))
    cases: dict[str, dict[str, Any]] = {
        "good": {"model": good},
        "failing": {"model": model(here / "builtin.onnx", domain=""), "packages": ["failing"]},
        "damaged": {"model": good, "packages": ["damaged"]},
        "undefined": {"model": good, "packages": ["undefined"]},
        "dynamic": {"model": dynamic},
        "body": {"model": model(here / "if.onnx", body=True)},
        "64 bits": {"model": model(here / "wide.onnx", dtype=7), "packages": ["htp"], "backend": "htp"},
        "6 dimensions": {
            "model": model(here / "deep.onnx", shape=(1, 1, 1, *SHAPE)), "packages": ["htp"], "backend": "htp"
        },
        "channels": {"model": per_channel(here / "channels.onnx"), "packages": ["htp"], "backend": "htp"},
        "no fallback": {"model": good, "entries": {"session.disable_cpu_ep_fallback": "1"}},
        "no fallback, htp": {
            "model": good, "packages": ["htp"], "backend": "htp", "entries": {"session.disable_cpu_ep_fallback": "1"}
        },
        "options again": {"model": good, "again": True},
        "own": {"model": good, "provider_options": {"op_packages": "x"}},
    }  # fmt: skip
    rows = {
        name: {
            "backend": "cpu",
            "inputs": str(here / "x.npz"),
            **case,
            "model": str(case["model"]),
            "packages": [str(packages[each]) for each in case.get("packages", ["cpu"])],
        }
        for name, case in cases.items()
    }
    (here / "cases.json").write_text(json.dumps(rows))
    argv = [sys.executable, str(ROOT / "tests/clients/ort_cases_child.py"), str(here / "cases.json")]
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, env=env, cwd=here)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_what_is_right_is_taken(replies: dict[str, Any]) -> None:
    assert replies["good"] == ["y"]
    assert replies["no fallback, htp"] == ["y"]


def test_an_op_that_fails_is_not_computed_elsewhere(replies: dict[str, Any]) -> None:
    """ONNX Runtime's Python API would have made a session without QNN, and returned the result of its own LeakyRelu."""
    fault = replies["failing"]
    assert fault["type"] == "EPFail"
    assert "QNN graph execute error. Error code: " in fault["message"]


@pytest.mark.parametrize(
    ("case", "kind", "message", "hint"),
    [
        (
            "dynamic", "NotPlaced",
            "node `the y` of op LeakyRelu: input x is FLOAT [n, 3, 4]; QNN takes only fixed shapes",
            "fix them: `python -m onnxruntime.tools.make_dynamic_shape_fixed`, or "
            "SessionOptions.add_free_dimension_override_by_name",
        ),
        (
            "body", "NotPlaced",
            "node `the e` of op LeakyRelu is in the body of another node (If, Loop, Scan), and QNN is given only "
            "the main graph",
            "move the op out of the body, or unroll it",
        ),
        (
            "64 bits", "NotPlaced",
            "node `the y` of op LeakyRelu: input x is INT64 [2, 3, 4]; HTP passes no 64-bit types to custom ops",
            "add a Cast before it, and one after it",
        ),
        (
            "6 dimensions", "SessionFailed",
            "node `the y` of op LeakyRelu: input x is FLOAT [1, 1, 1, 2, 3, 4]; HTP takes at most 5 dimensions",
            "add a Reshape before it, and one after it",
        ),
        (
            "channels", "SessionFailed",
            "node `the y` of op LeakyRelu: input w has a scale for each channel; HTP passes no such tensors to "
            "custom ops",
            "quantize it with one scale, or pass it as float",
        ),
        (
            "no fallback", "SessionFailed",
            "ONNX Runtime could not make the session: QNN's CPU backend does not start in a session with "
            "session.disable_cpu_ep_fallback",
            "omit it with this backend; udogen.onnx.ort checks where nodes run",
        ),
        (
            "options again", "SessionFailed",
            "ONNX Runtime could not make the session: these SessionOptions were used for another session, and still "
            "hold its provider", "create new SessionOptions for each session",
        ),
        (
            "own", "UsageError", "the provider option op_packages is set by the other arguments", "leave it out",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error(replies: dict[str, Any], case: str, kind: str, message: str, hint: str) -> None:
    fault = replies[case]
    assert (fault["type"], fault["message"], fault["hint"]) == (kind, message, hint)


def test_a_package_that_cannot_be_loaded(replies: dict[str, Any], packages: dict[str, Path]) -> None:
    """The loader itself would end the process for a truncated library (SIGBUS)."""
    fault = replies["damaged"]
    assert fault["type"] == "NotElf"
    assert fault["message"].startswith(f"{packages['damaged']}/LeakyReluPackage/libs/"), fault


def test_a_package_with_undefined_symbols(replies: dict[str, Any]) -> None:
    """ONNX Runtime logs 4005 and computes on its own CPU; a child that registers the package finds the symbol."""
    fault = replies["undefined"]
    assert fault["type"] == "NotPlaced"
    assert "undefined_symbol" in fault["message"], fault
    assert any("is not in package LeakyReluPackage" in each for each in fault["details"])


# --- threads ---------------------------------------------------------------------------------------------------


THREADS = """
import sys, threading
import numpy as np
from udogen.onnx.ort import session
from udogen.errors import UsageError

model, package = sys.argv[1:]
x = np.random.default_rng(1).normal(size=(1, 64, 64)).astype("float32")
expected = np.where(x > 0, x, 0.25 * x)
sessions = [session(model, [package], backend="htp") for _ in range(2)]
wrong = [0, 0]

def work(number):
    for _ in range(100):
        wrong[number] += not np.allclose(sessions[number].run(None, {"x": x})[0], expected, rtol=1e-2)

threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
for each in threads:
    each.start()
for each in threads:
    each.join()
try:
    sessions[0].run_async(None, {"x": x}, print, None)
except UsageError as fault:
    print(wrong, fault.message)
"""


def test_two_sessions_on_htp_in_two_threads_are_right(packages: dict[str, Path], tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", shape=(1, 64, 64))
    argv = [sys.executable, "-c", THREADS, str(path), str(packages["htp"])]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, cwd=ROOT)
    sentence = "run_async does not wait for other sessions, as libQnnHtp needs it"
    assert f"[0, 0] {sentence}" in done.stdout.splitlines(), done.stdout + done.stderr


# --- the output of `udogen register --client ort` ------------------------------------------------------------


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_the_printed_code_runs(packages: dict[str, Path], backend: str, tmp_path: Path) -> None:
    """With the session of the printed code; QNN's CPU backend does not start if fallback is forbidden."""
    made = model(tmp_path / "bare.onnx")
    assert udogen("onnx", "schema", made, "-o", tmp_path / "model.onnx").returncode == 0
    done = udogen("register", packages[backend], "--client", "ort", "--only", "python")
    assert done.returncode == 0, done.stderr
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "it.py").write_text(
        f"{done.stdout}\nimport numpy\nnumpy.save('y.npy', session.run(None, {{'x': numpy.load('x.npy')}})[0])\n"
    )
    ran = subprocess.run([sys.executable, "it.py"], cwd=tmp_path, capture_output=True, text=True, timeout=LONG)
    assert ran.returncode == 0, ran.stderr
    if backend == "cpu":
        assert "['QNN']" in ran.stdout
    assert np.abs(np.load(tmp_path / "y.npy") - np.where(X > 0, X, 0.25 * X)).max() < 1e-6
