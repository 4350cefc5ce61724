"""The errors of one output as numbers: means, and counts by power of ten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from udogen.verify.report import text
from udogen.verify.tolerances import Tolerance, differences

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array
    from udogen.verify.results import TensorResult

_MOST_BINS = 11


class ErrorBin(NamedTuple):
    """The number of elements whose error is in one range, and how many of them are beyond the tolerance."""

    name: str
    elements: int
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
    return [each for each in bins if each.elements]


class Measures(NamedTuple):
    """Measures of the difference of two arrays, of elements that are finite in both; None if not defined."""

    mean: float  # of the absolute errors, in units of the arrays: steps for fixed point
    cosine: float | None
    snr: float | None  # signal to noise in decibels; infinite where both are equal


def measure(found: Array, expected: Array) -> Measures:
    """Compare two nonempty arrays of the same shape."""
    both = np.isfinite(found) & np.isfinite(expected)
    a, b = found[both].astype(np.float64), expected[both].astype(np.float64)
    if not b.any():
        return Measures(float(np.abs(a - b).mean()) if a.size else 0.0, None, None)
    with np.errstate(all="ignore"):  # differences and squares of large values overflow
        mean = np.abs(a - b).mean()
        a, b = (each / max(np.abs(a).max(), np.abs(b).max()) for each in (a, b))
        cosine = a @ b / np.sqrt((a @ a) * (b @ b))
        snr = 10 * np.log10(b @ b / ((a - b) @ (a - b)))
    return Measures(
        float(mean),
        float(np.clip(cosine, -1.0, 1.0)) if np.isfinite(cosine) else None,
        float(snr) if not np.isnan(snr) else None,
    )
