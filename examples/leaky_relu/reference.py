"""LeakyRelu in numpy, and the cases that the kernel beside it is held against."""

from pathlib import Path

import numpy as np

from udogen.verify.cases import Case, Example

HERE = Path(__file__).parent


def leaky_relu(x, alpha=0.01):
    return np.where(x > 0, x, np.float32(alpha) * x).astype(np.float32)


def leaky_relu_quantized(stored, alpha, scale_in, offset_in, scale_out, offset_out):
    real = leaky_relu(np.float32(scale_in) * (stored.astype(np.int32) + offset_in).astype(np.float32), alpha)
    limits = np.iinfo(stored.dtype)
    return np.clip(np.rint(real / np.float32(scale_out)) - offset_out, limits.min, limits.max).astype(stored.dtype)


def float_cases(backend, dtype, tolerance):
    random = np.random.default_rng(2026)
    for shape in [(1,), (16, 16), (1, 8, 8, 16)]:
        x = random.normal(size=shape).astype(dtype)
        for params in ({}, {"alpha": 0.25}):
            yield Case(
                f"leaky_relu {'x'.join(map(str, shape))}, alpha {params.get('alpha', 'default')}",
                "LeakyRelu",
                {"input": x},
                {"output": leaky_relu(x, **params).astype(dtype)},
                params,
                tolerance=tolerance,
                backend=backend,
            )


def fixed_point_case(backend, dtype, scale_in, offset_in, scale_out, offset_out):
    limits = np.iinfo(dtype)
    stored = np.linspace(limits.min, limits.max, 256).astype(dtype).reshape(16, 16)
    return Case(
        f"leaky_relu 16x16, {limits.bits} bits",
        "LeakyRelu",
        {"input": stored},
        {"output": leaky_relu_quantized(stored, 0.2, scale_in, offset_in, scale_out, offset_out)},
        {"alpha": 0.2},
        {"input": (scale_in, offset_in), "output": (scale_out, offset_out)},
        tolerance=1,
        backend=backend,
    )


def examples():
    cases = [
        *float_cases("cpu", np.float32, 1e-6),
        fixed_point_case("cpu", np.uint8, 0.05, -128, 0.04, -32),
        *float_cases("htp", np.float32, 1e-5),
        *float_cases("htp", np.float16, 2e-3),
        fixed_point_case("htp", np.uint8, 0.05, -128, 0.04, -32),
        fixed_point_case("htp", np.uint16, 0.001, -30000, 0.0009, -9000),
    ]
    return [Example(HERE / "LeakyRelu.xml", HERE / "kernels", tuple(cases))]


def gpu_examples():
    """Not part of `make demo`: OpenCL must be there for it (`udogen run op … --backend gpu` says what is missing)."""
    cases = [
        *float_cases("gpu", np.float32, 1e-5),
        *float_cases("gpu", np.float16, 2e-3),
        fixed_point_case("gpu", np.uint8, 0.05, -128, 0.04, -32),
    ]
    return [Example(HERE / "LeakyRelu.xml", HERE / "kernels", tuple(cases))]
