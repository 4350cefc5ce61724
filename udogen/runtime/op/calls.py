"""What goes into a session and comes out: one op with its tensors and params, and what it answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from udogen.runtime.op.watch import HeapUse
    from udogen.runtime.proof import Proof

    Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class TensorArg:
    """A tensor of a call: an input with its array, or an output without.

    `dtype` is a QNN data type's name (FLOAT_32); `array` has the numpy type that stores it, so a fixed-point
    tensor comes as its stored integers.  `quant` is (scale, offset): real = (stored + offset) * scale.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    array: Array | None = None
    quant: tuple[float, int] | None = None
    static: bool = False  # data is part of the graph (weights)
    omitted: bool = False  # an optional input that is not there, before one that is


@dataclass(frozen=True)
class ParamArg:
    """A param of a call: a number, a truth value, a string, or an array (a tensor param)."""

    name: str
    value: int | float | bool | str | Array
    dtype: str
    quant: tuple[float, int] | None = None


POISON = 0x5A  # as a float of 32 bits about 1e16: nothing that is right by chance


@dataclass(frozen=True)
class OpCall:
    """One op, run `loops` times in a graph of its own."""

    op_type: str
    package: str
    inputs: tuple[TensorArg, ...]
    outputs: tuple[TensorArg, ...]
    params: tuple[ParamArg, ...] = ()
    loops: int = 1
    poison: int = 0  # the byte that fills the memory of outputs before the first execution
    context: bytes | None = None  # restore this context binary instead of making a graph
    save_context: bool = False


@dataclass(frozen=True)
class Times:
    """Seconds: making the graph, finalizing it, and the median of its executions."""

    create: float
    finalize: float
    execute: float
    samples: tuple[float, ...] = ()  # each execution, in their order


@dataclass(frozen=True)
class LogLine:
    """A line of the runtime, or of the op package; level 1 is an error, 2 a warning, 3 information."""

    level: int
    text: str
    source: str = "runtime"


@dataclass(frozen=True)
class RuntimeInfo:
    """Which runtime it was."""

    name: str
    build_id: str
    api_version: str
    backend_version: str
    path: str
    emulator: bool = False  # udogen's own, not Qualcomm's


@dataclass(frozen=True)
class PackageInfo:
    """What the op package says about itself (getInfo)."""

    name: str
    operations: tuple[str, ...]


@dataclass(frozen=True)
class Packets:
    """How many packets of instructions one execution took, callees included; no measure of time."""

    total: int
    functions: tuple[tuple[str, int], ...]  # in each function itself, most first


@dataclass(frozen=True)
class OpResult:
    """What came out of a call."""

    outputs: dict[str, Array]
    times: Times
    runtime: RuntimeInfo
    context: bytes | None = None  # where the call asked for it
    logs: tuple[LogLine, ...] = field(default=())
    kernel: str = ""  # which of the package's kernels it was, where that is known
    packets: Packets | None = None  # where they were counted
    heap: HeapUse | None = None  # where it was watched
    proof: Proof | None = None  # what the package counted; None where it does not count
