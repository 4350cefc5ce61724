"""The files of a program under qemu-hexagon: the request for a call, and the reply.

Programs of HTP get tensors as libQnnHtp 2.47 and 2.51 deliver them to kernels (measured for each type): signed types of
8 and 16 bits with a flipped sign bit and a shifted zero offset, boolean parameters as a Float32 that holds an integer.
Programs of DSP V65/V66 get them as documented: as bytes with the range that they represent, or as floats.
udogen/emulator/hexagon/harness.h and dsp.h describe the files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from udogen.errors import RunFailed
from udogen.qnn.tensors import QnnTensor, Scalar
from udogen.runtime.failures import PLACES, Stray
from udogen.runtime.op.calls import CallParam, OpCall, arrays_of, checked_call

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_Row = TypeVar("_Row")

_MAGIC = 0x314F4455
_MOST_AXES = 8


class StoredElement(NamedTuple):
    """How HTP stores a data type: its element type, and the bias that is added to signed values."""

    code: int
    bias: int = 0
    size: int = 1


ELEMENTS = {
    "FLOAT_32": StoredElement(4, size=4),
    "FLOAT_16": StoredElement(8, size=2),
    "INT_32": StoredElement(5, size=4),
    "UINT_32": StoredElement(5, size=4),
    "UFIXED_POINT_8": StoredElement(1),
    "SFIXED_POINT_8": StoredElement(1, bias=1 << 7),
    "UINT_8": StoredElement(1),
    "INT_8": StoredElement(1, bias=1 << 7),
    "BOOL_8": StoredElement(1),
    "UFIXED_POINT_16": StoredElement(2, size=2),
    "SFIXED_POINT_16": StoredElement(2, bias=1 << 15, size=2),
    "UINT_16": StoredElement(2, size=2),
    "INT_16": StoredElement(2, bias=1 << 15, size=2),
}

# Scalar parameters: their format in the C API, and the data type that HTP stores.
_SCALARS = {
    "FLOAT_32": ("<f", "FLOAT_32"),
    "INT_32": ("<i", "INT_32"),
    "UINT_32": ("<I", "UINT_32"),
    "INT_16": ("<h", "INT_16"),
    "UINT_16": ("<H", "UINT_16"),
    "INT_8": ("<b", "INT_8"),
    "UINT_8": ("<B", "UINT_8"),
    "BOOL_8": ("<I", "FLOAT_32"),
}

# The values that mark a missing input: `absent` of HtpParameters.cpp, LEFT_OUT of kernels.c.
_LEFT_OUT = (0x6F647561, 0x62736E74, -0x1D6E3C85, 0x5EED0C0D)

PHASE, LOG, FAILED, DETAIL, KERNEL, STATUS, TIME, STRAY, OUTPUT, DONE, THROWN, SHAPE = range(1, 13)
RESOURCES = {"main": 1, "hvx": 2, "hmx": 4}


GUARDS = {"": 0, "end": 1, "begin": 2}  # `Watch.guard` -> guard_side of udogen/emulator/hexagon/guards.h
_KINDS: tuple[tuple[str, Callable[[OpCall], Any]], ...] = (
    ("input", lambda call: call.inputs),
    ("output", lambda call: call.outputs),
    ("parameter", lambda call: call.params),
    ("memory", lambda _call: ()),
)
_MEMORY = ("VTCM", "precomputed data", "sync block")


class KernelChoice(NamedTuple):
    """Which kernel record to run, and on how many threads."""

    name: str = ""  # of a kernel, or one of RESOURCES; empty: the first that fits
    slices: int = 1


def encode(call: OpCall, kernel: KernelChoice, guard: int) -> bytes:
    """The request for a call of an HTP kernel."""
    call = checked_call(call)
    inputs = [_tensor(call, arg) for arg in call.inputs]
    inputs += [_left_out()] * call.left_out
    inputs += [_param(call, param) for param in call.params]
    outputs = [_tensor(call, arg) for arg in call.outputs]
    unit = RESOURCES.get(kernel.name, 0)
    return b"".join(
        (
            struct.pack("<5I", _MAGIC, call.loops, call.poison, guard, kernel.slices),
            struct.pack("<3I", unit, len(inputs), len(outputs)),
            _text(f"{call.package}::{call.op_type}"),
            _text("" if unit else kernel.name),
            *inputs,
            *outputs,
        )
    )


def records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each record; a record that a crash cut off is omitted."""
    at = 0
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<2I", data, at)
        if at + 8 + length > len(data):
            return
        yield kind, data[at + 8 : at + 8 + length]
        at += 8 + length


def stray_of(call: OpCall, content: bytes) -> Stray:
    """The access of a kernel to memory that is not its own, from a record of the program."""
    kind, number, where, how, offset, count, size = struct.unpack("<7I", content)
    role, named = _KINDS[kind]
    if role == "memory":
        name = _MEMORY[number]
    elif role == "input" and number >= len(call.inputs):  # HTP passes params as further inputs
        behind = number - len(call.inputs) - call.left_out
        role, name = ("parameter", call.params[behind].name) if behind >= 0 else (role, "(left out)")
    else:
        name = named(call)[number].name
    return Stray(("wrote", "read")[how], PLACES[where], role, name, size, offset, count)


def outputs_of(call: OpCall, raw: list[bytes]) -> Mapping[str, Any]:
    """The outputs, in the types of the call."""
    turned = [bytearray(_turn(ELEMENTS[arg.dtype], data)) for arg, data in zip(call.outputs, raw, strict=True)]
    return arrays_of(call, turned)


def _element(call: OpCall, name: str, dtype: str) -> StoredElement:
    return _row(ELEMENTS, "HTP", call, name, dtype)


def _row(table: Mapping[str, _Row], backend: str, call: OpCall, name: str, dtype: str) -> _Row:
    """The row of a table that describes how a backend stores a type."""
    if dtype not in table:
        raise RunFailed(
            f"`{name}` of op `{call.op_type}` is {dtype}, which {backend} does not pass to ops",
            hint="one of " + ", ".join(table),
        )
    return table[dtype]


def _tensor(call: OpCall, arg: QnnTensor) -> bytes:
    if arg.omitted:
        raise RunFailed(
            f"input `{arg.name}` of op `{call.op_type}` is left out, which HTP does not allow", hint="give it"
        )
    element = _element(call, arg.name, arg.dtype)
    scale, offset = arg.scale_offset or (1.0, 0)
    data = b"" if arg.data is None else _turn(element, arg.data.tobytes())
    size = prod(arg.shape) * element.size
    return _head(element, element.bias - offset, scale, arg.static, arg.shape, size) + _pad(data)


def _left_out() -> bytes:
    """The placeholder that packages of udogen put in place of an omitted input when HTP prepares a graph."""
    data = struct.pack("<4i", *_LEFT_OUT)
    return _head(ELEMENTS["INT_32"], 0, 1.0, True, (1, 1, 1, len(_LEFT_OUT)), len(data)) + data


def _scalar_bytes(param: Scalar, form: str) -> bytes:
    """A scalar, packed with a format of `struct`; an empty format is for a type that cannot be passed."""
    try:
        data = struct.pack(form, param.value) if form else b""
    except struct.error:
        data = b""
    if not data:
        raise RunFailed(f"param `{param.name}`: {param.value} cannot be passed as {param.dtype}", hint="see its type")
    return data


def _param(call: OpCall, param: CallParam) -> bytes:
    if isinstance(param, QnnTensor):
        return _tensor(call, param)
    form, dtype = _SCALARS.get(param.dtype, ("", ""))
    data = _scalar_bytes(param, form)
    element = _element(call, param.name, dtype)
    return _head(element, element.bias, 1.0, True, (), len(data)) + _pad(_turn(element, data))


def _head(element: StoredElement, zero: int, step: float, constant: bool, shape: Any, size: int) -> bytes:
    dims = [*shape, *([0] * (_MOST_AXES - len(shape)))]
    return struct.pack("<IifII8II", element.code, zero, step, constant, len(shape), *dims, size)


def _turn(element: StoredElement, data: bytes) -> bytes:
    """Convert signed values to unsigned ones, or back."""
    if not element.bias:
        return data
    import numpy as np

    stored = np.frombuffer(data, f"<u{element.size}")
    return bytes((stored ^ stored.dtype.type(element.bias)).tobytes())


def _text(content: str) -> bytes:
    """A text, encoded with its length."""
    data = content.encode()
    return struct.pack("<I", len(data)) + _pad(data)


def _pad(data: bytes) -> bytes:
    """Bytes, padded to a multiple of 4."""
    return data + bytes(-len(data) % 4)


# --- programs of DSP V65/V66 ------------------------------------------------------------------------------------------

_UDO_MAGIC = 0x324F4455
_UDO_LEFT_OUT = 0
UDO_VTCM = 256 << 10  # bytes in the harness; devices differ

# The data types of udogen in UDO: code, bytes, and the format of a stored scalar.
_UDO_TYPES = {
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

UDO_STATUS = {
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


def encode_udo(call: OpCall, guard: int) -> bytes:
    """The request for a call of a DSP op."""
    call = checked_call(call)
    inputs = [_udo_tensor(call, arg) for arg in call.inputs]
    outputs = [_udo_tensor(call, arg) for arg in call.outputs]
    params = [_udo_param(call, param) for param in call.params]
    return b"".join(
        (
            struct.pack("<5I", _UDO_MAGIC, call.loops, call.poison, guard, UDO_VTCM),
            struct.pack("<3I", len(inputs), len(outputs), len(params)),
            _text(call.package),
            _text(call.op_type),
            *inputs,
            *outputs,
            *params,
        )
    )


def udo_outputs(call: OpCall, raw: list[bytes], shapes: list[tuple[int, ...]]) -> dict[str, Array]:
    """The outputs, in the shapes that the op set, without leading axes that the DSP adds."""
    outputs = []
    for arg, shape in zip(call.outputs, shapes, strict=True):
        surplus = len(shape) - len(arg.shape)
        outputs.append(replace(arg, shape=shape[surplus:] if surplus > 0 else shape))
    return arrays_of(replace(call, outputs=tuple(outputs)), [bytearray(content) for content in raw])


def _udo_type(call: OpCall, name: str, dtype: str) -> tuple[int, int, str]:
    return _row(_UDO_TYPES, "DSP V65/V66", call, name, dtype)


def _udo_tensor(call: OpCall, arg: QnnTensor) -> bytes:
    if arg.omitted:
        return struct.pack("<IIffI8II", _UDO_LEFT_OUT, 0, 0, 0, 0, *[0] * _MOST_AXES, 0)
    code, element, _ = _udo_type(call, arg.name, arg.dtype)
    scale, offset = arg.scale_offset or (1.0, 0)
    # Only types of one byte have a range.
    lowest, highest = (scale * offset, scale * (offset + 255)) if element == 1 else (0.0, 0.0)
    dims = [*arg.shape, *[0] * (_MOST_AXES - len(arg.shape))]
    size = prod(arg.shape) * element
    head = struct.pack("<IIffI8II", code, lowest < highest, lowest, highest, len(arg.shape), *dims, size)
    return head + (b"" if arg.data is None else _pad(arg.data.tobytes()))


def _udo_param(call: OpCall, param: CallParam) -> bytes:
    if isinstance(param, QnnTensor):
        return struct.pack("<I", _TENSOR) + _text(param.name) + _udo_tensor(call, param)
    if isinstance(param.value, str):
        return struct.pack("<I", _TEXT) + _text(param.name) + _text(param.value)
    code, _, form = _udo_type(call, param.name, param.dtype)
    return struct.pack("<I", _SCALAR) + _text(param.name) + struct.pack("<I", code) + _scalar_bytes(param, form)
