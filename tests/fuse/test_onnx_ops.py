"""Each op that can be fused: compiled kernels of single nodes return what ONNX's reference and ONNX Runtime return."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("halide", reason="pip install '.[kernels]'")


from tests.fuse.compiled import Compiled, Node, call, compile_node, compile_nodes, link
from tests.onnx_models import node, save
from udogen.onnx import kernels as onnx_ops
from udogen.onnx.fuse.ops import TABLE
from udogen.onnx.fuse.subgraph import read_source
from udogen.onnx.models.reading import cpu_session

pytestmark = pytest.mark.filterwarnings("ignore:The floating-point value")  # Halide warns about Python's floats
_NUMBERS = np.random.default_rng(16)


def floats(*shape: int, low: float = -3.0, high: float = 3.0) -> Any:
    return _NUMBERS.uniform(low, high, shape).astype(np.float32)


def integers(*shape: int, low: int = -9, high: int = 9) -> Any:
    return _NUMBERS.integers(low, high, shape).astype(np.int32)


def longs(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def bools(*shape: int) -> Any:
    return _NUMBERS.integers(0, 2, shape).astype(bool)


X = floats(2, 3, 5, 17)
ROW = floats(17)
IMAGE = floats(2, 4, 9, 11)
SPECIAL = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-30, 1e30, 0.5, 1.5, 2.5, -2.5], np.float32)
GRID = np.float32(0.03)


def unary() -> Iterator[Node]:
    plain = """Identity Abs Neg Relu Exp Sigmoid Tanh HardSwish Softplus Softsign Mish Erf Floor Ceil Round Sign Sin Cos
    Atan Sinh Cosh Asinh LeakyRelu ThresholdedRelu Elu Celu Selu HardSigmoid Gelu Shrink IsNaN IsInf Dropout"""
    for op in plain.split():
        yield Node(op, [X], opset=22)
    for op in ("Log", "Sqrt", "Reciprocal", "Acosh"):
        yield Node(op, [floats(3, 70, low=1.01, high=9.0)])
    for op in ("Asin", "Acos", "Atanh", "Tan"):
        yield Node(op, [floats(3, 70, low=-0.99, high=0.99)])
    for op in f"{plain} Sqrt Log Reciprocal".split():
        yield Node(op, [SPECIAL], opset=22)
    yield Node("IsInf", [SPECIAL], {"detect_negative": 0})
    yield Node("LeakyRelu", [X], {"alpha": 0.3})
    yield Node("Gelu", [X], {"approximate": "tanh"}, opset=20)
    yield Node("Swish", [X], {"alpha": 0.7}, opset=24)
    yield Node("HardSigmoid", [X], {"alpha": 0.3, "beta": 0.4})
    yield Node("Shrink", [X], {"bias": 0.5, "lambd": 1.5})
    yield Node("Not", [bools(3, 17)])
    yield Node("Sqrt", [np.float32(7)])  # no axes
    yield Node("BitwiseNot", [integers(3, 17)], opset=18)
    for op in ("Abs", "Neg", "Sign"):
        yield Node(op, [integers(3, 17)])
    yield Node("Clip", [X, np.float32(-1), np.float32(2)], constants=[1, 2])
    yield Node("Clip", [X, None, np.float32(2)], constants=[2])
    yield Node("Clip", [X], {"min": -0.5, "max": 0.5}, opset=6)
    for to in (onnx.TensorProto.INT32, onnx.TensorProto.BOOL, onnx.TensorProto.INT64, onnx.TensorProto.DOUBLE):
        yield Node("Cast", [X], {"to": to})
    yield Node("Cast", [integers(3, 17, low=-400, high=400)], {"to": onnx.TensorProto.UINT8})
    yield Node("Cast", [integers(3, 17, low=-400, high=400)], {"to": onnx.TensorProto.INT8})
    yield Node("Cast", [bools(3, 17)], {"to": onnx.TensorProto.FLOAT})
    yield Node("CastLike", [X, longs(1)], constants=[1])


def several() -> Iterator[Node]:
    for op in ("Add", "Sub", "Mul", "Div", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        yield Node(op, [X, ROW])
        yield Node(op, [integers(3, 17), integers(3, 17, low=1)])
    yield Node("Add", [X, floats(3, 1, 1)])
    yield Node("Mul", [X, np.float32(0.3)], constants=[1])
    yield Node("Sub", [np.float32([[[[1.0]]]]), ROW], constants=[0])
    yield Node("Div", [integers(3, 17), np.int32(4)], constants=[1])
    yield Node("PRelu", [X, floats(3, 1, 1)])
    yield Node("Pow", [floats(3, 17, low=0.1), floats(17)])
    yield Node("Pow", [X, np.float32(3)], constants=[1])
    yield Node("Pow", [X, np.float32(2)], constants=[1])
    yield Node("Pow", [floats(3, 17, low=0.0), np.float32(0.5)], constants=[1])
    yield Node("Pow", [X, np.int64(5)], constants=[1])
    yield Node("Pow", [SPECIAL, np.float32(-1)])
    yield Node("Mod", [integers(3, 17), integers(3, 17, low=1)])
    yield Node("Mod", [integers(3, 17), integers(3, 17, low=-9, high=-1)])
    yield Node("Mod", [X, floats(17, low=0.5)], {"fmod": 1})
    for op in ("Max", "Min", "Sum", "Mean"):
        yield Node(op, [X, ROW, floats(5, 1)])
    for op in ("And", "Or", "Xor"):
        yield Node(op, [bools(3, 17), bools(17)])
    yield Node("Equal", [integers(3, 17, low=0, high=3), integers(17, low=0, high=3)])
    yield Node("Equal", [bools(3, 17), bools(17)])
    for op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min"):
        yield Node(op, [SPECIAL, SPECIAL[::-1].copy()])
    yield Node("Where", [bools(5, 17), X, ROW])
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield Node(op, [integers(3, 17), integers(17)], opset=18)


def reductions() -> Iterator[Node]:
    names = [op for op in TABLE if op.startswith("Reduce")]
    for op in names:
        given = floats(2, 3, 5, 17, low=0.5, high=1.5)
        axes = "attributes" if op != "ReduceSum" else "input"
        if axes == "input":
            yield Node(op, [given, longs(1, 3)], constants=[1])
            yield Node(op, [given, longs(0)], {"keepdims": 0}, constants=[1])
        else:
            yield Node(op, [given], {"axes": [1, -1]})
            yield Node(op, [given], {"axes": [2], "keepdims": 0})
        yield Node(op, [given])
    long = floats(3, 5, 130)  # rows of several vectors
    for op in ("ReduceSum", "ReduceMax", "ReduceLogSumExp"):
        yield Node(op, [long, longs(-1)], constants=[1], opset=18)
        yield Node(op, [long[..., :128], longs(0, -1)], {"keepdims": 0}, constants=[1], opset=18)
    yield Node("ReduceMax", [X, longs(2)], constants=[1], opset=18)
    yield Node("ReduceSum", [X], {"noop_with_empty_axes": 1})
    yield Node("ReduceMin", [integers(3, 17)], {"axes": [1]})
    for op in ("ArgMax", "ArgMin"):
        yield Node(op, [X], {"axis": 1})
        yield Node(op, [integers(3, 17, low=0, high=3)], {"axis": -1, "keepdims": 0, "select_last_index": 1})
    yield Node("CumSum", [X, np.int32(2)], constants=[1])
    yield Node("CumSum", [X, np.int32(-1)], {"exclusive": 1, "reverse": 1}, constants=[1])


def shapes() -> Iterator[Node]:
    yield Node("Reshape", [X, longs(2, -1, 17)], constants=[1])
    yield Node("Reshape", [X, longs(5, 3, 34)], constants=[1])
    yield Node("Reshape", [X, longs(-1)], constants=[1])
    yield Node("Reshape", [floats(2, 15, 17), longs(0, 3, 5, 17)], constants=[1])
    yield Node("Flatten", [X], {"axis": 2})
    yield Node("Flatten", [X], {"axis": 0})
    yield Node("Squeeze", [floats(1, 3, 1, 17), longs(0, 2)], constants=[1])
    yield Node("Squeeze", [floats(1, 3, 1, 17)])
    yield Node("Unsqueeze", [floats(3, 17), longs(0, -1)], constants=[1])
    yield Node("Unsqueeze", [floats(3, 17)], {"axes": [1]}, opset=11)
    yield Node("Transpose", [X], {"perm": [0, 2, 3, 1]})
    yield Node("Transpose", [X])
    yield Node("Expand", [floats(3, 1, 17), longs(2, 1, 5, 1)], constants=[1])
    yield Node("Tile", [floats(3, 17), longs(2, 3)], constants=[1])
    yield Node("Split", [X, longs(5, 12)], {"axis": 3}, constants=[1], outputs=2)
    yield Node("Split", [floats(6, 17)], {"axis": 0}, outputs=3)
    yield Node("Split", [floats(6, 17)], {"axis": -1})
    yield Node("Slice", [X, longs(1, 2), longs(5, 16), longs(2, 3), longs(1, 3)], constants=[1, 2, 3, 4])
    yield Node("Slice", [X, longs(-1), longs(-99), longs(3), longs(-1)], constants=[1, 2, 3, 4])
    yield Node("Slice", [X], {"starts": [1], "ends": [3], "axes": [1]}, opset=9)
    for mode in ("constant", "reflect", "edge"):
        yield Node("Pad", [IMAGE, longs(0, 0, 1, 2, 0, 0, 2, 3)], {"mode": mode}, constants=[1])
    yield Node("Pad", [IMAGE, longs(1, 2), np.float32(7), longs(3)], constants=[1, 2, 3], opset=18)
    yield Node("Pad", [floats(3, 17), longs(1, 2, 3, 4)], {"mode": "wrap"}, constants=[1], opset=19)
    yield Node("Concat", [X, floats(2, 3, 5, 9), X], {"axis": -1})
    yield Node("Concat", [X, floats(2, 4, 5, 17)], {"axis": 1})
    yield Node("Concat", [bools(3, 5), bools(3, 1)], {"axis": 1}, constants=[1])
    yield Node("Gather", [X, longs(2, 0, -1)], {"axis": 1})
    yield Node("Gather", [X, np.int64(2)], {"axis": 2}, constants=[1])
    yield Node("Gather", [floats(10, 33), np.array([[1, 2], [3, 9]], np.int64)])
    yield Node("GatherElements", [floats(3, 17), np.array(integers(3, 5, low=0, high=17), np.int64)], {"axis": 1})
    yield Node("GatherND", [floats(3, 4, 17), np.array([[0, 1], [2, 3]], np.int64)])
    yield Node("OneHot", [longs(1, 0, -1, 4), np.int64(5), np.float32([0, 1])], {"axis": -1}, constants=[1])
    yield Node("Trilu", [floats(2, 7, 17)])
    yield Node("Trilu", [bools(7, 17)])
    yield Node("Pad", [bools(3, 17), longs(1, 2, 3, 4)], constants=[1])
    yield Node("Trilu", [floats(2, 7, 17), np.int64(-1)], {"upper": 0}, constants=[1])
    for mode in ("DCR", "CRD"):
        yield Node("DepthToSpace", [floats(1, 8, 3, 5)], {"blocksize": 2, "mode": mode})
    yield Node("SpaceToDepth", [floats(1, 2, 4, 6)], {"blocksize": 2})


def norms() -> Iterator[Node]:
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        yield Node(op, [X])
        yield Node(op, [X], {"axis": 1})
        yield Node(op, [floats(4, 129)])
        yield Node(op, [floats(2, 3, 17)], {"axis": 1}, opset=11)
    for p in (1, 2):
        yield Node("LpNormalization", [X], {"axis": 1, "p": p})
    each = [floats(4, low=0.5) for _ in range(4)]
    yield Node("BatchNormalization", [IMAGE, *each], {"epsilon": 1e-3}, constants=[1, 2, 3, 4])
    yield Node("InstanceNormalization", [IMAGE, *each[:2]], {"epsilon": 1e-4})
    yield Node("GroupNormalization", [IMAGE, *each[:2]], {"num_groups": 2}, opset=21)
    yield Node("GroupNormalization", [IMAGE, each[0][:2], each[1][:2]], {"num_groups": 2}, opset=18)
    yield Node("LayerNormalization", [X, ROW, floats(17)])
    yield Node("LayerNormalization", [floats(3, 200), floats(200)])
    yield Node("LayerNormalization", [X, floats(5, 17)], {"axis": 2, "epsilon": 1e-3})
    yield Node("RMSNormalization", [X, ROW], {"epsilon": 1e-4}, opset=23)
    yield Node("MeanVarianceNormalization", [IMAGE])


def products() -> Iterator[Node]:
    yield Node("MatMul", [floats(5, 7), floats(7, 17)])
    yield Node("MatMul", [floats(2, 3, 5, 7), floats(3, 7, 9)])
    yield Node("MatMul", [floats(7), floats(7, 17)])
    yield Node("MatMul", [floats(5, 7), floats(7)])
    yield Node("Gemm", [floats(5, 7), floats(17, 7), floats(17)], {"transB": 1, "alpha": 0.5, "beta": 2.0})
    yield Node("Gemm", [floats(7, 5), floats(7, 17)], {"transA": 1})
    window = {"pads": [1, 1, 1, 1], "strides": [2, 1]}
    yield Node("Conv", [IMAGE, floats(6, 4, 3, 3), floats(6)], window)
    yield Node("Conv", [IMAGE, floats(4, 1, 3, 3)], {"group": 4, "dilations": [2, 2]})
    yield Node("Conv", [IMAGE, floats(6, 2, 3, 3)], {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 2]})
    yield Node("Conv", [floats(2, 3, 19), floats(5, 3, 4)], {"pads": [2, 1]})
    yield Node("ConvTranspose", [IMAGE, floats(4, 3, 3, 3), floats(3)], {"strides": [2, 2], "pads": [1, 1, 1, 1]})
    yield Node("ConvTranspose", [IMAGE, floats(4, 2, 2, 3)], {"output_padding": [1, 0], "strides": [2, 1]})


def pools() -> Iterator[Node]:
    small = {"kernel_shape": [3, 3], "strides": [2, 2]}
    for op in ("MaxPool", "AveragePool"):
        yield Node(op, [IMAGE], small)
        yield Node(op, [IMAGE], {**small, "pads": [1, 1, 1, 1]})
        yield Node(op, [IMAGE], {**small, "ceil_mode": 1}, opset=22)
        yield Node(op, [floats(2, 3, 19)], {"kernel_shape": [4]})
    yield Node("MaxPool", [IMAGE], {"kernel_shape": [2, 2], "dilations": [2, 1], "auto_pad": "VALID"})
    yield Node("AveragePool", [IMAGE], {**small, "pads": [1, 1, 1, 1], "count_include_pad": 1})
    yield Node("LpPool", [IMAGE], {**small, "p": 2}, opset=18)
    for op in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"):
        yield Node(op, [IMAGE])
    for p in (1, 3):
        yield Node("GlobalLpPool", [IMAGE], {"p": p})


def quantization() -> Iterator[Node]:
    zero = np.uint8(120)
    yield Node("QuantizeLinear", [X, GRID, zero], constants=[1, 2])
    yield Node("QuantizeLinear", [X, GRID], constants=[1])
    yield Node("QuantizeLinear", [X, floats(3, low=0.01, high=0.1), np.zeros(3, np.int8)], {"axis": 1})
    stored = _NUMBERS.integers(0, 256, (3, 17)).astype(np.uint8)
    yield Node("DequantizeLinear", [stored, GRID, zero], constants=[1, 2])
    yield Node("DequantizeLinear", [stored, floats(3, low=0.01, high=0.1), stored[:, 0].copy()], {"axis": 0})


NODES = [
    *unary(), *several(), *reductions(), *shapes(), *norms(), *products(), *pools(), *quantization(),
]  # fmt: skip


def expected(compiled: Compiled) -> dict[str, Any]:
    """Return the results of the reference that test files of a fused op name."""
    op = compiled.op
    given = {port.name: op.array(port) for port in op.inputs}
    found = cpu_session(onnx.load_from_string(compiled.reference)).run(None, given)
    return dict(zip([port.name for port in op.outputs], found, strict=True))


def test_references_have_no_threads(tmp_path: Path) -> None:
    """ShuffleNet has 200 nodes, and ONNX Runtime does not always end the pools of so many sessions."""
    path = save(tmp_path / "one.onnx", [node("Relu", "x", "y")], {"x": (2,)}, {"y": (2,)})
    before = {*Path("/proc/self/task").iterdir()}
    session = cpu_session(onnx.load(path))
    assert session.run(None, {"x": np.array([-1, 1], np.float32)})[0].tolist() == [0, 1]
    assert {*Path("/proc/self/task").iterdir()} <= before


SOME = list({node.op: node for node in NODES}.values())[::6]


@pytest.mark.parametrize("nodes", [SOME, [node for node in NODES if node not in SOME]], ids=["some", "others"])
def test_kernels_return_what_onnx_returns(nodes: list[Node], tmp_path: Path) -> None:
    made = [compile_node(node, f"{node.op}{number}", tmp_path) for number, node in enumerate(nodes)]
    library = link(tmp_path)
    wrong = [
        f"{compiled.op.name} {node.attributes} of opset {node.opset}: not as {other}"
        for node, compiled in zip(nodes, made, strict=True)
        for other in differing(library, compiled)
    ]
    assert not wrong, "\n".join(wrong)


def differing(library: ctypes.CDLL, compiled: Compiled) -> Iterator[str]:
    """Yield what a kernel disagrees with: the reference, or the values in the model."""
    found, reference = call(library, compiled), expected(compiled)
    for port in compiled.op.outputs:
        by_ort = compiled.op.part.values[port.value].astype(port.dtype)
        for other, array in (("the reference", reference[port.name]), ("the model", by_ort)):
            if not np.allclose(found[port.name], array, rtol=1e-4, atol=2e-5, equal_nan=True):
                yield other


def test_chains_whose_sums_use_each_other(tmp_path: Path) -> None:
    """Sums of repeated values, used by other sums and by the output, and in expressions that Halide cannot analyse."""
    chains = {
        "Repeated": [node("Tile", "x twice", "t"), node("ReduceSum", "t last", "y")],
        "Used": [
            node("MatMul", "x w", "a"),
            node("Min", "a one", "m"),
            node("LpNormalization", "m", "l", axis=0),
            node("Min", "l m", "y"),
        ],
        "Divided": [
            node("ArgMax", "x", "a", axis=1),
            node("Cast", "a", "c", to=1),
            node("Add", "x c", "s"),
            node("Reshape", "s rows", "y"),
        ],
        "Twice": [
            node("CumSum", "x axis", "a", exclusive=1),
            node("Neg", "a", "n"),
            node("Concat", "a w n", "y", axis=1),
        ],
        "Mean": [node("Slice", "x start stop", "a"), node("Mean", "a x", "y")],
        "Unsigned": [
            node("Cast", "x", "i", to=6),
            node("Abs", "i", "a"),
            node("Sub", "a three", "s"),
            node("Cast", "s", "y", to=1),
        ],
        "Wrapped": [
            node("QuantizeLinear", "x grid zero", "q"),
            node("Add", "q q", "a"),
            node("DequantizeLinear", "a grid zero", "y"),
        ],
        "Exact": [
            node("Round", "x", "r"),
            node("Pow", "r two", "p"),
            node("Mul", "r r", "s"),
            node("Equal", "p s", "y"),
        ],
    }
    constants = {
        "twice": longs(1, 1, 2), "last": longs(-1), "start": longs(0), "stop": longs(1), "axis": np.int32(1),
        "rows": longs(2, 60), "one": np.float32(0.3), "w": floats(4, 6, 6),
        "two": np.full(6, 2.0, np.float32), "three": np.int32(3), "grid": GRID, "zero": np.int8(5),
    }  # fmt: skip
    x, made = floats(4, 5, 6), {}
    for name, nodes in chains.items():
        used = {each: array for each, array in constants.items() if any(each in one.input for one in nodes)}
        path = save(tmp_path / f"{name}.onnx", nodes, {"x": [4, 5, 6]}, ["y"], used)
        outputs = ",".join(one.output[0] for one in nodes)
        made[name] = compile_nodes(read_source(path, {}), outputs, {"x": x}, name, tmp_path)
    library = link(tmp_path)
    assert not [(name, other) for name, compiled in made.items() for other in differing(library, compiled)]


def test_each_op_of_the_table_is_tested_and_has_a_function() -> None:
    assert set(TABLE) == {node.op for node in NODES}
    assert all(callable(getattr(onnx_ops, op)) for op in TABLE)
    assert len(TABLE) >= 60
