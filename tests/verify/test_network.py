"""`udogen run model`: a network with a custom op on Qualcomm's CPU and HTP, in float and with 8 bits; mistakes."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx

from tests.command_line import udogen
from tests.making import ROOT, need_runtime
from tests.onnx_models import node, save
from udogen import UdogenError
from udogen.onnx.draft import from_onnx
from udogen.onnx.models.load import load_model
from udogen.onnx.network.model import Network
from udogen.onnx.source import onnx_view

LEAKY = ROOT / "examples" / "leaky_relu"


@cache
def package(base: Path, backend: str) -> Path:
    need_runtime(backend)
    made = udogen(
        "generate", LEAKY / "LeakyRelu.xml", "--backend", backend, "--kernels", LEAKY / "kernels", "-o", base / backend
    )
    assert made.returncode == 0, made.stderr
    [folder] = [each for each in (base / backend).iterdir() if each.is_dir()]
    built = udogen("build", f"{backend}_x86", "-C", folder)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write convolution, LeakyRelu of udogen's domain, pooling, a fully connected layer, softmax; and four samples."""
    folder, numbers = tmp_path_factory.mktemp("network"), np.random.default_rng(1)
    weights = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (128, 10), "b2": (10,)}
    constants = {name: numbers.normal(size=shape).astype("f") / 3 for name, shape in weights.items()}
    nodes = [
        node("Conv", "x w1 b1", "conv", "first", pads=[1, 1, 1, 1]),
        node("LeakyRelu", "conv", "leaky", "leaking", domain="example", alpha=0.1),
        node("MaxPool", "leaky", "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "pool", "flat"),
        node("Gemm", "flat w2 b2", "full"),
        node("Softmax", "full", "y"),
    ]
    save(folder / "net.onnx", nodes, {"x": ["n", 3, 8, 8]}, {"y": ["n", 10]}, constants)
    np.save(folder / "x.npy", numbers.normal(size=(4, 1, 3, 8, 8)).astype("f"))
    return folder


def run(network: Path, *options: object, code: int = 0) -> dict[str, Any]:
    done = udogen("run", "model", network / "net.onnx", "--input", f"x={network / 'x.npy'}", *options, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("backend", "bits"), [("cpu", "float"), ("htp", "float"), ("htp", "8")])
def test_each_layer_agrees_with_onnx_runtime(
    network: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, backend: str, bits: str
) -> None:
    made = package(tmp_path_factory.getbasetemp(), backend)
    out = ("--output-dir", tmp_path)
    found = run(network, "--package", made, "--backend", backend, "--bits", bits, "--tests", LEAKY, *out)
    assert [row["tensor"] for row in found["layers"]] == ["conv", "leaky", "pool", "flat", "full", "y"]
    assert found["ok"] and found["first_wrong"] is None and found["samples"] == 4 and found["elsewhere"] == []
    for row in found["layers"]:
        assert row["steps"] <= 1.5 if bits == "8" else row["own"] < 1e-5
    assert abs(np.load(tmp_path / "y.npy").sum() - 1) < (0.05 if bits == "8" else 1e-5)


def test_a_model_of_an_old_opset_has_8_bits(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    """Opset 9, where Dropout has an attribute and constants are inputs too; two nodes read `product`."""
    weights = np.random.default_rng(1).normal(size=(4, 4)).astype("f")
    nodes = [
        node("MatMul", "x w", "product"),
        node("LeakyRelu", "product", "leaky", domain="example", alpha=0.1),
        node("Add", "leaky product", "sum"),
        node("Dropout", "sum", "dropped mask", ratio=0.5),
        node("Softmax", "dropped", "y", axis=1),
    ]
    shapes = {"x": [2, 4], "w": [4, 4]}
    save(tmp_path / "net.onnx", nodes, shapes, {"y": [2, 4]}, {"w": weights}, opset=9, ir_version=3)
    np.save(tmp_path / "x.npy", np.random.default_rng(2).normal(size=(2, 4)).astype("f"))
    made = package(tmp_path_factory.getbasetemp(), "cpu")
    found = run(tmp_path, "--package", made, "--bits", "8", "--tests", LEAKY)
    steps = {row["tensor"]: row["steps"] for row in found["layers"]}
    assert {"product", "leaky", "dropped", "y"} <= steps.keys() and found["ok"] and steps["leaky"] <= 1.5


def test_what_comes_after_a_model_that_is_right(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    """The node omits its attribute: the op and its reference use the default of the config."""
    made_of = [node("LeakyRelu", "x", "y", domain="example")]
    save(tmp_path / "net.onnx", made_of, {"x": [4, 8]}, {"y": [4, 8]})
    made = package(tmp_path_factory.getbasetemp(), "cpu")
    words = ["run", "model", str(tmp_path / "net.onnx"), "--package", str(made), "--tests", str(LEAKY)]
    for expected in (["udogen", *words, "--bits", "8"], ["udogen", "register", str(made), "--client", "ort"]):
        done = udogen(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        words = shlex.split(done.stderr.rstrip().splitlines()[-1].split("`")[1])
        assert words[: len(expected)] == expected
        words = words[1:]
    assert udogen(*words).returncode == 0


def test_a_model_of_scalars(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    save(tmp_path / "net.onnx", [custom("x", "y")], {"x": []}, {"y": []})
    np.save(tmp_path / "x.npy", np.float32(-3))
    made = package(tmp_path_factory.getbasetemp(), "cpu")
    found = run(tmp_path, "--package", made, "--tests", LEAKY, "--output-dir", tmp_path)
    assert found["ok"] and np.load(tmp_path / "y.npy") == np.float32(-3) * np.float32(0.1)


def stored(op: str, given: str, made: str) -> Any:
    """Return a QuantizeLinear or DequantizeLinear."""
    return node(f"{op}Linear", f"{given} scale zero", made, f"{op}Linear_{made}")


def named(op: str, given: str, made: str, **attributes: Any) -> Any:
    return node(op, given, made, f"{op}_{made}", **attributes)


def custom(given: str, made: str) -> Any:
    return named("LeakyRelu", given, made, domain="example", alpha=0.1)


def save_quantized(folder: Path, nodes: list[Any], outputs: tuple[str, ...]) -> None:
    """Write a model that quantizes `x` itself, to `stored`, and then has these nodes."""
    constants = {"scale": np.float32(0.02), "zero": np.uint8(128), "yes": np.True_}
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("example", 1)]
    wrap = onnx.helper.make_function("mine", "Wrap", ["a"], ["b"], [custom("a", "b")], imports)
    first = [stored("Quantize", "x", "stored"), stored("Dequantize", "stored", "real")]
    shapes = dict.fromkeys(outputs, (2, 4))
    save(folder / "net.onnx", [*first, *nodes], {"x": [2, 4]}, shapes, constants, functions=[wrap])
    np.save(folder / "x.npy", np.random.default_rng(3).normal(size=(2, 4)).astype("f"))


QUANTIZED = [custom("real", "leaky"), stored("Quantize", "leaky", "again"), stored("Dequantize", "again", "y")]


def test_a_model_that_quantizes_itself(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    """Stored tensors as real-valued outputs would make the provider fail; two nodes read one of them."""
    last = [stored("Dequantize", "stored", name) for name in ("v", "w")]  # 6004 if the provider received them
    save_quantized(tmp_path, [*QUANTIZED, named("Relu", "real", "z"), *last], ("y", "z", "v", "w"))
    made = package(tmp_path_factory.getbasetemp(), "cpu")
    found = run(tmp_path, "--package", made, "--tests", LEAKY, "--output-dir", tmp_path)
    rows = {row["tensor"]: row["op"] for row in found["layers"]}
    assert rows == {"stored": "QuantizeLinear", "again": "LeakyRelu, QuantizeLinear", "z": "Relu"} and found["ok"]
    x = np.load(tmp_path / "x.npy")
    assert np.abs(np.load(tmp_path / "y.npy") - np.where(x < 0, x * 0.1, x)).max() <= 0.0201


def body(made: Any) -> Any:
    value = onnx.helper.make_tensor_value_info(made.output[0], 1, [2, 4])
    return onnx.helper.make_graph([made], "body", [], [value])


@pytest.mark.parametrize(
    ("nodes", "outputs", "text"),
    [
        (QUANTIZED, ("y", "leaky"), "node `LeakyRelu_leaky` (LeakyRelu): its output `leaky` is quantized by node"),
        ([*QUANTIZED, named("Relu", "leaky", "z")], ("y", "z"), "QuantizeLinear_again`, and is used elsewhere"),
        ([named("Wrap", "real", "y", domain="mine")], ("y",), "`Wrap_y` (Wrap) contains the custom node `LeakyRelu_b`"),
        (
            [node("If", "yes", "y", "choice", then_branch=body(custom("real", "then")),
                  else_branch=body(named("Relu", "real", "else")))],
            ("y",),
            "node `choice` (If) contains the custom node `LeakyRelu_then` (LeakyRelu)",
        ),
    ],
)  # fmt: skip
def test_refused_before_anything_runs(tmp_path: Path, nodes: list[Any], outputs: tuple[str, ...], text: str) -> None:
    save_quantized(tmp_path, nodes, outputs)
    done = udogen("run", "model", tmp_path / "net.onnx", "--tests", LEAKY)
    assert done.returncode == 2 and text in done.stderr, done.stderr


def test_a_scalar_of_truth_as_an_input(tmp_path: Path) -> None:
    need_runtime("cpu")
    branches = {"then_branch": body(named("Relu", "x", "a")), "else_branch": body(named("Abs", "x", "b"))}
    nodes = [node("If", "which", "y", **branches), named("Sigmoid", "x", "z")]
    shapes = dict.fromkeys("yz", (2, 4))
    save(tmp_path / "net.onnx", nodes, {"x": [2, 4], "which": []}, shapes, types={"which": 9})
    np.save(tmp_path / "x.npy", np.random.default_rng(3).normal(size=(2, 4)).astype("f"))
    assert run(tmp_path)["random"] == ["which"]


def test_what_a_runtime_computes_in_one_with_the_op_before_is_not_wrong(tmp_path: Path) -> None:
    """libQnnHtp computes Relu and Concat from the unrounded result of Conv; weights are not symmetric."""
    need_runtime("htp")
    numbers, constants, nodes = np.random.default_rng(5), {}, []
    for name in ("a", "b"):
        weights = np.where(numbers.random((16, 8, 3, 3)) < 0.02, 3, numbers.normal(size=(16, 8, 3, 3))).astype("f")
        constants[f"w{name}"] = weights / 9
        nodes.append(node("Conv", f"x w{name}", f"conv{name}", pads=[1, 1, 1, 1]))
        nodes.append(node("Relu", f"conv{name}", f"relu{name}"))
    nodes.append(node("Concat", "relua relub", "y", axis=1))
    save(tmp_path / "net.onnx", nodes, {"x": [1, 8, 16, 16]}, {"y": [1, 32, 16, 16]}, constants)
    np.save(tmp_path / "x.npy", numbers.normal(size=(2, 1, 8, 16, 16)).astype("f"))
    found = run(tmp_path, "--backend", "htp", "--bits", "8")
    assert [row["tensor"] for row in found["layers"] if row["wrong"]] == []


def save_chain(file: Path, ops: list[tuple[Any, ...]], ends: str, shape: tuple[object, ...] = (2, 16)) -> None:
    """Write nodes (op, inputs, output, attributes) whose tensors have one shape; those after `x…` are outputs."""
    numbers = np.random.default_rng(4)
    constants = {name: numbers.normal(size=16).astype("f") for name in ("scale", "bias")} | {"axis": np.int64(1)}
    nodes = [node(op, given, made, f"n_{made}", **dict(*more)) for op, given, made, *more in ops]
    inputs = {name: shape for name in ends.split() if name.startswith("x")}
    save(file, nodes, inputs, {name: shape for name in ends.split() if name not in inputs}, constants)


ERF = ("Erf", "x", "y")
NOT_SUPPORTED = "Operators of type `Erf` are not supported by QNN EP"


@pytest.mark.parametrize(
    ("ops", "backend", "bits", "on_qnn", "reasons"),
    [
        ([ERF], "cpu", "float", 0, {"n_y": NOT_SUPPORTED}),
        ([ERF], "htp", "8", 0, {"n_y": NOT_SUPPORTED}),
        ([("Relu", "x", "a"), ("Erf", "a", "b"), ("Neg", "b", "y")], "cpu", "float", 2, {"n_b": NOT_SUPPORTED}),
        ([("Relu", "x", "a"), ("Erf", "a", "b"), ("Neg", "b", "y")], "htp", "8", 2, {"n_b": NOT_SUPPORTED}),
        ([("Add", "scale bias", "a"), ("Mul", "x a", "y")], "cpu", "float", 1, {"n_a": "computed it from constants"}),
    ],
)
def test_only_what_ran_on_qnn_is_evidence(
    tmp_path: Path, ops: list[tuple[Any, ...]], backend: str, bits: str, on_qnn: int, reasons: dict[str, str]
) -> None:
    need_runtime(backend)
    save_chain(tmp_path / "net.onnx", ops, "x y")
    words = ("run", "model", tmp_path / "net.onnx", "--backend", backend, "--bits", bits)
    done = udogen(*words, "--json")
    found = json.loads(done.stdout)
    assert (found["on_qnn"], found["ok"], done.returncode) == (on_qnn, on_qnn > 0, 0 if on_qnn else 2)
    assert [(row["op"] == "Erf" or (row["tensor"] == "a" and len(ops) == 2)) for row in found["layers"]] == [
        row["on"] == "cpu" for row in found["layers"]
    ]
    assert {each["node"] for each in found["elsewhere"]} == {*reasons}
    for each in found["elsewhere"]:
        assert reasons[each["node"]] in each["reason"]
    verdict = "computed on QNN, and they agree" if on_qnn else "no node ran on QNN, so nothing was compared"
    shown = udogen(*words).stdout
    assert verdict in shown and (on_qnn == 0 or f"{on_qnn} of {len(ops)} tensors" in shown)


@pytest.mark.parametrize(
    ("ops", "ends", "words", "texts"),
    [
        (
            [("Relu", "x0", "a"), ("LayerNormalization", "a scale bias", "y0"),
             ("LayerNormalization", "x1 scale bias", "y1"), ("Tanh", "y1", "y2")],
            "x0 x1 y0 y2",
            ("--bits", "8"),
            ("node `n_y1` (LayerNormalization) of", "in libQnnCpu.so", "SIGSEGV", "--bits float"),
        ),
        (
            [("Relu", "x", "a"), ("CumSum", "a axis", "b"), ("Neg", "b", "y")],
            "x y",
            ("--backend", "htp"),
            ("node `n_b` (CumSum) of", "1002 (QNN_COMMON_ERROR_MEM_ALLOC)", "--bits 8"),
        ),
        (
            [("Transpose", "x", "a", {"perm": [0, 2, 1]}), ("Transpose", "x", "b", {"perm": [0, 1, 2]}),
             ("MatMul", "a b", "c"), ("Relu", "c", "y")],
            "x y",
            ("--bits", "8"),
            ("node `n_c` (MatMul) of", "the session: Failed to find kernel for DequantizeLinear (node b__real_Deq"),
        ),
    ],
)  # fmt: skip
def test_the_node_at_which_the_runtime_fails_is_named(
    tmp_path: Path, ops: list[tuple[Any, ...]], ends: str, words: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    need_runtime("htp")
    save_chain(tmp_path / "net.onnx", ops, ends, (2, 16) if "MatMul" not in str(ops) else (1, 16, 16))
    done = udogen("run", "model", tmp_path / "net.onnx", *words)
    assert done.returncode == 5 and [text for text in texts if text not in done.stderr] == [], done.stderr
    assert "onnxruntime:" not in done.stderr  # lines of its log


def test_open_dimensions_are_said(tmp_path: Path) -> None:
    """A dimension that another input's file has is taken from it."""
    need_runtime("cpu")
    save_chain(tmp_path / "net.onnx", [("Add", "x0 x1", "y")], "x0 x1 y", ("rows", 16))
    words = ("run", "model", tmp_path / "net.onnx")
    assert "open dimensions taken as 1: x0 [rows=1, 16]" in udogen(*words).stdout
    np.save(tmp_path / "x.npy", np.ones((3, 16), "f"))
    found = json.loads(udogen(*words, "--input", f"x0={tmp_path / 'x.npy'}", "--json").stdout)
    assert found["assumed"] == [] and found["layers"][0]["shape"] == [3, 16]


def other_slope(folder: Path) -> Path:
    """Write a file whose reference has another slope."""
    file = folder / "other.py"
    file.write_text("def leaky(x, alpha):\n    return x * (x > 0) + 0.5 * alpha * x * (x <= 0)\n")
    return file


def test_the_first_layer_that_goes_wrong_is_named(
    network: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """The reference has another slope: only the layer itself is wrong, although all layers after it differ."""
    reference = ("--reference", f"LeakyRelu={other_slope(tmp_path)}:leaky")
    made = package(tmp_path_factory.getbasetemp(), "cpu")
    found = run(network, "--package", made, *reference, code=6)
    assert [row["tensor"] for row in found["layers"] if row["wrong"]] == ["leaky"] == [found["first_wrong"]]
    assert found["layers"][-1]["error"] > 1e-3 > 1e-5 > found["layers"][-1]["own"]
    assert [row["tensor"] for row in run(network, "--package", made, *reference, "--until", "conv")["layers"]] == [
        "conv"
    ]


def test_udogen_test_runs_the_networks_of_a_test_file(network: Path, tmp_path: Path) -> None:
    """With a reference of another slope; the table and the first wrong layer are in every report."""
    need_runtime("cpu")
    other_slope(tmp_path)
    save_chain(tmp_path / "erf.onnx", [ERF], "x y")
    (tmp_path / "op_tests.toml").write_text(
        f'config = "{LEAKY}/LeakyRelu.xml"\nkernels = "{LEAKY}/kernels"\n'
        '[[op]]\nname = "LeakyRelu"\nreference = "other.py:leaky"\nshape = "4"\n'
        f'[[network]]\nmodel = "{network}/net.onnx"\ninputs = {{ x = "{network}/x.npy" }}\n'
        f'[[network]]\nname = "start"\nmodel = "{network}/net.onnx"\nuntil = "conv"\n'
        '[[network]]\nmodel = "gone.onnx"\n[[network]]\nmodel = "erf.onnx"\n'
    )
    options = ("--case", "network/", "--junit", tmp_path / "r.xml", "--html", tmp_path / "r.html")
    done = udogen("test", tmp_path, *options, "--json")
    assert done.returncode == 6, done.stderr
    reply = json.loads(done.stdout)
    assert [(each["network"], each["status"]) for each in reply["networks"]] == [
        ("net", "failed"),
        ("start", "passed"),
        ("gone", "error"),
        ("erf", "failed"),
    ]
    wrong = reply["networks"][0]
    assert wrong["first_wrong"] == "leaky" and [row["tensor"] for row in wrong["layers"] if row["wrong"]] == ["leaky"]
    counts = {status: count for status, count in reply["counts"].items() if count}
    assert not reply["ok"] and counts == {"planned": 4, "passed": 1, "failed": 2, "error": 1}
    assert "tensors; the first is `leaky` of node `leaking` (LeakyRelu)" in "\n".join(wrong["text"])
    junit = (tmp_path / "r.xml").read_text("utf-8")
    assert 'message="the first wrong layer is leaky"' in junit and "cannot be read as an ONNX model" in junit
    assert 'message="no node ran on QNN, so nothing was compared"' in junit
    assert "of node `leaking` (LeakyRelu)" in (tmp_path / "r.html").read_text("utf-8")
    (tmp_path / "reply.json").write_text(done.stdout)
    merged = udogen("test", "--merge", tmp_path / "reply.json", "--json")
    assert merged.returncode == 6 and len(json.loads(merged.stdout)["networks"]) == 4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "there is no reference for the op LeakyRelu"),
        (("--tests", str(LEAKY), "--until", "leeky"), "computes no tensor `leeky`"),
        (("--tests", str(LEAKY), "--input", "z=z.npy"), "has no input `z`"),
    ],
)
def test_mistakes_are_sentences(network: Path, options: tuple[str, ...], text: str) -> None:
    done = udogen("run", "model", network / "net.onnx", *options)
    assert done.returncode == 2 and text in done.stderr and "Traceback" not in done.stderr


READERS: dict[str, Callable[[Path], object]] = {
    "run model": lambda path: Network(onnx, path).samples({}),
    "inspect": lambda path: onnx_view(load_model(path)),
    "new": from_onnx.drafts,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_model_never_ends_in_an_internal_error(tmp_path: Path, reader: str) -> None:
    nodes = [node("Scale", "x", "a", domain="example", factor=2.0), node("Gemm", "a w", "y", alpha=0.5)]
    data = save(tmp_path / "net.onnx", nodes, {"x": [1, 2]}, {"y": [1, 2]}, {"w": np.eye(2, dtype="f")}).read_bytes()
    refused = 0
    for at, bit in itertools.product(range(len(data)), (0x01, 0x10, 0x80, 0xFF)):
        (tmp_path / "net.onnx").write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
        try:
            READERS[reader](tmp_path / "net.onnx")
        except UdogenError:
            refused += 1
    assert refused > len(data) // 4


@pytest.mark.parametrize(("offset", "bytes_"), [(0, 60), (0, 0), (8, 64), (None, 80)])
def test_a_file_of_weights_of_the_wrong_size(tmp_path: Path, offset: int | None, bytes_: int) -> None:
    """A truncated file, a wrong offset, or a file of another model."""
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[4, 4], data_location=1)
    tensor.external_data.add(key="location", value="w.bin")
    if offset is not None:
        tensor.external_data.add(key="offset", value=str(offset))
    ends = [onnx.helper.make_tensor_value_info(name, 1, [2, 4]) for name in ("x", "y")]
    product = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([product], "net", ends[:1], ends[1:], [tensor])
    (tmp_path / "net.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    (tmp_path / "w.bin").write_bytes(bytes(bytes_))
    for command in (("run", "model"), ("onnx", "fuse", "--nodes", "y", "--name", "Fused", "-o", tmp_path / "out")):
        done = udogen(*command, tmp_path / "net.onnx")
        assert done.returncode == 2, done.stderr
        assert "w.bin has too little or too much data of tensor `w`, [4, 4]" in done.stderr, done.stderr


def test_no_model(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"no model")
    for file in ("net.onnx", "gone.onnx"):
        done = udogen("run", "model", tmp_path / file)
        assert done.returncode == 2 and "cannot be read as an ONNX model" in done.stderr
