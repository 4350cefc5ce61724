"""AddSatU8 in numpy, and the cases that the kernels beside it are held against, bit by bit."""

from pathlib import Path

import numpy as np

from udogen.verify.cases import Case, Example

HERE = Path(__file__).parent


def add_sat_u8(a, b):
    return np.minimum(a.astype(np.uint16) + b, 255).astype(np.uint8)


def cases():
    random = np.random.default_rng(2026)
    for shape in [(1,), (129,), (1, 8, 8, 16), (1, 17, 31, 5)]:
        a, b = (random.integers(0, 256, shape, dtype=np.uint8) for _ in "ab")
        for backend in ("cpu", "htp", "dsp"):
            name = f"add_sat_u8 {'x'.join(map(str, shape))}"
            yield Case(name, "AddSatU8", {"a": a, "b": b}, {"sum": add_sat_u8(a, b)}, tolerance=0, backend=backend)


def examples():
    return [Example(HERE / "AddSatU8.xml", HERE / "kernels", tuple(cases()))]
