"""`@udogen.kernel`: calls, tests, packets and packages of kernels in Python, and a sentence for each mistake."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command_line import udogen
from tests.making import need_packets, need_runtime
from udogen import UdogenError, UsageError, VerificationFailed
from udogen.python_files import load_module

pytest.importorskip("halide", reason="pip install '.[kernels]'")

HEAD = """import math

import halide as hl
import numpy as np

import udogen
from udogen.kernels import Flat, Rows, Whole
from udogen.kernels.math import exp, maximum, scan, scratch, select, total


@udogen.kernel
"""
FIRST = HEAD.count("\n") + 1  # the line of `def`
KERNELS = {
    "Scale": """def Scale(x, y, factor=2.0):
    i = hl.Var("i")
    y[i] = factor * x[i]
""",
    "Softmax": """def Softmax(x: Rows("axis"), y: Rows("axis"), axis=-1):
    k = hl.Var("k")
    top = x.max()
    sum = x.sum(lambda k: exp(x[k] - top))
    y[k] = exp(x[k] - top) / sum
""",
    "Linear": """def Linear(a: Whole("m k"), b: Whole("n k"), y: Whole("m n"), bias: Flat("n") = None):
    n, m, r = hl.Var("n"), hl.Var("m"), hl.RDom([(0, a.extent(0))])
    product = total(r, a[r.x, m] * b[r.x, n])
    y[n, m] = product if bias is None else product + bias[n]
""",
    "MaxPool": """def MaxPool(
    x: Whole("n h w c"), y: Whole("n (h-size)//step+1 (w-size)//step+1 c"), size: int, step=2
):
    c, w, h, n, r = hl.Var("c"), hl.Var("w"), hl.Var("h"), hl.Var("n"), hl.RDom([(0, size), (0, size)])
    y[c, w, h, n] = maximum(r, x[c, w * step + r.x, h * step + r.y, n])
""",
    "Stored": """def Stored(x: Rows("axis"), y: Rows("axis"), axis=-1):
    k, top, powers = hl.Var("k"), x.max(), scratch()
    powers[k] = exp(x[k] - top)
    y[k] = powers[k] / x.sum(lambda k: powers[k])
""",
    "Decay": """def Decay(x: Whole("b t c"), y: Whole("b t c"), keep=0.5):
    c, t, b, r = hl.Var("c"), hl.Var("t"), hl.Var("b"), hl.RDom([(0, x.extent(1))])
    carried = scan(r, (0.0, 1.0), lambda before: (keep * before[0] + x[c, r.x, b], before[1] * 0.5))
    y[c, t, b] = carried[t + 1][0] + carried[t][1]
""",
    "Turned": """def Turned(x: Whole("m k"), y: Whole("k m")):
    k, m, turned = hl.Var("k"), hl.Var("m"), hl.Func("turned")
    turned[k, m] = x[m, k]
    y[k, m] = turned[k, m]
    turned.compute_at(y.func, m)
""",
    "Split": """def Split(x: Rows, low: Rows(shape="... 1"), high: Rows(shape="... 1", types="FLOAT_32"), gain=1.0):
    k = hl.Var("k")
    low[k] = gain * x.min()
    high[k] = gain * x.max()
""",
    "Pick": """def Pick(table: Whole("n k"), ids: Flat("m", types="INT_32"), y: Whole("m k")):
    k, m = hl.Var("k"), hl.Var("m")
    y[k, m] = table[k, hl.clamp(ids[m], 0, table.extent(1) - 1)]
""",
    "Half": """def Half(x: Flat(types="FLOAT_16"), y: Flat(types="FLOAT_16")):
    i = hl.Var("i")
    y[i] = 0.5 * x[i]
""",
    "AddBytes": """def AddBytes(a: Flat(types="UINT_8"), b: Flat(types="UINT_8"), y: Flat(types="UINT_8")):
    i = hl.Var("i")
    y[i] = hl.u8_sat(hl.u16(a[i]) + hl.u16(b[i]))
""",
}


def pooled(x: Any, size: int, step: int) -> Any:
    found = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))
    return found[:, ::step, ::step].max(axis=(-2, -1))


def softmax(x: Any, axis: int) -> Any:
    shifted = np.exp(x - x.max(axis, keepdims=True))
    return shifted / shifted.sum(axis, keepdims=True)


def ends(x: Any, gain: float) -> Any:
    return gain * x.min(-1, keepdims=True), gain * x.max(-1, keepdims=True)


def decayed(x: Any, keep: float) -> Any:
    y, carried = np.zeros_like(x), np.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        carried = keep * carried + x[:, t]
        y[:, t] = carried + 0.5**t
    return y


def turned(x: Any) -> Any:
    return x.T


REFERENCES: dict[str, tuple[Callable[..., Any], dict[str, Any], int]] = {
    "Scale": (lambda x, factor: factor * x, {}, 12),
    "Softmax": (softmax, {"axis": 0}, 12),
    "Linear": (lambda a, b, bias: a @ b.T + (0 if bias is None else bias), {"tolerance": "2e-5 + 1e-5 relative"}, 24),
    "MaxPool": (pooled, {"size": 3, "h": 7}, 12),
    "Stored": (softmax, {"axis": 0}, 12),
    "Decay": (decayed, {}, 12),
    "Turned": (turned, {}, 12),
    "Split": (ends, {}, 12),
    "Pick": (lambda table, ids: table[np.clip(ids, 0, len(table) - 1)], {}, 12),
    "Half": (lambda x: x / 2, {}, 6),
    "AddBytes": (lambda a, b: np.minimum(a.astype(int) + b, 255), {}, 6),
}


def kernel(folder: Path, text: str) -> Any:
    """The kernel that a file defines."""
    name = text.partition("def ")[2].partition("(")[0]
    file = folder / f"{name}.py"
    file.write_text(HEAD + text)
    return getattr(load_module(file), name)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_agrees_with_numpy(name: str, tmp_path: Path) -> None:
    reference, given, count = REFERENCES[name]
    verdict = kernel(tmp_path, KERNELS[name]).test(reference, **given)
    assert verdict.ok and verdict.passed == count


@pytest.mark.parametrize("name", ["row", "inner", "vector", "lane", "outer", "thread", "some", "k", "n"])
def test_variables_have_the_names_of_loops(name: str, tmp_path: Path) -> None:
    x = np.arange(120.0).reshape(3, 40)
    made = kernel(tmp_path, KERNELS["Softmax"].replace('Var("k")', f'Var("{name}")'))
    scale = kernel(tmp_path, KERNELS["Scale"].replace('Var("i")', f'Var("{name}")'))
    assert all(np.allclose(made(x, axis=axis), softmax(x, axis)) for axis in (0, -1)) and np.all(scale(x) == 2 * x)


def test_calls(tmp_path: Path) -> None:
    made = {name: kernel(tmp_path, text) for name, text in KERNELS.items()}
    x = np.arange(6.0).reshape(2, 3)  # in double precision, which is rounded
    assert made["Scale"](x, factor=3.0).tolist() == (3 * x).tolist()
    assert np.allclose(made["Softmax"](x, axis=0), softmax(x, 0))
    low, high = made["Split"](x)
    assert low.tolist() == [[0], [3]] and high.tolist() == [[2], [5]]
    assert made["Linear"](x, x, bias=np.ones(3)[:2]).tolist() == (x @ x.T + 1).tolist()
    assert made["MaxPool"](np.arange(16.0).reshape(1, 4, 4, 1), size=2).ravel().tolist() == [5, 7, 13, 15]
    stored = made["Scale"](np.array([100, 150], np.uint8), quant={"x": (0.5, -100), "y": (1.0, 0)})
    assert stored.dtype == np.uint8 and stored.tolist() == [0, 50]
    tenth = kernel(tmp_path, KERNELS["Scale"].replace("Scale", "Tenth").replace("factor *", "0.1 * factor *"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Halide warns of numbers that are not exact in float32
        assert np.allclose(tenth(x), 0.2 * x)


@pytest.mark.parametrize(
    ("name", "reference", "message"),
    [
        ("Scale", lambda x, factor: factor * x + (np.arange(x.size).reshape(x.shape) == 4), "1 of 15 elements of `y`"),
        ("Scale", lambda x, factor: factor * x[..., :1], "`y` has the shape 3x5, and 3x1 in the reference, for `x`"),
        ("Linear", REFERENCES["Linear"][0], "elements of `y`"),
    ],
)  # fmt: skip
def test_a_wrong_kernel_is_red(name: str, reference: Callable[..., Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(VerificationFailed) as found:
        kernel(tmp_path, KERNELS[name]).test(reference)
    assert f"{name}.py:{FIRST}: " in found.value.message and message in found.value.message, found.value
    assert ("rounding of a long sum" in found.value.hint) is (name == "Linear"), found.value.hint
    if name == "Linear":
        tolerance = found.value.hint.split("'")[1]
        assert kernel(tmp_path, KERNELS[name]).test(reference, tolerance=tolerance).ok
    elif "elements" in message:
        assert found.value.details[0].startswith("y[0, 4] is ")


X = np.ones((2, 3), np.float32)
WRONG: dict[str, tuple[int, str]] = {  # lines of a kernel -> the line of its fault, and the sentence
    "for k in range(x.size): y[i] = x[k]": (2, "a length is not known until the op runs, so Python cannot count to it"),
    "y[i] = sum(x[k] for k in range(x.extent(0)))": (2, "cannot count to it"),
    "y[i] = math.sqrt(x[i])": (2, "a function of the module `math` takes numbers, and an element has no number yet"),
    "y[i] = np.exp(x[i])": (2, "a function of numpy takes arrays, and an element has no number yet"),
    "y[i] = x[i] + np.exp(x)": (2, "a function of numpy takes arrays"),
    "z = x + b; y[i] = x[i] + b[i]": (2, "a tensor has no arithmetic of its own, only its elements have"),
    "z = 2.0 * x; y[i] = x[i]": (2, "a tensor has no arithmetic of its own"),
    "y[i] = x[i] + sum(x)": (2, "a tensor has no arithmetic of its own"),
    "y[i] = x[i] if mode == 1 else -x[i]": (2, "a condition is not known until the op runs, so Python cannot decide"),
    "y[i] = max(x[i], 0.0)": (2, "a condition is not known"),
    "y[i] = select(x[i] > 0 and x[i] < 1, 1.0, 0.0)": (2, "a condition is not known"),
    "y[i] = abs(x[i])": (2, "abs() takes numbers"),
    "y[i] = int(x[i])": (2, "an element has no number yet, so Python cannot convert it"),
    "y[i] = round(x[i])": (2, "so Python cannot convert it"),
    "y[i] = [1.0, 2.0][hl.i32(x[i])]": (2, "an index into a list or an array is not known until the op runs"),
    "y[i] = np.ones(2)[hl.i32(x[i])]": (2, "an index into a list or an array"),
    "y[i] = x[i] / x.shape[0]": (2, "a tensor in a kernel has only lengths"),
    "y[i] = x[i] / len(x)": (2, "a tensor in a kernel has only lengths"),
    "y[i] = x[i].astype(float)": (2, "an element has no methods or attributes"),
    "y[i] = np.ones(3) * x[i]": (2, "Halide does not take a value of this kind here"),
    "y[i] = x[i / 2.0]": (2, "an index is a float"),
    "y[i] = x[j]": (2, "an index is not defined"),
    "j = hl.Var('j'); y[i] = x[j]": (2, "an element depends on a variable that is not an index of the output"),
    "y[i] = x[hl.i32(x[i])]": (2, "may be accessed in an unbounded way"),
    "m = scratch(); y[i] = m[i] + x[i]": (2, "memory is read, and nothing was written to it yet"),
    "m = scratch(); m[i] = x[i]; y[i] = m + 1.0": (2, "a tensor has no arithmetic of its own"),
    "r = hl.RDom([(0, 2), (0, 2)]); y[i] = scan(r, x[i], lambda before: before)[i]": (2, "a scan goes along one axis"),
    "r = hl.RDom([(0, 2)]); y[i] = scan(r, (x[i], x[i]), lambda before: before[:1])[i]": (2, "a step makes 1 numbers"),
    "y[i] = 2.0 * x": (0, "F() takes no element of `x`, which has neither a default nor a type"),
    "y[i] = hl.select(mode == 'relu', x[i], 0.0)": (0, "no element of `mode`, which has a default that is not"),
    "return x[i]": (0, "F() writes to none of its tensors"),
}  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
def test_what_to_write_instead_of_a_mistake(line: str, tmp_path: Path) -> None:
    at, sentence = WRONG[line]
    arguments = [name for name in ("x", "b", "y") if f"{name}[" in line] if "return" not in line else ["x"]
    if "2.0 * x" in line and at == 0:
        arguments = ["x", "y"]
    with pytest.raises(UsageError) as found:
        mode = "'relu'" if "'relu'" in line else 0
        made = kernel(tmp_path, f"def F({', '.join(arguments)}, mode={mode}):\n    i = hl.Var('i')\n    {line}\n")
        made(*[X] * (len(arguments) - (at > 0)))
    assert f"F.py:{FIRST + at}: " in found.value.message, found.value.message
    assert sentence in found.value.message and found.value.hint, found.value


TAIL = """
print(Scale(np.ones(3, np.float32)))
"""
FAULTS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("Scale", lambda made: made(X, X), "Scale() takes 1 arrays, not 2"),
    ("Scale", lambda made: made(X, facto=3.0), "Scale() has no `facto`"),
    ("Scale", lambda made: made(factor=3.0), "Scale() needs `x`"),
    ("Scale", lambda made: made(X.astype(np.uint8)), "`x` is an array of uint8, and Scale() takes FLOAT_32, UFIXED_PO"),
    ("Scale", lambda made: made(X.astype(np.uint8), quant={"x": (1.0, 0)}), "`y` is UFIXED_POINT_8, and has no scale"),
    ("Linear", lambda made: made(X, np.ones((4, 5))), "`k` is 3, and 5 in `b`"),
    ("Linear", lambda made: made(X[0], X), "`a` of Linear() has the shape 3, and is taken as m k"),
    ("MaxPool", lambda made: made(np.ones((1, 4, 4, 1))), "MaxPool() needs `size`"),
    ("MaxPool", lambda made: made.test(pooled, size=9), "no lengths of axes were found that fit the shapes"),
    ("Scale", lambda made: made(X, y=5), "`y` is an output, and 5 is not its shape"),
    ("Scale", lambda made: made([[1, 2]]), "`x` is an array of int64, and Scale() takes FLOAT_32, UFIXED_POINT_8"),
    ("Softmax", lambda made: made(X, axis=2), "there is no axis 2 in a tensor of 2 axes"),
]


@pytest.mark.parametrize(("name", "call", "message"), FAULTS)
def test_wrong_calls(name: str, call: Callable[[Any], Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UdogenError) as found:
        call(kernel(tmp_path, KERNELS[name]))
    assert message in found.value.message and found.value.hint


def test_a_call_while_udogen_loads_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as found:
        kernel(tmp_path, KERNELS["Scale"] + TAIL)
    line = FIRST + (KERNELS["Scale"] + TAIL).count("\n") - 1
    assert f"Scale.py:{line}: Scale() is called while udogen loads the file" in found.value.message


@pytest.mark.parametrize("name", ["MaxPool", "Stored", "Decay", "Turned"])
def test_a_package_is_right_in_the_runtimes(name: str, tmp_path: Path) -> None:
    """Memory of a size that is known when the graph is finalized is reserved there."""
    need_runtime("cpu")
    made = kernel(tmp_path, KERNELS[name].replace("size: int", "size=2"))
    folder = made.package(str(tmp_path / "package"), REFERENCES[name][0])
    done = udogen("test", folder, "--backend", "cpu", "--heap")
    assert done.returncode == 0 and "6 passed" in done.stdout, done.stdout + done.stderr


def test_packets(tmp_path: Path) -> None:
    need_packets()
    made = kernel(tmp_path, KERNELS["Scale"])
    counted = made.packets(np.ones((8, 1024), np.float32))
    assert list(counted) == ["UFIXED_POINT_8"] and 500 < counted["UFIXED_POINT_8"] < 700
    done = udogen("inspect", tmp_path / "Scale.py", "--shape", "x=8x1024", "--arch", "v79")
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if "packets" in line]
    assert line == f"{counted['UFIXED_POINT_8']:,} packets of the kernel in one execution (UFIXED_POINT_8)"
    assert "hexagon-v79 (htp)" in done.stdout and "QEMU Scale UFIXED_POINT_8" in done.stderr
    with pytest.raises(UsageError, match="QEMU has no HVX floating point"):
        kernel(tmp_path, KERNELS["Half"]).packets(np.ones(3, np.float16))


# The other element of memory that is read -> the largest in numpy.
OTHERS = {
    "keys.x, m": "products.max(1, keepdims=True)",
    "n, keys.x": "products.max(0)",
    "keys.x, n": "products.max(1)",
}


@pytest.mark.parametrize("other", OTHERS)
def test_memory_is_calculated_once(other: str, tmp_path: Path) -> None:
    """Memory of which other elements are read, too: of the same row, of the same column, of all."""
    need_packets()
    source = f"""
def Largest(a: Whole("m k"), b: Whole("n k"), y: Whole("m n")):
    n, m, kept = hl.Var("n"), hl.Var("m"), scratch()
    i, keys = hl.RDom([(0, a.extent(0))]), hl.RDom([(0, y.extent(0))])
    kept[n, m] = total(i, a[i.x, m] * b[i.x, n])
    y[n, m] = kept[n, m] + maximum(keys, kept[{other}])
"""
    made, (a, b) = kernel(tmp_path, source), np.random.default_rng(0).normal(size=(2, 32, 32)).astype(np.float32)
    products = a @ b.T
    assert np.allclose(made(a, b), products + eval(OTHERS[other], {"products": products}), atol=1e-4)
    [packets] = made.packets(a, b).values()
    assert packets < 32**3 * 20


def test_a_file_with_a_kernel_is_a_program(tmp_path: Path) -> None:
    (tmp_path / "Scale.py").write_text(HEAD + KERNELS["Scale"] + TAIL)
    done = subprocess.run([sys.executable, tmp_path / "Scale.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "[2. 2. 2.]\n" and done.stderr == ""
