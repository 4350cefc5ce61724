"""Softmax in numpy, and the cases that the kernels beside it are held against."""

from pathlib import Path

import numpy as np

from udogen.verify.cases import Case, Example

HERE = Path(__file__).parent


def softmax(x, axis=-1):
    shifted = np.exp(x - x.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


def title(shape):
    return f"softmax {'x'.join(map(str, shape))}"


def fixed_point_case(names, shape, scale_in, offset_in, scale_out, backend="htp"):
    """8 bits on HTP and DSP; the output's offset is 0, as its values are between 0 and 1."""
    stored = np.random.default_rng(2026).integers(0, 256, shape, dtype=np.uint8)
    real = softmax(np.float32(scale_in) * (stored.astype(np.float32) + offset_in))
    expected = np.clip(np.rint(real / np.float32(scale_out)), 0, 255).astype(np.uint8)
    return Case(
        f"{title(shape)}, 8 bits",
        "Softmax",
        {names[0]: stored},
        {names[1]: expected},
        quants={names[0]: (scale_in, offset_in), names[1]: (scale_out, 0)},
        tolerance=1,
        backend=backend,
    )


def floats_and_halves(backend, random):
    for dtype, tolerance in [(np.float32, 1e-5), (np.float16, 2e-3)]:
        for shape, axis in [((1, 8, 8, 16), -1), ((1, 8, 8, 16), 1), ((3, 5), -2)]:
            x = random.normal(scale=4, size=shape).astype(dtype)
            expected = softmax(x.astype(np.float32), axis).astype(dtype)
            name, params = f"{title(shape)}, axis {axis}", {"axis": axis}
            yield Case(
                name, "Softmax", {"input": x}, {"output": expected}, params, tolerance=tolerance, backend=backend
            )


def last_axis():
    """The op of the JSON config: floats on CPU, 8 bits on HTP and on DSP V65/V66."""
    random = np.random.default_rng(2026)
    names = ("Placeholder", "Output")
    for shape in [(7,), (3, 5), (1, 8, 8, 16), (2, 3, 4, 5, 6)]:
        x = random.normal(scale=4, size=shape).astype(np.float32)
        yield Case(title(shape), "Softmax", {names[0]: x}, {names[1]: softmax(x)})
    for shape in [(16,), (1, 8, 8, 16)]:
        yield fixed_point_case(names, shape, 0.05, -128, 1 / 256)
        yield fixed_point_case(names, shape, 0.05, -128, 1 / 256, backend="dsp")


def any_axis():
    """The op of the XML config: floats on CPU, floats, halves and 8 bits on HTP."""
    random = np.random.default_rng(2026)
    for shape in [(7,), (3, 5), (1, 8, 8, 16), (2, 3, 4, 5, 6)]:
        x = random.normal(scale=4, size=shape).astype(np.float32)
        yield Case(f"{title(shape)}, default axis", "Softmax", {"input": x}, {"output": softmax(x)})
        for axis in dict.fromkeys([0, len(shape) - 1, -len(shape)]):
            params = {"axis": axis}
            yield Case(f"{title(shape)}, axis {axis}", "Softmax", {"input": x}, {"output": softmax(x, axis)}, params)
    yield from floats_and_halves("htp", random)
    yield fixed_point_case(("input", "output"), (1, 8, 8, 16), 0.05, -128, 1 / 256)


def examples():
    return [
        Example(HERE / "Softmax_Htp.json", HERE / "kernels" / "last_axis", tuple(last_axis())),
        Example(HERE / "SoftmaxAxis.xml", HERE / "kernels" / "any_axis", tuple(any_axis())),
    ]


def gpu_examples():
    """Not part of `make demo`: OpenCL must be there for it (`udogen run op … --backend gpu` says what is missing)."""
    random = np.random.default_rng(2026)
    last = [random.normal(scale=4, size=shape).astype(np.float32) for shape in [(7,), (1, 8, 8, 16)]]
    cases = [
        Case(title(x.shape), "Softmax", {"Placeholder": x}, {"Output": softmax(x)}, tolerance=1e-5, backend="gpu")
        for x in last
    ]
    return [
        Example(HERE / "Softmax_Htp.json", HERE / "kernels" / "last_axis", tuple(cases)),
        Example(HERE / "SoftmaxAxis.xml", HERE / "kernels" / "any_axis", tuple(floats_and_halves("gpu", random))),
    ]
