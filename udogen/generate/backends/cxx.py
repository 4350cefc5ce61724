"""What the backends share in saying a model in C++: tables that validation reads, and the fields a kernel is given."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from udogen.backends.plan import record
from udogen.opdef import values
from udogen.opdef.datatypes import BY_NAME, DataType
from udogen.opdef.model import Op, Tensor
from udogen.opdef.names import cpp_comment, cpp_string, identifier

# Where a number is nearer to infinity, or to zero, than to a FLOAT_32.
_INFINITE, _FLOAT_ENDS, _FLOAT_BEGINS = float("inf"), float.fromhex("0x1.ffffffp127"), 2.0**-150


@dataclass(frozen=True)
class Default:
    """The default of a tensor parameter, as tables that hold its numbers and its dimensions."""

    datatype: DataType
    data: str
    dims: str
    rank: int


@dataclass(frozen=True)
class Dialect:
    """In what the backends differ."""

    element: Callable[[DataType], str]  # the C++ type of one stored element
    key: Callable[[Tensor, int], str]  # how a binding finds a parameter: by its name, or by its position
    default: Callable[[str, str, Default], tuple[SimpleNamespace | None, str]]  # (table or view) -> what stands for it
    can_omit: bool = True  # inputs; where one cannot be left out its default is the client's to give
    # Of a default: the C++ type of its elements where it is another, and what is added to its integers.
    stored: Callable[[DataType], str] | None = None
    shift: Callable[[DataType], int] = lambda _datatype: 0
    view: Callable[[Tensor], str] | None = None  # the C++ type of a tensor, where it does not follow from its elements


def op(number: int, op: Op, dialect: Dialect) -> SimpleNamespace:
    """One op as the templates see it."""
    prefix = f"op{number}"
    tables: list[SimpleNamespace] = []
    inputs = _tensor_table(f"{prefix}Inputs", op.inputs, tables, dialect)
    outputs = _tensor_table(f"{prefix}Outputs", op.outputs, tables, dialect)
    params = _param_table(f"{prefix}Params", op.params, tables, dialect)
    enum_types = _enum_types(op)
    fields = [
        *(
            _input_field(tensor, index, f"{prefix}Input{index}", tables, dialect)
            for index, tensor in enumerate(op.inputs)
        ),
        *(_tensor_field(tensor, index, dialect) for index, tensor in enumerate(op.outputs)),
        *(
            _param_field(param, dialect.key(param, index), f"{prefix}Param{index}", tables, enum_types, dialect)
            for index, param in enumerate(op.params)
        ),
    ]
    return record(
        number=number,
        name=op.name,
        literal=cpp_string(op.name),
        kernel=f"src/ops/{op.name}.cpp",
        header=f"include/ops/{op.name}.hpp",
        description=cpp_comment("\n".join(passage.text for passage in op.description)),
        enums=[_enum(param, enum_types[param.name]) for param in op.params if param.enum],
        fields=[*_presence_fields(op, {field.name for field in fields}, dialect), *fields],
        tensors=[identifier(tensor.name) for tensor in (*op.inputs, *op.outputs)],
        most_inputs=len(op.inputs) + len(op.params),
        most_outputs=len(op.outputs),
        tables=[table for table in tables if table.type],
        defaults=[table for table in tables if not table.type],
        inputs=inputs,
        outputs=outputs,
        params=params,
    )


# --- tables that validation reads ---------------------------------------------------------------------------


def _tensor_table(name: str, tensors: Sequence[Tensor], tables: list[SimpleNamespace], dialect: Dialect) -> str:
    rows = [
        f"{{{cpp_string(tensor.name)}, {_types(name, index, tensor, tables)}, {_ranks(name, index, tensor, tables)}, "
        f"{_bool(_required(tensor, dialect))}, {_bool(tensor.repeated)}{_only(name, index, tensor, tables)}}}"
        for index, tensor in enumerate(tensors)
    ]
    tables.append(record(type="TensorSpec", name=name, items=rows))
    return name


def _param_table(name: str, params: Sequence[Tensor], tables: list[SimpleNamespace], dialect: Dialect) -> str:
    if not params:
        return "{}"
    rows = [
        f"{{{cpp_string(param.name)}, {_types(name, index, param, tables)}, {_ranks(name, index, param, tables)}, "
        f"{_bool(param.is_scalar)}, {_bool(_required(param, dialect))}, {len(param.enum)}"
        f"{_only(name, index, param, tables)}}}"
        for index, param in enumerate(params)
    ]
    tables.append(record(type="ParamSpec", name=name, items=rows))
    return name


def _types(name: str, index: int, tensor: Tensor, tables: list[SimpleNamespace]) -> str:
    tables.append(record(type="Qnn_DataType_t", name=f"{name}{index}Types", items=[code(d) for d in tensor.accepted]))
    return f"{name}{index}Types"


def code(datatype: DataType) -> str:
    """The enumerator; the number for types that older SDK headers do not know."""
    if datatype.bits == 4 or datatype.name in ("BFLOAT_16", "FLOAT_64", "STRING"):
        return f"static_cast<Qnn_DataType_t>(0x{datatype.code:04x})"
    return datatype.qnn


def _ranks(name: str, index: int, tensor: Tensor, tables: list[SimpleNamespace]) -> str:
    if not tensor.rank.ranks or tensor.is_scalar:
        return "{}"
    tables.append(record(type="std::uint32_t", name=f"{name}{index}Ranks", items=[str(r) for r in tensor.rank.ranks]))
    return f"{name}{index}Ranks"


def _required(tensor: Tensor, dialect: Dialect) -> bool:
    """Whether a client must give it; an input with a default too, on a backend where none can be left out."""
    return tensor.required if tensor.role == "param" or dialect.can_omit else tensor.mandatory


def _only(name: str, index: int, tensor: Tensor, tables: list[SimpleNamespace]) -> str:
    """The last member of a row: the default, where no other value is supported."""
    if not tensor.only_default or (tensor.default is None and not tensor.default_text):
        return ""
    table = f"{name}{index}Only"
    leaves = values.flatten(tensor.default) if tensor.default is not None else []
    numbers = [leaf for leaf in leaves if isinstance(leaf, bool | int | float)]
    whole = [int(number) for number in numbers if number == number and float(number).is_integer()]
    halves = numbers if any(each.kind == "float" for each in tensor.accepted) else []
    bits = [(each + (1 << 63)) % (1 << 64) - (1 << 63) for each in whole]  # of UINT_64 too
    columns = (
        ("std::int64_t", "Whole", [_number(each, "std::int64_t") for each in bits] if whole == numbers else []),
        ("double", "Reals", [_number(each, "double") for each in numbers]),
        ("std::uint16_t", "Halves", [f"0x{_half(each):04x}u" for each in halves]),
    )
    for kind, column, items in columns:
        if items:
            tables.append(record(type=kind, name=f"{table}{column}", items=items))
    lists = ", ".join(f"{table}{column}" if items else "{}" for _, column, items in columns)
    text = cpp_string(leaves[0]) if leaves and isinstance(leaves[0], str) else "nullptr"
    tables.append(record(type="OnlyValue", name=table, items=[f"{{{lists}, {text}}}"]))
    return f", {table}"


# --- what a kernel is given ------------------------------------------------------------------------------------


def _input_field(
    tensor: Tensor, index: int, table: str, tables: list[SimpleNamespace], dialect: Dialect
) -> SimpleNamespace:
    if tensor.default is None or tensor.repeated or not dialect.can_omit:
        return _tensor_field(tensor, index, dialect)
    view = _view(tensor, dialect)
    made, otherwise = dialect.default(table, view, _default_tables(tensor, table, tables, dialect))
    tables += [made] if made is not None else []
    return _field(tensor, view, f"node.input<{view}>({index}, {otherwise})")


def _tensor_field(tensor: Tensor, index: int, dialect: Dialect) -> SimpleNamespace:
    view = _view(tensor, dialect)
    if tensor.repeated:
        return _field(tensor, f"udo::Repeated<{view}>", f"node.{tensor.role}s<{view}>({index})")
    return _field(tensor, view, f"node.{tensor.role}<{view}>({index})")


def _field(tensor: Tensor, kind: str, value: str, initial: str = "") -> SimpleNamespace:
    return record(name=identifier(tensor.name), type=kind, initial=initial, comment=comment(tensor), value=value)


def _view(tensor: Tensor, dialect: Dialect) -> str:
    if dialect.view is not None:
        return dialect.view(tensor)
    kind = "Output" if tensor.role == "output" else "Input"
    elements = {dialect.element(datatype) for datatype in tensor.datatypes}
    return f"udo::{kind}<{elements.pop()}>" if len(elements) == 1 else f"udo::Any{kind}"


def _presence_fields(op: Op, taken: set[str], dialect: Dialect) -> list[SimpleNamespace]:
    """`has_x` for each scalar x that may be absent; it gives way to a tensor that is really called so."""
    found = []
    for index, param in enumerate(op.params):
        if param.mandatory or param.default is not None or not _by_value(param):
            continue
        name = f"has_{identifier(param.name)}"
        while name in taken:
            name += "_"
        said = [f"whether the client gave {identifier(param.name)}"]
        value = f"node.has({dialect.key(param, index)})"
        found.append(record(name=name, type="bool", initial=" = false", comment=said, value=value))
    return found


def _by_value(param: Tensor) -> bool:
    return param.is_scalar or all(datatype.kind == "string" for datatype in param.datatypes)


def _param_field(
    param: Tensor, key: str, table: str, tables: list[SimpleNamespace], enums: Mapping[str, str], dialect: Dialect
) -> SimpleNamespace:
    if all(datatype.kind == "string" for datatype in param.datatypes):
        otherwise = cpp_string(values.show(param.default)) if param.default is not None else '""'
        return _field(param, "const char*", f"node.string({key}, args.{identifier(param.name)})", f" = {otherwise}")
    if param.is_scalar:
        return _scalar_field(param, key, enums)
    view = _view(param, dialect)
    if param.default is None:
        return _field(param, view, f"node.tensor<{view}>({key})")
    made, otherwise = dialect.default(table, view, _default_tables(param, table, tables, dialect))
    tables += [made] if made is not None else []
    return _field(param, view, f"node.tensor<{view}>({key}, {otherwise})")


def _scalar_field(param: Tensor, key: str, enums: Mapping[str, str]) -> SimpleNamespace:
    name = identifier(param.name)
    default = param.default if isinstance(param.default, bool | int | float) else 0
    if param.enum:
        kind = enums[param.name]
        initial = f"{kind}::{identifier(param.enum[int(default)])}"
    else:
        kind = _scalar_type(param.datatypes)
        initial = _number(default, kind)
    return _field(param, kind, f"node.scalar({key}, args.{name})", f" = {initial}")


def _default_tables(param: Tensor, table: str, tables: list[SimpleNamespace], dialect: Dialect) -> Default:
    default = param.default if param.default is not None else 0
    leaves, dims = values.flatten(default), values.shape(default) or _ones(param)
    datatype = default_type(param)
    # Halves stand there as their bits: no C++ type of them makes a constant.
    half = datatype.name == "FLOAT_16"
    element = "std::uint16_t" if half else (dialect.stored or dialect.element)(datatype)
    shift = dialect.shift(datatype)
    whole = [leaf + shift if shift and isinstance(leaf, int | float) else leaf for leaf in leaves or [0]]
    numbers = [f"0x{_half(leaf):04x}u" if half else _number(leaf, element) for leaf in whole]
    tables.append(record(type=element, name=f"{table}Data", items=numbers))
    tables.append(record(type="std::uint32_t", name=f"{table}Dims", items=[str(dim) for dim in dims]))
    return Default(datatype, f"{table}Data", f"{table}Dims", len(dims))


def _ones(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a default that is one number: of an input, of a rank that it may have."""
    ranks = tensor.rank.ranks if tensor.role == "input" else ()
    return (1,) * max(1, min(ranks, default=1))


def default_type(param: Tensor) -> DataType:
    """The first of a parameter's types that stores its default as it is."""
    leaves = values.flatten(param.default if param.default is not None else 0)
    return next((row for row in param.datatypes if _holds(row, leaves)), param.datatypes[0])


def scalar_default(param: Tensor, table: str) -> tuple[list[SimpleNamespace], DataType]:
    """The default of a scalar as tables with one number of 32 bits, and which type that is."""
    default = param.default if isinstance(param.default, bool | int | float) else 0
    if _scalar_type(param.datatypes) in ("float", "double"):
        datatype, number = BY_NAME["FLOAT_32"], _number(default, "float")
    else:
        whole = round(default)
        datatype = BY_NAME["INT_32"]
        number = _number(whole - (1 << 32) if whole >= 1 << 31 else whole, "std::int32_t")
    tables = [
        record(type=stored(datatype), name=f"{table}Data", items=[number]),
        record(type="std::uint32_t", name=f"{table}Dims", items=["1"]),
    ]
    return tables, datatype


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
        return stored(only)
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


def _half(value: object) -> int:
    """The bits of a number as a float of 16 bits."""
    number = float(value) if isinstance(value, bool | int | float) else 0.0
    try:
        packed = struct.pack("<e", number)
    except OverflowError:
        packed = struct.pack("<e", -_INFINITE if number < 0 else _INFINITE)
    return int.from_bytes(packed, "little")


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


def comment(tensor: Tensor) -> list[str]:
    """What a person wants to know of a tensor, as lines of a C++ comment."""
    facts = [" or ".join(datatype.name for datatype in tensor.datatypes)]
    facts.append("scalar" if tensor.is_scalar else f"rank {tensor.rank}".replace("rank ND", "any rank"))
    if tensor.converted:
        facts.append(f"made of {' or '.join(each.name for each in tensor.converted)} where the client has that")
    if tensor.layout and tensor.layout != "UNDEFINED":
        facts.append(tensor.layout)
    if tensor.role != "param" and not tensor.mandatory and tensor.default is None:
        facts.append("optional: test it before use")
    if tensor.default is not None:
        facts.append(f"default {values.show(tensor.default)[:60]}")
    if tensor.only_default and (tensor.default is not None or tensor.default_text):
        facts.append("no other value is supported")
    if tensor.default_text:
        facts.append(f"default {tensor.default_text[:60]}, which is yours to apply")
    text = "; ".join(passage.text for passage in tensor.description)
    return cpp_comment(f"{', '.join(facts)}." + (f"  {text}" if text else ""))


def _bool(value: bool) -> str:
    return "true" if value else "false"


def stored(datatype: DataType) -> str:
    """The C++ type that stores one element as the config says."""
    return datatype.c_type if datatype.c_type in ("float", "double") else f"std::{datatype.c_type or 'uint8_t'}"
