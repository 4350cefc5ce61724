"""Loads a converter op package and asks it for the shapes and data types of outputs, as a converter does.

It runs in a worker, so a crash of the library's code is an error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from udogen.errors import RunFailed
from udogen.opdef.datatypes import BY_NAME, by_code
from udogen.opdef.shape_rules import Given
from udogen.qnn.abi import ffi
from udogen.runtime.channel import Failed, Garbled
from udogen.runtime.failures import error_of
from udogen.runtime.library import check_loadable
from udogen.runtime.worker_process import WorkerProcess, deadline_of

_UNKNOWN = 0x7FFFFFFF
_MOST_AXES = 8
_PACKED = {"INT_32": "int32_t", "UINT_32": "uint32_t", "INT_64": "int64_t", "UINT_8": "uint8_t", "FLOAT_32": "float"}
_FIELDS = {
    "INT_8": "int8Value",
    "INT_16": "int16Value",
    "INT_32": "int32Value",
    "INT_64": "int64Value",
    "UINT_8": "uint8Value",
    "UINT_16": "uint16Value",
    "UINT_32": "uint32Value",
    "UINT_64": "uint64Value",
    "FLOAT_32": "floatValue",
    "BOOL_8": "bool8Value",
    "STRING": "stringValue",
}


class ScalarParam(NamedTuple):
    """A parameter that is one value."""

    dtype: str
    value: int | float | bool | str


class Returned(NamedTuple):
    """What a function of the library returned: its status, and shape, data type and changing extents of each output."""

    status: int
    shapes: list[tuple[int, ...]]
    dtypes: list[str]
    dynamic: list[tuple[bool, ...]]


class Converter:
    """The library, loaded into this process."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._c: Any = ffi()

    def _fill_param(self, param: Any, name: str, value: ScalarParam | Given, version: int) -> list[Any]:
        """Fill in a parameter; returns the memory that it refers to."""
        label = self._c.new("char[]", name.encode())
        param.name, param.paramType = label, isinstance(value, Given)
        if isinstance(value, Given):
            return [label, self._fill(param.tensorParam, value, version, None)]
        text = self._c.new("char[]", value.value.encode()) if isinstance(value.value, str) else None
        param.scalarParam.dataType = BY_NAME[value.dtype].code
        setattr(param.scalarParam, _FIELDS[value.dtype], value.value if text is None else text)
        return [label, text]

    def ask(
        self,
        function: str,
        inputs: Sequence[Given | None],
        params: Mapping[str, ScalarParam | Given] | None = None,
        *,
        outputs: int = 1,
        version: int = 1,
        dynamic: Sequence[Sequence[bool]] = (),
    ) -> Returned:
        """Call one function. None is an input that the model leaves out; `dynamic`: which extents can change."""
        c, keep = self._c, list[Any]()
        given = c.new("Qnn_Tensor_t[]", max(len(inputs), 1))
        for index, each in enumerate(inputs):
            flags = [*dynamic[index]] if index < len(dynamic) else None
            keep.append(self._fill(given[index], each, version, flags))
        wanted = c.new("Qnn_Tensor_t[]", max(outputs, 1))
        for index in range(outputs):
            keep.append(self._fill(wanted[index], Given((), "INT_8"), version, [False] * _MOST_AXES))
            wanted[index].v1.dataType = _UNKNOWN
        params = params or {}
        made = c.new("Qnn_Param_t[]", max(len(params), 1))
        for param, (name, value) in zip(made, params.items(), strict=False):
            keep += self._fill_param(param, name, value, version)
        config = c.new("Qnn_OpConfig_t*")
        config.version = 1
        config.v1.numOfInputs, config.v1.inputTensors = len(inputs), given
        config.v1.numOfOutputs, config.v1.outputTensors = outputs, wanted
        config.v1.numOfParams, config.v1.params = len(params), made
        address = ctypes.cast(getattr(self._library, function), ctypes.c_void_p).value
        status = int(c.cast("Qnn_ErrorHandle_t(*)(Qnn_OpConfig_t*)", address)(config))
        found = [wanted[index] for index in range(outputs)]
        return Returned(
            status,
            [tuple(each.v1.dimensions[0 : each.v1.rank]) for each in found],
            [row.name if (row := by_code(int(each.v1.dataType))) else "" for each in found],
            [tuple(map(bool, each.v2.isDynamicDimensions[0 : each.v1.rank])) if version == 2 else () for each in found],
        )

    def _fill(self, tensor: Any, given: Given | None, version: int, dynamic: list[bool] | None) -> list[Any]:
        """Write a tensor; returns what must be kept while it is used."""
        c = self._c
        tensor.version = version
        if given is None:
            tensor.v1.type = 5  # QNN_TENSOR_TYPE_NULL
            return []
        dims = c.new(f"uint32_t[{_MOST_AXES}]", list(given.shape))
        keep = [dims]
        tensor.v1.rank, tensor.v1.dimensions = len(given.shape), dims
        tensor.v1.dataType = BY_NAME[given.dtype].code
        if given.data is not None and given.dtype in _PACKED:
            kind = _PACKED[given.dtype]
            values = c.new(f"{kind}[]", [int(each) if kind != "float" else each for each in given.data] or [0])
            keep.append(values)
            tensor.v1.clientBuf.data = values
            tensor.v1.clientBuf.dataSize = c.sizeof(kind) * len(given.data)
        if version == 2 and dynamic is not None:
            flags = c.new(f"uint8_t[{_MOST_AXES}]", dynamic)
            keep.append(flags)
            tensor.v2.isDynamicDimensions = flags
        return keep


class Question(NamedTuple):
    """One op of a model, as a converter describes it."""

    op: str
    inputs: Sequence[Given | None]
    params: Mapping[str, ScalarParam | Given]
    outputs: int


class AskConverter(NamedTuple):
    """A command: ask a library about one op, as a converter does."""

    library: Path
    question: Question


class Answer(NamedTuple):
    """Shape and data type of each output, or why there are none."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    fault: str


def ask_all(library: Path, questions: Sequence[Question], *, timeout: float | None) -> list[Answer]:
    """What the library returns for each question, in a worker."""
    check_loadable(library, "converter op package")
    worker, deadline = WorkerProcess(__name__), deadline_of(timeout)
    found: list[Answer] = []
    fault = ""
    try:
        for question in questions:
            answer = worker.ask(AskConverter(library, question), Answer, deadline=deadline)
            if isinstance(answer, Failed):
                raise error_of(answer)
            found.append(answer)
    except TimeoutError:
        fault = f"did not return within {timeout:g} s"
    except (EOFError, Garbled):
        fault = "ended its process"
    finally:
        returncode = worker.end(0.5 if fault else 0.0)
    if fault:
        op = questions[len(found)].op
        how = fault if fault.startswith("did") else f"{fault} ({returncode})"
        raise RunFailed(
            f"{library.name} {how} when it was asked for op `{op}`",
            hint=f"see {op}ShapeInference and {op}DataTypeInference in ConverterOpPackage.cpp",
            details=worker.output()[-5:],
        )
    return found


class _Host:
    """The worker: one library."""

    def __init__(self) -> None:
        self._converter: Converter | None = None

    def ask(self, command: AskConverter) -> Answer:
        """Call both functions of the op."""
        if self._converter is None:
            self._converter = Converter(command.library)
        question = command.question
        fault, shapes, dtypes = "", list[tuple[int, ...]](), list[str]()
        for function in ("ShapeInference", "DataTypeInference"):
            found = self._converter.ask(
                question.op + function, question.inputs, question.params, outputs=question.outputs
            )
            if found.status:
                fault = fault or f"{question.op}{function} returned {found.status}"
            elif function == "ShapeInference":
                shapes = found.shapes
            else:
                dtypes = found.dtypes
        return Answer(tuple(shapes), tuple(dtypes), fault)


def main() -> None:
    """Answer questions about one library."""
    from udogen.runtime.worker.serving import serve

    serve(lambda _parent: {AskConverter: _Host().ask})
