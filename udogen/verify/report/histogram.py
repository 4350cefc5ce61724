"""The errors of one output, counted by power of ten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from udogen.verify.report import text
from udogen.verify.tolerances import Tolerance, differences

if TYPE_CHECKING:
    from udogen.verify.results import TensorResult

_MOST_BINS = 11


class ErrorBin(NamedTuple):
    """The number of elements whose error is in one range, and how many of them are beyond the tolerance."""

    name: str
    count: int
    wrong: int


def error_bins(tensor: TensorResult, tolerance: Tolerance) -> list[ErrorBin]:
    """The nonempty bins, from exact to not finite; smaller errors than those of the lowest bin are counted in it."""
    error = differences(tensor.found, tensor.expected)
    wrong = error > tolerance.allowed(tensor.expected)
    counted = np.isfinite(error) & (error > 0)
    powers = np.zeros(error.shape, np.int64)
    powers[counted] = np.floor(np.log10(error[counted]))
    lowest = int(powers[counted].max()) - _MOST_BINS + 1 if counted.any() else 0
    powers = np.maximum(powers, lowest)
    members: dict[str, Any] = {"exact": error == 0}
    for power in np.unique(powers[counted]).tolist():
        members[f"{'≥ ' if power > lowest else ''}{text.number(10.0**power)}"] = counted & (powers == power)
    members["∞, NaN"] = np.isinf(error)
    bins = [ErrorBin(name, int(mask.sum()), int((mask & wrong).sum())) for name, mask in members.items()]
    return [each for each in bins if each.count]
