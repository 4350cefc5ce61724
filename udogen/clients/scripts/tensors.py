"""Inputs and references: one .npy file for each tensor."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from udogen.errors import UsageError
from udogen.opdef import datatypes
from udogen.verify import tolerances
from udogen.verify.test_files import values

if TYPE_CHECKING:
    from udogen.qnn.system import GraphInfo
    from udogen.qnn.tensors import QnnTensor

# The types that run.py can compare, by their numpy names; bool is uint8.
COMPARED = "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()


@dataclass(frozen=True)
class TensorData:
    """The content of one tensor."""

    name: str
    content: bytes
    dtype: str  # numpy name
    path: str

    @property
    def file(self) -> str:
        """A file name that is one word for every client and shell."""
        return f"{file_name(self.name)}.raw"


def file_name(name: str) -> str:
    """A tensor's name as a file name."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".-") or "_"


def read(rows: Sequence[tuple[str, str]], option: str) -> tuple[TensorData, ...]:
    """The tensors of NAME=FILE."""
    files: dict[str, str] = {}
    for name, path in rows:
        if "\n" in name or not name:
            raise UsageError(
                f"{option} {name}={path}: this is not the name of a tensor", hint=f"as in {option} x=x.npy"
            )
        other = files.setdefault(file_name(name), name)
        if other != name:
            raise UsageError(f"the tensors {other} and {name} would have the same file", hint="rename one of them")
    if len(files) < len(rows):
        raise UsageError(f"{option} is given twice for one tensor", hint="a script runs one set of inputs")
    return tuple(_read(name, path) for name, path in rows)


def _read(name: str, path: str) -> TensorData:
    array = values.load_array(Path(path))
    word = "uint8" if array.dtype == np.bool_ else array.dtype.name
    if word not in COMPARED:
        raise UsageError(f"{path} holds {array.dtype}, which no tensor has", hint="one of " + ", ".join(COMPARED))
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    return TensorData(name, little.tobytes(), word, path)


def faults(
    graph: GraphInfo, inputs: Sequence[TensorData], references: Sequence[TensorData], *, floats: bool
) -> list[str]:
    """Why tensors do not fit a stored graph, one sentence each; with `floats` every tensor may be given as float32."""
    expected = {tensor.name: tensor for tensor in graph.inputs}
    given = {tensor.name for tensor in inputs}
    missing = [name for name in expected if name not in given]
    return [
        *([f"the graph's input {', '.join(missing)} is not given"] if missing else []),
        *_misfits(expected, inputs, "input", floats),
        *_misfits({tensor.name: tensor for tensor in graph.outputs}, references, "output", floats),
    ]


def _misfits(expected: Mapping[str, QnnTensor], given: Sequence[TensorData], role: str, floats: bool) -> Iterator[str]:
    for tensor in given:
        info = expected.get(tensor.name)
        if info is None:
            yield f"the graph has no {role} {tensor.name}; it has {', '.join(expected) or 'none'}"
        elif not _fits(tensor, info, floats):
            shape = "x".join(map(str, info.shape)) or "scalar"
            yield (
                f"{tensor.path} has {len(tensor.content)} bytes of {tensor.dtype}; "
                f"{role} {tensor.name} is {info.dtype} {shape}, {info.nbytes} bytes"
            )


def _fits(tensor: TensorData, info: QnnTensor, floats: bool) -> bool:
    if len(tensor.content) == info.nbytes and tensor.dtype == _storage(info.dtype):
        return True
    return floats and tensor.dtype == "float32" and len(tensor.content) == 4 * math.prod(info.shape)


def _storage(dtype: str) -> str:
    """The numpy type that stores a tensor of this type; `_read` converts bool to uint8."""
    word = datatypes.BY_NAME[dtype].numpy or {"FLOAT_16": "float16"}.get(dtype, "")
    return "uint8" if word == "bool" else word


def tolerance(dtype: str, qnn: str = "") -> tuple[float, float]:
    """(absolute, relative), as in `udogen test`; `qnn` is the tensor's type, if it is known."""
    kind = datatypes.BY_NAME.get(qnn) or next((row for row in datatypes.ALL if row.numpy == dtype), None)
    allowed = tolerances.default(kind) if kind else tolerances.EXACT
    return allowed.absolute, allowed.relative
