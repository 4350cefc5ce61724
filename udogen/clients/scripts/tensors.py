"""Inputs and references: arrays of .npy files and raw bytes, one of each name for a sample."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from udogen.errors import UsageError, read_plain
from udogen.opdef import datatypes
from udogen.verify import tolerances

if TYPE_CHECKING:
    from udogen.qnn.system import GraphInfo, TensorInfo

# What run.py can compare.
COMPARED = (
    "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
)  # numpy's words; bool is uint8


@dataclass(frozen=True)
class Tensor:
    """The content of one tensor for one sample."""

    name: str
    sample: int
    content: bytes
    dtype: str = ""  # numpy's word; empty where a raw file does not tell
    path: str = ""

    @property
    def file(self) -> str:
        """A name that every client, and every shell, takes for one word."""
        return f"{plain(self.name)}.raw"


def plain(name: str) -> str:
    """A tensor's name as a file's."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".-") or "_"


def read(rows: Sequence[tuple[str, str]], option: str) -> tuple[Tensor, ...]:
    """The tensors behind NAME=FILE; a name that comes again begins, or goes on with, the next sample."""
    counts: dict[str, int] = {}
    found = []
    for name, path in rows:
        if "\n" in name or not name:
            raise UsageError(f"{option} {name}={path}: this is no name of a tensor", hint=f"as in {option} x=x.npy")
        found.append(_read(name, counts.get(name, 0), path))
        counts[name] = counts.get(name, 0) + 1
    if len(set(counts.values())) > 1:
        raise UsageError(
            f"{option} is given unequally often: " + ", ".join(f"{name} {count}" for name, count in counts.items()),
            hint="once for each tensor and sample",
        )
    files: dict[str, str] = {}
    for name in counts:
        other = files.setdefault(plain(name), name)
        if other != name:
            raise UsageError(f"the tensors {other} and {name} would have one file", hint="rename one of them")
    return tuple(found)


def _read(name: str, sample: int, path: str) -> Tensor:
    try:
        data = read_plain(path)
    except OSError as fault:
        raise UsageError(f"{path} cannot be read: {fault.strerror}", hint="give a .npy or a raw file") from fault
    if not path.endswith(".npy"):
        return Tensor(name, sample, data, path=path)
    import io

    import numpy as np

    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError) as fault:
        raise UsageError(f"{path} is no array that numpy can load: {fault}", hint="save it with numpy.save") from fault
    word = "uint8" if array.dtype == np.bool_ else array.dtype.name
    if word not in COMPARED:
        raise UsageError(f"{path} holds {array.dtype}, which no tensor has", hint="one of " + ", ".join(COMPARED))
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    return Tensor(name, sample, little.tobytes(), word, path)


def samples(inputs: Sequence[Tensor], references: Sequence[Tensor]) -> int:
    """How many; there must be a reference for each, or for none."""
    count = max((each.sample + 1 for each in inputs), default=1)
    compared = max((each.sample + 1 for each in references), default=count)
    if compared != count:
        raise UsageError(
            f"there are {count} samples of inputs and {compared} of references", hint="give one of each for each sample"
        )
    return count


def fit(graph: GraphInfo, inputs: Sequence[Tensor], references: Sequence[Tensor], *, floats: bool) -> list[str]:
    """What does not fit a stored graph, a sentence each; some clients convert floats for every tensor."""
    faults = []
    wanted = {each.name: each for each in graph.inputs}
    given = dict.fromkeys(each.name for each in inputs)
    if missing := [name for name in wanted if name not in given]:
        faults.append(f"the graph's input {', '.join(missing)} is not given")
    faults += _misfits(wanted, inputs, "input", floats)
    faults += _misfits({each.name: each for each in graph.outputs}, references, "output", floats)
    return faults


def _misfits(wanted: Mapping[str, TensorInfo], given: Sequence[Tensor], role: str, floats: bool) -> list[str]:
    faults = []
    for each in given:
        info = wanted.get(each.name)
        if info is None:
            faults.append(f"the graph has no {role} {each.name}; it has {', '.join(wanted) or 'none'}")
        elif not _fits(each, info, floats):
            shape = "x".join(map(str, info.shape)) or "scalar"
            faults.append(
                f"{each.path} has {len(each.content)} bytes of {each.dtype or 'raw data'}; "
                f"{role} {each.name} is {info.dtype} {shape}, {info.nbytes} bytes"
            )
    return faults


def _fits(tensor: Tensor, info: TensorInfo, floats: bool) -> bool:
    if len(tensor.content) == info.nbytes and tensor.dtype in ("", *storage(info.dtype)):
        return True
    return floats and tensor.dtype in ("", "float32") and len(tensor.content) == 4 * math.prod(info.shape)


def typed(infos: Sequence[TensorInfo], given: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """With the types that raw files do not tell: the tensor's own, or float32 where that is how many bytes it has."""
    own = {each.name: (storage(each.dtype)[-1], each.nbytes) for each in infos}
    return tuple(
        replace(each, dtype=each.dtype or (own[each.name][0] if len(each.content) == own[each.name][1] else "float32"))
        for each in given
    )


def storage(dtype: str) -> tuple[str, ...]:
    """How numpy may call what a tensor of this type is stored as."""
    word = datatypes.BY_NAME[dtype].numpy or {"FLOAT_16": "float16"}.get(dtype, "")
    return ("bool", "uint8") if word == "bool" else (word,)


def tolerance(dtype: str, qnn: str = "") -> tuple[float, float]:
    """(absolute, relative) as `udogen test` has it; `qnn` is the tensor's type where it is known."""
    kind = datatypes.BY_NAME.get(qnn) or next((row for row in datatypes.ALL if row.numpy == dtype), None)
    found = tolerances.default(kind) if kind else tolerances.EXACT
    return found.absolute, found.relative
