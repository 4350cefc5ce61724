"""The contents of an SNPE registration library (SnpeUdo_RegInfo_t), with names from the header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
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
_MOST = 10_000  # of anything: more is a structure with another layout
_LONGEST = 1024  # SNPE_UDO_MAX_STRING_SIZE

# Members of the union for the value of a scalar, by its type; FLOAT_16 has none, its bits are those of the integer.
_VALUES = {
    "FLOAT_32": "floatValue",
    **{f"UINT_{bits}": f"uint{bits}Value" for bits in (8, 16, 32)},
    **{f"INT_{bits}": f"int{bits}Value" for bits in (8, 16, 32)},
    "FIXED_4": "uint8Value",
    **{f"FIXED_{bits}": f"uint{bits}Value" for bits in (8, 16, 32)},
}


# SNPE's data types -> possible types of QNN, the usual one first.
_IN_QNN = {
    "UINT_8": ("UINT_8", "UFIXED_POINT_8", "BOOL_8"),
    "UINT_16": ("UINT_16", "UFIXED_POINT_16"),
    "UINT_32": ("UINT_32", "UFIXED_POINT_32", "UINT_64"),
    "INT_8": ("INT_8", "SFIXED_POINT_8", "BOOL_8"),
    "INT_16": ("INT_16", "SFIXED_POINT_16"),
    "INT_32": ("INT_32", "SFIXED_POINT_32", "INT_64"),
    "FIXED_4": ("UFIXED_POINT_4", "SFIXED_POINT_4"),
    "FIXED_8": ("UFIXED_POINT_8", "SFIXED_POINT_8", "UINT_8", "INT_8"),
    "FIXED_16": ("UFIXED_POINT_16", "SFIXED_POINT_16", "UINT_16", "INT_16"),
    "FIXED_32": ("UFIXED_POINT_32", "SFIXED_POINT_32", "UINT_32", "INT_32"),
    "FLOAT_16": ("FLOAT_16", "BFLOAT_16"),
    "FLOAT_32": ("FLOAT_32", "FLOAT_64"),
}


Numbers = tuple[int, ...]


@dataclass(frozen=True)
class RegisteredTensor:
    """An input or an output: `print(tensor.name, tensor.types)`."""

    name: str
    layout: str  # NHWC, NCHW …; LAST where none is given
    types: Mapping[str, str]  # core -> FLOAT_32, UINT_8 …
    repeated: bool
    static: bool

    @property
    def on_cpu(self) -> tuple[str, ...]:
        """The data types of QNN that it may have on CPU, the usual one first; empty if unknown."""
        return _IN_QNN.get(self.types.get("CPU", ""), ())


@dataclass(frozen=True)
class RegisteredParam:
    """A parameter, with its default: `print(param.name, param.value)`."""

    name: str
    kind: str  # scalar, tensor, string
    type: str
    value: float | int | str | None  # of a scalar or a text
    shape: Numbers  # of a tensor

    @property
    def on_cpu(self) -> tuple[str, ...]:
        """The data types of QNN that it may have on CPU, the usual one first."""
        return ("STRING",) if self.kind == "string" else _IN_QNN.get(self.type, ("FLOAT_32",))


@dataclass(frozen=True)
class RegisteredOp:
    """One operation: `print(op.type, op.cores)`."""

    type: str
    cores: tuple[str, ...]
    params: tuple[RegisteredParam, ...]
    inputs: tuple[RegisteredTensor, ...]
    outputs: tuple[RegisteredTensor, ...]
    calculates: Mapping[str, tuple[str, ...]]  # core -> the types in which its kernel calculates


@dataclass(frozen=True)
class Registration:
    """The contents of a registration library: `print(registration.package, registration.libraries)`."""

    path: Path
    package: str
    cores: tuple[str, ...]  # CPU, GPU, DSP
    libraries: tuple[tuple[str, str], ...]  # (core, file name)
    ops: tuple[RegisteredOp, ...]
    version: Numbers  # of the package
    api_version: Numbers

    def libraries_of(self, core: str) -> tuple[str, ...]:
        """The file names of a core's implementation libraries: DSP V65/V66 has one for each op, beside that of V68."""
        return tuple(name for owner, name in self.libraries if owner == core)

    def ops_of(self, core: str) -> tuple[RegisteredOp, ...]:
        """The operations for one core."""
        return tuple(op for op in self.ops if core in op.cores)


def open_library(path: str) -> Any:
    """Load the library with all symbols resolved; OSError if the loader refuses."""
    ffi = abi.ffi(abi.UDO)
    return ffi.dlopen(path, ffi.RTLD_NOW | ffi.RTLD_LOCAL)


def error(code: int) -> str:
    """`102 (SNPE_UDO_WRONG_NUM_OF_PARAMS)`; only the number if the API does not define it."""
    names = _words("SnpeUdo_ErrorType_t")
    return f"{code} (SNPE_UDO_{names[code]})" if code in names else str(code)


def registration_of(path: Path, versions: Any, info: Any) -> Registration:
    """The contents of a registration library, from its SnpeUdo_LibVersion_t and SnpeUdo_RegInfo_t."""
    api = _version(versions.apiVersion)
    operations = info.operationsInfo
    if api[:2] < _WITH_INFOS:
        operations = abi.ffi(abi.UDO).cast("udogen_OldOperationInfo *", operations)
    return Registration(
        path=path,
        package=_text(info.packageName),
        cores=_cores(info.supportedCoreTypes),
        libraries=tuple(
            (_word("CoreType", row.udoCoreType), _text(row.libraryName))
            for row in _rows(info.implementationLib, info.numOfImplementationLib)
        ),
        ops=tuple(_op(row) for row in _rows(operations, info.numOfOperations)),
        version=_version(versions.libVersion),
        api_version=api,
    )


def _version(row: Any) -> Numbers:
    return int(row.major), int(row.minor), int(row.teeny)


def _op(row: Any) -> RegisteredOp:
    count = _sane(row.numOfCoreInfo)
    return RegisteredOp(
        type=_text(row.operationType),
        cores=_cores(row.supportedByCores),
        params=tuple(_param(param) for param in _rows(row.staticParams, row.numOfStaticParams)),
        inputs=_tensors(getattr(row, "inputInfos", None), row.inputNames, row.numOfInputs, count),
        outputs=_tensors(getattr(row, "outputInfos", None), row.outputNames, row.numOfOutputs, count),
        calculates={
            _word("CoreType", info.udoCoreType): _bits("DataType", info.operationCalculationTypes)
            for info in _rows(row.opPerCoreInfo, count)
        },
    )


def _tensors(infos: Any, names: Any, number: int, cores: int) -> tuple[RegisteredTensor, ...]:
    """Tensors with their infos; a library of an older API has names only."""
    if not infos:
        return tuple(
            RegisteredTensor(_text(name), "", {}, repeated=False, static=False) for name in _rows(names, number)
        )
    return tuple(
        RegisteredTensor(
            name=_text(row.tensorName),
            layout=_word("TensorLayout", row.layout),
            types={
                _word("CoreType", core.coreType): _word("DataType", core.dataType)
                for core in _rows(row.perCoreDatatype, cores)
            },
            repeated=bool(row.repeated),
            static=bool(row.isStatic),
        )
        for row in _rows(infos, number)
    )


def _param(row: Any) -> RegisteredParam:
    ffi = abi.ffi(abi.UDO)
    name, kind = _text(row.paramName), _word("ParamType", row.paramType).lower()
    if kind == "string":
        return RegisteredParam(name, kind, "", _text(row.stringParam), ())
    if kind == "scalar":
        dtype = _word("DataType", row.scalarParam.dataType)
        value = getattr(row.scalarParam.dataValue, _VALUES.get(dtype, "uint32Value"))
        return RegisteredParam(name, kind, dtype, value, ())
    if kind != "tensor":
        return RegisteredParam(name, kind, "", None, ())
    tensor, shape = row.tensorParam, tuple[int, ...]()
    if tensor.currDimensions != ffi.NULL:
        shape = tuple(int(tensor.currDimensions[index]) for index in range(_sane(tensor.tensorRank)))
    return RegisteredParam(name, kind, _word("DataType", tensor.dataType), None, shape)


def _rows(pointer: Any, count: int) -> list[Any]:
    if count and not pointer:
        raise ValueError("a count is not 0, but its array is NULL")
    return [pointer[index] for index in range(_sane(count))]


def _cores(mask: int) -> tuple[str, ...]:
    return tuple(word for word in _bits("CoreType", mask) if word in CORES)


def _bits(kind: str, mask: int) -> tuple[str, ...]:
    return tuple(
        word for value, word in sorted(_words(f"SnpeUdo_{kind}_t").items()) if value & mask and value & (value - 1) == 0
    )


def _word(kind: str, number: int) -> str:
    return _words(f"SnpeUdo_{kind}_t").get(int(number), str(int(number)))


@cache
def _words(kind: str) -> dict[int, str]:
    """The enumerators of a type by number, without their prefix."""
    constants, prefix = abi.ffi(abi.UDO).typeof(kind).relements, _PREFIXES[kind]
    return {int(value): name.removeprefix(prefix) for name, value in constants.items() if name.startswith(prefix)}


def _sane(count: int) -> int:
    if count > _MOST:
        raise ValueError(f"a record claims to have {count} parts")
    return int(count)


def _text(pointer: Any) -> str:
    return abi.ffi(abi.UDO).string(pointer, _LONGEST).decode("utf-8", "replace") if pointer else ""
