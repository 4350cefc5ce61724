"""The contents of an SNPE registration library (SnpeUdo_RegInfo_t) as plain data, with names from the header."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from udogen.qnn import abi

CORES = ("CPU", "GPU", "DSP")
INIT, TERMINATE, INFO, VALIDATE = (
    "SnpeUdo_initRegLibrary",
    "SnpeUdo_terminateRegLibrary",
    "SnpeUdo_getRegInfo",
    "SnpeUdo_validateOperation",
)
VERSION = (
    "SnpeUdo_getVersion",
    "SnpeUdo_getRegLibraryVersion",
)  # either: generated libraries of the vendor have the first, its header declares both
FUNCTIONS = (INIT, VERSION[0], INFO, VALIDATE, TERMINATE)

_PREFIXES = {
    "SnpeUdo_ErrorType_t": "SNPE_UDO_",
    "SnpeUdo_CoreType_t": "SNPE_UDO_CORETYPE_",
    "SnpeUdo_DataType_t": "SNPE_UDO_DATATYPE_",
    "SnpeUdo_ParamType_t": "SNPE_UDO_PARAMTYPE_",
    "SnpeUdo_TensorLayout_t": "SNPE_UDO_LAYOUT_",
}

_WITH_INFOS = (1, 6)  # of the API: tensors have infos, not names alone
_MOST = 10_000  # of anything: more is a structure that was laid out otherwise
_LONGEST = 1024  # SNPE_UDO_MAX_STRING_SIZE

# Members of the union for the value of a scalar, by its type; FLOAT_16 has none, its bits are those of the integer.
_VALUES = {
    "FLOAT_32": "floatValue",
    **{f"UINT_{bits}": f"uint{bits}Value" for bits in (8, 16, 32)},
    **{f"INT_{bits}": f"int{bits}Value" for bits in (8, 16, 32)},
    "FIXED_4": "uint8Value",
    **{f"FIXED_{bits}": f"uint{bits}Value" for bits in (8, 16, 32)},
}


def open_library(path: str) -> Any:
    """The library, with all that it needs resolved at once; OSError where the loader refuses."""
    ffi = abi.ffi(abi.UDO)
    return ffi.dlopen(path, ffi.RTLD_NOW | ffi.RTLD_LOCAL)


def error(code: int) -> str:
    """`102 (SNPE_UDO_WRONG_NUM_OF_PARAMS)`; the number alone where the API does not define it."""
    names = _words("SnpeUdo_ErrorType_t")
    return f"{code} (SNPE_UDO_{names[code]})" if code in names else str(code)


def version_of(pointer: Any) -> dict[str, list[int]]:
    """Version of the library and of the API it was built with."""
    return {
        name: [int(getattr(row, part)) for part in ("major", "minor", "teeny")]
        for name, row in (("library", pointer.libVersion), ("api", pointer.apiVersion))
    }


def registration_of(info: Any, api: Sequence[int] = _WITH_INFOS) -> dict[str, Any]:
    """The contents of a registration library that was built with this version of the API."""
    operations = info.operationsInfo
    if tuple(api[:2]) < _WITH_INFOS:
        operations = abi.ffi(abi.UDO).cast("udogen_OldOperationInfo *", operations)
    return {
        "package": _text(info.packageName),
        "cores": _cores(info.supportedCoreTypes),
        "libraries": [
            {"core": _word("CoreType", row.udoCoreType), "name": _text(row.libraryName)}
            for row in _rows(info.implementationLib, info.numOfImplementationLib)
        ],
        "operations": _text(info.operationsString),
        "ops": [_op(row) for row in _rows(operations, info.numOfOperations)],
    }


def _op(row: Any) -> dict[str, Any]:
    cores = _cores(row.supportedByCores)
    count = _sane(row.numOfCoreInfo)
    return {
        "type": _text(row.operationType),
        "cores": cores,
        "params": [_param(each) for each in _rows(row.staticParams, row.numOfStaticParams)],
        "inputs": _tensors(getattr(row, "inputInfos", None), row.inputNames, row.numOfInputs, count),
        "outputs": _tensors(getattr(row, "outputInfos", None), row.outputNames, row.numOfOutputs, count),
        "calculates": {
            _word("CoreType", each.udoCoreType): _bits("DataType", each.operationCalculationTypes)
            for each in _rows(row.opPerCoreInfo, count)
        },
    }


def _tensors(infos: Any, names: Any, number: int, cores: int) -> list[dict[str, Any]]:
    """Tensors with their infos; a library of an older API has names only."""
    if not infos:
        return [
            {"name": _text(name), "layout": "", "types": {}, "repeated": False, "static": False}
            for name in _rows(names, number)
        ]
    return [
        {
            "name": _text(row.tensorName),
            "layout": _word("TensorLayout", row.layout),
            "types": {
                _word("CoreType", each.coreType): _word("DataType", each.dataType)
                for each in _rows(row.perCoreDatatype, cores)
            },
            "repeated": bool(row.repeated),
            "static": bool(row.isStatic),
        }
        for row in _rows(infos, number)
    ]


def _param(row: Any) -> dict[str, Any]:
    ffi = abi.ffi(abi.UDO)
    kind = _word("ParamType", row.paramType).lower()
    found: dict[str, Any] = {"name": _text(row.paramName), "kind": kind, "type": "", "value": None, "shape": []}
    if kind == "string":
        found["value"] = _text(row.stringParam)
    elif kind == "scalar":
        found["type"] = _word("DataType", row.scalarParam.dataType)
        found["value"] = getattr(row.scalarParam.dataValue, _VALUES.get(found["type"], "uint32Value"))
    elif kind == "tensor":
        tensor = row.tensorParam
        found["type"] = _word("DataType", tensor.dataType)
        if tensor.currDimensions != ffi.NULL:
            found["shape"] = [int(tensor.currDimensions[index]) for index in range(_sane(tensor.tensorRank))]
    return found


def _rows(pointer: Any, count: int) -> list[Any]:
    if count and not pointer:
        raise ValueError("a count is not 0, and what it counts is NULL")
    return [pointer[index] for index in range(_sane(count))]


def _cores(mask: int) -> list[str]:
    return [word for word in _bits("CoreType", mask) if word in CORES]


def _bits(kind: str, mask: int) -> list[str]:
    return [
        word for value, word in sorted(_words(f"SnpeUdo_{kind}_t").items()) if value & mask and value & (value - 1) == 0
    ]


def _word(kind: str, number: int) -> str:
    return _words(f"SnpeUdo_{kind}_t").get(int(number), str(int(number)))


@cache
def _words(kind: str) -> dict[int, str]:
    """The enumerators of a type by their number, without what they all begin with."""
    found, prefix = abi.ffi(abi.UDO).typeof(kind).relements, _PREFIXES[kind]
    return {int(value): name.removeprefix(prefix) for name, value in found.items() if name.startswith(prefix)}


def _sane(count: int) -> int:
    if count > _MOST:
        raise ValueError(f"a record claims to have {count} parts")
    return int(count)


def _text(pointer: Any) -> str:
    return abi.ffi(abi.UDO).string(pointer, _LONGEST).decode("utf-8", "replace") if pointer else ""
