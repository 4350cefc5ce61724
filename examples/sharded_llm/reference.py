"""The three ops of the model in numpy, and the test cases for their kernels."""

from pathlib import Path

import numpy as np

from udogen import Case, Example
from udogen.runtime.quantization import ScaleOffset, dequantize, quantize

HERE = Path(__file__).parent
U16, U8 = (2e-4, -32768), (0.05, -128)  # grids of the activations, and of gains and caches


def rms_norm(x, gain, epsilon=1e-6):
    return x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + epsilon) * gain


def swiglu(gate, up):
    return gate / (1 + np.exp(-gate)) * up


def cache_write(past, rows, position):
    updated = past.copy()
    updated[..., position : position + rows.shape[-2], :] = rows
    return updated


def stored(real, quant):
    return quantize(real, ScaleOffset(*quant), np.uint8 if quant is U8 else np.uint16)


def case(op, title, arrays, function, *, grids, result, params=None, backend="htp"):
    """A test case; on HTP the arrays with a grid, and the output, are fixed point; on CPU all are floats."""
    names = list(arrays)
    if backend == "cpu":
        inputs = {
            name: array if array.dtype == np.int32 else array.astype(np.float32) for name, array in arrays.items()
        }
        expected = function(*(inputs[name].astype(np.float64) for name in names)).astype(np.float32)
        return Case(title, op, inputs, {result: expected}, params or {}, tolerance=2e-5)
    inputs = {name: stored(array, grids[name]) if name in grids else array for name, array in arrays.items()}
    reals = [dequantize(inputs[name], ScaleOffset(*grids[name])) if name in grids else inputs[name] for name in names]
    expected = stored(function(*reals), grids[result])
    return Case(title, op, inputs, {result: expected}, params or {}, quants=grids, tolerance=1, backend=backend)


def cases(backend):
    random = np.random.default_rng(2026)
    x, y = random.normal(size=(2, 1, 4, 64))
    past, rows = random.normal(size=(1, 2, 32, 32)), random.normal(size=(1, 2, 4, 32))
    at = np.array([5], np.int32)
    gain = random.uniform(0.5, 1.5, 64)
    activations = dict.fromkeys(("input", "output", "gate", "up", "rows"), U16)

    def grids(*names):
        return {name: activations.get(name, U8) for name in names}

    yield case(
        "RmsNorm", "rows of 64", {"input": x, "gain": gain}, rms_norm,
        grids=grids("input", "gain", "output"), result="output", params={"epsilon": 1e-6}, backend=backend,
    )  # fmt: skip
    yield case(
        "SwiGlu", "4 rows of 64", {"gate": x, "up": y}, swiglu,
        grids=grids("gate", "up", "output"), result="output", backend=backend,
    )  # fmt: skip
    yield case(
        "CacheWrite", "4 of 32 rows, from the 5th on", {"past": past, "rows": rows, "position": at},
        lambda past, rows, at: cache_write(past, rows, int(at[0])),
        grids=grids("past", "rows", "updated"), result="updated", backend=backend,
    )  # fmt: skip


def examples():
    return [Example(HERE / "LlmOps.xml", HERE / "kernels", (*cases("cpu"), *cases("htp")))]
