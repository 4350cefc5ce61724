"""Each example of a kernel in Python agrees with its reference on this machine, in all types."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
    "Rope": {"d": 8},
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


def assembly(name: str, folder: Path, *kinds: str) -> list[str]:
    """The assembly of an example's functions of floats for HTP."""
    file, configs = EXAMPLE / f"kernels/{name}.py", (EXAMPLE / "PythonKernels.xml",)
    compile_texts(PythonKernels("PythonKernels", EXAMPLE, "htp", "qnn", configs, (file,)), file, "hexagon-v68", folder)
    return [(folder / f"PythonKernels_{name}_f32{kind}.s").read_text() for kind in kinds]


def test_memory_has_vectors_of_rows(tmp_path: Path) -> None:
    """Along another axis than the last, a vector has an element of each of many rows: none is gathered."""
    usual, strided = assembly("Softmax", tmp_path, "", "_strided")
    assert strided.count("vinsert") == 0 and strided.count("\n") < usual.count("\n")


def test_packets_of_rows_of_floats(tmp_path: Path) -> None:
    """The loops of RmsNorm, over squares and over the output, take few packets for a vector of 32 floats."""
    [code] = assembly("RmsNorm", tmp_path, "")
    loops = re.findall(r"\n\.LBB\w+:((?:(?!\n\.LBB).)*):endloop0", code, re.DOTALL)
    stores = [loop.count("{\n") / loop.count(") = v") for loop in loops if ") = v" in loop]
    squares = [loop.count("{\n") / loop.count("vmpy(") for loop in loops if "vmpy(" in loop and ") = v" not in loop]
    assert max(stores) + max(squares) <= 7.2, (stores, squares)
