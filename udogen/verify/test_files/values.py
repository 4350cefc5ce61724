"""The ways to fill inputs, by their names in test files; conversion between real and stored numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from udogen.errors import UsageError, open_plain, reading
from udogen.opdef.datatypes import DataType

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_SMALLEST_SPAN, _LARGEST_SCALE = 1e-30, 1e30

Quant = tuple[float, int]  # scale, offset: real = (stored + offset) * scale


class Fill(NamedTuple):
    """A way to fill a tensor, such as `uniform(-3, 3)`."""

    kind: str
    arguments: tuple[float, ...] = ()

    def __str__(self) -> str:
        return self.kind + (f"({', '.join(f'{argument:g}' for argument in self.arguments)})" if self.arguments else "")


class _Request(NamedTuple):
    """The tensor to fill."""

    random: Any  # numpy's generator
    shape: tuple[int, ...]
    dtype: DataType
    limits: tuple[float, float] | None  # the real numbers that its type can hold; None for floats


class FillKind(NamedTuple):
    """One way to fill a tensor: its arguments with defaults, and the function."""

    arguments: tuple[tuple[str, float | None], ...]
    fill: Callable[..., Any]
    text: str


def _integers(request: _Request, low: float | None, high: float | None) -> Any:
    smallest, largest = _whole_range(request.dtype)
    bottom = smallest if low is None else int(low)
    top = largest if high is None else int(high)
    return request.random.integers(bottom, max(top, bottom), request.shape, endpoint=True)


def _whole_range(dtype: DataType) -> tuple[int, int]:
    """The whole range of a small type; for a large one, a range whose sums and products do not wrap around."""
    limits = dtype.range() if dtype.integral else None
    if limits is None:
        return (-8, 8)
    return limits if dtype.bits <= 16 else (max(limits[0], -1000), min(limits[1], 1000))


def _ramp(request: _Request, low: float | None, high: float | None) -> Any:
    bottom, top = request.limits or (-1.0, 1.0)
    bottom, top = bottom if low is None else low, top if high is None else high
    return np.linspace(bottom, top, int(np.prod(request.shape, dtype=np.int64))).reshape(request.shape)


def _mixed(request: _Request, *, finite: bool) -> Any:
    """Fill every other element with one of the type's special values, the others with ordinary ones."""
    special = np.array(_specials(request, finite=finite), np.float64)
    ordinary = request.random.normal(size=request.shape)
    flat = ordinary.reshape(-1)
    count = (flat.size + 1) // 2
    order = request.random.permutation(np.resize(np.arange(special.size), count))
    flat[::2] = special[order]
    return flat.reshape(request.shape)


def _specials(request: _Request, *, finite: bool) -> list[float]:
    if request.dtype.kind == "float" and request.dtype.numpy:
        info = np.finfo(request.dtype.numpy)
        tiny, least, most = float(info.tiny), float(info.smallest_subnormal), float(info.max)
        numbers = [0.0, -0.0, tiny, -tiny, least, -least, 1.0, -1.0, 1.0 + float(info.eps), most, -most]
        return numbers if finite else [*numbers, float("inf"), float("-inf"), float("nan")]
    low, high = request.limits or (0.0, 1.0)
    if request.dtype.quantized:  # also beyond both ends, where it saturates, and between two steps
        return [0.0, low, high, low * 1.5 - 1.0, high * 1.5 + 1.0, (low + high) / 2, high / 3]
    return [low, high, *(number for number in (0, 1, -1, low + 1, high - 1) if low <= number <= high)]


KINDS: Mapping[str, FillKind] = {
    "normal": FillKind(
        (("mean", 0.0), ("deviation", 1.0)),
        lambda request, mean, deviation: request.random.normal(mean, deviation, request.shape),
        "the bell curve",
    ),
    "uniform": FillKind(
        (("low", -1.0), ("high", 1.0)),
        lambda request, low, high: request.random.uniform(low, high, request.shape),
        "evenly between two numbers",
    ),
    "integers": FillKind((("low", None), ("high", None)), _integers, "integers, both ends included"),
    "ramp": FillKind(
        (("low", None), ("high", None)), _ramp, "rising evenly; in fixed point over all that can be stored"
    ),
    "constant": FillKind(
        (("value", 0.0),), lambda request, value: np.full(request.shape, value), "one number everywhere"
    ),
    "edge": FillKind(
        (),
        partial(_mixed, finite=True),
        "zeros, denormals, the largest and smallest numbers; in fixed point beyond both ends",
    ),
    "nonfinite": FillKind((), partial(_mixed, finite=False), "what `edge` has, and infinities and NaN"),
}
_TEXT = re.compile(r"\s*(?P<kind>\w+)\s*(?:\((?P<arguments>[^()]*)\))?\s*\Z")


def default_fill(dtype: DataType) -> Fill:
    """The default fill of a tensor."""
    return Fill("integers") if dtype.integral else Fill("normal")


def parse(text: str) -> Fill | str:
    """Parse a fill such as `uniform(-3, 3)`; return a message if it is invalid."""
    match = _TEXT.match(text)
    if match is None or match["kind"] not in KINDS:
        return f"`{text}` is not a way to fill a tensor; there are {', '.join(KINDS)}"
    kind = KINDS[match["kind"]]
    try:
        given = tuple(float(part) for part in (match["arguments"] or "").split(",") if part.strip())
    except ValueError:
        return f"`{text}`: the arguments of {match['kind']} are numbers"
    if len(given) > len(kind.arguments):
        names = ", ".join(name for name, _ in kind.arguments) or "no arguments"
        return f"`{text}`: {match['kind']} takes {names}"
    return Fill(match["kind"], given)


def draw(values: Fill, *, dtype: DataType, shape: tuple[int, ...], random: Any, quant: Quant | None) -> Any:
    """Draw real numbers (float64) for a tensor; integers if the type stores integers."""
    kind = KINDS[values.kind]
    given = [*values.arguments, *(default for _, default in kind.arguments[len(values.arguments) :])]
    try:
        return kind.fill(_Request(random, shape, dtype, _limits(dtype, quant)), *given)
    except (ValueError, OverflowError) as error:  # from numpy
        raise UsageError(
            f"`{values}` cannot fill a tensor of {dtype.name}: {error}",
            hint="give the smaller number first, and no deviation below 0, as in uniform(-3, 3)",
        ) from error


def _limits(dtype: DataType, quant: Quant | None) -> tuple[float, float] | None:
    whole = dtype.range()
    if whole is None:
        return None
    if not dtype.quantized:
        return float(whole[0]), float(whole[1])
    return tuple(to_real_number(limit, quant) for limit in whole) if quant else (-1.0, 1.0)  # type: ignore[return-value]


def to_real_number(stored: int, quant: Quant) -> float:
    """The real number of a stored one."""
    return (stored + quant[1]) * quant[0]


def store(real: Any, dtype: DataType, quant: Quant | None) -> Array:
    """Real numbers as a tensor stores them: rounded to the nearest, ties to even, saturated."""
    array = np.asarray(real)
    with np.errstate(all="ignore"):
        if dtype.kind == "bool":
            return array.astype(bool)
        limits = dtype.range()
        if limits is None:
            return array.astype(dtype.numpy)
        if quant is not None and dtype.quantized:
            array = np.rint(array.astype(np.float64) / quant[0]) - quant[1]
        elif array.dtype.kind == "f":
            array = np.rint(array)
        return saturated(array, *limits, np.dtype(dtype.numpy))


def first_fraction(real: Any) -> float | None:
    """The first number that is not an integer (except for rounding errors); None if all are."""
    array = np.asarray(real)
    if array.dtype.kind != "f":
        return None
    finite = array[~np.isinf(array)]
    fractions = finite[~(np.abs(finite - np.rint(finite)) < 1e-6)]
    return float(fractions[0]) if fractions.size else None


def load_array(file: Path) -> Array:
    """The array of a .npy file that a user named."""
    try:
        with reading(file, hint="give the path of a .npy file"), open_plain(file) as stream:
            array = np.load(stream, allow_pickle=False)
    except UsageError:
        raise
    except (ValueError, EOFError, BadZipFile) as fault:
        raise UsageError(
            f"{file} is not an array that numpy can load: {fault}", hint="save it with numpy.save"
        ) from fault
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{file} contains several arrays", hint="save one array with numpy.save")
    return array


def saturated(whole: Any, low: int, high: int, dtype: np.dtype[Any]) -> Array:
    """Convert integral values to an integer type; saturate at its limits, and convert NaN to 0."""
    if whole.dtype.kind == "b":
        return np.asarray(whole.astype(dtype))
    if whole.dtype.kind != "f":
        return np.asarray(np.clip(whole, low, high).astype(dtype))
    wide = np.nan_to_num(whole.astype(np.float64))
    beyond = wide >= high  # the upper limit of 64 bits is not a float64: the next float64 is larger
    return np.where(beyond, np.array(high, dtype), np.clip(np.where(beyond, 0, wide), low, None).astype(dtype))


def to_real(stored: Array, dtype: DataType, quant: Quant | None) -> Any:
    """The input of a reference: floats as float64, fixed point as real numbers, integers as stored."""
    if dtype.quantized and quant is not None:
        return (stored.astype(np.float64) + quant[1]) * quant[0]
    return stored.astype(np.float64) if dtype.kind == "float" else stored


def quant_for(low: float, high: float, dtype: DataType) -> Quant:
    """The scale and offset for a type to cover this range and zero; of an enormous range, only the middle."""
    smallest, largest = dtype.range() or (0, 255)
    low, high = min(low, 0.0), max(high, 0.0)
    if high - low < _SMALLEST_SPAN:
        high = 1.0
    whole = (high - low) / (largest - smallest)
    scale = float(np.float32(min(whole, _LARGEST_SCALE)))  # the C API has a float
    return scale, round(low / max(whole, scale)) - smallest


def finite_range(real: Any) -> tuple[float, float]:
    """The smallest and largest finite number."""
    finite = np.asarray(real, np.float64)
    finite = finite[np.isfinite(finite)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
