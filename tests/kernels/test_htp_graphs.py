"""What libQnnHtp makes of graphs with kernels in Python: tiles of large tensors, tensors of convolutions in blocks."""

from __future__ import annotations

import multiprocessing
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.making import ROOT, make_packages, need_runtime, op_session, open_package
from udogen import GraphBuilder
from udogen.build.make import build_package
from udogen.runtime.built import Built, find_built
from udogen.runtime.op.calls import OpResult
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.quantization import ScaleOffset

pytest.importorskip("halide", reason="pip install '.[kernels]'")

EXAMPLE = ROOT / "examples" / "python_kernels"
LARGE = (1, 256, 256, 64)  # 16 MiB of floats: more than TCM has
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    need_runtime("htp")
    [made] = make_packages(
        [EXAMPLE / "PythonKernels.xml"],
        tmp_path_factory.mktemp("graphs"),
        chosen=["htp"],
        kernels=EXAMPLE / "kernels",
        layout="qnn",
    )
    build_package(open_package(made.folder))
    return find_built(made.folder, backend="htp")


def leaky_relu(x: Array) -> Array:
    return np.where(x > 0, x, 0.25 * x)


def swiglu(gate: Array, up: Array) -> Array:
    return gate / (1 + np.exp(-gate)) * up


def softmax(x: Array, axis: int = -1) -> Array:
    shifted = np.exp(x - x.max(axis, keepdims=True))
    return shifted / shifted.sum(axis, keepdims=True)


def layer_norm(x: Array, gain: Array, bias: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain + bias


def calls(result: OpResult) -> int:
    assert result.proof is not None
    return result.proof.of_op.after - result.proof.of_op.ready


ALPHA = {"alpha": 0.25}


@pytest.mark.parametrize(
    ("op", "shapes", "reference", "params", "is_tiled"),
    [
        ("LeakyRelu", {"x": LARGE}, leaky_relu, ALPHA, True),
        ("LeakyRelu", {"x": (7,)}, leaky_relu, ALPHA, False),
        ("LeakyRelu", {"x": (3, 5)}, leaky_relu, ALPHA, False),
        ("LeakyRelu", {"x": (2, 3, 37)}, leaky_relu, ALPHA, False),
        ("LeakyRelu", {"x": (2, 3, 4, 5, 6)}, leaky_relu, ALPHA, False),
        ("LeakyRelu", {"x": (2_000_003, 2)}, leaky_relu, ALPHA, True),
        ("LeakyRelu", {"x": (3, 100, 100, 100)}, leaky_relu, ALPHA, True),
        ("SwiGlu", {"gate": (1, 1, 30_001, 64), "up": (1, 1, 30_001, 64)}, swiglu, {}, True),
        ("Softmax", {"x": LARGE}, softmax, {}, True),
        ("Softmax", {"x": LARGE}, softmax, {"axis": 1}, True),
        ("Softmax", {"x": LARGE}, softmax, {"axis": 2}, True),
        # The gain has as many elements as the axis that is cut.
        ("LayerNorm", {"x": (1, 64, 256, 256), "gain": (256,), "bias": (256,)}, layer_norm, {}, True),
    ],
)
def test_large_tensors_are_cut_into_tiles(
    built: Built,
    op: str,
    shapes: Mapping[str, tuple[int, ...]],
    reference: Callable[..., Array],
    params: Mapping[str, float],
    is_tiled: bool,
) -> None:
    random = np.random.default_rng(3)
    inputs = {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    given = {name: value for name, value in params.items() if name != "alpha"}
    call = make_call(built.op(op, "htp"), built, op, CallOptions(inputs, params=dict(params)))
    result = op_session(built, "htp").run(call)
    np.testing.assert_allclose(result.outputs["y"], reference(*inputs.values(), **given), rtol=1e-4, atol=1e-5)
    assert (calls(result) > 1) is is_tiled


def test_bytes_are_cut_into_tiles(built: Built) -> None:
    x = np.random.default_rng(3).integers(0, 256, LARGE, np.uint8)
    options = CallOptions({"x": x}, params=ALPHA, quants={"x": (0.05, -128), "y": (0.05, -128)})
    call = make_call(built.op("LeakyRelu", "htp"), built, "LeakyRelu", options)
    result = op_session(built, "htp").run(call)
    stored = np.rint(leaky_relu(x.astype(np.float32) - 128)) + 128
    assert np.abs(result.outputs["y"] - stored).max() <= 1
    assert calls(result) > 1


TWICE = """
import sys
import numpy as np
from udogen import GraphBuilder
for folder in sys.argv[1:] * 2:
    with GraphBuilder("htp", packages=[folder]) as builder:
        with builder.graph("g", outputs=["y"]) as graph:
            x = graph.input("x", "FLOAT_32", (1, 128, 128, 64))
            graph.op("Gelu", [x], "y", like=x)
        assert not builder.graphs["g"](x=np.zeros((1, 128, 128, 64), np.float32))["y"].any()
"""


def test_two_copies_of_a_package_in_one_process(built: Built, tmp_path: Path) -> None:
    copy = shutil.copytree(built.folder.path, tmp_path / "copy")
    done = subprocess.run([sys.executable, "-c", TWICE, built.folder.path, copy], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


GRID = {"UFIXED_POINT_8": ScaleOffset(0.05, -128), "UFIXED_POINT_16": ScaleOffset(0.0002, -32768), "FLOAT_16": None}
CONV = {"stride": np.ones(2, "u4"), "pad_amount": np.ones((2, 2), "u4"), "dilation": np.ones(2, "u4"), "group": 1}


def run_graph(
    folder: Path,
    dtype: str,
    nodes: Mapping[str, tuple[str, tuple[str, ...]]],
    weights: Array,
    arrays: Mapping[str, Array],
    binary: Path,
) -> Array:
    """The last tensor of a graph; runs in a process of its own, because another HTP runtime may be loaded here."""
    grid, shape = GRID[dtype], next(iter(arrays.values())).shape
    with GraphBuilder("htp", packages=[folder]) as builder:
        with builder.graph("g", outputs=[list(nodes)[-1]]) as graph:
            known = {name: graph.input(name, dtype, shape, grid) for name in arrays}
            constant = (
                graph.weight("w", weights.astype(np.float16))
                if grid is None
                else graph.weight("w", weights, "UFIXED_POINT_8", ScaleOffset(0.002, -128))
            )
            like = next(iter(known.values()))
            for name, (kind, inputs) in nodes.items():
                is_conv = kind == "Conv2d"
                tensors = [*(known[tensor] for tensor in inputs), *([constant] if is_conv else [])]
                known[name] = graph.op(kind, tensors, name, like=like, params=CONV if is_conv else None)
        result = np.asarray(builder.graphs["g"](dict(arrays))[list(nodes)[-1]])
        builder.save(binary)
    return result


@pytest.mark.parametrize(
    ("dtype", "op", "others", "size"),
    [
        ("UFIXED_POINT_8", "Gelu", (), 19),
        ("UFIXED_POINT_8", "SwiGlu", ("x",), 32),
        ("UFIXED_POINT_8", "Softmax", (), 8),
        ("UFIXED_POINT_16", "SwiGlu", ("x",), 19),
        ("FLOAT_16", "Gelu", (), 19),
    ],
)
def test_tensors_between_convolutions_stay_in_blocks(
    built: Built, dtype: str, op: str, others: tuple[str, ...], size: int, tmp_path: Path
) -> None:
    """An op between convolutions takes and makes their blocks, with the same numbers as in graphs of their own."""
    random = np.random.default_rng(1)
    shape, grid = (1, size, size, 40), GRID[dtype]
    binary = tmp_path / "graph.bin"
    weights = random.standard_normal((3, 3, 40, 40), np.float32) * np.float32(0.05)

    bits = 8 if dtype == "UFIXED_POINT_8" else 16
    x = random.integers(0, 1 << bits, shape, f"u{bits // 8}") if grid else random.standard_normal(shape).astype("f2")
    nodes = {"a": ("Conv2d", ("x",)), "m": (op, ("a", *others)), "z": ("Conv2d", ("m",))}
    assert built.folder is not None
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
        run = partial(run_graph, built.folder.path, dtype)
        found = child.submit(run, nodes, weights, {"x": x}, binary).result()
        kernels = re.findall(rb"ForceFormat_\w+", binary.read_bytes())
        assert (b"ForceFormat_Flat_c2f" in kernels) is (op == "Softmax"), kernels
        alone = {"x": x}
        for name, (kind, inputs) in nodes.items():
            given = {tensor: alone[tensor] for tensor in inputs}
            alone[name] = child.submit(run, {name: (kind, inputs)}, weights, given, binary).result()
    np.testing.assert_array_equal(found, alone["z"])
