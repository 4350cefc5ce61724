"""`udogen onnx fuse`: the nodes it takes from a model, the files it writes, and right results on both backends."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

pytest.importorskip("halide", reason="pip install '.[kernels]'")
pytest.importorskip("onnxruntime", reason="pip install '.[run]'")

from tests.command_line import udogen
from tests.making import need_runtime
from tests.onnx_models import attention, node, save
from udogen import RunFailed
from udogen.onnx.network import execute

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL


def fuse(model: Path, nodes: str, *options: object, name: str = "Fused") -> Any:
    """Run the verb, which only writes files, and return its output."""
    done = udogen(
        "onnx",
        "fuse",
        model,
        "--nodes",
        nodes,
        "--name",
        name,
        "-o",
        model.parent / name,
        "--no-run",
        "--json",
        *options,
    )
    answer = json.loads(done.stdout)
    return answer if done.returncode == 0 else (done.returncode, answer["error"]["message"])


def kernel(model: Path) -> list[str]:
    """Return the lines of the kernel's function."""
    return (model.parent / "Fused" / "kernels" / "Fused.py").read_text().split("\n\n\n")[1].splitlines()


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_an_op_of_two_outputs_is_right_on_both_backends(backend: str, tmp_path: Path) -> None:
    need_runtime(backend)
    model = attention(tmp_path / "attention.onnx")
    ids = np.array([8, 0, 3, -1, 2])
    np.save(tmp_path / "ids.npy", ids)
    done = udogen(
        "onnx", "fuse", model, "--nodes", "relu..total, rows, weighted", "--name", "Scores", "-o", tmp_path / "scores",
        "--dim", "n=6", "--feed", f"ids={tmp_path / 'ids.npy'}", "--backend", backend, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert [each["name"] for each in answer["inputs"]] == ["x", "ids", "mask", "table"]
    assert {each["value"]: each["shape"] for each in answer["outputs"]} == {"total": [2, 5], "weighted": [2, 5, 6]}
    [compared] = answer["compared"]
    layers = [layer for layer in compared["network"]["layers"] if layer["op"] == "Scores"]
    assert compared["right"] and [layer["tensor"] for layer in layers] == ["total", "weighted"]
    assert max(layer["own"] for layer in layers) < 1e-6 and compared["network"]["elsewhere"] == []
    assert (np.load(tmp_path / "scores" / "values" / "ids.npy") == ids).all()
    again = udogen("test", tmp_path / "scores", "--backend", backend)
    assert again.returncode == 0, again.stdout + again.stderr


def test_a_wrong_kernel_is_found(tmp_path: Path) -> None:
    need_runtime("cpu")
    model = save(tmp_path / "m.onnx", [node("Relu", "x", "r", "r"), node("Exp", "r", "y", "e")], {"x": [4, 8]}, ["y"])
    fuse(model, "r..e")
    file = tmp_path / "Fused" / "kernels" / "Fused.py"
    file.write_text(file.read_text().replace("onnx.Exp", "onnx.Sigmoid"))
    done = udogen("test", tmp_path / "Fused", "--backend", "cpu")
    assert done.returncode == 6, done.stdout


def test_a_chain_is_a_kernel_for_any_shape(tmp_path: Path) -> None:
    nodes = [
        node("Mul", "x half", "a", "first"),
        node("Clip", "a low ", "b", "second/clip"),
        node("Sub", "b one", "if", "third"),
        node("Relu", "if", "y", "last"),
    ]
    constants = {"half": np.float32(0.1), "low": np.float32("-inf"), "one": np.ones((1, 1), np.float32)}
    model = save(tmp_path / "m.onnx", nodes, {"x": [3, 5]}, ["y"], constants)
    fuse(model, "first..third")
    assert kernel(model) == [
        "def Fused(x, if_):",
        "    x = onnx.flat(x)",
        "    a = onnx.Mul(x, 0.1)  # first",
        '    b = onnx.Clip(a, min=float("-inf"))  # second/clip',
        "    if__ = onnx.Sub(b, 1.0)  # third",
        "    onnx.store(if_, if__)",
    ]
    made = onnx.load(str(tmp_path / "Fused" / "m.Fused.onnx"))
    assert [each.op_type for each in made.graph.node] == ["Fused", "Relu"]
    assert list(made.graph.node[0].input) == ["x"] and not made.graph.initializer
    assert {each.name for each in made.graph.value_info} == {"if"}
    onnx.checker.check_model(made)


def test_types_that_no_backend_has_are_cast_around_the_op(tmp_path: Path) -> None:
    nodes = [node("Greater", "x zero", "g", "g"), node("And", "g mask", "y", "and"), node("Not", "y", "z", "not")]
    model = save(
        tmp_path / "m.onnx", nodes, {"x": [3, 5], "mask": [3, 5]}, ["z"], {"zero": np.float64(0)},
        types={"x": TensorProto.DOUBLE, "mask": BOOL, "z": BOOL},
    )  # fmt: skip
    fuse(model, "g..and")
    made = onnx.load(str(tmp_path / "Fused" / "m.Fused.onnx"))
    assert [each.op_type for each in made.graph.node] == ["Cast", "Cast", "Fused", "Cast", "Not"]
    onnx.checker.check_model(made, full_check=False)


def test_what_older_opsets_mean_is_kept(tmp_path: Path) -> None:
    nodes = [node("Softmax", "x", "s", "s"), node("Neg", "s", "y", "n")]
    model = save(tmp_path / "m.onnx", nodes, {"x": [2, 3, 5]}, ["y"], opset=11)
    fuse(model, "s..n")  # it has compared the reference with ONNX Runtime
    assert "    s = onnx.Softmax(x, axis=1, flat=True)  # s" in kernel(model)


def test_constants_that_nodes_make_become_initializers(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "shape", "shape"),
        node("ConstantOfShape", "shape", "w", "w"),
        node("Add", "x w", "a", "add"),
        node("Exp", "a", "e", "exp"),
        node("Mul", "e w", "y", "mul"),
    ]
    model = save(tmp_path / "m.onnx", nodes, {"x": [3, 5]}, ["y"])
    assert [each["name"] for each in fuse(model, "add..exp")["inputs"]] == ["x", "w"]
    made = onnx.load(str(tmp_path / "Fused" / "m.Fused.onnx"))
    assert [tensor.name for tensor in made.graph.initializer] == ["w"]
    assert [each.op_type for each in made.graph.node] == ["Fused", "Mul"]


RIGHT_IS_MISSING = "node `right` (Erf) takes a result of these nodes, and node `join` (Add) needs what it makes"
NO_FILE = "none.npy cannot be read: No such file or directory"
PATHS = [
    node("Relu", "x", "a", "first"),
    node("Exp", "a", "b", "left"),
    node("Erf", "a", "c", "right"),
    node("Add", "b c", "d", "join"),
    node("NonZero", "d", "e", "nonzero"),
    node("ReduceSum", "d", "s", "sum", keepdims=0),
    node("Mul", "d s", "f", "scaled"),
    node("Pad", "d pads", "p", "pad"),
    node("Dropout", "d", "q mask", "dropout"),
    node("Unsqueeze", "d three", "w", "wide"),
]


@pytest.mark.parametrize(
    ("nodes", "code", "message"),
    [
        ("first..join", 0, ["first", "left", "right", "join"]),
        ("a..join", 0, ["left", "right", "join"]),
        ("left..d", 0, ["left", "join"]),
        ("first,left", 0, ["first", "left"]),
        ("b", 0, ["left"]),
        ("first,left,join", 2, RIGHT_IS_MISSING),
        ("first..nonzero", 2, "node `nonzero` (NonZero): udogen writes no kernel of NonZero"),
        ("join..first", 2, "m.onnx: no path leads from `join` to `first`"),
        ("frist..join", 2, "m.onnx has no node and no calculated tensor `frist`"),
        ("first..", 2, "--nodes first..: `first..` names no nodes"),
        ("join..sum", 0, ["join", "sum"]),
        ("wide", 2, "node `wide` (Unsqueeze): `w` has 5 axes; the op takes and returns tensors of at most 4"),
        ("pad", 2, "node `pad` (Pad): its input `pads` is calculated by the model"),
        ("dropout", 2, "node `dropout` (Dropout): its output `mask` is used, and only the first one is covered"),
    ],
)  # fmt: skip
def test_which_nodes_are_taken(nodes: str, code: int, message: Any, tmp_path: Path) -> None:
    model = save(
        tmp_path / "m.onnx", PATHS, {"x": [2, 3], "pads": [4]}, ["d", "e", "f", "p", "q", "mask", "w"],
        {"three": np.array([0, 1, 2], np.int64)}, types={"pads": INT64, "e": INT64, "mask": BOOL},
    )  # fmt: skip
    found = fuse(model, nodes)
    assert (found["nodes"] if code == 0 else found) == (message if code == 0 else (code, message))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "m.onnx: axis 0 of input `x` has no size, only the name batch"),
        (("--dim", "batch=2", "--dim", "b=3"), "--dim b: no input of m.onnx has this open dimension"),
        (("--dim", "batch=two"), "--dim batch=two: that is not a size"),
        (("--dim", "batch=2", "--feed", "y=y.npy"), "m.onnx has no input `y`"),
        (("--dim", "batch=2", "--feed", "x=none.npy"), NO_FILE),
        (("--dim", "batch=2", "--name", "2x"), "--name 2x must begin with a letter"),
    ],
)  # fmt: skip
def test_what_is_wrong_on_the_command_line(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "y", "r")]
    model = save(tmp_path / "m.onnx", nodes, {"x": ["batch", 3]}, ["y"])
    assert fuse(model, "r", *options) == (2, message)


def test_a_model_that_has_another_custom_op(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Abs", "x", "a"), node("Relu", "a", "y", "r")], {"x": [2, 3]}, ["y"])
    model = onnx.load(path)
    model.graph.node[0].domain = "mine"
    model.opset_import.add(domain="mine", version=1)
    onnx.save(model, path)
    done = udogen("onnx", "fuse", path, "--nodes", "r", "--name", "Fused", "-o", tmp_path / "out", "--no-run")
    assert done.returncode == 5 and "= fuse before other nodes become custom ops" in done.stderr, done.stderr


def test_all_open_dimensions_are_asked_for_at_once(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "y", "r"), node("Neg", "z", "n", "n")]
    model = save(tmp_path / "m.onnx", nodes, {"x": ["batch", 3, "?", 8], "z": [4, "batch", "n words"]}, ["y", "n"])
    done = udogen("onnx", "fuse", model, "--nodes", "r", "--name", "R", "--no-run", "--dim", "words=7")
    sizes = ["--dim", "batch=1", "--dim", "x.2=224", "--dim", "n words=16"]
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: m.onnx: axis 0 of input `x` has no size, only the name batch",
        "  m.onnx: axis 2 of input `x` has no size, only the name ?",
        "  m.onnx: axis 2 of input `z` has no size, only the name n words",
        "  --dim words: no input of m.onnx has this open dimension",
        f"  = QNN takes models of fixed shapes: add {shlex.join(sizes)}, or the sizes that you need",
    ]
    assert fuse(model, "r", *sizes)["inputs"][0]["shape"] == [1, 3, 224, 8]


def test_a_backend_that_fails_leaves_the_result_of_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_runtime("cpu")
    model = save(tmp_path / "m.onnx", [node("Exp", "x", "a", "e"), node("Neg", "a", "y", "n")], {"x": [2, 3]}, ["y"])
    on_qnn = execute.run_on_qnn

    def finalize(options: Any, *rest: Any, **more: Any) -> Any:
        if options.backend == "htp":
            raise RunFailed("libQnnHtp.so cannot finalize", hint="make it smaller", details=["code 1002"])
        return on_qnn(options, *rest, **more)

    monkeypatch.setattr(execute, "run_on_qnn", finalize)
    arguments = ("onnx", "fuse", model, "--nodes", "e", "--name", "Huge", "-o", tmp_path / "huge")
    done = udogen(*arguments)
    assert done.returncode == 5
    *_, cpu, htp, detail, hint = done.stdout.splitlines()
    assert cpu.startswith("cpu: all 2 tensors agree with ONNX Runtime's CPU (")
    assert (htp, detail) == ("htp: NOT COMPARED: libQnnHtp.so cannot finalize", "  code 1002")
    assert hint == "  = make it smaller"
    answer = json.loads(udogen(*arguments, "--json").stdout)
    assert not answer["ok"] and [each["right"] for each in answer["compared"]] == [True, False]
    assert answer["compared"][1]["error"]["kind"] == "run-failed"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    model = save(tmp_path / "m.onnx", [node("Relu", "x", "y", "r")], {"x": [2, 3]}, ["y"])
    assert {each["action"] for each in fuse(model, "r")["files"]} == {"created"}
    assert {each["action"] for each in fuse(model, "r")["files"]} == {"unchanged"}
    (tmp_path / "Fused" / "kernels" / "Fused.py").write_text("# mine")
    assert fuse(model, "r")[0] == 2
