"""Functions of `udogen.kernels.math`, which kernels are compiled with, compared with numpy in doubles."""

from __future__ import annotations

import numpy as np
import pytest

from udogen.kernels.request import MACHINES

hl = pytest.importorskip("halide", reason="pip install '.[kernels]'")


@pytest.mark.parametrize("machine", ["x86_64-linux-clang", "hexagon-v68"])
@pytest.mark.parametrize(("name", "expected"), [("tanh", np.tanh), ("exp", np.exp)])
def test_relative_errors_are_a_few_units_of_the_last_place(
    name: str, expected: np.ufunc, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is calculated for a machine, on this one."""
    from udogen.kernels import math
    from udogen.kernels.algorithm import RowLayout

    monkeypatch.setattr(math, "places", [RowLayout(MACHINES[machine], 1, last=True)])
    parts = np.linspace(-12, 12, 100001), np.linspace(-87.2, 88.72, 5000), 10.0 ** np.linspace(-30, 0, 5000)
    numbers = np.concatenate(parts).astype(np.float32)
    i, found, given = hl.Var("i"), hl.Func("found"), hl.Buffer(numbers)
    found[i] = getattr(math, name)(given[i])
    made = np.array(found.realize([len(numbers)], hl.Target("host-strict_float")))
    np.testing.assert_allclose(made, expected(numbers.astype(np.float64)), rtol=5e-7)
