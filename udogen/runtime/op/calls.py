"""One op with its tensors and params, its result, and the commands for the worker that runs it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed
from udogen.opdef import datatypes
from udogen.opdef.datatypes import Named
from udogen.qnn.tensors import STATIC, QnnTensor, Scalar
from udogen.runtime.channel import LogLine

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from udogen.qnn.system import GraphInfo
    from udogen.runtime.execution_counts import Proof
    from udogen.runtime.library import RuntimeInfo, RuntimeLibrary
    from udogen.runtime.op.watch import HeapUse, Watch

    Array = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any  # in a worker, which has no numpy, an array is its `Block` of shared memory


CallParam = Scalar | QnnTensor  # a number, a bool or a string; an array


def param_of(name: str, value: Any, dtype: Named, quant: tuple[float, int] | None = None) -> CallParam:
    """A param of a call: an array is a static tensor."""
    if getattr(value, "shape", ()) == ():
        return Scalar(name, dtype, value)
    return QnnTensor(name, dtype, value.shape, quant, value, STATIC)


POISON = 0x5A  # four of these bytes are a float of about 1e16, never correct by chance


OTHER_POISON = 0xC3


@dataclass(frozen=True)
class OpCall:
    """One op, run `loops` times in its own graph: inputs are tensors with data, outputs without.

    `result = session.run(OpCall("LeakyRelu", "MyPackage", inputs, outputs))`
    """

    op_type: str
    package: str
    inputs: tuple[QnnTensor, ...]
    outputs: tuple[QnnTensor, ...]
    params: tuple[CallParam, ...] = ()
    left_out: int = 0  # number of optional inputs after these that the call omits
    loops: int = 1
    poison: int = 0  # the byte that fills the memory of outputs before the first execution
    context: bytes | None = None  # restore this context binary instead of making a graph
    save_context: bool = False


@dataclass(frozen=True)
class Times:
    """The seconds for making the graph and for finalizing it, and the median of its executions.

    `print(result.times.finalize, result.times.execute)`
    """

    create: float
    finalize: float
    execute: float
    samples: tuple[float, ...] = ()  # each execution, in order


@dataclass(frozen=True)
class OpPackageInfo:
    """The name and the ops of an op package (getInfo): `print(session.package.name, session.package.operations)`."""

    name: str
    operations: tuple[str, ...]


@dataclass(frozen=True)
class Packets:
    """The instruction packets of one execution, callees included; not a measure of time."""

    total: int
    functions: tuple[tuple[str, int], ...]  # in each function itself, most first


@dataclass(frozen=True)
class OpResult:
    """The result of a call: `y, seconds = result.outputs["y"], result.times.execute`."""

    outputs: dict[str, Array]
    times: Times
    runtime: RuntimeInfo
    context: bytes | None = None  # if `save_context`
    logs: tuple[LogLine, ...] = field(default=())
    kernel: str = ""  # which kernel of the package ran, if known
    packets: Packets | None = None  # if they were counted
    heap: HeapUse | None = None  # if it was watched
    proof: Proof | None = None  # None if the package has no counters


def refuse_unwritten(run: Callable[[OpCall], OpResult], call: OpCall, result: OpResult | None = None) -> None:
    """Raise if the op returns no error and writes nothing to one of its outputs.

    Outputs that still have the byte that filled their memory are computed again over another one.  `result` is that of
    a run with `POISON`.
    """
    names = [output.name for output in call.outputs if 0 not in output.shape]
    for poison in (POISON, OTHER_POISON):
        if poison != POISON or result is None:
            result = run(replace(call, loops=1, poison=poison, save_context=False))
        names = [name for name in names if set(result.outputs[name].tobytes()) == {poison}]
        if not names:
            return
    raise RunFailed(
        f"op `{call.op_type}` returned no error and wrote nothing to its output `{names[0]}`",
        hint="write the kernel's code, or return an error from it",
    )


def checked_call(call: OpCall) -> OpCall:
    """Check that arrays match their tensors, and return the call with plain Python numbers."""
    op = call.op_type
    loops = int(call.loops)
    if loops < 1:
        raise RunFailed(f"op `{op}` cannot be run {loops} times", hint="give 1 or more loops")
    if not 0 <= call.poison <= 255:
        raise RunFailed(f"outputs cannot be filled with {call.poison}", hint="give a byte, 0 to 255")
    if call.context is not None and call.save_context:
        raise RunFailed("a restored context cannot be saved again", hint="keep the file that it was restored from")
    for arg in call.inputs:
        if not arg.omitted and arg.data is None:
            raise RunFailed(f"input `{arg.name}` of op `{op}` has no data", hint="give it an array")
        if not arg.omitted:
            _check(call, arg)
    outputs = tuple(replace(output, data=None) for output in call.outputs)
    params = tuple(_checked_param(call, param) for param in call.params)
    return replace(call, outputs=outputs, params=params, loops=loops)


def arrays_of(call: OpCall, outputs: Sequence[Any]) -> dict[str, Array]:
    """The outputs of a call by name, from their buffers."""
    import numpy as np

    return {
        arg.name: np.frombuffer(data, _numpy_type(call, arg.name, arg.dtype)).reshape(arg.shape)
        for arg, data in zip(call.outputs, outputs, strict=True)
    }


def _checked_param(call: OpCall, param: CallParam) -> CallParam:
    if isinstance(param, QnnTensor):
        _check(call, param)
        return param if param.static else replace(param, role=STATIC)
    value: Any = param.value
    return replace(param, value=value.item()) if hasattr(value, "item") else param  # a scalar of numpy


def _check(call: OpCall, arg: QnnTensor) -> None:
    """Raise if an array does not match its tensor."""
    from udogen.runtime.contexts.arrays import check_stored  # with numpy

    _numpy_type(call, arg.name, arg.dtype)
    check_stored(arg.data, arg)


def _numpy_type(call: OpCall, name: str, dtype: str) -> np.dtype[Any]:
    import numpy as np

    row = datatypes.parse(dtype)
    if row is None or not row.numpy:
        raise RunFailed(
            f"`{name}` of op `{call.op_type}` has type {dtype}, of which udogen cannot make a tensor",
            hint="one of: " + ", ".join(datatype.name for datatype in datatypes.ALL if datatype.numpy),
        )
    return np.dtype(row.numpy)


Chain = Sequence[OpCall]  # the first output of each call is the first input of the next


def digest(calls: Chain) -> bytes:
    """A digest that is equal for equal calls, regardless of their poison."""
    import numpy as np

    hashed = hashlib.sha256()
    for call in calls:
        hashed.update(repr((call.op_type, call.loops)).encode())
        for arg in (*call.inputs, *call.outputs):
            hashed.update(repr(arg).encode())
            if arg.data is not None:
                hashed.update(np.ascontiguousarray(arg.data).tobytes())
        for param in call.params:
            value = param.data if isinstance(param, QnnTensor) else param.value
            hashed.update(repr((param.name, np.asarray(value).tolist(), param.dtype)).encode())
    return hashed.digest()


# --- commands for the worker, and its replies (see `udogen.runtime.channel`) -----------------------------------------


@dataclass(frozen=True)
class OpenPackage:
    """Load a runtime, and register an op package in it."""

    runtime: RuntimeLibrary
    library: Path
    provider: str
    target: str | None
    soc: int
    delivers: tuple[str, ...] | None  # data types that the runtime passes to custom ops; None: all
    poison: int  # the byte that fills new memory of the heap
    built_for: str  # the SDK that the package is tied to; empty: not checked


@dataclass(frozen=True)
class PackageOpened:
    """The package and the runtime."""

    package: OpPackageInfo
    runtime: RuntimeInfo


@dataclass(frozen=True)
class RunOp:
    """Run one op in its own graph, made now or restored from a context binary."""

    call: OpCall
    watch: Watch


@dataclass(frozen=True)
class OpRan:
    """The result; times in seconds."""

    outputs: tuple[Any, ...]
    create: float
    finalize: float
    samples: tuple[float, ...]  # one for each execution
    execute: float  # their median
    heap: HeapUse | None
    counted: str  # what the package counts; empty if it has no counters
    counts: tuple[tuple[int, int], ...]  # (of the op, of all ops) before, when the graph was ready, after
    context: bytes | None


@dataclass(frozen=True)
class PrepareOp:
    """Make a graph of the op without executing it."""

    call: OpCall


@dataclass(frozen=True)
class OpPrepared:
    """Its context binary, and the description of its graph."""

    context: bytes
    graph: GraphInfo


@dataclass(frozen=True)
class RunOpTwice:
    """Execute two graphs of the op: each alone, then both at the same time."""

    call: OpCall
    executions: int
    seconds: float
    loop: Path  # the library that executes them (udogen.build.emulator.build_loop)


@dataclass(frozen=True)
class OpRanTwice:
    """The outputs of both graphs alone, then of both together."""

    outputs: tuple[tuple[Any, ...], ...]
