"""The built-in ops of the emulator: each compared with numpy, and with libQnnCpu if that supports the type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from udogen.opdef import datatypes
from udogen.qnn.handles import BackendHandle
from udogen.qnn.tensors import APP_READ, APP_WRITE, STATIC, Param, QnnTensor
from udogen.runtime import OpConfig, QnnError, Scalar
from udogen.runtime.quantization import ScaleOffset

Array = np.ndarray[Any, np.dtype[Any]]
RANDOM = np.random.default_rng(11)
FLOATS = ("FLOAT_32", "FLOAT_16")
FIXED = ("UFIXED_POINT_8", "SFIXED_POINT_8", "UFIXED_POINT_16", "SFIXED_POINT_16")
# Asymmetric, like those of converters; 16-bit ones have smaller steps.
IN = {8: 0.05, 16: 0.0002}
OUT = {8: 0.125, 16: 0.0005}


@dataclass(frozen=True)
class Case:
    """One node: its inputs as real values or integers, and numpy's result."""

    op: str
    dtype: str
    inputs: Sequence[Array]
    expected: Array
    params: Sequence[tuple[str, str, Any]] = ()
    out: str = ""  # the data type of the output, if it differs
    quants: dict[str, ScaleOffset] = field(default_factory=dict)
    alone: bool = False  # libQnnCpu computes a different result

    def quant(self, name: str, dtype: str) -> ScaleOffset | None:
        row = datatypes.parse(dtype)
        assert row is not None
        if "FIXED" not in dtype:
            return None
        if name in self.quants:
            return self.quants[name]
        step = (OUT if name == "y" else IN)[row.bits]
        return ScaleOffset(step, -(1 << (row.bits - 1)) if dtype[0] == "U" else 3)


def dtype_of(dtype: str) -> np.dtype[Any]:
    row = datatypes.parse(dtype)
    assert row is not None
    return np.dtype(row.numpy)


def store(values: Array, dtype: str, quant: ScaleOffset | None) -> Array:
    kind = dtype_of(dtype)
    if quant is None:
        return values.astype(kind)
    steps = values / quant.scale
    info = np.iinfo(kind)
    rounded = np.trunc(steps + np.copysign(0.5, steps)) - quant.offset
    return np.clip(rounded, info.min, info.max).astype(kind)


def execute(backend: BackendHandle, case: Case, *, stored: Sequence[Array]) -> Array:
    """Return the stored output."""
    out = case.out or case.dtype
    with backend.context() as context:
        graph = context.graph("graph")
        inputs = []
        for number, array in enumerate(stored):
            name = f"x{number}"
            quant = case.quant(name, case.dtype)
            made = QnnTensor(name, dtype=case.dtype, shape=array.shape, role=APP_WRITE, quant=quant)
            inputs.append(graph.add_tensor(made))
        y = QnnTensor("y", dtype=out, shape=case.expected.shape, role=APP_READ, quant=case.quant("y", out))
        graph.add_tensor(y)
        params: list[Param] = []
        for name, dtype, value in case.params:
            if isinstance(value, list):
                data = bytearray(np.array(value, dtype_of(dtype)).tobytes())
                params.append(
                    graph.add_tensor(QnnTensor(name, dtype=dtype, shape=(len(value),), role=STATIC, data=data))
                )
            else:
                params.append(Scalar(name, dtype, value))
        node = OpConfig("n", package="qti.aisw", op_type=case.op, inputs=inputs, outputs=[y], params=params)
        backend.validate(node)
        graph.add_node(node)
        graph.finalize()
        for each, array in zip(inputs, stored, strict=True):
            each.bind(bytearray(np.ascontiguousarray(array).tobytes()))
        room = bytearray(y.nbytes)
        y.bind(room)
        graph.execute(inputs, [y])
        return np.frombuffer(room, dtype_of(out)).reshape(case.expected.shape)


def values(*shape: int) -> Array:
    return RANDOM.uniform(-3, 3, shape)


def softmax(x: Array, axis: int = -1, beta: float = 1.0) -> Array:
    powers = np.exp(beta * x - (beta * x).max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def cases() -> list[Case]:
    a, b, row, column = values(2, 3, 4), values(2, 3, 4), values(4), values(3, 1)
    made: list[Case] = []
    for dtype in (*FLOATS, *FIXED):
        bits = 8 if dtype.endswith("8") else 16
        lowest = 0 if dtype[0] == "U" else -(1 << (bits - 1))
        positive = {"y": ScaleOffset(1 / (1 << bits), -lowest)}
        # libQnnCpu assumes a zero point of 0 for the output of Relu and Softmax, and ignores that of the tensor.
        made.append(Case("Relu", dtype, [a], np.maximum(a, 0), quants={"y": ScaleOffset(OUT[bits], -lowest)}))
        made += [
            Case("ElementWiseAdd", dtype, [a, b], a + b),
            Case("ElementWiseAdd", dtype, [a, row], a + row),
            Case("ElementWiseMultiply", dtype, [a, column], a * column),
            Case("ElementWiseMultiply", dtype, [column, row], column * row),
            Case("Softmax", dtype, [a], softmax(a), quants=positive),
            # For bytes, libQnnCpu uses the last axis and ignores the parameter.
            Case(
                "Softmax",
                dtype,
                [a],
                softmax(a, 1, 0.5),
                [("axis", "UINT_32", 1), ("beta", "FLOAT_32", 0.5)],
                quants=positive,
                alone=dtype == "UFIXED_POINT_8",
            ),
            Case("MatMul", dtype, [a, values(2, 4, 5) / 3], np.empty(0)),
            Case("MatMul", dtype, [a[0], b[0] / 3], np.empty(0), [("transpose_in1", "BOOL_8", True)]),
            Case("MatMul", dtype, [a, b / 3], np.empty(0), [("transpose_in0", "BOOL_8", True)]),
            Case("MatMul", dtype, [a, values(4, 2) / 3, values(2) / 3], np.empty(0)),
        ]
    for number, case in enumerate(made):
        if case.op == "MatMul":
            made[number] = Case(case.op, case.dtype, case.inputs, product(case), case.params)
    same = ScaleOffset(0.05, -7)
    alike = {"x0": same, "x1": same, "y": same}
    for dtype in (*FLOATS, *FIXED, "INT_32", "UINT_32", "UINT_8", "INT_16", "BOOL_8"):
        x = RANDOM.integers(0, 2 if dtype == "BOOL_8" else 100, (2, 3, 4)).astype(np.float64)
        if "FIXED" in dtype:
            x = (x - 7) * 0.05
        made += [
            Case("Reshape", dtype, [x], x.reshape(6, 4), quants=alike),
            Case("Transpose", dtype, [x], x.transpose(2, 0, 1), [("perm", "UINT_32", [2, 0, 1])], quants=alike),
            Case(
                "Concat", dtype, [x, x[:, :1]], np.concatenate([x, x[:, :1]], 1), [("axis", "UINT_32", 1)], quants=alike
            ),
        ]
    made.append(Case("Concat", FIXED[0], [a, b], np.concatenate([a, b]), [("axis", "UINT_32", 0)]))
    for dtype in ("INT_32", "UINT_32"):
        x = RANDOM.integers(0, 100, (2, 3)).astype(np.float64)
        made += [Case("ElementWiseAdd", dtype, [x, x], x + x), Case("ElementWiseMultiply", dtype, [x, x], x * x)]
    return made


def product(case: Case) -> Array:
    a, b, *bias = case.inputs
    names = {name for name, _, _ in case.params}
    a = a.swapaxes(-1, -2) if "transpose_in0" in names else a
    b = b.swapaxes(-1, -2) if "transpose_in1" in names else b
    return np.asarray(a @ b + (bias[0] if bias else 0))


CASES = cases()


@pytest.mark.parametrize(
    "number", range(len(CASES)), ids=lambda i: f"{CASES[i].op}-{CASES[i].dtype}-{CASES[i].out}-{i}"
)
def test_an_op_agrees_with_numpy_and_libqnncpu(cpu: BackendHandle, real_cpu: BackendHandle, number: int) -> None:
    case = CASES[number]
    out = case.out or case.dtype
    quant = case.quant("y", out)
    stored = [store(x, case.dtype, case.quant(f"x{i}", case.dtype)) for i, x in enumerate(case.inputs)]
    found = execute(cpu, case, stored=stored)
    expected = store(case.expected, out, quant)
    if quant is not None:
        # The inputs were rounded too, so the exact result may be some steps off numpy's.
        steps = 3 if case.op == "MatMul" else 2
        assert np.abs(found.astype(int) - expected.astype(int)).max() <= (steps if case.op not in EXACT else 0)
    elif out == "FLOAT_16":
        assert np.abs(found.astype(float) - expected.astype(float)).max() <= 8e-3
    elif out == "FLOAT_32":
        assert np.abs(found - expected).max() <= 2e-6 * max(1, np.abs(expected).max())
    else:
        assert np.array_equal(found, expected)
    if case.alone:
        return
    try:
        theirs = execute(real_cpu, case, stored=stored)
    except QnnError as refused:
        assert refused.code == 3110  # it supports fewer types than the operation definitions
        assert case.dtype not in REAL.get(case.op, ()) or out == "FLOAT_16"
        return
    if found.dtype.kind == "f":
        assert np.abs(found.astype(float) - theirs.astype(float)).max() <= 2e-6 * max(1, np.abs(found).max())
    else:
        # An integer product (in libQnnCpu) may be rounded to the adjacent value.
        most = 1 if case.op in ("ElementWiseAdd", "ElementWiseMultiply", "MatMul", "Softmax") and quant else 0
        assert np.abs(found.astype(np.int64) - theirs.astype(np.int64)).max() <= most


EXACT = ("Reshape", "Transpose")
# The types above that libQnnCpu 2.47 was found to support; for these the comparison is mandatory.
REAL = {
    "Relu": ("FLOAT_32", "UFIXED_POINT_8"),
    "ElementWiseAdd": ("FLOAT_32", "UFIXED_POINT_8", "INT_32"),
    "ElementWiseMultiply": ("FLOAT_32", "UFIXED_POINT_8", "INT_32", "UINT_32"),
    "Softmax": ("FLOAT_32", "UFIXED_POINT_8"),
    "MatMul": ("FLOAT_32", "UFIXED_POINT_8"),
    "Reshape": ("FLOAT_32", "UFIXED_POINT_8", "INT_32", "UINT_32", "UINT_8", "BOOL_8"),
    "Transpose": ("FLOAT_32", "UFIXED_POINT_8", "INT_32", "UINT_32", "UINT_8", "BOOL_8"),
    "Concat": ("FLOAT_32", "UFIXED_POINT_8", "INT_32", "UINT_32", "BOOL_8"),
}

X = np.ones((2, 3), np.float32)
F = "FLOAT_32"


def perm(value: Any, made: Array = X.T) -> Case:
    return Case("Transpose", F, [X], made, [("perm", "UINT_32", value)])


WRONG = {
    "no such op": (Case("Convolve", F, [X], X), 1000, "no built-in op `Convolve`"),
    "a type that it does not take": (
        Case("Relu", "INT_32", [X], X),
        3110,
        "does not take `x0` of the data type 0x0032",
    ),
    "two types": (Case("Relu", F, [X], X, out="FLOAT_16"), 3110, "tensors of one data type, not 0x0232 and 0x0216"),
    "too many inputs": (Case("Relu", F, [X, X], X), 3110, "takes 1 to 1 inputs, not 2"),
    "too few inputs": (Case("ElementWiseAdd", F, [X], X), 3110, "takes 2 to 2 inputs, not 1"),
    "another shape": (Case("Relu", F, [X], X[:1]), 3110, "an output with the shape of its input"),
    "no broadcast": (Case("ElementWiseAdd", F, [X, X[:, :2]], X), 3110, "cannot broadcast 2x3 and 2x2"),
    "a smaller output": (Case("ElementWiseAdd", F, [X, X], X[:1]), 3110, "makes 2x3, its output is 1x3"),
    "other elements": (Case("Reshape", F, [X], X[:1]), 3110, "cannot make 1x3 of 2x3"),
    "an axis beyond": (Case("Softmax", F, [X], X, [("axis", "UINT_32", 2)]), 3110, "axis of 2 in a tensor of rank 2"),
    "an axis as a float": (Case("Softmax", F, [X], X, [("axis", "FLOAT_32", 1.0)]), 3110, "takes a UINT_32 as `axis`"),
    "a strange parameter": (Case("Softmax", F, [X], X, [("axes", "UINT_32", 1)]), 3110, "no parameter `axes`"),
    "no axis": (Case("Concat", F, [X, X], np.concatenate([X, X])), 3110, "needs the parameter `axis`"),
    "a concat that does not fill": (
        Case("Concat", F, [X], np.concatenate([X, X]), [("axis", "UINT_32", 0)]),
        3110,
        "makes 2 along axis 0, its output has 4",
    ),
    "a concat of another shape": (
        Case("Concat", F, [X[:, :2]], X, [("axis", "UINT_32", 0)]),
        3110,
        "cannot put 2x2 into 2x3",
    ),
    "no permutation": (perm([1, 1]), 3110, "has a `perm` that is not a permutation"),
    "a permutation beyond": (perm([1, 2]), 3110, "has a `perm` that is not a permutation"),
    "a short permutation": (perm([1]), 3110, "a `perm` of 2 numbers"),
    "a permutation as a number": (perm(1), 3110, "takes a tensor with data as `perm`"),
    "vectors": (Case("MatMul", F, [X[0], X[0]], X[0]), 3110, "takes matrices"),
    "matrices that do not meet": (Case("MatMul", F, [X, X], X), 3110, "cannot multiply 2x3 and 2x3"),
    "a bias that does not fit": (Case("MatMul", F, [X, X.T, X], X[:, :2]), 3110, "cannot add a bias of 2x3"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_an_op_does_not_take_is_reported(cpu: BackendHandle, log_lines: list[str], name: str) -> None:
    case, code, sentence = WRONG[name]
    with pytest.raises(QnnError) as refused:
        execute(cpu, case, stored=[store(x, case.dtype, None) for x in case.inputs])
    assert refused.value.code == code
    assert any(sentence in line for line in log_lines), log_lines


def test_the_ops_are_listed(cpu: BackendHandle) -> None:
    names = {operation.name for operation in cpu.operations() if operation.package == "qti.aisw"}
    assert names == set(REAL)
