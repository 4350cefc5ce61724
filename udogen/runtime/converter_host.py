"""Calls a converter op package in a worker, as a converter does, for the shapes and data types of outputs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from udogen.errors import RunFailed
from udogen.opdef.datatypes import by_code
from udogen.opdef.shape_rules import Given
from udogen.qnn.abi import ffi
from udogen.qnn.tensors import APP_READ, APP_WRITE, NULL, OpConfig, QnnTensor, Scalar
from udogen.runtime.channel import Failed, Garbled
from udogen.runtime.failures import error_of
from udogen.runtime.library import check_loadable
from udogen.runtime.worker_process import WorkerProcess, deadline_of

_UNKNOWN = 0x7FFFFFFF
_MOST_AXES = 8
_PACKED = {"INT_32": "int32_t", "UINT_32": "uint32_t", "INT_64": "int64_t", "UINT_8": "uint8_t", "FLOAT_32": "float"}


class ConverterCall(NamedTuple):
    """One op of a model, as a converter describes it."""

    op: str
    inputs: Sequence[Given | None]
    params: Mapping[str, Scalar | Given]
    outputs: int


class AskConverter(NamedTuple):
    """A command: call a library for one op, as a converter does."""

    library: Path
    call: ConverterCall


class ConverterReply(NamedTuple):
    """Shape and data type of each output, or the fault of the library."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    fault: str


def ask_all(library: Path, calls: Sequence[ConverterCall], *, timeout: float | None) -> list[ConverterReply]:
    """The library's replies to all calls, from a worker."""
    check_loadable(library, "converter op package")
    worker, deadline = WorkerProcess(__name__), deadline_of(timeout)
    replies: list[ConverterReply] = []
    fault = ""
    try:
        for call in calls:
            reply = worker.ask(AskConverter(library, call), ConverterReply, deadline=deadline)
            if isinstance(reply, Failed):
                raise error_of(reply)
            replies.append(reply)
    except TimeoutError:
        fault = f"did not return within {timeout:g} s"
    except (EOFError, Garbled):
        fault = "ended its process"
    finally:
        returncode = worker.end(0.5 if fault else 0.0)
    if fault:
        op = calls[len(replies)].op
        how = fault if fault.startswith("did") else f"{fault} ({returncode})"
        raise RunFailed(
            f"{library.name} {how} when it was called for op `{op}`",
            hint=f"see {op}ShapeInference and {op}DataTypeInference in ConverterOpPackage.cpp",
            details=worker.output()[-5:],
        )
    return replies


class _Converter:
    """The worker's side: one loaded library."""

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None

    def ask(self, command: AskConverter) -> ConverterReply:
        """Call both functions of the op."""
        if self._library is None:
            self._library = ctypes.CDLL(str(command.library))
        call = command.call
        results = {name: _call(self._library, call, name) for name in ("ShapeInference", "DataTypeInference")}
        faults = [f"{call.op}{name} returned {status}" for name, (status, _, _) in results.items() if status]
        (shape_status, shapes, _), (type_status, _, dtypes) = results.values()
        return ConverterReply(() if shape_status else shapes, () if type_status else dtypes, next(iter(faults), ""))


def _call(
    library: ctypes.CDLL, call: ConverterCall, function: str
) -> tuple[int, tuple[tuple[int, ...], ...], tuple[str, ...]]:
    """The status of a function, and the shape and data type of each output that it filled in."""
    outputs = [
        QnnTensor(f"output{number}", dtype="INT_8", shape=[0] * _MOST_AXES, role=APP_READ)
        for number in range(call.outputs)
    ]
    for output in outputs:
        output.struct.v1.rank, output.struct.v1.dataType = 0, _UNKNOWN
    config = OpConfig(
        call.op,
        package="",
        op_type=call.op,
        inputs=[_tensor(f"input{number}", given) for number, given in enumerate(call.inputs)],
        outputs=outputs,
        params=[_tensor(name, value) if isinstance(value, Given) else value for name, value in call.params.items()],
    )
    address = ctypes.cast(getattr(library, call.op + function), ctypes.c_void_p).value
    status = int(ffi().cast("Qnn_ErrorHandle_t(*)(Qnn_OpConfig_t*)", address)(config.struct))
    structs = [config.struct.v1.outputTensors[number].v1 for number in range(call.outputs)]
    dtypes = [row.name if (row := by_code(int(struct.dataType))) else "" for struct in structs]
    return status, tuple(tuple(struct.dimensions[0 : struct.rank]) for struct in structs), tuple(dtypes)


def _tensor(name: str, given: Given | None) -> QnnTensor:
    """A tensor as converters describe it; None is an input that the model omits."""
    if given is None:
        return QnnTensor(name, dtype="INT_8", shape=(), role=NULL)
    data = None
    if given.data is not None and given.dtype in _PACKED:
        kind = _PACKED[given.dtype]
        data = ffi().new(f"{kind}[]", [number if kind == "float" else int(number) for number in given.data] or [0])
    return QnnTensor(name, dtype=given.dtype, shape=given.shape, role=APP_WRITE, data=data)


def main() -> None:
    """Serve calls of one library."""
    from udogen.runtime.worker.serving import serve

    serve(lambda _parent: {AskConverter: _Converter().ask})
