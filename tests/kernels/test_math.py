"""Functions of `udogen.kernels.math`, which kernels are compiled with, compared with numpy in doubles."""

from __future__ import annotations

import numpy as np
import pytest

hl = pytest.importorskip("halide", reason="pip install '.[kernels]'")


@pytest.mark.parametrize(("name", "expected"), [("tanh", np.tanh), ("exp", np.exp)])
def test_relative_errors_are_a_few_units_of_the_last_place(name: str, expected: np.ufunc) -> None:
    from udogen.kernels import math

    numbers = np.concatenate([np.linspace(-12, 12, 100001), 10.0 ** np.linspace(-30, 0, 5000)]).astype(np.float32)
    i, found, given = hl.Var("i"), hl.Func("found"), hl.Buffer(numbers)
    found[i] = getattr(math, name)(given[i])
    made = np.array(found.realize([len(numbers)], hl.Target("host-strict_float")))
    np.testing.assert_allclose(made, expected(numbers.astype(np.float64)), rtol=5e-7)
