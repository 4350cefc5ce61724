"""The data types of QNN, one row each.

Values: `Qnn_DataType_t` of the public QNN API reference (and FLOAT_64, BFLOAT_16 of newer releases).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from udogen.errors import WrongType, kind_of


class DataType(NamedTuple):
    """A data type: its QNN name without prefix, its code, and its names in C++, numpy and SNPE."""

    name: str
    code: int
    bits: int
    kind: str  # int, uint, float, sfixed, ufixed, bool, string, special
    c_type: str  # storage type in C++; empty without one
    numpy: str  # storage type in numpy; empty without one
    snpe: str = ""  # the spelling of the UDO documentation, if it differs

    @property
    def qnn(self) -> str:
        """The name with its prefix, as QNN documents write it."""
        return self.name if self.kind == "special" else f"QNN_DATATYPE_{self.name}"

    @property
    def quantized(self) -> bool:
        """True for fixed-point types, which need a scale and an offset."""
        return self.kind in ("sfixed", "ufixed")

    @property
    def integral(self) -> bool:
        """True for types of integers."""
        return self.kind in ("int", "uint", "bool")

    def range(self) -> tuple[int, int] | None:
        """Smallest and largest storable integer; None for floats and strings."""
        if self.kind == "bool":
            return (0, 1)
        if self.kind in ("int", "sfixed"):
            return (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        if self.kind in ("uint", "ufixed"):
            return (0, (1 << self.bits) - 1)
        return None


ALL = (
    DataType("INT_8", 0x0008, 8, "int", "int8_t", "int8"),
    DataType("INT_16", 0x0016, 16, "int", "int16_t", "int16"),
    DataType("INT_32", 0x0032, 32, "int", "int32_t", "int32"),
    DataType("INT_64", 0x0064, 64, "int", "int64_t", "int64"),
    DataType("UINT_8", 0x0108, 8, "uint", "uint8_t", "uint8"),
    DataType("UINT_16", 0x0116, 16, "uint", "uint16_t", "uint16"),
    DataType("UINT_32", 0x0132, 32, "uint", "uint32_t", "uint32"),
    DataType("UINT_64", 0x0164, 64, "uint", "uint64_t", "uint64"),
    DataType("FLOAT_16", 0x0216, 16, "float", "", "float16"),
    DataType("BFLOAT_16", 0x0226, 16, "float", "", ""),
    DataType("FLOAT_32", 0x0232, 32, "float", "float", "float32"),
    DataType("FLOAT_64", 0x0264, 64, "float", "double", "float64"),
    DataType("SFIXED_POINT_4", 0x0304, 4, "sfixed", "", ""),
    DataType("SFIXED_POINT_8", 0x0308, 8, "sfixed", "int8_t", "int8"),
    DataType("SFIXED_POINT_16", 0x0316, 16, "sfixed", "int16_t", "int16"),
    DataType("SFIXED_POINT_32", 0x0332, 32, "sfixed", "int32_t", "int32"),
    DataType("UFIXED_POINT_4", 0x0404, 4, "ufixed", "", "", "FIXED_4"),
    DataType("UFIXED_POINT_8", 0x0408, 8, "ufixed", "uint8_t", "uint8", "FIXED_8"),
    DataType("UFIXED_POINT_16", 0x0416, 16, "ufixed", "uint16_t", "uint16", "FIXED_16"),
    DataType("UFIXED_POINT_32", 0x0432, 32, "ufixed", "uint32_t", "uint32"),
    DataType("BOOL_8", 0x0508, 8, "bool", "uint8_t", "bool"),
    DataType("STRING", 0x0608, 0, "string", "", ""),
)

# The type in the backend's supplement, and all types of the backend.
BACKEND_SPECIFIC = DataType("BACKEND_SPECIFIC", 0x7FFFFFFF, 0, "special", "", "")
ALL_VALID = DataType("ALL_VALID", 0x7FFFFFFF, 0, "special", "", "")

BY_NAME = {row.name: row for row in (*ALL, BACKEND_SPECIFIC, ALL_VALID)}
_BY_CODE = {row.code: row for row in ALL}
_SPELLINGS = {
    **BY_NAME,
    **{f"QNN_DATATYPE_{row.name}": row for row in ALL},
    **{row.snpe: row for row in ALL if row.snpe},
}


def parse(text: str) -> DataType | None:
    """The type that a config names, in any of the three spellings, or None."""
    return _SPELLINGS.get(text)


Named = Any  # how a caller of the API names a type: FLOAT_32, float32, numpy.float32, the dtype of an array
_OF_PYTHON = {"float": "float64", "int": "int64", "bool_": "bool"}  # as numpy understands them


def name_of(given: Named, *, quantized: bool = False) -> str:
    """The name in QNN of a type that a caller names; `quantized` makes uint8 UFIXED_POINT_8.

    A str that names no type is returned as it is.
    """
    named = given if isinstance(given, str) else getattr(given, "name", None) or getattr(given, "__name__", None)
    text = named if isinstance(named, str) else ""
    stored = _OF_PYTHON.get(text, text)
    rows = [datatype for datatype in ALL if datatype.numpy and datatype.numpy == stored]
    row = _SPELLINGS.get(text) or min(rows, key=lambda each: each.quantized != quantized, default=None)
    if row is not None:
        return row.name
    if not isinstance(given, str) or "\0" in given:
        hint = "give its name (FLOAT_32, UFIXED_POINT_8), or a type of numpy"
        raise WrongType(f"a data type is {kind_of(given)}", hint=hint)
    return given


def meant(text: str, allowed: Sequence[DataType] = ()) -> DataType | None:
    """The type of a config's spelling in any case, or of numpy's name (`float32`).

    Of several with the same name of numpy (`uint8`), it is an allowed one, preferably not fixed point.
    """
    datatype = parse(text) or parse(text.upper())
    if datatype is not None:
        return datatype
    rows = [row for row in ALL if row.numpy and row.numpy == text.lower()]
    return min(rows, key=lambda row: (bool(allowed) and row not in allowed, row.quantized), default=None)


def by_code(code: int) -> DataType | None:
    """The type with this `Qnn_DataType_t` value."""
    return _BY_CODE.get(code)


def spellings() -> list[str]:
    """Every accepted name, for messages and schemas."""
    return sorted(_SPELLINGS)
