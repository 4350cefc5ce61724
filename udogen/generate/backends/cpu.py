"""The CPU backend: how a model is said in C++ for `libQnnCpu.so`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from udogen.generate.plan import Plan, PlannedFile, Source, record
from udogen.opdef import values
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage, Tensor
from udogen.opdef.names import cpp_comment, cpp_string, identifier

_HEADERS = ("QnnCommon.h", "QnnTypes.h", "QnnLog.h", "QnnOpPackage.h", "CPU/QnnCpuOpPackage.h")
_COPIES = (
    "makefiles/linux.mk",
    "makefiles/Makefile.linux-x86_64",
    "makefiles/Makefile.linux-aarch64",
    "makefiles/Application.mk",
    "src/utils/BackendUtils.hpp",
    "src/utils/CustomOpUtils.hpp",
    "src/utils/CPU/CpuBackendUtils.hpp",
    "src/utils/CPU/CpuBackendUtils.cpp",
)
# Where a number is nearer to infinity, or to zero, than to a FLOAT_32.
_INFINITE, _FLOAT_ENDS, _FLOAT_BEGINS = float("inf"), float.fromhex("0x1.ffffffp127"), 2.0**-150
_TARGETS = ("cpu_x86", "cpu_aarch64", "cpu_android")


def plan(package: OpPackage, source: Source) -> Plan:
    """The CPU package folder."""
    shared = {
        "package": record(
            name=package.name, literal=cpp_string(package.name), provider=f"{package.name}InterfaceProvider"
        ),
        "config": source.label,
    }
    ops = [_op(number, op) for number, op in enumerate(package.ops)]
    tables = [table for op in ops for table in op.tables if table.type]
    defaults = [table for op in ops for table in op.tables if not table.type]
    everything = {**shared, "ops": ops, "tables": tables, "defaults": defaults, "count": len(ops)}
    files = [
        _rendered("Makefile", everything),
        _rendered("makefiles/Android.mk", everything),
        _rendered("src/CpuCustomOpPackage.cpp", everything),
        PlannedFile(f"src/{package.name}Interface.cpp", template="qnn/cpu/src/Interface.cpp.mako", data=shared),
        *(PlannedFile(path, copy=f"qnn/cpu/{path}") for path in _COPIES),
        *(PlannedFile(f"include/QNN/{path}", copy=f"headers:{path}") for path in _HEADERS),
        *(PlannedFile(f"config/{name}", content=content) for name, content in source.configs.items()),
    ]
    for op in ops:
        data = {**shared, "op": op}
        files.append(PlannedFile(op.header, template="qnn/cpu/include/ops/Op.hpp.mako", data=data))
        ready = source.kernels.get(op.name)
        template = "" if ready is not None else "qnn/cpu/src/ops/Op.cpp.mako"
        files.append(PlannedFile(op.kernel, template=template, data=data, content=ready, yours=True))
    return Plan(
        package=package.name,
        backend="cpu",
        layout="qnn",
        library=f"lib{package.name}.so",
        provider=f"{package.name}InterfaceProvider",
        ops=tuple(op.name for op in package.ops),
        configs=tuple(f"config/{name}" for name in source.configs),
        targets=_TARGETS,
        files=tuple(sorted(files, key=lambda file: file.path)),
    )


def _rendered(path: str, data: dict[str, object]) -> PlannedFile:
    return PlannedFile(path, template=f"qnn/cpu/{path}.mako", data=data)


def _op(number: int, op: Op) -> SimpleNamespace:
    prefix = f"op{number}"
    tables: list[SimpleNamespace] = []
    inputs = _tensor_table(f"{prefix}Inputs", op.inputs, tables)
    outputs = _tensor_table(f"{prefix}Outputs", op.outputs, tables)
    params = _param_table(f"{prefix}Params", op.params, tables)
    enum_types = _enum_types(op)
    fields = [
        *(_tensor_field(tensor, index, "input") for index, tensor in enumerate(op.inputs)),
        *(_tensor_field(tensor, index, "output") for index, tensor in enumerate(op.outputs)),
        *(_param_field(param, f"{prefix}Param{index}", tables, enum_types) for index, param in enumerate(op.params)),
    ]
    return record(
        number=number,
        name=op.name,
        literal=cpp_string(op.name),
        kernel=f"src/ops/{op.name}.cpp",
        header=f"include/ops/{op.name}.hpp",
        description=cpp_comment("\n".join(passage.text for passage in op.description)),
        enums=[_enum(param, enum_types[param.name]) for param in op.params if param.enum],
        fields=[*_presence_fields(op, {field.name for field in fields}), *fields],
        tables=tables,
        inputs=inputs,
        outputs=outputs,
        params=params,
    )


# --- tables that validation reads ---------------------------------------------------------------------------


def _tensor_table(name: str, tensors: Sequence[Tensor], tables: list[SimpleNamespace]) -> str:
    rows = [
        f"{{{cpp_string(tensor.name)}, {_types(name, index, tensor, tables)}, {_ranks(name, index, tensor, tables)}, "
        f"{_bool(tensor.mandatory)}, {_bool(tensor.repeated)}}}"
        for index, tensor in enumerate(tensors)
    ]
    tables.append(record(type="TensorSpec", name=name, items=rows))
    return name


def _param_table(name: str, params: Sequence[Tensor], tables: list[SimpleNamespace]) -> str:
    if not params:
        return "{}"
    rows = [
        f"{{{cpp_string(param.name)}, {_types(name, index, param, tables)}, {_ranks(name, index, param, tables)}, "
        f"{_bool(param.is_scalar)}, {_bool(_required(param))}, {len(param.enum)}}}"
        for index, param in enumerate(params)
    ]
    tables.append(record(type="ParamSpec", name=name, items=rows))
    return name


def _types(name: str, index: int, tensor: Tensor, tables: list[SimpleNamespace]) -> str:
    tables.append(record(type="Qnn_DataType_t", name=f"{name}{index}Types", items=[_code(d) for d in tensor.datatypes]))
    return f"{name}{index}Types"


def _code(datatype: DataType) -> str:
    """The enumerator; the number for types that older SDK headers do not know."""
    if datatype.bits == 4 or datatype.name in ("BFLOAT_16", "FLOAT_64", "STRING"):
        return f"static_cast<Qnn_DataType_t>(0x{datatype.code:04x})"
    return datatype.qnn


def _ranks(name: str, index: int, tensor: Tensor, tables: list[SimpleNamespace]) -> str:
    if not tensor.rank.ranks or tensor.is_scalar:
        return "{}"
    tables.append(record(type="std::uint32_t", name=f"{name}{index}Ranks", items=[str(r) for r in tensor.rank.ranks]))
    return f"{name}{index}Ranks"


def _required(param: Tensor) -> bool:
    """A mandatory parameter with a default may be left out: the default is applied."""
    return param.mandatory and param.default is None


# --- what a kernel sees -------------------------------------------------------------------------------------


def _tensor_field(tensor: Tensor, index: int, role: str) -> SimpleNamespace:
    view = _view(tensor.datatypes, role)
    if tensor.repeated:
        return _field(tensor, f"udo::Repeated<{view}>", f"node.{role}s<{view}>({index})")
    return _field(tensor, view, f"node.{role}<{view}>({index})")


def _field(tensor: Tensor, kind: str, value: str, initial: str = "") -> SimpleNamespace:
    return record(name=identifier(tensor.name), type=kind, initial=initial, comment=_comment(tensor), value=value)


def _view(datatypes: Sequence[DataType], role: str) -> str:
    kind = "Output" if role == "output" else "Input"
    return f"udo::{kind}<{_element(datatypes[0])}>" if len(datatypes) == 1 else f"udo::Any{kind}"


def _element(datatype: DataType) -> str:
    """The C++ type of one stored element."""
    return datatype.c_type if datatype.c_type in ("float", "double") else f"std::{datatype.c_type or 'uint8_t'}"


def _presence_fields(op: Op, taken: set[str]) -> list[SimpleNamespace]:
    """`has_x` for each scalar x that may be absent; it gives way to a tensor that is really called so."""
    found = []
    for param in op.params:
        if param.mandatory or param.default is not None or not _by_value(param):
            continue
        name = f"has_{identifier(param.name)}"
        while name in taken:
            name += "_"
        comment = [f"whether the client gave {identifier(param.name)}"]
        value = f"node.has({cpp_string(param.name)})"
        found.append(record(name=name, type="bool", initial=" = false", comment=comment, value=value))
    return found


def _by_value(param: Tensor) -> bool:
    return param.is_scalar or all(datatype.kind == "string" for datatype in param.datatypes)


def _param_field(param: Tensor, table: str, tables: list[SimpleNamespace], enums: Mapping[str, str]) -> SimpleNamespace:
    literal, name = cpp_string(param.name), identifier(param.name)
    if all(datatype.kind == "string" for datatype in param.datatypes):
        otherwise = cpp_string(values.show(param.default)) if param.default is not None else '""'
        return _field(param, "const char*", f"node.string({literal}, args.{name})", f" = {otherwise}")
    if param.is_scalar:
        return _scalar_field(param, literal, enums)
    view = _view(param.datatypes, "input")
    if param.default is None:
        return _field(param, view, f"node.tensor<{view}>({literal})")
    _default_tables(param, table, tables)
    return _field(param, view, f"node.tensor<{view}>({literal}, &{table}Default)")


def _scalar_field(param: Tensor, literal: str, enums: Mapping[str, str]) -> SimpleNamespace:
    name = identifier(param.name)
    default = param.default if isinstance(param.default, bool | int | float) else 0
    if param.enum:
        kind = enums[param.name]
        initial = f"{kind}::{identifier(param.enum[int(default)])}"
    else:
        kind = _scalar_type(param.datatypes)
        initial = _number(default, kind)
    return _field(param, kind, f"node.scalar({literal}, args.{name})", f" = {initial}")


def _default_tables(param: Tensor, table: str, tables: list[SimpleNamespace]) -> None:
    """The default of a tensor parameter as a tensor of its own."""
    default = param.default if param.default is not None else 0
    leaves, dims = values.flatten(default), values.shape(default) or (1,)
    datatype = next((row for row in param.datatypes if _holds(row, leaves)), param.datatypes[0])
    element = _element(datatype)
    tables.append(record(type=element, name=f"{table}Data", items=[_number(leaf, element) for leaf in leaves] or ["0"]))
    tables.append(record(type="std::uint32_t", name=f"{table}Dims", items=[str(dim) for dim in dims]))
    made = f"defaultTensor({_code(datatype)}, {table}Data, {table}Dims, {len(dims)})"
    tables.append(record(type="", name=f"{table}Default", value=made))


def _holds(datatype: DataType, leaves: Sequence[object]) -> bool:
    """Whether a tensor of this type can store these numbers as they are."""
    span = datatype.range()
    return span is None or all(isinstance(leaf, int) and span[0] <= leaf <= span[1] for leaf in leaves)


def _scalar_type(datatypes: Sequence[DataType]) -> str:
    """The C++ type that holds every value of these types exactly, as far as there is one."""
    if len(datatypes) == 1:
        only = datatypes[0]
        if only.kind == "bool":
            return "bool"
        if only.kind == "float":
            return "double" if only.bits == 64 else "float"
        return _element(only)
    if not all(datatype.integral for datatype in datatypes):
        return "double"
    return "std::int64_t" if any(datatype.kind == "int" for datatype in datatypes) else "std::uint64_t"


def _number(value: object, kind: str) -> str:
    """A number as a C++ literal of this type; compilers warn of one that the type cannot hold, so it never is."""
    number = value if isinstance(value, bool | int | float) else 0
    if kind == "bool":
        return _bool(bool(number))
    if kind in ("float", "double"):
        return _real(float(number), kind)
    bits, signed = int(kind.removeprefix("std::").removeprefix("u")[3:-2]), kind.startswith("std::i")
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    whole = round(min(max(number, low), high)) if number == number else 0
    if not signed:
        return f"{whole}u"
    if whole == low and bits >= 32:
        return f"INT{bits}_MIN"
    return f"INT64_C({whole})" if bits == 64 else str(whole)


def _real(value: float, kind: str) -> str:
    if value != value:
        return "NAN"
    if abs(value) == _INFINITE or (kind == "float" and abs(value) >= _FLOAT_ENDS):
        return "-INFINITY" if value < 0 else "INFINITY"
    if kind == "float":
        return repr(0.0 if abs(value) <= _FLOAT_BEGINS else value) + "f"
    return repr(value)


def _enum_types(op: Op) -> dict[str, str]:
    """The C++ type of each enumeration, by its parameter; it gives way to a field that is called so."""
    taken = {identifier(tensor.name) for tensor in op.tensors}
    found = {}
    for param in op.params:
        if param.enum:
            name = f"{identifier(param.name).rstrip('_')}_enum"
            while name in taken:
                name += "_t"
            taken.add(name)
            found[param.name] = name
    return found


def _enum(param: Tensor, name: str) -> SimpleNamespace:
    base = _scalar_type(param.datatypes)
    if base == "bool" or not _holds(param.datatypes[0], [len(param.enum) - 1]):
        base = "std::uint32_t"
    items = [record(name=identifier(item), value=value) for value, item in enumerate(param.enum)]
    return record(name=name, base=base, items=items)


def _comment(tensor: Tensor) -> list[str]:
    facts = [" or ".join(datatype.name for datatype in tensor.datatypes)]
    facts.append("scalar" if tensor.is_scalar else f"rank {tensor.rank}".replace("rank ND", "any rank"))
    if tensor.layout and tensor.layout != "UNDEFINED":
        facts.append(tensor.layout)
    if tensor.role != "param" and not tensor.mandatory:
        facts.append("optional: test it before use")
    if tensor.default is not None and tensor.role == "param":
        facts.append(f"default {values.show(tensor.default)[:60]}")
    if tensor.default_text:
        facts.append(f"default {tensor.default_text[:60]}, which is yours to apply")
    text = "; ".join(passage.text for passage in tensor.description)
    return cpp_comment(f"{', '.join(facts)}." + (f"  {text}" if text else ""))


def _bool(value: bool) -> str:
    return "true" if value else "false"
