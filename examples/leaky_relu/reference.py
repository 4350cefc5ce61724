"""LeakyRelu in numpy, and the cases that the kernel beside it is held against."""

from pathlib import Path

import numpy as np

from udogen.verify.cases import Case, Example

HERE = Path(__file__).parent


def leaky_relu(x, alpha=0.01):
    return np.where(x > 0, x, np.float32(alpha) * x).astype(np.float32)


def leaky_relu_quantized(stored, alpha, scale_in, offset_in, scale_out, offset_out):
    real = leaky_relu(np.float32(scale_in) * (stored.astype(np.int32) + offset_in).astype(np.float32), alpha)
    return np.clip(np.rint(real / np.float32(scale_out)) - offset_out, 0, 255).astype(np.uint8)


def examples():
    random = np.random.default_rng(2026)
    cases = []
    for shape in [(1,), (16, 16), (1, 8, 8, 16)]:
        x = random.normal(size=shape).astype(np.float32)
        title = f"leaky_relu {'x'.join(map(str, shape))}"
        cases.append(Case(f"{title}, default alpha", "LeakyRelu", {"input": x}, {"output": leaky_relu(x)}))
        cases.append(
            Case(f"{title}, alpha 0.25", "LeakyRelu", {"input": x}, {"output": leaky_relu(x, 0.25)}, {"alpha": 0.25})
        )
    stored = np.arange(256, dtype=np.uint8).reshape(16, 16)
    cases.append(
        Case(
            "leaky_relu, 8 bits",
            "LeakyRelu",
            {"input": stored},
            {"output": leaky_relu_quantized(stored, 0.2, 0.05, -128, 0.04, -32)},
            params={"alpha": 0.2},
            quants={"input": (0.05, -128), "output": (0.04, -32)},
            tolerance=1,
        )
    )
    return [Example(HERE / "LeakyRelu.xml", HERE / "kernels", tuple(cases))]
