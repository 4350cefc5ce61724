"""What a converter does with a converter op package: it asks for the shapes or the data types of one op's outputs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from udogen.generate.converter import LIBRARY
from udogen.opdef.datatypes import BY_NAME, by_code
from udogen.opdef.shape_rules import Given
from udogen.qnn.abi import ffi

_PACKED = {"INT_32": "int32_t", "UINT_32": "uint32_t", "INT_64": "int64_t", "UINT_8": "uint8_t", "FLOAT_32": "float"}
_FIELDS = {
    "INT_32": "int32Value",
    "UINT_32": "uint32Value",
    "INT_64": "int64Value",
    "UINT_64": "uint64Value",
    "FLOAT_32": "floatValue",
    "BOOL_8": "bool8Value",
    "STRING": "stringValue",
}


class Scalar(NamedTuple):
    """A parameter that is one value."""

    dtype: str
    value: Any


class Said(NamedTuple):
    """What a function answers: its status, and of each output shape, data type, and which extents can change."""

    status: int
    shapes: list[tuple[int, ...]]
    dtypes: list[str]
    dynamic: list[tuple[bool, ...]]


class Converter:
    """The library, loaded."""

    def __init__(self, folder: Path) -> None:
        self._library = ctypes.CDLL(str(folder / "ConverterOpPackage" / LIBRARY))
        self._c: Any = ffi()

    def ask(
        self,
        function: str,
        inputs: Sequence[Given | None],
        params: Mapping[str, Scalar | Given] | None = None,
        *,
        outputs: int = 1,
        version: int = 1,
        dynamic: Sequence[Sequence[bool]] = (),
    ) -> Said:
        """Ask one function; None is an input that the model leaves out; `dynamic` is said of the inputs."""
        c, keep = self._c, []
        given = c.new("Qnn_Tensor_t[]", max(len(inputs), 1))
        for index, each in enumerate(inputs):
            flags = [*dynamic[index]] if index < len(dynamic) else None
            keep.append(self._fill(given[index], each, version, flags))
        wanted = c.new("Qnn_Tensor_t[]", max(outputs, 1))
        for index in range(outputs):
            keep.append(self._fill(wanted[index], Given((), "INT_8"), version, [False] * 8))
            wanted[index].v1.dataType = 0x7FFFFFFF
        said = params or {}
        made = c.new("Qnn_Param_t[]", max(len(said), 1))
        for place, (name, value) in zip(made, said.items(), strict=False):
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
        config.v1.numOfParams, config.v1.params = len(said), made
        address = ctypes.cast(getattr(self._library, function), ctypes.c_void_p).value
        status = int(c.cast("Qnn_ErrorHandle_t(*)(Qnn_OpConfig_t*)", address)(config))
        found = [wanted[index] for index in range(outputs)]
        return Said(
            status,
            [tuple(each.v1.dimensions[0 : each.v1.rank]) for each in found],
            [row.name if (row := by_code(int(each.v1.dataType))) else "" for each in found],
            [tuple(map(bool, each.v2.isDynamicDimensions[0 : each.v1.rank])) if version == 2 else () for each in found],
        )

    def _fill(self, tensor: Any, said: Given | None, version: int, dynamic: list[bool] | None) -> list[Any]:
        """Write a tensor; what must be kept while it is used."""
        c = self._c
        tensor.version = version
        if said is None:
            tensor.v1.type = 5  # QNN_TENSOR_TYPE_NULL
            return []
        dims = c.new("uint32_t[8]", list(said.shape))
        keep = [dims]
        tensor.v1.rank, tensor.v1.dimensions, tensor.v1.dataType = len(said.shape), dims, BY_NAME[said.dtype].code
        if said.data is not None:
            kind = _PACKED[said.dtype]
            values = c.new(f"{kind}[]", [int(each) if kind != "float" else each for each in said.data] or [0])
            keep.append(values)
            tensor.v1.clientBuf.data = values
            tensor.v1.clientBuf.dataSize = c.sizeof(kind) * len(said.data)
        if version == 2 and dynamic is not None:
            flags = c.new("uint8_t[8]", dynamic)
            keep.append(flags)
            tensor.v2.isDynamicDimensions = flags
        return keep
