"""Each example of a kernel in Python agrees with its reference on this machine, in all types."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels.random_kernels import config, definition
from tests.making import ROOT
from udogen.generate.op_tests import snake_case
from udogen.kernels.objects import PythonKernels, compile_texts
from udogen.python_files import load_module

pytest.importorskip("halide", reason="pip install '.[kernels]'")

EXAMPLE = ROOT / "examples" / "python_kernels"
KERNELS = sorted(each.stem for each in (EXAMPLE / "kernels").glob("*.py"))
SUMS = "1e-4 + 1e-5 relative"  # of hundreds of numbers, in another order
GIVEN: dict[str, dict[str, Any]] = {
    "DepthwiseConv": {"tolerance": SUMS},
    "Fft": {"m": 16, "tolerance": SUMS},
    "GridSample": {"tolerance": SUMS},
    "GroupNorm": {"c": 8, "groups": 2, "tolerance": SUMS},
    "GroupedConv": {"c": 6, "o": 8, "tolerance": SUMS},
    "MaskedAttention": {"tolerance": SUMS},
    "MatMulQ4": {"k": 64, "n": 9, "tolerance": "1e-3"},
    "MatMulQ4Packed": {"k": 64, "n": 40, "tolerance": "1e-2"},
    "Rope": {"d": 100},
    "TopK": {"m": 37},
}


def blocks_of_q4(rows: int, columns: int) -> np.ndarray:
    """Random blocks, whose scales are finite half floats."""
    random = np.random.default_rng(0)
    blocks = random.integers(0, 256, (rows, columns // 32, 18)).astype(np.uint8)
    blocks[..., :2] = random.normal(size=(rows, columns // 32, 1)).astype(np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


@pytest.mark.parametrize("name", KERNELS)
def test_an_example_agrees_with_numpy(name: str) -> None:
    kernel = getattr(load_module(EXAMPLE / "kernels" / f"{name}.py"), name)
    given = {**GIVEN.get(name, {}), **({"blocks": blocks_of_q4(9, 64)} if name == "MatMulQ4" else {})}
    assert kernel.test(getattr(load_module(EXAMPLE / "reference.py"), snake_case(name)), **given).passed >= 5


def assembly(name: str, folder: Path, *kinds: str, source: Path = EXAMPLE / "kernels") -> list[str]:
    """The assembly of functions of floats for HTP; they are those of an example if no other source is given."""
    file, configs = source / f"{name}.py", (source.parent / "PythonKernels.xml",)
    kernels = PythonKernels("PythonKernels", source.parent, "htp", "qnn", configs, (file,))
    compile_texts(kernels, file, "hexagon-v68", folder)
    return [(folder / f"PythonKernels_{name}_f32{kind}.s").read_text() for kind in kinds]


def loops_of(code: str) -> list[str]:
    """The innermost loops, as text."""
    return re.findall(r"\n\.LBB\w+:((?:(?!\n\.LBB).)*):endloop0", code, re.DOTALL)


def test_memory_has_vectors_of_rows(tmp_path: Path) -> None:
    """Along another axis than the last, a vector has an element of each of many rows: none is gathered."""
    usual, strided = assembly("Softmax", tmp_path, "", "_strided")
    assert strided.count("vinsert") == 0 and strided.count("\n") < usual.count("\n")


def test_packets_of_rows_of_floats(tmp_path: Path) -> None:
    """The loops of RmsNorm, over squares and over the output, take few packets for a vector of 32 floats."""
    [code] = assembly("RmsNorm", tmp_path, "")
    loops = loops_of(code)
    stores = [loop.count("{\n") / loop.count(") = v") for loop in loops if ") = v" in loop]
    squares = [loop.count("{\n") / loop.count("vmpy(") for loop in loops if "vmpy(" in loop and ") = v" not in loop]
    assert max(stores) + max(squares) <= 7.2, (stores, squares)


# Op -> the value of an element, and the most packets for a vector of 32 floats in an aligned function.
FLOATS = {
    "Add": ("a[i] + b[i]", 2.7),
    "Mul": ("a[i] * b[i]", 2.4),
    "Sigmoid": ("sigmoid(a[i])", 37),
    "Silu": ("a[i] * sigmoid(a[i])", 39.5),
    "SwiGlu": ("a[i] * sigmoid(a[i]) * b[i]", 40),
    "Exp": ("exp(a[i])", 27),
}
HEAD = """import halide as hl

from udogen.kernels import Whole
from udogen.kernels.math import exp, sigmoid, total

i = hl.Var("i")

"""


MATMUL = """def MatMul(a: Whole(2), b: Whole(2), y: Whole(2)):
    m, r = hl.Var("m"), hl.RDom([(0, a.extent(0))])
    y[i, m] = total(r, a[r.x, m] * b[i, r.x])
"""


def written(name: str, inputs: list[str], text: str, folder: Path) -> Path:
    """The folder of a kernel of floats; its config is beside it."""
    (folder / "kernels").mkdir()
    op = definition(name, dict.fromkeys(inputs, "FLOAT_32"), {"y": "FLOAT_32"})
    (folder / "PythonKernels.xml").write_text(config("PythonKernels", [op]))
    (folder / "kernels" / f"{name}.py").write_text(HEAD + text)
    return folder / "kernels"


def test_packets_of_bytes_in_blocks(tmp_path: Path) -> None:
    """Blocks of 32 products for 32 columns: of one row, and of four rows at once."""
    file, config = EXAMPLE / "kernels" / "MatMulQ4Packed.py", EXAMPLE / "GalleryKernels.xml"
    kernels = PythonKernels("GalleryKernels", EXAMPLE, "htp", "qnn", (config,), (file,))
    compile_texts(kernels, file, "hexagon-v68", tmp_path)
    loops = loops_of((tmp_path / "GalleryKernels_MatMulQ4Packed_f32_u8_f32_f32.s").read_text())
    packets = {rows: min(loop.count("{\n") for loop in loops if loop.count("vrmpy(") == 8 * rows) for rows in (1, 4)}
    print(f"\nMatMulQ4Packed: {packets[1]} packets for 1,024 products, {packets[4]} for 4,096")
    assert packets[1] <= 40 and packets[4] <= 96


def test_packets_of_products_of_floats(tmp_path: Path) -> None:
    """Sums of products have register tiles of twelve vectors, and qfloat is converted after four products."""
    [code] = assembly("MatMul", tmp_path, "", source=written("MatMul", ["a", "b"], MATMUL, tmp_path))
    packets = min(loop.count("{\n") / loop.count("vmpy(") for loop in loops_of(code) if loop.count("vmpy(") == 48)
    print(f"\nMatMul: {packets:.2f} packets for 32 products")
    assert packets <= 1.8


@pytest.mark.parametrize("name", ["h", "e", "j", "half", "k", "block", "over", "lane", "each", "outer", "inner_row"])
def test_columns_along_lines_are_transposed(name: str, tmp_path: Path) -> None:
    """Vectors are interleaved, and no nest of loops is copied for its conditions, with any name of a variable."""
    text = f"""def MatMul(a: Whole(3), b: Whole(3), y: Whole(3)):
    m, h, r = hl.Var("m"), hl.Var("{name}"), hl.RDom([(0, a.extent(0))])
    y[i, m, h] = total(r, a[r.x, m, h] * b[r.x, i, h])
"""
    [code] = assembly("MatMul", tmp_path, "", source=written("MatMul", ["a", "b"], text, tmp_path))
    loops = loops_of(code)
    assert sum(loop.count("vmpy(") == 48 for loop in loops) == 1
    assert any(loop.count("vshuff(v") == 12 for loop in loops)
    # Only lines that are shorter than vectors are gathered, and not where they are multiplied.
    assert not any("vmpy(" in block and "vinsert" in block for block in re.split(r"\n(?:\.LBB|// %bb)", code))


@pytest.mark.parametrize("name", [*FLOATS, "Rope"])
def test_packets_of_floats(name: str, tmp_path: Path) -> None:
    """Sums and products stay in qfloat, and a loop calculates several vectors at once: three, or two of pairs."""
    if name == "Rope":
        ([code], most, vectors) = assembly(name, tmp_path, ""), 3.3, 4
    else:
        (value, most), vectors = FLOATS[name], 3
        inputs = [tensor for tensor in "ab" if f"{tensor}[i]" in value]
        text = f"def {name}({', '.join(inputs)}, y):\n    y[i] = {value}\n"
        [code] = assembly(name, tmp_path, "_aligned", source=written(name, inputs, text, tmp_path))
    [loop] = [loop for loop in loops_of(code) if loop.count(") = v") >= vectors]
    packets = loop.count("{\n") / vectors
    print(f"\n{name}: {packets:.2f} packets for 32 floats")
    assert packets <= most
