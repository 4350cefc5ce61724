"""The request of the program that emulates DSP V65/V66; udogen/emulator/hexagon/dsp.h describes the file.

Tensors are passed as documented: bytes with the range that they represent, or floats.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from udogen.errors import RunFailed
from udogen.runtime.hexagon.wire import pad, scalar_bytes, text
from udogen.runtime.op.calls import OpCall, ParamArg, TensorArg, arrays_of, checked_call, tensor_of

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_MAGIC = 0x324F4455
_MOST_AXES = 8
_LEFT_OUT = 0
VTCM = 256 << 10  # bytes in the harness; devices differ

# UDO's data types, by those of udogen: code, bytes, and how a scalar is stored.
_TYPES = {
    "FLOAT_16": (0x01, 2, ""),
    "FLOAT_32": (0x02, 4, "<f"),
    "UFIXED_POINT_8": (0x08, 1, ""),
    "SFIXED_POINT_8": (0x08, 1, ""),
    "UFIXED_POINT_16": (0x10, 2, ""),
    "SFIXED_POINT_16": (0x10, 2, ""),
    "UFIXED_POINT_32": (0x20, 4, ""),
    "SFIXED_POINT_32": (0x20, 4, ""),
    "UINT_8": (0x100, 1, "<Bxxx"),
    "BOOL_8": (0x100, 1, "<Bxxx"),
    "UINT_16": (0x200, 2, "<Hxx"),
    "UINT_32": (0x400, 4, "<I"),
    "INT_8": (0x1000, 1, "<bxxx"),
    "INT_16": (0x2000, 2, "<hxx"),
    "INT_32": (0x4000, 4, "<i"),
}
_SCALAR, _TEXT, _TENSOR = range(3)

STATUS = {
    1: "UDO_WRONG_CORE",
    2: "UDO_INVALID_ARGUMENT",
    3: "UDO_UNSUPPORTED_FEATURE",
    4: "UDO_MEM_ALLOC_ERROR",
    100: "UDO_WRONG_OPERATION",
    101: "UDO_WRONG_CORE_TYPE",
    102: "UDO_WRONG_NUM_OF_PARAMS",
    103: "UDO_WRONG_NUM_OF_DIMENSIONS",
    104: "UDO_WRONG_NUM_OF_INPUTS",
    105: "UDO_WRONG_NUM_OF_OUTPUTS",
    0xFFFFFFFF: "UDO_UNKNOWN_ERROR",
}


def encode(call: OpCall, guard: int) -> bytes:
    """The request for a call."""
    call = checked_call(call)
    inputs = [_tensor(call, arg) for arg in call.inputs]
    outputs = [_tensor(call, arg) for arg in call.outputs]
    params = [_param(call, param) for param in call.params]
    return b"".join(
        (
            struct.pack("<5I", _MAGIC, call.loops, call.poison, guard, VTCM),
            struct.pack("<3I", len(inputs), len(outputs), len(params)),
            text(call.package),
            text(call.op_type),
            *inputs,
            *outputs,
            *params,
        )
    )


def outputs_of(call: OpCall, raw: list[bytes], shapes: list[tuple[int, ...]]) -> dict[str, Array]:
    """The outputs, in the shapes that the op set, without the leading ones that the DSP adds."""
    outputs = []
    for arg, shape in zip(call.outputs, shapes, strict=True):
        surplus = len(shape) - len(arg.shape)
        outputs.append(replace(arg, shape=shape[surplus:] if surplus > 0 else shape))
    return arrays_of(replace(call, outputs=tuple(outputs)), [bytearray(each) for each in raw])


def _type(call: OpCall, name: str, dtype: str) -> tuple[int, int, str]:
    found = _TYPES.get(dtype)
    if found is None:
        raise RunFailed(
            f"`{name}` of op `{call.op_type}` is {dtype}, which DSP V65/V66 does not pass to ops",
            hint="one of " + ", ".join(_TYPES),
        )
    return found


def _tensor(call: OpCall, arg: TensorArg) -> bytes:
    if arg.omitted:
        return struct.pack("<IIffI8II", _LEFT_OUT, 0, 0, 0, 0, *[0] * _MOST_AXES, 0)
    code, element, _ = _type(call, arg.name, arg.dtype)
    scale, offset = arg.quant or (1.0, 0)
    # Types of one byte have a range.
    lowest, highest = (scale * offset, scale * (offset + 255)) if element == 1 else (0.0, 0.0)
    dims = [*arg.shape, *[0] * (_MOST_AXES - len(arg.shape))]
    size = prod(arg.shape) * element
    head = struct.pack("<IIffI8II", code, lowest < highest, lowest, highest, len(arg.shape), *dims, size)
    return head + (b"" if arg.array is None else pad(arg.array.tobytes()))


def _param(call: OpCall, param: ParamArg) -> bytes:
    if param.shape is not None:
        return struct.pack("<I", _TENSOR) + text(param.name) + _tensor(call, tensor_of(param))
    if isinstance(param.value, str):
        return struct.pack("<I", _TEXT) + text(param.name) + text(param.value)
    code, _, form = _type(call, param.name, param.dtype)
    return struct.pack("<I", _SCALAR) + text(param.name) + struct.pack("<I", code) + scalar_bytes(param, form)
