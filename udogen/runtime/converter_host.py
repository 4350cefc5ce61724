"""Loads a converter op package and asks it for the shapes and data types of outputs, as a converter does.

`main` is a child's program: it reads questions from a JSON file and prints a line of JSON for each. A crash of the
library's code ends the child alone.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from udogen import process
from udogen.errors import RunFailed
from udogen.opdef.datatypes import BY_NAME, by_code
from udogen.opdef.shape_rules import Given
from udogen.qnn.abi import ffi
from udogen.runtime.library import check_loadable

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
        made = c.new("Qnn_Param_t[]", max(len(params or {}), 1))
        for place, (name, value) in zip(made, (params or {}).items(), strict=False):
            place.name = label = c.new("char[]", name.encode())
            keep.append(label)
            if isinstance(value, Given):
                place.paramType = 1
                keep.append(self._fill(place.tensorParam, value, version, None))
            else:
                place.paramType = 0
                place.scalarParam.dataType = BY_NAME[value.dtype].code
                text = c.new("char[]", value.value.encode()) if isinstance(value.value, str) else None
                keep.append(text)
                setattr(place.scalarParam, _FIELDS[value.dtype], value.value if text is None else text)
        config = c.new("Qnn_OpConfig_t*")
        config.version = 1
        config.v1.numOfInputs, config.v1.inputTensors = len(inputs), given
        config.v1.numOfOutputs, config.v1.outputTensors = outputs, wanted
        config.v1.numOfParams, config.v1.params = len(params or {}), made
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


class Answer(NamedTuple):
    """Shape and data type of each output, or why there are none."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    fault: str


def ask_all(library: Path, questions: Sequence[Question], *, timeout: float | None) -> list[Answer]:
    """The library's answers, asked in a child process."""
    check_loadable(library, "converter op package")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"library": str(library), "questions": [_packed(each) for each in questions]}, file)
        file.flush()
        argv = [sys.executable, "-c", process.python_program(__name__), file.name]
        done = process.run(argv, timeout=timeout, tied=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"answer"')]
    found = [Answer(tuple(map(tuple, each["shapes"])), tuple(each["dtypes"]), each["fault"]) for each in lines]
    if len(found) < len(questions):
        op = questions[len(found)].op
        how = f"did not return within {timeout:g} s" if done.timed_out else f"ended its process ({done.returncode})"
        raise RunFailed(
            f"{library.name} {how} when it was asked for op `{op}`",
            hint=f"see {op}ShapeInference and {op}DataTypeInference in ConverterOpPackage.cpp",
            details=done.stderr.strip().splitlines()[-5:],
        )
    return found


def _packed(question: Question) -> dict[str, object]:
    def tensor(given: Given | None) -> object:
        return None if given is None else [list(given.shape), given.dtype, given.data and list(given.data)]

    params = {
        name: {"tensor": tensor(each)} if isinstance(each, Given) else {"scalar": list(each)}
        for name, each in question.params.items()
    }
    return {
        "op": question.op, "inputs": [tensor(each) for each in question.inputs],
        "params": params, "outputs": question.outputs,
    }  # fmt: skip


def main() -> None:
    """Answer the questions of a file."""
    asked = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the library prints is no answer
    converter = Converter(Path(asked["library"]))

    def tensor(raw: Any) -> Given | None:
        return None if raw is None else Given(tuple(raw[0]), raw[1], raw[2])

    for each in asked["questions"]:
        inputs = [tensor(raw) for raw in each["inputs"]]
        params: dict[str, ScalarParam | Given] = {}
        for name, raw in each["params"].items():
            given = tensor(raw["tensor"]) if "tensor" in raw else ScalarParam(*raw["scalar"])
            assert given is not None
            params[name] = given
        fault, shapes, dtypes = "", list[tuple[int, ...]](), list[str]()
        for function in ("ShapeInference", "DataTypeInference"):
            found = converter.ask(each["op"] + function, inputs, params, outputs=each["outputs"])
            if found.status:
                fault = fault or f"{each['op']}{function} returned {found.status}"
            elif function == "ShapeInference":
                shapes = found.shapes
            else:
                dtypes = found.dtypes
        answers.write(json.dumps({"answer": each["op"], "shapes": shapes, "dtypes": dtypes, "fault": fault}) + "\n")
