"""Tensors from and to files: .npy, or raw bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.errors import RunFailed, UsageError, open_plain, writing
from udogen.qnn.quantization import AxisScaleOffset, ScaleOffset
from udogen.runtime.contexts.commands import TensorRow

if TYPE_CHECKING:
    from udogen.qnn.system import TensorInfo
    from udogen.runtime.op.calls import Array

NPY = ".npy"


def read_into(into: Array, file: Path, info: TensorInfo) -> str:
    """Fill a tensor's memory from a file; returns how: stored as it is, or quantized from real numbers."""
    try:
        return _read_npy(into, file, info) if file.suffix == NPY else _read_raw(into, file, info)
    except OSError as problem:
        raise UsageError(
            f"{file} cannot be read: {problem.strerror}", hint=f"give a file for `{info.name}`"
        ) from problem


def _read_raw(into: Array, file: Path, info: TensorInfo) -> str:
    size = file.stat().st_size
    if size != info.nbytes:
        raise UsageError(
            f"{file} has {size} bytes, input `{info.name}` ({info.dtype} {list(info.shape)}) has {info.nbytes}",
            hint="give the tensor's stored bytes, or an array saved with numpy.save",
        )
    into.reshape(-1).view(np.uint8)[...] = np.fromfile(file, np.uint8)
    return "raw bytes"


def _read_npy(into: Array, file: Path, info: TensorInfo) -> str:
    try:
        open_plain(file).close()
        found = np.load(file, allow_pickle=False, mmap_mode="r")
    except (ValueError, EOFError) as problem:
        raise UsageError(f"{file} is no array that numpy can load: {problem}", hint="use numpy.save") from problem
    if not isinstance(found, np.ndarray):
        raise UsageError(f"{file} holds several arrays", hint="save one array with numpy.save")
    if found.shape != into.shape:
        raise UsageError(
            f"{file} has the shape {list(found.shape)}, input `{info.name}` has {list(into.shape)}",
            hint="reshape it, and save it again",
        )
    if found.dtype == into.dtype:
        into[...] = found
        return "as stored"
    if found.dtype.kind == "f" and info.quant is not None and into.dtype.kind in "iu":
        into[...] = quantized(found, info, into.dtype)
        return "quantized"
    if found.dtype.kind == into.dtype.kind == "f":
        into[...] = found
        return f"from {found.dtype}"
    raise UsageError(
        f"{file} is {found.dtype}, input `{info.name}` is {info.dtype} ({into.dtype})",
        hint=f"save an array of {into.dtype}" + (", or of real numbers" if info.quant is not None else ""),
    )


def quantized(real: Array, info: TensorInfo, dtype: Any) -> Array:
    """Real numbers as the tensor stores them, rounded to the nearest and kept in range."""
    scale: Any
    offset: Any
    if isinstance(info.quant, ScaleOffset):
        scale, offset = info.quant.scale, info.quant.offset
    elif isinstance(info.quant, AxisScaleOffset):
        along = [1] * real.ndim
        along[info.quant.axis] = len(info.quant.pairs)
        scale = np.array([pair.scale for pair in info.quant.pairs]).reshape(along)
        offset = np.array([pair.offset for pair in info.quant.pairs]).reshape(along)
    else:
        raise RunFailed(
            f"input `{info.name}` has the quantization {type(info.quant).__name__}, which udogen does not apply",
            hint="give the stored integers",
        )
    limits = np.iinfo(dtype)
    stored: Array = np.clip(np.rint(real / scale) - offset, limits.min, limits.max).astype(dtype)
    return stored


def write(place: Path, array: Array) -> None:
    """Save it, whole or not at all."""
    with writing(place, hint="choose another --output-dir"):
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_name(place.name + ".part")
        with partial.open("wb") as stream:
            np.save(stream, array)
        partial.replace(place)


def row_of(info: TensorInfo) -> TensorRow:
    """A tensor in a report."""
    return TensorRow(info.name, info.dtype, tuple(info.shape), info.nbytes)
