"""Data types of ONNX, one row each, and what they are in QNN."""

from __future__ import annotations

from typing import NamedTuple

from udogen.opdef.datatypes import BY_NAME, DataType


class Row(NamedTuple):
    """One data type of ONNX."""

    onnx: str
    qnn: str  # what tensors of it are in QNN; empty where there is nothing like it
    why: str = ""  # where that is another type: who makes it so
    fixed: str = ""  # what it is in QNN where it is the stored side of a quantization


_WIDE = "converters make it so: no backend hands 64 bits to a custom op"

_ROWS = (
    Row("FLOAT", "FLOAT_32"),
    Row("FLOAT16", "FLOAT_16"),
    Row("BFLOAT16", "FLOAT_32", "no backend hands bfloat16 to a custom op"),
    Row("DOUBLE", "FLOAT_32", _WIDE),
    Row("INT8", "INT_8", "", "SFIXED_POINT_8"),
    Row("INT16", "INT_16", "", "SFIXED_POINT_16"),
    Row("INT32", "INT_32", "", "SFIXED_POINT_32"),
    Row("INT64", "INT_32", _WIDE),
    Row("UINT8", "UINT_8", "", "UFIXED_POINT_8"),
    Row("UINT16", "UINT_16", "", "UFIXED_POINT_16"),
    Row("UINT32", "UINT_32"),
    Row("UINT64", "UINT_32", _WIDE),
    Row("BOOL", "BOOL_8"),
    Row("INT4", "INT_8", "it is unpacked: no backend hands 4 bits to a custom op", "SFIXED_POINT_8"),
    Row("UINT4", "UINT_8", "it is unpacked: no backend hands 4 bits to a custom op", "UFIXED_POINT_8"),
)
BY_ONNX = {row.onnx: row for row in _ROWS}

# A type that a backend does not hand to custom ops -> the nearest that it does.
NEAREST = {
    "FLOAT_16": "FLOAT_32",
    "INT_16": "INT_32",
    "UINT_16": "UINT_32",
    "INT_8": "INT_32",
    "UINT_32": "INT_32",
    "SFIXED_POINT_8": "FLOAT_32",
    "SFIXED_POINT_16": "FLOAT_32",
    "SFIXED_POINT_32": "INT_32",
    "UFIXED_POINT_16": "FLOAT_32",
}


def of_tensor(dtype: str) -> DataType | None:
    """The type in QNN of a tensor that is not quantized; None where there is nothing like it."""
    row = BY_ONNX.get(dtype)
    return BY_NAME[row.qnn] if row and row.qnn else None


def of_stored(dtype: str) -> DataType | None:
    """The fixed-point type of integers that a DequantizeLinear reads."""
    row = BY_ONNX.get(dtype)
    return BY_NAME[row.fixed] if row and row.fixed else None


def why(dtype: str) -> str:
    """Why QNN has another type for it; empty where it has the same."""
    row = BY_ONNX.get(dtype)
    return row.why if row else ""
