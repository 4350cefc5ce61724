"""Commands for the worker that restores contexts, and its replies (see `udogen.runtime.channel`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import UsageError
from udogen.qnn.interface import WARN
from udogen.runtime.buffers.plan import BufferPlan
from udogen.runtime.channel import Failed
from udogen.runtime.contexts.binaries import Shard

if TYPE_CHECKING:
    from udogen.qnn.system import GraphInfo
    from udogen.qnn.tensors import QnnTensor
    from udogen.runtime.op.calls import Array

_PACKAGE = re.compile(r"(?P<path>.+?)(?::(?P<provider>[A-Za-z_]\w*)(?::(?P<target>\w+))?)?")


@dataclass(frozen=True)
class OpLibrary:
    """An op package to register first: LIB[:PROVIDER[:TARGET]].

    `OpLibrary(Path("out/MyPackage"))`
    """

    path: Path
    provider: str = ""
    target: str = ""


def parse_package(text: str) -> OpLibrary:
    """An op package as a user names it: LIB|DIR[:PROVIDER[:TARGET]]."""
    match = _PACKAGE.fullmatch(text)
    if match is None:
        raise UsageError(f"op package {text}: this is not LIB|DIR[:PROVIDER[:TARGET]]", hint="as in lib/libP.so")
    return OpLibrary(Path(match["path"]), match["provider"] or "", match["target"] or "")


def is_description(path: Path) -> bool:
    """Whether a path is a description of a model (`model.toml`), by its name."""
    return path.suffix == ".toml" or (path.suffix == ".json" and path.is_file())


@dataclass(frozen=True)
class RunOptions:
    """How each context is executed."""

    backend: str = "htp"
    runtime: str = "auto"
    qnn_lib: Path | None = None
    system: Path | None = None  # libQnnSystem, if it is not next to the library
    soc: int = 0
    device: int | None = None
    packages: tuple[OpLibrary, ...] = ()
    log_level: int = WARN
    graphs: tuple[str, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)  # TENSOR, GRAPH:TENSOR or CONTEXT:GRAPH:TENSOR -> file
    output_dir: Path | None = None
    loops: int = 1
    profile: bool = False
    prove: bool = False  # report the counts of packages with each context and each graph
    alignment: int = 64  # of tensors, in bytes
    packed: bool = True  # one buffer for all tensors, instead of one for each
    shared: bool = False  # registered memory, bound by handle
    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.prove and not self.packages:
            raise UsageError("--prove is about op packages, and none was given", hint="--op-package LIB registers one")


@dataclass(frozen=True)
class OpenContexts:
    """Load a runtime, and register op packages in it."""

    options: RunOptions


@dataclass(frozen=True)
class DescribeContext:
    """Describe a context, without restoring it."""

    shard: Shard


@dataclass(frozen=True)
class TensorRow:
    """A tensor in a report."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


def row_of(info: QnnTensor, array: Array | None = None) -> TensorRow:
    """A tensor in a report, with the shape of its array where the graph leaves dimensions open."""
    if array is None or not any(info.dynamic):
        return TensorRow(info.name, info.dtype, tuple(info.shape), info.nbytes)
    return TensorRow(info.name, info.dtype, array.shape, array.nbytes)


@dataclass(frozen=True)
class ContextDescribed:
    """The contents of a context."""

    graphs: tuple[GraphInfo, ...]


@dataclass(frozen=True)
class RunContext:
    """Restore a context and execute its graphs."""

    shard: Shard
    options: RunOptions


@dataclass(frozen=True)
class InputRow(TensorRow):
    """An input, and how it was filled."""

    file: str | None
    how: str


@dataclass(frozen=True)
class OutputRow(TensorRow):
    """An output: the file it was saved to, and its smallest and largest stored numbers."""

    file: str | None
    least: int | float | bool | None = None
    largest: int | float | bool | None = None


def output_row(info: QnnTensor, array: Array, file: Path | None) -> OutputRow:
    """An output in a report."""
    numbers = array.size and array.dtype.kind in "fiub"
    least, largest = (array.min().item(), array.max().item()) if numbers else (None, None)
    return OutputRow(**row_of(info, array).__dict__, file=str(file) if file else None, least=least, largest=largest)


@dataclass(frozen=True)
class ProfileRow:
    """A measurement of the runtime, with its parts."""

    name: str
    value: int
    unit: int
    below: tuple[ProfileRow, ...]


@dataclass(frozen=True)
class GraphRan:
    """The result of a graph; a field is None if it does not apply or was not reached."""

    name: str
    inputs: tuple[InputRow, ...] | None = None
    proof: tuple[Any, ...] | None = None  # rows of counts
    seconds: float | None = None  # the median
    fastest: float | None = None
    outputs: tuple[OutputRow, ...] | None = None
    profile: tuple[ProfileRow, ...] | None = None
    error: Failed | None = None


@dataclass(frozen=True)
class ContextRan:
    """The result of a context."""

    seconds: float  # to restore it
    graphs: tuple[GraphRan, ...]
    plan: BufferPlan
    manifest: str
    differences: tuple[str, ...]
    shared: str = ""  # what it stores once for several graphs
    proof: tuple[Any, ...] | None = None


def keys_of(context: str, graph: str, tensor: str) -> tuple[str, str, str]:
    """The names by which an input can be given, the most specific first."""
    return f"{context}:{graph}:{tensor}", f"{graph}:{tensor}", tensor
