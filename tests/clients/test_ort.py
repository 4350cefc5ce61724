"""udogen.onnx.ort with the real ONNX Runtime, libQnnCpu and libQnnHtp; schemas, versions, refusals."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime_qnn")

import onnx

from tests import onnx_models
from tests.clients.laying import lay
from tests.command_line import udogen
from tests.making import LONG, ROOT, make_packages, need_runtime
from udogen import ToolMissing, UsageError, resources
from udogen.clients import explain
from udogen.clients.client import Refused
from udogen.onnx.ort import preflight, schema, session
from udogen.onnx.ort.open_session import captured
from udogen.runtime import find_runtime
from udogen.runtime.built import find_built

EXAMPLE = ROOT / "examples" / "leaky_relu"


# --- with real libraries ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the example, built for both backends, in a folder with a blank."""
    found = {}
    for backend in ("cpu", "htp"):
        need_runtime(backend)
        out = tmp_path_factory.mktemp("it is") / f"{backend} here"
        [made] = make_packages(
            [EXAMPLE / "LeakyRelu.xml"], out, chosen=[backend], kernels=EXAMPLE / "kernels", layout="qnn"
        )
        assert udogen("build", "--prove", "-C", made.folder, f"{backend}_x86").returncode == 0
        found[backend] = made.folder
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def replies(packages: dict[str, Path], folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the result of every case, all run in one separate process."""
    broken = lay(EXAMPLE / "LeakyRelu.xml", tmp_path_factory.mktemp("broken"), chosen=("cpu",))
    argv = [sys.executable, str(ROOT / "tests/clients/ort_child.py"), folder, packages["cpu"], packages["htp"], broken]
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=LONG, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    first, last = done.stdout.splitlines()[-2:]
    assert first == "stdout is back"
    found: dict[str, Any] = json.loads(last)
    return found


@pytest.mark.parametrize("case", ["cpu", "cpu, several nodes", "htp"])
def test_numbers_are_right(replies: dict[str, Any], case: str) -> None:
    assert replies[case] <= 1e-6


def test_a_node_that_the_op_refuses_is_an_error_with_its_reason(replies: dict[str, Any]) -> None:
    """ONNX Runtime alone would run the placeholder of the schema, or QNN's own op of that name."""
    fault = replies["refused by the op"]
    assert fault["type"] == "NotPlaced"
    assert fault["message"] == (
        "the node of op LeakyRelu is not in package LeakyReluPackage: QNN did not take it, and ONNX Runtime has no "
        "kernel for the op (op LeakyRelu: input 0 `input` is INT_32 (0x0032); it must be FLOAT_32 or UFIXED_POINT_8)"
    )


def test_a_package_that_is_not_registered_is_an_error_with_the_cause(replies: dict[str, Any]) -> None:
    """ONNX Runtime alone would drop the whole provider, and run everything on its CPU."""
    fault = replies["not registered"]
    assert fault["type"] in ("NotPlaced", "SessionFailed")
    assert "ONNX Runtime could not register an op package; it disabled QNN's provider" in " ".join(
        [fault["message"], *fault["details"]]
    )


def test_an_attribute_that_is_no_parameter(replies: dict[str, Any]) -> None:
    fault = replies["unknown attribute"]
    assert fault["message"] == "node `mine0` of op LeakyRelu: attribute alhpa is not a parameter of the op"
    assert fault["hint"] == "did you mean `alpha`?"


def test_a_package_of_another_backend(replies: dict[str, Any], packages: dict[str, Path]) -> None:
    """ONNX Runtime alone would log 4005 and fall back."""
    fault = replies["another backend's"]
    assert (fault["message"], fault["hint"]) == (f"{packages['htp']} has no package for cpu", "it has: htp")


def test_quantized_tensors_reach_a_package(replies: dict[str, Any]) -> None:
    assert replies["quantized"] <= 0.125  # one step


def test_a_built_in_op_between_dequantize_and_quantize_never_goes_to_a_package(replies: dict[str, Any]) -> None:
    """ONNX Runtime alone would silently use QNN's own op of that name, on QNN."""
    fault = replies["quantized, a built-in's name"]
    assert (fault["type"], fault["message"], fault["hint"]) == (
        "NotPlaced",
        "a node of op LeakyRelu is not in package LeakyReluPackage: it went to QNN's own op of that name, for ONNX "
        "Runtime keeps built-in ops between DequantizeLinear and QuantizeLinear from op packages",
        "give the node its own domain, like udogen::LeakyRelu: the package gets quantized tensors",
    )


def test_two_sessions_at_once(replies: dict[str, Any]) -> None:
    """Each calls the package's init; if that fails (3000), ONNX Runtime silently drops QNN (measured)."""
    assert replies["two at once"] <= 1e-6


ANOTHER_BUILD = """
import sys
from udogen.errors import RunFailed
from udogen.onnx.ort import session
from udogen.runtime import Runtime

first, other, model = sys.argv[1:]
with Runtime("htp") as one, Runtime("htp") as two:
    one.register(first)
    two.register(first)
    try:
        two.register(other)
    except RunFailed as fault:
        print(fault.message)
with Runtime("htp") as one:
    one.register(other)
session(model, first, backend="htp")
session(model, first, backend="htp")
try:
    session(model, other, backend="htp")
except RunFailed as fault:
    print(fault.message)
"""


def test_another_build_of_a_package_in_one_process(packages: dict[str, Path], tmp_path: Path) -> None:
    """libQnnHtp would run the kernels of the first build for both, with the numbers of that one."""
    kernels = shutil.copytree(EXAMPLE / "kernels", tmp_path / "kernels")
    text = (kernels / "LeakyRelu.cpp").read_text()
    (kernels / "LeakyRelu.cpp").write_text(text.replace(": alpha * x", ": 2 * alpha * x"))
    [made] = make_packages([EXAMPLE / "LeakyRelu.xml"], tmp_path, chosen=["htp"], kernels=kernels, layout="qnn")
    assert udogen("build", "-C", made.folder, "htp_x86").returncode == 0
    model = write(tmp_path / "model.onnx", [node(alpha=0.5)])
    argv = [sys.executable, "-c", ANOTHER_BUILD, packages["htp"], made.folder, model]
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr
    end = (
        "cannot be used in this process: it has registered another build of package `LeakyReluPackage`, and "
        "libQnnHtp.so would run the kernels of that one"
    )
    assert [line.endswith(end) for line in done.stdout.splitlines() if "cannot be used" in line] == [True, True]


@pytest.mark.parametrize(("backend", "counted"), [("cpu", "executions"), ("htp", "calls")])
def test_the_packages_prove_that_they_ran(replies: dict[str, Any], backend: str, counted: str) -> None:
    """Three nodes in one run; libQnnHtp calls the kernel of such small tensors once per node."""
    found = replies[f"proof, {backend}"]
    assert found["at first"] == [["LeakyReluPackage", "LeakyRelu", counted, 0]]
    assert found["after"] == [["LeakyReluPackage", "LeakyRelu", counted, 3]]
    assert (found["exit code"], found["idle"]["kind"]) == (6, "not-executed")
    assert found["idle"]["message"] == "not executed by the session: LeakyRelu of package LeakyReluPackage"


def test_nothing_is_left_open(replies: dict[str, Any]) -> None:
    assert replies["descriptors left"] <= 1  # ONNX Runtime keeps a file open that it opened first, such as /dev/urandom


def test_a_context_binary_made_by_onnx_runtime_runs_in_udogen(
    replies: dict[str, Any], folder: Path, packages: dict[str, Path], tmp_path: Path
) -> None:
    """It also runs in ONNX Runtime again, and its model is compared with the binary like a model of udogen."""
    assert replies["context"] == {"files": ["made_ctx.onnx", "made_ctx_qnn.bin"], "difference": 0}
    [library] = packages["htp"].glob("build/x86_64-linux-clang/*.so")
    done = udogen(
        "run", "context", folder / "made_ctx_qnn.bin", "--op-package", library, "--input", f"x={folder / 'x.npy'}",
        "--output-dir", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [made] = tmp_path.glob("**/y.npy")
    assert np.abs(np.load(made) - np.load(folder / "y.npy")).max() == 0


# --- ONNX Runtime alone -------------------------------------------------------------------------------------


def plain_ort(model: Path, backend: str, package: Path, file: Path, *context: Path) -> str:
    """Run a model in a program without udogen; return what the package wrote to the file that UDOGEN_PROVE names."""
    built = find_built(package, backend=backend)
    options = f"LeakyRelu:{built.library}:{built.provider}:CPU"
    np.savez(file.with_suffix(".npz"), x=np.ones((2, 3, 4), np.float32))
    given = (model, find_runtime(backend).path, options, file.with_suffix(".npz"), *context)
    argv = [sys.executable, ROOT / "tests/clients/plain_ort.py", *given]
    env = {"PATH": "/usr/bin:/bin", "UDOGEN_PROVE": str(file)}
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=LONG, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return file.read_text()


def test_a_foreign_program_leaves_a_proof(packages: dict[str, Path], tmp_path: Path) -> None:
    model = write(tmp_path / "m.onnx", [node(domain="")])
    for backend, counted in (("cpu", "executions"), ("htp", "calls")):
        shown = plain_ort(model, backend, packages[backend], tmp_path / backend)
        assert shown == f"LeakyReluPackage LeakyRelu 1 {counted}\n"


def test_the_count_shows_that_qnn_took_its_own_op(
    replies: dict[str, Any], folder: Path, packages: dict[str, Path], tmp_path: Path
) -> None:
    """Between DequantizeLinear and QuantizeLinear: the model runs and the package is registered, but not called."""
    assert "quantized, a built-in's name" in replies  # this case has written the model
    made = folder / "own_ctx.onnx"
    shown = plain_ort(folder / "quantized.onnx", "htp", packages["htp"], tmp_path / "proof.txt", made)
    assert shown == "LeakyReluPackage LeakyRelu 0 calls\n"
    library = find_built(packages["htp"], backend="htp").library
    done = udogen("run", "context", folder / "own_ctx_qnn.bin", "--op-package", library, "--prove")
    assert done.returncode == 6, done.stderr
    assert "\nLeakyRelu: no kernel call in LeakyReluPackage\n" in done.stdout
    assert done.stderr.partition("error: ")[2] == (
        "no op of package LeakyReluPackage was executed, although the graphs ran\n"
        "  = the graphs have no node of it, or the runtime took another op of that name, such as its own, or a rewrite "
        "of the package replaced it: look at the nodes' package in the graph\n"
    )


# --- what is refused before ONNX Runtime runs --------------------------------------------------------------


def write(path: Path, nodes: list[Any], *, outputs: tuple[str, ...] = ("y",)) -> Path:
    shape = (2, 3, 4)
    return onnx_models.save(path, nodes, {"x": shape}, dict.fromkeys(outputs, shape), opset=21)


def node(op: str = "LeakyRelu", *, domain: str = "udogen", given: tuple[str, ...] = ("x",), **attributes: Any) -> Any:
    return onnx.helper.make_node(op, list(given), ["y"], domain=domain, name="n", **attributes)


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    return lay(EXAMPLE / "LeakyRelu.xml", tmp_path / "package", chosen=("cpu",))


def good(folder: Path) -> Path:
    return write(folder / "m.onnx", [node()])


NODE = "node `n` of op LeakyRelu"
NUMBERS = "make it an INT (of an enumeration) or a FLOAT, or an input"
# The node of the model, the error, and its hint.
MISTAKES: Mapping[str, tuple[Mapping[str, Any], str, str]] = {
    "no such node": ({"op": "LeakyRelo"}, "has no node of type LeakyRelu", "it has: udogen::LeakyRelo (1)"),
    "text": ({"mode": "x"}, f"{NODE}: attribute mode is a STRING, with which QNN ends the process", NUMBERS),
    "64 bits": (
        {"n": 1 << 40}, f"{NODE}: attribute n does not fit into 32 bits, with which QNN ends the process", NUMBERS
    ),
    "empty name": (
        {"given": ("x", "")}, f"{NODE} has an empty input name, with which Qualcomm's provider ends the process",
        "leave out optional inputs at the end of the list; an input before others must be given",
    ),
    "integer": (
        {"alpha": 1}, f"{NODE}: attribute alpha arrives as INT_32, and the parameter is FLOAT_32",
        "leave it out, where it is optional; or make it FLOAT_32 or INT_32 in the config",
    ),
    "list": ({"alpha": [1.0]}, f"{NODE}: attribute alpha is a list, and the parameter is scalar", "make them alike"),
    "inputs": ({"given": ("x", "x")}, f"{NODE} has 2 inputs; the config has 1", "is it the op of this package?"),
}  # fmt: skip


def refused(model: Path, *packages: Path, prove: bool = False) -> tuple[str, str]:
    with pytest.raises((Refused, UsageError)) as caught:
        session(model, packages, prove=prove)
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_typical_mistake_is_an_error_before_the_session(mistake: str, stand_in: Path, tmp_path: Path) -> None:
    options, sentence, hint = MISTAKES[mistake]
    message, remedy = refused(write(tmp_path / "m.onnx", [node(**options)]), stand_in)
    assert sentence in message and remedy == hint


def test_faults_of_packages_are_errors_before_the_session(stand_in: Path, tmp_path: Path) -> None:
    first = onnx_models.node("LeakyRelu", "x", "t")
    message, hint = refused(write(tmp_path / "two.onnx", [first, node(given=("t",))]), stand_in)
    assert hint == "give the custom op a different name" and message.endswith(
        "two.onnx has op LeakyRelu in several domains (ai.onnx, udogen); ONNX Runtime compares only op types, and "
        "gives all of them to the package"
    )
    message, hint = refused(good(tmp_path), stand_in, stand_in)
    assert "package LeakyReluPackage is given twice" in message
    assert hint == "leave one out: a runtime accepts each package once (4007)"
    stand_in.rename(tmp_path / "a:b")
    message, hint = refused(good(tmp_path), tmp_path / "a:b")
    assert "contains `:`" in message and hint == "move the package into a folder without them, or link to it"
    relu = onnx_models.save(tmp_path / "relu.onnx", [onnx_models.node("Relu", "x", "y")], {"x": [8]}, {"y": [8]})
    assert refused(relu, prove=True)[0] == "prove=True is about op packages, and none was given"


# --- versions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ort", "qnn", "backend", "message"),
    [
        ("1.27.0", "2.3.0", "cpu", ""),
        ("1.24.2", "2.3.0", "htp", ""),
        ("1.31.1", "2.7.0", "htp", ""),
        ("1.32.0", "2.7.0", "htp", ""),
        ("1.24.2", "2.4.0", "htp", ""),
        ("9.9.9", "9.9.9", "htp", ""),  # an untested version is not refused
        (
            "1.28.0", "2.3.0", "cpu",
            "onnxruntime 1.28.0 and onnxruntime-qnn 2.3.0 are incompatible: newer ones refuse it (`OrtEp has invalid "
            "ort_version_supported=0`), and run everything on their own CPU",
        ),
        ("1.28.0.dev20260623002", "2.3.0", "htp", "onnxruntime 1.28.0.dev20260623002 and onnxruntime-qnn 2.3.0 are"),
        ("1.23.2", "2.7.0", "htp", "onnxruntime 1.23.2 is too old for onnxruntime-qnn 2.7.0, which needs 1.24.2"),
        ("1.27.0", "2.4.0", "cpu", "onnxruntime-qnn 2.4.0 has no libQnnCpu.so"),
    ],
)  # fmt: skip
def test_pairs_of_versions(ort: str, qnn: str, backend: str, message: str) -> None:
    if not message:
        preflight.check_pair(ort, qnn, backend)
        return
    with pytest.raises(ToolMissing) as caught:
        preflight.check_pair(ort, qnn, backend)
    assert caught.value.message.startswith(message)
    assert "onnxruntime" in caught.value.hint


def test_the_table_of_releases_is_complete() -> None:
    rows = resources.facts("onnxruntime")["release"]
    for row in rows:
        assert row.keys() - {"refused", "why"} == {"first", "before", "oldest", "newest", "source"}
        assert ("refused" in row) is ("why" in row)
    assert [row["first"] for row in rows[1:]] == [row["before"] for row in rows[:-1]]


def test_versions_are_checked_before_anything_is_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(preflight, "_installed", lambda name: "1.28.0" if name == preflight.ORT else "2.3.0")
    with pytest.raises(ToolMissing, match=r"are incompatible"):
        session(tmp_path / "none.onnx", [])
    monkeypatch.setattr(preflight, "_installed", lambda _name: "")
    with pytest.raises(ToolMissing, match=r"(?m)^onnxruntime and onnxruntime-qnn is not installed$"):
        session(tmp_path / "none.onnx", [])


# --- schemas ----------------------------------------------------------------------------------------------


def run_without_qnn(model: Path) -> str:
    """Return how a model fails in ONNX Runtime alone."""
    code = (
        "import sys, numpy, onnxruntime\n"
        "made = onnxruntime.InferenceSession(sys.argv[1])\n"
        "made.run(None, {'x': numpy.ones((2, 3, 4), 'float32')})\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(model)], capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 1, "it computed something"
    return done.stderr


def test_a_schema_lets_the_model_load_and_never_computes_anything(tmp_path: Path) -> None:
    model = good(tmp_path)
    assert "is not a registered function/op" in run_without_qnn(model)
    found = schema.add_schemas(model, tmp_path / "out.onnx")
    assert [str(op) for op in found.ops] == ["udogen::LeakyRelu"]
    sentence = run_without_qnn(tmp_path / "out.onnx")
    assert "Name:'LeakyRelu_was_not_taken_by_QNN" in sentence or "LeakyRelu_was_not_taken_by_QNN" in sentence
    (tmp_path / "x.log").write_text(sentence)
    assert "ort-not-taken" in [entry.what.title for entry in explain.explain_log(tmp_path / "x.log").entries]


def test_outputs_of_another_shape_or_type(tmp_path: Path) -> None:
    odd = onnx_models.node("Odd", "x", "y", domain="a.b")
    onnx_models.save(tmp_path / "m.onnx", [odd], {"x": [2, 3, 4]}, {"y": [6]}, types={"y": 6}, ir_version=7)
    schema.add_schemas(tmp_path / "m.onnx", tmp_path / "out.onnx")
    made = onnx.load(tmp_path / "out.onnx")
    assert [(row.domain, row.version) for row in made.opset_import] == [("", 17), ("a.b", 1)]
    assert made.ir_version >= 8
    onnx.checker.check_model(made)
    assert "Odd_was_not_taken_by_QNN" in run_without_qnn(tmp_path / "out.onnx")


def test_inferred_types_are_declared(tmp_path: Path) -> None:
    """The output of the second op is not declared anywhere; QNN needs its shape."""
    nodes = [node("A", given=("x",)), onnx.helper.make_node("Relu", ["y"], ["z"])]
    nodes[0].output[0] = "y"
    model = write(tmp_path / "m.onnx", nodes, outputs=("z",))
    schema.add_schemas(model, tmp_path / "out.onnx")
    made = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "out.onnx"))
    shapes = {row.name: [dim.dim_value for dim in row.type.tensor_type.shape.dim] for row in made.graph.value_info}
    assert shapes["y"] == [2, 3, 4]


def test_a_model_that_has_its_own_function_keeps_it(tmp_path: Path) -> None:
    model = good(tmp_path)
    made = onnx.load(model)
    opsets = [onnx.helper.make_opsetid("", 21)]
    body = onnx.helper.make_function("udogen", "LeakyRelu", ["a"], ["b"], [onnx_models.node("Relu", "a", "b")], opsets)
    made.functions.append(body)
    onnx.save(made, model)
    found = schema.add_schemas(model, tmp_path / "out.onnx")
    assert (found.ops, found.added) == ((), b"")
    assert "udogen::LeakyRelu is defined by the model itself: this is kept" in found.notes


def test_schemas_are_never_written_over_the_model_or_away_from_its_data(tmp_path: Path) -> None:
    model = good(tmp_path)
    with pytest.raises(UsageError, match=r"(?m)is the model itself$"):
        schema.add_schemas(model, tmp_path / "." / "m.onnx")
    weights = onnx.numpy_helper.from_array(np.zeros((2, 3, 4), np.float32), "w")
    made = onnx.load(model)
    made.graph.initializer.append(weights)
    made.graph.node.insert(0, onnx.helper.make_node("Add", ["x", "w"], ["t"]))
    made.graph.node[1].input[0] = "t"
    onnx.save(made, tmp_path / "e.onnx", save_as_external_data=True, location="e.data", size_threshold=0)
    (tmp_path / "sub").mkdir()
    with pytest.raises(UsageError, match=r"has data in files beside it, which would be missing beside ") as caught:
        schema.add_schemas(tmp_path / "e.onnx", tmp_path / "sub" / "o.onnx")
    assert caught.value.hint == f"write it to the same folder: -o {tmp_path}/o.onnx"
    schema.add_schemas(tmp_path / "e.onnx", tmp_path / "o.onnx")
    assert "LeakyRelu_was_not_taken_by_QNN" in run_without_qnn(tmp_path / "o.onnx")


def test_the_command(tmp_path: Path) -> None:
    model = good(tmp_path)
    done = udogen("onnx", "schema", model, "-o", tmp_path / "o.onnx")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/o.onnx: udogen::LeakyRelu\n")
    done = udogen("onnx", "schema", EXAMPLE / "LeakyRelu.xml", "-o", tmp_path / "f.onnx", "--json")
    assert json.loads(done.stdout)["ops"] == ["example::LeakyRelu"]
    [function] = onnx.load(tmp_path / "f.onnx").functions
    assert (function.name, list(function.input), list(function.attribute)) == ("LeakyRelu", ["input"], ["alpha"])
    done = udogen("onnx", "schema", model, "-o", tmp_path / "o.onnx", "--domain", "x")
    assert (done.returncode, "--domain is for configs" in done.stderr) == (2, True)
    done = udogen("onnx", "schema", tmp_path / "none.onnx", "-o", tmp_path / "o.onnx")
    assert done.returncode == 2


# --- capture ------------------------------------------------------------------------------------------------


def test_what_is_written_to_descriptors_is_kept_and_nothing_stays_open(capfd: pytest.CaptureFixture[str]) -> None:
    import os

    before = len(os.listdir("/proc/self/fd"))
    with captured() as sentence:
        os.write(1, b"one\n")
        os.write(2, b"two\xff\n")
    with pytest.raises(ZeroDivisionError), captured():
        raise ZeroDivisionError
    os.write(1, b"after\n")
    assert sentence.text == "one\ntwo\ufffd\n"
    assert capfd.readouterr().out == "after\n"
    assert len(os.listdir("/proc/self/fd")) == before
