"""Arrays of tensors: read from and written to files (.npy or raw bytes), quantized, dequantized."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from udogen.errors import RunFailed, UsageError, WrongType, kind_of, open_plain, writing
from udogen.opdef import datatypes
from udogen.opdef.datatypes import Named
from udogen.qnn.quantization import AxisScaleOffset, Quantization, ScaleOffset, check
from udogen.runtime.arguments import array_type

if TYPE_CHECKING:
    from udogen.qnn.tensors import QnnTensor
    from udogen.runtime.op.calls import Array

NPY = ".npy"
_UNFIT = re.compile(r"[^\w.-]+")  # characters to replace in a file name


def read(file: Path, info: QnnTensor) -> tuple[Array, str]:
    """The array of a file as a tensor stores it, and how it was obtained: see `as_stored`."""
    array = load(file, info)
    if file.suffix == NPY:
        return as_stored(array, info, what=str(file))
    if array.nbytes != info.nbytes:
        raise UsageError(
            f"{file} has {array.nbytes} bytes, input `{info.name}` ({info.dtype} {list(info.shape)}) has {info.nbytes}",
            hint="give the tensor's stored bytes, or an array saved with numpy.save",
        )
    shape, dtype = layout(info)
    return array.view(dtype).reshape(shape), "raw bytes"


def load(file: Path, info: QnnTensor) -> Array:
    """The array of an .npy file, mapped, or the bytes of any other file, for an input."""
    try:
        open_plain(file).close()
        array = np.load(file, allow_pickle=False, mmap_mode="r") if file.suffix == NPY else np.fromfile(file, np.uint8)
    except OSError as fault:
        raise UsageError(f"{file} cannot be read: {fault.strerror}", hint=f"give a file for `{info.name}`") from fault
    except (ValueError, EOFError, BadZipFile) as fault:
        raise UsageError(f"{file} is not an array that numpy can load: {fault}", hint="use numpy.save") from fault
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{file} contains several arrays", hint="save one array with numpy.save")
    return array


def load_all(file: Path) -> dict[str, Array]:
    """The arrays of an .npz file, by name."""
    try:
        open_plain(file).close()
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, BadZipFile, AttributeError, TypeError) as fault:
        raise UsageError(f"{file} cannot be read: {fault}", hint="give a file written by numpy.savez") from fault


def as_stored(array: Array, info: QnnTensor, *, what: str) -> tuple[Array, str]:
    """An array as a tensor stores it, and how it was obtained: unchanged, quantized from real numbers, or converted.

    `what` names the array in messages.
    """
    shape, dtype = layout(info)
    if not fits(array.shape, info):
        raise UsageError(
            f"{what} has the shape {list(array.shape)}, input `{info.name}` has "
            + (info.sizes if any(info.dynamic) else str(list(shape))),
            hint="dimensions that the graph leaves open may be smaller, the others not"
            if any(info.dynamic)
            else "give it that shape (numpy.reshape)",
        )
    if array.dtype == dtype:
        return array, "as stored"
    if array.dtype.kind == "f" and info.quant is not None and dtype.kind in "iu":
        return quantize(array, info.quant, dtype, what=f"tensor `{info.name}`"), "quantized"
    if array.dtype.kind == dtype.kind == "f":
        return array.astype(dtype), f"from {array.dtype}"
    raise UsageError(
        f"{what} is {array.dtype}, tensor `{info.name}` is {info.dtype} ({dtype})",
        hint=f"give an array of {dtype}" + (", or of real numbers" if info.quant is not None else ""),
    )


def given_value(array: Array, info: QnnTensor, *, what: str = "the array") -> Array:
    """An input as its tensor stores it (see `as_stored`); integers that fit are converted, and a scalar is reshaped."""
    shape, dtype = layout(info)
    if array.shape != shape and array.size == 1 and info.nbytes == dtype.itemsize:
        array = array.reshape(shape)
    if array.dtype != dtype and array.dtype.kind in "iu" and dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        if limits.min <= array.min() and array.max() <= limits.max:
            array = array.astype(dtype)
    value, _ = as_stored(array, info, what=what)
    return value


def quantize(real: Array, quant: Quantization, dtype: Any, *, what: str = "the tensor") -> Array:
    """Real numbers as they are stored, rounded to the nearest and kept in range: `quantize(x, info.quant, "u2")`."""
    scale, offset = _grid(quant, np.shape(real), what)
    row = datatypes.parse(dtype) if isinstance(dtype, str) else None
    dtype = array_type(row.numpy if row else dtype, f"the stored type of {what}", kinds="iu")
    limits = np.iinfo(dtype)
    stored: Array = np.clip(np.rint(np.asarray(real, np.float64) / scale) - offset, limits.min, limits.max)
    if np.isnan(stored).any():
        raise UsageError(f"{what} has NaN, which fixed-point numbers cannot be", hint="replace it (numpy.nan_to_num)")
    return stored.astype(dtype)


def dequantize(stored: Array, quant: Quantization) -> Array:
    """The real numbers that stored ones represent: `dequantize(outputs["y"], graph.binding("y").info.quant)`."""
    if quant is None:
        return stored
    scale, offset = _grid(quant, np.shape(stored), "the tensor")
    real: Array = (np.asarray(stored, np.float64) + offset) * scale
    return real


def grid_of(low: float, high: float, dtype: Named) -> ScaleOffset:
    """The quantization of fixed-point numbers from `low` to `high`; zero is one of them: `grid_of(-1, 1, "UINT_8")`."""
    row = datatypes.parse(datatypes.name_of(dtype, quantized=True))
    if row is None or not row.numpy or np.dtype(row.numpy).kind not in "iu":
        raise UsageError(f"{dtype} stores no fixed-point numbers", hint="as in UFIXED_POINT_8, SFIXED_POINT_16")
    if not (isfinite(low) and isfinite(high) and low <= high):
        raise UsageError(f"there is no grid from {low} to {high}", hint="give two finite numbers, the lower one first")
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    limits = np.iinfo(row.numpy)
    # QNN's structs store the scale as a float: compute with exactly that value here.
    with np.errstate(over="ignore"):
        scale = float(np.float32((high - low) / (limits.max - limits.min))) if low < high else 1.0
    check(ScaleOffset(scale, 0), (), f"numbers from {low} to {high}")
    return ScaleOffset(scale, round(low / scale) - int(limits.min))


def _grid(quant: Quantization, shape: Sequence[int], what: str) -> tuple[Any, Any]:
    """Scale and offset, shaped so that numpy applies them to a tensor."""
    check(quant, shape, what)
    if isinstance(quant, ScaleOffset):
        return quant.scale, quant.offset
    if isinstance(quant, AxisScaleOffset):
        along = [1] * len(shape)
        along[quant.axis] = len(quant.pairs)
        scale = np.array([pair.scale for pair in quant.pairs]).reshape(along)
        return scale, np.array([pair.offset for pair in quant.pairs]).reshape(along)
    raise RunFailed(
        f"{what} has the quantization {type(quant).__name__}, which udogen does not apply",
        hint="give the stored integers",
    )


def write(place: Path, array: Array) -> None:
    """Save an array atomically."""
    with writing(place, hint="choose another --output-dir"):
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_name(place.name + ".part")
        with partial.open("wb") as stream:
            np.save(stream, array)
        partial.replace(place)


def layout(info: QnnTensor) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of the arrays of a tensor; elements of less than a byte are packed bytes."""
    row = datatypes.parse(info.dtype)
    if row is not None and row.numpy and row.bits % 8 == 0:
        return tuple(info.shape), np.dtype(row.numpy)
    return (info.nbytes,), np.dtype(np.uint8)


def check_stored(array: Any, info: QnnTensor, shape: tuple[int, ...] | None = None) -> None:
    """Raise unless an array is as a tensor stores it: the runtime would read past the end of a smaller one."""
    largest, dtype = layout(info)
    shape = largest if shape is None else shape
    if not isinstance(array, (np.ndarray, np.generic)):
        raise WrongType(f"`{info.name}` is given {kind_of(array)}", hint="give a numpy array, or bind a buffer")
    if isinstance(array, np.ma.MaskedArray):
        raise WrongType(
            f"`{info.name}` is given a masked array, and runtimes have no masks",
            hint="replace the masked elements: array.filled(value)",
        )
    if array.dtype != dtype or array.shape != shape:
        raise UsageError(
            f"tensor `{info.name}` is {info.dtype} {list(info.shape)}, its array is {array.dtype} {list(array.shape)}",
            hint=f"give an array of {dtype} with the shape {list(shape)}"
            + (", its packed bytes" if prod(info.shape) != prod(largest) else ""),
        )


def fits(shape: Sequence[int], info: QnnTensor) -> bool:
    """Whether arrays of a tensor may have this shape in an execution."""
    return tuple(shape) == layout(info)[0] or (any(info.dynamic) and info.takes(shape))


def file_name(name: str) -> str:
    """A name in the model as a valid file name."""
    return _UNFIT.sub("_", name).strip(".") or "_"
