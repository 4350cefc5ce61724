"""How far a correct result may be from the reference, by data type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.opdef import datatypes
from udogen.opdef.datatypes import DataType

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array


@dataclass(frozen=True)
class Tolerance:
    """The sum of three terms; all zero is exact.  For values stored as integers, `absolute` counts steps."""

    absolute: float = 0.0
    relative: float = 0.0  # of the expected value
    ulp: float = 0.0  # units in the last place of the expected value, in the output's own type

    def allowed(self, expected: Array) -> Any:
        """The largest allowed difference of each element (float64)."""
        allowed = np.full(expected.shape, float(self.absolute))
        if self.relative or self.ulp:
            size = np.abs(np.where(np.isfinite(expected), expected, 0).astype(np.float64))
            allowed += self.relative * size
            if self.ulp and expected.dtype.kind == "f":
                allowed += self.ulp * np.spacing(size.astype(expected.dtype)).astype(np.float64)
        return allowed

    def words(self, unit: str = "") -> str:
        """The tolerance as text."""
        parts = []
        if self.absolute:
            steps = unit + ("" if self.absolute == 1 else "s") if unit else ""
            parts.append(f"{self.absolute:g} {steps}".strip())
        if self.relative:
            parts.append(f"{self.relative:g} relative")
        if self.ulp:
            parts.append(f"{self.ulp:g} ulp")
        return " + ".join(parts) or "exact"


EXACT = Tolerance()

# What a careful kernel reaches easily: a sum in another order, an exp of another libm, one rounding at the end.
# Looser defaults would hide mistakes; a test file can allow more.
DEFAULTS: Mapping[str, Tolerance] = {
    "FLOAT_64": Tolerance(1e-12, 1e-12),
    "FLOAT_32": Tolerance(1e-6, 1e-5),  # 84 ulp: a sum of a thousand terms
    "FLOAT_16": Tolerance(1e-4, 2e-3),  # 2 ulp: the error of a kernel that computes in float16 throughout
    "fixed": Tolerance(1.0),  # the same number, rounded the other way
    "integer": EXACT,
}


def family(dtype: DataType) -> str:
    """float, fixed or integer: groups of types in a test file."""
    if dtype.quantized:
        return "fixed"
    return "float" if dtype.kind == "float" else "integer"


def default(dtype: DataType) -> Tolerance:
    """The default tolerance of a data type."""
    return DEFAULTS.get(dtype.name) or DEFAULTS[family(dtype)]


def of(dtype: DataType, declared: Mapping[str, Tolerance]) -> Tolerance:
    """The tolerance that a test file declares for this type, its family, or all types; otherwise the default."""
    for key in (dtype.name, family(dtype), ""):
        if key in declared:
            return declared[key]
    return default(dtype)


_TERM = re.compile(r"(?P<number>[-+.\deE]+?)\s*(?P<unit>%|relative|ulps?|steps?|absolute)?\Z")
_HELP = 'as in 1e-6, "1e-5 relative", "4 ulp", "1e-6 + 2 ulp", "1 step", "exact"'


def parse(raw: object) -> Mapping[str, Tolerance] | str:
    """Parse `tolerance = …` into tolerances by data type or family ("" for all); return a message if it is invalid.

    Steps apply only to values stored as integers, ulp and relative only to floats.
    """
    if isinstance(raw, dict):
        by_name: dict[str, Tolerance] = {}
        for key, value in raw.items():
            row = datatypes.parse(key)
            name = row.name if row else key
            if row is None and key not in ("float", "fixed", "integer"):
                return f"`{key}` is not a data type, and none of float, fixed, integer"
            one = _single(value)
            if isinstance(one, str):
                return one
            by_name[name] = one[0]
        return by_name
    one = _single(raw)
    if isinstance(one, str):
        return one
    tolerance, families = one
    return dict.fromkeys(families, tolerance) if families else {"": tolerance}


def _single(raw: object) -> tuple[Tolerance, tuple[str, ...]] | str:
    """A tolerance, and the families that it applies to (empty: all)."""
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return (Tolerance(float(raw)), ()) if 0 <= raw < float("inf") else f"{raw} is not a tolerance: {_HELP}"
    if not isinstance(raw, str):
        return f"this is not a tolerance: {_HELP}"
    if raw.strip() == "exact":
        return EXACT, ()
    sums = {"absolute": 0.0, "relative": 0.0, "ulp": 0.0}
    families: tuple[str, ...] = ()
    for text in raw.split(" + "):
        term = _term(text)
        if term is None:
            return f"`{raw}` is not a tolerance: {_HELP}"
        number, unit = term
        name, divisor, of = _UNITS[unit]
        sums[name] += number / divisor
        families = ("fixed", "integer") if unit == "step" else families or of
    return Tolerance(**sums), families


# unit -> (the field of `Tolerance`, its divisor, the families that have it).
_UNITS: Mapping[str, tuple[str, int, tuple[str, ...]]] = {
    "absolute": ("absolute", 1, ()),
    "step": ("absolute", 1, ("fixed", "integer")),
    "ulp": ("ulp", 1, ("float",)),
    "relative": ("relative", 1, ("float",)),
    "%": ("relative", 100, ("float",)),
}


def _term(text: str) -> tuple[float, str] | None:
    """A nonnegative number and its unit; None if the text is invalid."""
    match = _TERM.match(text.strip())
    try:
        number = float(match["number"]) if match else -1.0
    except ValueError:
        return None
    if match is None or not 0 <= number < float("inf"):
        return None
    unit = match["unit"] or "absolute"
    return number, unit if unit in _UNITS else unit.removesuffix("s")


@dataclass(frozen=True)
class Deviation:
    """How far a result is from the expected one."""

    max_error: float
    worst: float
    wrong: int
    first: tuple[int, ...] | None


def judge(found: Array, expected: Array, tolerance: Tolerance) -> Deviation:
    """Compare element by element; a NaN in only one of the two is an infinite error."""
    if found.shape != expected.shape:
        return Deviation(float("inf"), float("inf"), max(found.size, expected.size, 1), None)
    if found.size == 0:
        return Deviation(0.0, 0.0, 0, None)
    difference = differences(found, expected)
    allowed = tolerance.allowed(expected)
    bad = difference > allowed
    with np.errstate(over="ignore"):  # a ratio that overflows becomes infinite
        share = np.divide(difference, allowed, out=np.where(difference > 0, np.inf, 0.0), where=allowed > 0)
    wrong = int(np.count_nonzero(bad))
    first = tuple(int(index) for index in np.unravel_index(int(np.argmax(bad)), bad.shape)) if wrong else None
    return Deviation(float(difference.max()), float(share.max()), wrong, first)


def differences(found: Array, expected: Array) -> Any:
    """The absolute differences in float64, also of 64-bit integers; infinite if only one is NaN."""
    with np.errstate(invalid="ignore", over="ignore"):  # infinity minus infinity is covered by `same`
        # float64 cannot represent every 64-bit integer.
        wide = np.longdouble if found.dtype.kind in "iu" and found.dtype.itemsize == 8 else np.float64
        a, b = found.astype(wide), expected.astype(wide)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        difference = np.where(same, 0.0, np.abs(a - b))
    return np.where(np.isnan(difference), np.inf, difference).astype(np.float64)
