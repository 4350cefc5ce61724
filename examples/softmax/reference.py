"""Softmax in numpy, and the cases that the kernels beside it are held against."""

from pathlib import Path

import numpy as np

from udogen.verify.cases import Case, Example

HERE = Path(__file__).parent


def softmax(x, axis=-1):
    shifted = np.exp(x - x.max(axis=axis, keepdims=True))
    return (shifted / shifted.sum(axis=axis, keepdims=True)).astype(np.float32)


def examples():
    random = np.random.default_rng(2026)
    last, named = [], []
    for shape in [(7,), (3, 5), (1, 8, 8, 16), (2, 3, 4, 5, 6)]:
        x = random.normal(scale=4, size=shape).astype(np.float32)
        title = f"softmax {'x'.join(map(str, shape))}"
        last.append(Case(title, "Softmax", {"Placeholder": x}, {"Output": softmax(x)}))
        named.append(Case(f"{title}, default axis", "Softmax", {"input": x}, {"output": softmax(x)}))
        for axis in {0, len(shape) - 1, -len(shape)}:
            named.append(
                Case(f"{title}, axis {axis}", "Softmax", {"input": x}, {"output": softmax(x, axis)}, {"axis": axis})
            )
    return [
        Example(HERE / "Softmax_Htp.json", HERE / "kernels" / "last_axis", tuple(last)),
        Example(HERE / "SoftmaxAxis.xml", HERE / "kernels" / "any_axis", tuple(named)),
    ]
