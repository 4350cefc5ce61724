"""The reason why a context or one of its graphs failed reaches the terminal, `--json`, exceptions and tracebacks."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import traceback
from pathlib import Path

import numpy as np
import pytest
from storing import describe, store, tensor_of

from tests.command_line import udogen
from tests.making import ROOT, need_runtime
from udogen import ConfigError, RunFailed, UdogenError, resources
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, QnnTensor
from udogen.runtime import OpConfig, QnnError, Runtime, Scalar, StoredContext
from udogen.runtime.contexts import manifest

SHAPE = (2, 3)
X = np.zeros(SHAPE, np.float32)


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The op package of tests/runtime; some of its ops fail."""
    need_runtime("cpu")
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    made = tmp_path_factory.mktemp("probe") / "libProbe.so"
    argv = ["g++", "-std=c++17", "-shared", "-fPIC", f"-I{resources.qnn_headers()}"]
    subprocess.run([*argv, str(ROOT / "tests/runtime/probe_package.cpp"), "-o", str(made)], check=True)
    return made


@pytest.fixture(scope="module")
def binary(probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Graphs of libQnnCpu: one of an op that works, one of an op that fails, and one of an op next to a built-in op."""
    path = tmp_path_factory.mktemp("stored") / "probe.bin"
    with Runtime("cpu", runtime="real") as runtime:
        runtime.register(probe)
        with runtime.new_context() as context:
            for name, op in (("good", "AddOne"), ("bad", "Fails"), ("mixed", "AddOne")):
                graph = context.new_graph(name)
                x, m, y = (
                    graph.add_tensor(QnnTensor(each, dtype="FLOAT_32", shape=SHAPE, role=role))
                    for each, role in (("x", APP_WRITE), ("m", NATIVE), ("y", APP_READ))
                )
                package = "qti.aisw" if name == "mixed" else "Probe"
                first = {"package": package, "op_type": "Relu" if name == "mixed" else "AddOne"}
                graph.add_node(OpConfig(f"{name}_first", inputs=[x], outputs=[m], params=[], **first))
                params = [Scalar("code", "UINT_32", 1002)] if op == "Fails" else []
                more = {"inputs": [m], "outputs": [y], "params": params}
                graph.add_node(OpConfig(f"{name}_last", package="Probe", op_type=op, **more))
                graph.finalize()
            manifest.save(path, context.binary())
    return path


def run(*arguments: object) -> str:
    done = udogen("run", "context", *arguments)
    assert done.returncode == 5, done.stdout + done.stderr
    return done.stdout


def test_what_a_kernel_logs_reaches_the_terminal_and_json(binary: Path, probe: Path) -> None:
    given = (binary, "--backend", "cpu", "--runtime", "real", "--op-package", probe)
    assert "graphExecute failed with 1002" in (text := run(*given))
    assert "Fails: told to answer 1002" in text
    [context] = json.loads(run(*given, "--json"))["contexts"]
    [error] = [graph["error"] for graph in context["graphs"] if "error" in graph]
    assert "Fails: told to answer 1002" in error["message"]


def test_what_a_kernel_logs_reaches_the_exception(binary: Path, probe: Path, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []
    for log in (None, lambda _level, text: heard.append(text)):
        with Runtime("cpu", runtime="real", log=log) as runtime:
            runtime.register(probe)
            with runtime.restore(binary) as context:
                for _ in range(2):  # each error has only its own message
                    with pytest.raises(QnnError, match="Fails: told to answer 1002") as caught:
                        context.graph("bad")(x=X)
                    assert caught.value.details == ()
                assert np.array_equal(context.graph("good")(x=X)["y"], X + 2)
        shown = "".join(traceback.format_exception(caught.value))
        assert "told to answer 1002" in shown and f"= {caught.value.hint}" in shown
    assert heard == ["Fails: told to answer 1002"] * 2
    assert caplog.text.count("told to answer 1002") == 2, "without a log, in Python's"


def test_a_package_that_is_missing_is_named(binary: Path) -> None:
    text = run(binary, "--backend", "cpu", "--runtime", "real")
    assert "of the op package `Probe`; that package is not registered" in text
    assert "= register it first: `udogen run context --op-package LIB`" in text
    with (
        Runtime("cpu", runtime="real") as runtime,
        pytest.raises(RunFailed, match=r"needs the op `\w+` of the op package `Probe`; that package is not registered"),
    ):
        runtime.restore(binary)


def test_what_is_wrong_with_a_description(tmp_path: Path) -> None:
    """`2 errors in forward_0_json.json` alone does not help."""
    path = store(tmp_path)

    def spoil(data: dict) -> None:
        tensor_of(data)["dataType"] = 4711
        tensor_of(data, side="graphOutputs")["id"] = "seven"

    made = describe(path, spoil)
    with pytest.raises(ConfigError, match="2 errors") as caught:
        StoredContext(path)
    expected = "4711 is not a data type"
    assert len(caught.value.details) == 2
    assert str(made) in caught.value.details[0] and expected in str(caught.value)
    given = (path, "--backend", "htp", "--runtime", "emulator")
    assert expected in run(*given)
    [context] = json.loads(run(*given, "--json"))["contexts"]
    assert any(expected in line for line in context["error"]["details"])
    assert context["error"]["kind"] == "config"


@pytest.mark.parametrize(
    "fault", [QnnError("graphExecute", 1002, ["first", "second"]), RunFailed("what", hint="do", details=["one"])]
)
def test_nothing_is_lost_between_processes(fault: UdogenError) -> None:
    again = pickle.loads(pickle.dumps(fault))
    assert type(again) is type(fault)
    assert (str(again), again.as_json()) == (str(fault), fault.as_json())
