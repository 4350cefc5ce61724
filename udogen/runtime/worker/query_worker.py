"""The worker that serves queries about a package without running its ops.

* The kernels that a package of HTP registers: a stub library has the runtime's symbols, and calls back here.
* Shapes and data types of outputs, from a converter op package that is called as a converter does.
* The contents of a registration library of SNPE, and the paths at which the loader finds libraries.
* Whether a package accepts an op as described by another file, which may lack ranks, or have other names for types.
  A generated package that refuses an op reports what it accepts; this is tried next, if the description allows it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from udogen.errors import RunFailed
from udogen.opdef import datatypes
from udogen.opdef.shape_rules import Given
from udogen.qnn import abi, udo
from udogen.qnn.interface import ERROR
from udogen.qnn.tensors import APP_READ, APP_WRITE, NULL, STATIC, OpConfig, Param, QnnTensor, Scalar
from udogen.qnn.udo import RegisteredOp, RegisteredParam, RegisteredTensor
from udogen.runtime.package_queries import (
    AskConverter,
    ConverterAsked,
    ConverterCall,
    ConverterReply,
    Judgement,
    JudgeOps,
    KernelTypes,
    LibraryLocated,
    LocateLibrary,
    OpsJudged,
    ReadRecords,
    ReadRegistration,
    RecordsRead,
)
from udogen.runtime.worker.loaded_package import LoadedPackage, loaded_stub
from udogen.runtime.worker.serving import Commands, Parent, serve

# --- kernel records of HTP --------------------------------------------------------------------------------------------

_REGISTER, _INIT = "qhpi_register_ops_v1", "qhpi_init"


def read_records(command: ReadRecords, on_phase: Callable[[str], None]) -> RecordsRead:
    """The kernels that `qhpi_init` of a package registers."""
    ffi = abi.ffi()
    ops = dict[str, tuple[KernelTypes, ...]]()
    problems: list[Exception] = []

    def register(count: int, rows: Any, _package: Any) -> int:
        try:
            for index in range(_sane(count)):
                row = rows[index]
                ops[_text(row.name)] = tuple(_types(row.kernels[number]) for number in range(_sane(row.num_kernels)))
        except (ValueError, RuntimeError, MemoryError) as problem:
            problems.append(problem)
        return 0

    callback = ffi.callback("QHPI_StatusCode(uint32_t, QHPI_OpInfo_v1 *, char const *)", register)
    others = [name for name in command.stubs if name != _REGISTER]
    with loaded_stub(_REGISTER, others, callback, mode=os.RTLD_GLOBAL):  # so that the package finds its symbols
        on_phase("load the op package")
        try:
            package = ctypes.CDLL(str(command.library), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as problem:
            raise RunFailed(f"the op package cannot be loaded: {problem}") from problem
    on_phase(f"register its kernels ({_INIT})")
    getattr(package, _INIT)()
    if problems:
        raise RunFailed(
            f"the kernel records of the op package cannot be read: {problems[0]}",
            hint="build the package with the headers of SDK 2.47 or later, whose layout of records is expected",
        )
    return RecordsRead(ops)


# Enumerators of QHPI_Element_Type; their values are read from the header.
_ELEMENTS = "QUInt8 QUInt16 QInt16 Float32 Int32 QInt32 QInt8 Float16 Int64 Any_Element_Type"
_MOST = 100_000  # parts of a record; more means that the table has another layout


def _types(kernel: Any) -> KernelTypes:
    names = {int(abi.ffi().integer_const(f"QHPI_{name}")): name for name in _ELEMENTS.split()}

    def of(signatures: Any, count: int) -> tuple[str, ...]:
        numbers = (signatures[index].element_type for index in range(_sane(count)))
        return tuple(names.get(number, str(number)) for number in numbers)

    return KernelTypes(of(kernel.input_signature, kernel.min_inputs), of(kernel.output_signature, kernel.min_outputs))


def _sane(count: int) -> int:
    if count > _MOST:
        raise ValueError(f"a record claims to have {count} parts")
    return count


def _text(pointer: Any) -> str:
    return abi.ffi().string(pointer, 1024).decode("utf-8", "replace") if pointer else ""


# --- registration libraries of SNPE -----------------------------------------------------------------------------------


def read_registration(command: ReadRegistration, on_phase: Callable[[str], None]) -> udo.Registration:
    """The contents of a registration library, read as SNPE reads it: init, version, info, terminate."""
    ffi = abi.ffi(abi.UDO)
    on_phase("load the registration library")
    try:
        library = udo.open_library(str(command.library))
    except OSError as problem:
        raise RunFailed(
            f"the registration library cannot be loaded: {problem}",
            hint="check that the libraries it is linked with are found, too",
        ) from problem
    _call(library, udo.INIT, on_phase)
    name = next((symbol for symbol in udo.VERSION if hasattr(library, symbol)), udo.VERSION[0])
    version = ffi.new("SnpeUdo_LibVersion_t **")
    _call(library, name, on_phase, version)
    info = ffi.new("SnpeUdo_RegInfo_t **")
    _call(library, udo.INFO, on_phase, info)
    on_phase("read the registration")
    try:
        registration = udo.registration_of(command.library, version[0], info[0][0])
    except (ValueError, RuntimeError) as problem:
        raise RunFailed(
            f"the information of the registration library cannot be read: {problem}",
            hint="build it with headers of SNPE 2.x (API 1.6 of SnpeUdo/UdoBase.h)",
        ) from problem
    _call(library, udo.TERMINATE, on_phase)
    return registration


def _call(library: Any, name: str, on_phase: Callable[[str], None], result: Any = None) -> None:
    """Call a function of a registration library; raises if it returns an error code, or no result."""
    on_phase(name)
    code = getattr(library, name)(*(() if result is None else (result,)))
    if code:
        raise RunFailed(f"{name} of the registration library returned {udo.error(code)}", hint=_HINT)
    if result is not None and not result[0]:
        raise RunFailed(f"{name} of the registration library returned neither error nor result", hint=_HINT)


_HINT = "see jni/src/reg: SNPE would refuse the package too"


def locate_library(command: LocateLibrary, on_phase: Callable[[str], None]) -> LibraryLocated:
    """The path at which the loader finds a library that is named without a folder."""
    on_phase("look for the library")
    ffi, name = abi.ffi(abi.UDO), command.name
    try:
        kept = ffi.dlopen(name, ffi.RTLD_LAZY)  # lazy, because symbols of the runtime are undefined here
    except OSError as problem:
        # The error for a library that was found, but cannot be loaded, begins with its path.
        text = str(problem).removeprefix(f"cannot load library '{name}': ")
        return LibraryLocated(text.partition(": ")[0] if text.startswith("/") else "")
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    paths = {line.partition("/")[2] for line in maps.splitlines()}
    ffi.dlclose(kept)
    return LibraryLocated(next((f"/{path}" for path in sorted(paths) if path.endswith(f"/{name}")), ""))


# --- validation -------------------------------------------------------------------------------------------------------

_RANKS = (4, 1, 2, 3, 5)  # for packages that report nothing


class _Refusal(ctypes.Structure):
    """Why a generated package refused an op (`udo::Refusal` of Validation.hpp)."""

    VALUE, TYPE, RANK, OTHER_OP = range(4)
    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("tensor", ctypes.c_char_p),  # or the parameter
        ("accepted", ctypes.POINTER(ctypes.c_uint32)),  # data types or ranks
        ("count", ctypes.c_size_t),
    )
    kind: int
    tensor: bytes | None
    accepted: Any
    count: int


_NOTHING = _Refusal()
_Accepts = Callable[[OpConfig], tuple[bool, str, _Refusal]]


def judge_ops(command: JudgeOps, on_phase: Callable[[str], None]) -> OpsJudged:
    """Judge each op: whether validateOpConfig accepts it, and the reason if it does not."""
    on_phase("load the op package")
    lines: list[str] = []
    package = LoadedPackage(str(command.library), command.provider)
    package.log_to(lambda _level, text: lines.append(text), ERROR)
    init, validate = package.v1_4("init"), package.v1_4("validateOpConfig")
    if not validate:
        return OpsJudged(())
    ffi = abi.ffi()
    if init:
        on_phase("init")
        init(ffi.NULL)
    call = ffi.cast("udogen_TakesOpConfigAlone", validate)
    on_phase("validateOpConfig")

    refusal = package.exported(f"{command.package}Refusal", ctypes.POINTER(_Refusal))

    def accepts(op: OpConfig) -> tuple[bool, str, _Refusal]:
        lines.clear()
        accepted = call(op.by_value()) == 0
        return accepted, lines[0] if lines else "", refusal()[0] if refusal else _NOTHING

    return OpsJudged(tuple(_judge(op, command.package, accepts) for op in command.ops))


def _judge(op: RegisteredOp, package: str, accepts: _Accepts) -> Judgement:
    reason = ""
    for rank in _RANKS:
        types: dict[str, str] = {}
        ranks: dict[str, int] = {}
        refusal = _NOTHING
        for _ in range(2 * len(_all(op)) + 1):
            accepted, reason, refusal = accepts(_config(op, package, rank, types, ranks))
            if accepted:
                return Judgement(accepted=True)
            if not _mend(op, refusal, types, ranks):
                break
        if refusal.kind in (_Refusal.OTHER_OP, _Refusal.TYPE):
            return Judgement(accepted=False, reason=reason, other=True)
    return Judgement(accepted=False, reason=reason)


def _mend(op: RegisteredOp, refusal: _Refusal, types: dict[str, str], ranks: dict[str, int]) -> bool:
    """Set a type or rank that the package accepts, if the description allows it; False if nothing was set."""
    name = (refusal.tensor or b"").decode("utf-8", "replace")
    if refusal.kind == _Refusal.RANK and name not in ranks:
        ranks[name] = refusal.accepted[0]
        return True
    if refusal.kind != _Refusal.TYPE or name in types:
        return False
    described: Sequence[str] = next((tensor.on_cpu for tensor in _all(op) if tensor.name == name), ())
    names = {row.name for code in refusal.accepted[: refusal.count] if (row := datatypes.by_code(code))}
    fitting = next((dtype for dtype in described if dtype in names), None)
    if fitting is None:
        return False
    types[name] = fitting
    return True


def _all(op: RegisteredOp) -> list[RegisteredTensor | RegisteredParam]:
    return [*op.inputs, *op.outputs, *op.params]


def _config(op: RegisteredOp, package: str, rank: int, types: dict[str, str], ranks: dict[str, int]) -> OpConfig:
    def tensor(declared: RegisteredTensor, role: str) -> QnnTensor:
        shape = [1] * ranks.get(declared.name, rank)
        return QnnTensor(declared.name, dtype=types.get(declared.name, declared.on_cpu[0]), shape=shape, role=role)

    def param(declared: RegisteredParam) -> Param:
        dtype = types.get(declared.name, declared.on_cpu[0])
        if declared.value is not None:
            return Scalar(declared.name, dtype, declared.value)
        return QnnTensor(
            declared.name, dtype=dtype, shape=declared.shape or [1] * ranks.get(declared.name, 1), role=STATIC
        )

    return OpConfig(
        op.type,
        package=package,
        op_type=op.type,
        inputs=[tensor(declared, APP_WRITE) for declared in op.inputs],
        outputs=[tensor(declared, APP_READ) for declared in op.outputs],
        params=[param(declared) for declared in op.params],
    )


# --- converter op packages --------------------------------------------------------------------------------------------

_UNKNOWN = 0x7FFFFFFF
_MOST_AXES = 8
_PACKED = {"INT_32": "int32_t", "UINT_32": "uint32_t", "INT_64": "int64_t", "UINT_8": "uint8_t", "FLOAT_32": "float"}


def ask_converter(command: AskConverter, on_phase: Callable[[str], None]) -> ConverterAsked:
    """Call both functions of each op, for the shapes and data types of its outputs."""
    on_phase("load the library")
    library = ctypes.CDLL(str(command.library))
    return ConverterAsked(tuple(_reply(library, call, on_phase) for call in command.calls))


def _reply(library: ctypes.CDLL, call: ConverterCall, on_phase: Callable[[str], None]) -> ConverterReply:
    outputs = [
        QnnTensor(f"output{number}", dtype="INT_8", shape=[0] * _MOST_AXES, role=APP_READ)
        for number in range(call.outputs)
    ]
    for output in outputs:
        output.struct.v1.rank, output.struct.v1.dataType = 0, _UNKNOWN
    params = {name: _given(name, value) if isinstance(value, Given) else value for name, value in call.params.items()}
    inputs = [_given(f"input{number}", given) for number, given in enumerate(call.inputs)]
    config = OpConfig(call.op, package="", op_type=call.op, inputs=inputs, outputs=outputs, params=[*params.values()])
    faults = []
    for function in (f"{call.op}ShapeInference", f"{call.op}DataTypeInference"):
        on_phase(function)
        address = ctypes.cast(getattr(library, function), ctypes.c_void_p).value
        status = int(abi.ffi().cast("Qnn_ErrorHandle_t(*)(Qnn_OpConfig_t*)", address)(config.struct))
        faults.append(f"{function} returned {status}" if status else "")
    structs = [config.struct.v1.outputTensors[number].v1 for number in range(call.outputs)]
    shapes = tuple(tuple(struct.dimensions[0 : struct.rank]) for struct in structs)
    dtypes = tuple(row.name if (row := datatypes.by_code(int(struct.dataType))) else "" for struct in structs)
    return ConverterReply(() if faults[0] else shapes, () if faults[1] else dtypes, faults[0] or faults[1])


def _given(name: str, given: Given | None) -> QnnTensor:
    """A tensor as converters describe it; None is an input that the model omits."""
    if given is None:
        return QnnTensor(name, dtype="INT_8", shape=(), role=NULL)
    data = None
    if given.data is not None and given.dtype in _PACKED:
        kind = _PACKED[given.dtype]
        numbers = [number if kind == "float" else int(number) for number in given.data]
        data = abi.ffi().new(f"{kind}[]", numbers or [0])
    return QnnTensor(name, dtype=given.dtype, shape=given.shape, role=APP_WRITE, data=data)


def main() -> None:
    """Serve queries about packages."""
    serve(commands_of)


def commands_of(parent: Parent) -> Commands:
    """Command -> function."""
    return {
        ReadRecords: partial(read_records, on_phase=parent.phase),
        ReadRegistration: partial(read_registration, on_phase=parent.phase),
        LocateLibrary: partial(locate_library, on_phase=parent.phase),
        JudgeOps: partial(judge_ops, on_phase=parent.phase),
        AskConverter: partial(ask_converter, on_phase=parent.phase),
    }
