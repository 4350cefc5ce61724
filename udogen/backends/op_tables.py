"""The model as C++ for all backends: tables that validation reads, and the members of a kernel's Args."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from udogen.opdef import values
from udogen.opdef.datatypes import BY_NAME, DataType
from udogen.opdef.model import Op, OpPackage, Tensor
from udogen.opdef.names import cpp_comment, cpp_string, distinct, identifier

# Limits beyond which a number rounds to infinity, or to zero, as FLOAT_32.
_INFINITE, _FLOAT_ENDS, _FLOAT_BEGINS = float("inf"), float.fromhex("0x1.ffffffp127"), 2.0**-150
_WIDTH = 112  # columns of a line of a table


class Table(NamedTuple):
    """A C++ array.  An item is a number, or the members of a struct."""

    type: str
    name: str
    items: tuple[str | tuple[str, ...], ...]
    constant: bool = True

    @property
    def lines(self) -> list[str]:
        """Its definition: numbers fill lines, each struct begins a new line."""
        head = f"{'constexpr ' * self.constant}{self.type} {self.name}[] = {{"
        plain = [item for item in self.items if isinstance(item, str)]
        if len(plain) < len(self.items):
            rows = [_filled(item, "    {", "     ", "},") for item in self.items if not isinstance(item, str)]
            return [head, *(line for row in rows for line in row), "};"]
        short = f"{head}{', '.join(plain)}}};"
        return [short] if len(short) <= _WIDTH else [head, *_filled(plain, "    ", "    ", ","), "};"]


def _literals(tensors: Sequence[Tensor]) -> tuple[str, ...]:
    return tuple(cpp_string(tensor.name) for tensor in tensors)


def _filled(words: Sequence[str], first: str, others: str, end: str) -> list[str]:
    """Words with commas between them, wrapped; a mask (`A | B`) may span lines."""
    pieces = []
    for word in words:  # string literals are not split
        *masks, rest = word.split(" | ") if '"' not in word else [word]
        pieces += [*(f"{mask} |" for mask in masks), f"{rest},"]
    lines, line = [], first
    for piece in [*pieces[:-1], pieces[-1].removesuffix(",") + end]:
        if line not in (first, others) and len(line) + len(piece) > _WIDTH:
            lines.append(line.rstrip())
            line = others
        line += f"{piece} "
    return [*lines, line.rstrip()]


class Constant(NamedTuple):
    """An object that is built from tables: the default of a tensor."""

    name: str
    value: str


class Expression(NamedTuple):
    """A C++ expression, with the tables and constants that it needs."""

    code: str
    tables: tuple[Table, ...] = ()
    constants: tuple[Constant, ...] = ()


class Default(NamedTuple):
    """The default of a tensor, as tables of its numbers and its dimensions."""

    name: str  # of the object made from the tables
    datatype: DataType
    data: Table
    dims: Table
    rank: int


class Field(NamedTuple):
    """One member of an op's Args."""

    name: str
    type: str
    initial: str
    comment: tuple[str, ...]
    value: str  # the expression that reads it from the node


class EnumItem(NamedTuple):
    """A value of an enumeration."""

    name: str
    value: int


class Enum(NamedTuple):
    """The type of a parameter with named values."""

    name: str
    base: str
    items: tuple[EnumItem, ...]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OpNames:
    """One op as the templates see it; backends derive from it."""

    name: str
    literal: str
    prefix: str  # of the names of its tables
    table_names: Mapping[tuple[str, str], str]  # the prefix of each tensor, by role and name
    package: str
    kernel: str
    header: str
    description: tuple[str, ...]
    enums: tuple[Enum, ...]
    fields: tuple[Field, ...]
    tensors: tuple[str, ...]
    tables: tuple[Table, ...]
    defaults: tuple[Constant, ...]
    inputs: str
    outputs: str
    params: str
    param_literals: tuple[str, ...]
    param_defaults: str = "{}"  # the table of defaults of parameters that a kernel gets by position
    kernel_text: str = ""  # GPU: the OpenCL source of its kernel

    @property
    def lower(self) -> str:
        """Its name in functions of Qualcomm's generators."""
        return self.name.lower()

    @property
    def default_tables(self) -> list[Table]:
        """The tables that hold the defaults of tensors."""
        return [table for table in self.tables if table.name.endswith(("_data", "_dims"))]

    @property
    def spec_tables(self) -> list[Table]:
        """The other tables."""
        return [table for table in self.tables if not table.name.endswith(("_data", "_dims"))]

    @property
    def qualified(self) -> str:
        """Its name with its package, as a literal."""
        return cpp_string(f"{self.package}::{self.name}")

    @property
    def space(self) -> str:
        """The namespace of the declarations for its kernel."""
        return f"ops::{self.package}::{self.name}"


def raw_tensor(default: Default, _view: str) -> Expression:
    """A tensor of the runtime's own type, made from the tables."""
    datatype, data, dims = code(default.datatype), default.data.name, default.dims.name
    constant = Constant(default.name, f"defaultTensor({datatype}, {data}, {dims}, {default.rank})")
    return Expression(f"&{default.name}", constants=(constant,))


def stored(datatype: DataType) -> str:
    """The C++ type that stores one element of the config's type."""
    return datatype.c_type if datatype.c_type in ("float", "double") else f"std::{datatype.c_type or 'uint8_t'}"


class Dialect(NamedTuple):
    """What is specific to the C++ of a backend."""

    element: Callable[[DataType], str] = stored  # the C++ type of one stored element
    # How a parameter is found: by its name, or by its position.
    key: Callable[[Tensor, int], str] = lambda param, _index: cpp_string(param.name)
    default: Callable[[Default, str], Expression] = raw_tensor  # a default as a view of this type
    # For a default: the C++ type of its elements if it differs, and the offset that is added to its integers.
    default_element: Callable[[DataType], str] | None = None
    shift: Callable[[DataType], int] = lambda _datatype: 0
    view: Callable[[Tensor], str] | None = None  # the C++ type of a tensor, if it does not follow from its elements


USUAL = Dialect()


def table_names(ops: Sequence[Op]) -> list[tuple[str, dict[tuple[str, str], str]]]:
    """Prefixes of table names, for each op and its tensors: `Scale`, {(`input`, `in[0]`): `Scale_in_0`}.

    All are distinct, even after a suffix is appended.
    """
    prefixes = distinct(op.name.rstrip("_") for op in ops)
    pairs = [(prefix, tensor.name) for prefix, op in zip(prefixes, ops, strict=True) for tensor in op.tensors]
    unique = iter(distinct(f"{prefix}_{identifier(name)}".rstrip("_") for prefix, name in pairs))
    return [
        (prefix, {(tensor.role, tensor.name): next(unique) for tensor in op.tensors})
        for prefix, op in zip(prefixes, ops, strict=True)
    ]


def ops(package: OpPackage, dialect: Dialect) -> list[OpNames]:
    """The ops of a package as the templates see them."""
    named = table_names(package.ops)
    return [_op(package, op, *names, dialect) for op, names in zip(package.ops, named, strict=True)]


def _op(package: OpPackage, op: Op, prefix: str, names: Mapping[tuple[str, str], str], dialect: Dialect) -> OpNames:
    inputs = _specs("TensorSpec", f"{prefix}_inputs", op.inputs, names, dialect)
    outputs = _specs("TensorSpec", f"{prefix}_outputs", op.outputs, names, dialect)
    params = _specs("ParamSpec", f"{prefix}_params", op.params, names, dialect) if op.params else _NOTHING
    enum_types = _enum_types(op)
    pairs = [
        *(
            _input_field(tensor, index, names[tensor.role, tensor.name], dialect)
            for index, tensor in enumerate(op.inputs)
        ),
        *((_tensor_field(tensor, index, dialect), _NOTHING) for index, tensor in enumerate(op.outputs)),
        *(
            _param_field(param, dialect.key(param, index), names[param.role, param.name], enum_types, dialect)
            for index, param in enumerate(op.params)
        ),
    ]
    fields = [field for field, _ in pairs]
    needed = [inputs, outputs, params, *(needs for _, needs in pairs)]
    return OpNames(
        name=op.name,
        literal=cpp_string(op.name),
        prefix=prefix,
        table_names=names,
        package=package.name,
        kernel=f"src/ops/{op.name}.cpp",
        header=f"include/ops/{op.name}.hpp",
        description=tuple(cpp_comment("\n".join(passage.text for passage in op.description))),
        enums=tuple(_enum(param, enum_types[param.name]) for param in op.params if param.enum),
        fields=(*_presence_fields(op, {field.name for field in fields}, dialect), *fields),
        tensors=tuple(identifier(tensor.name) for tensor in (*op.inputs, *op.outputs)),
        tables=tuple(table for expression in needed for table in expression.tables),
        defaults=tuple(constant for expression in needed for constant in expression.constants),
        inputs=inputs.code,
        outputs=outputs.code,
        params=params.code,
        param_literals=_literals(op.params),
    )


# --- tables that validation reads ---------------------------------------------------------------------------

_NOTHING = Expression("{}")


def _named(kind: str, name: str, items: Sequence[str | tuple[str, ...]]) -> Expression:
    """A table and its name; `{}` for an empty one."""
    return Expression(name, (Table(kind, name, tuple(items)),)) if items else _NOTHING


def _specs(
    kind: str, name: str, tensors: Sequence[Tensor], names: Mapping[tuple[str, str], str], dialect: Dialect
) -> Expression:
    """A table with a row for each tensor, and the tables that its rows name."""
    rows, below = [], []
    for tensor in tensors:
        own = names[tensor.role, tensor.name]
        types, ranks, only = _types(own, tensor), _ranks(own, tensor), _only(own, tensor)
        flags = [_bool(tensor.required), _bool(tensor.repeated)]
        if tensor.role == "param":
            flags = [_bool(tensor.is_scalar), flags[0], str(len(tensor.enum))]
        end = [only.code] if only.tables else []
        rows.append((cpp_string(tensor.name), types.code, ranks.code, *flags, *end))
        below += [*types.tables, *ranks.tables, *only.tables]
    return Expression(name, (*below, Table(kind, name, tuple(rows))))


def _types(name: str, tensor: Tensor) -> Expression:
    return _named("Qnn_DataType_t", f"{name}_types", [code(datatype) for datatype in tensor.accepted])


def _ranks(name: str, tensor: Tensor) -> Expression:
    ranks = () if tensor.is_scalar else tensor.rank.ranks
    return _named("std::uint32_t", f"{name}_ranks", [str(rank) for rank in ranks])


def _whole(numbers: Sequence[bool | int | float]) -> list[int]:
    """The numbers as bits of an int64_t, including those of UINT_64; empty unless all are integers."""
    if not all(number == number and float(number).is_integer() for number in numbers):
        return []
    return [(int(number) + (1 << 63)) % (1 << 64) - (1 << 63) for number in numbers]


def _only(name: str, tensor: Tensor) -> Expression:
    """The last member of a row: the default, if no other value is supported."""
    if not tensor.only_default or (tensor.default is None and not tensor.default_text):
        return _NOTHING
    leaves = [] if tensor.default is None else values.flatten(tensor.default)
    numbers = [leaf for leaf in leaves if not isinstance(leaf, str)]
    columns = _only_columns(
        f"{name}_only", numbers, halves=any(datatype.kind == "float" for datatype in tensor.accepted)
    )
    text = cpp_string(leaves[0]) if leaves and isinstance(leaves[0], str) else "nullptr"
    row = Table("OnlyValue", f"{name}_only", ((*(column.code for column in columns), text, "isOnly"),))
    return Expression(row.name, (*(table for column in columns for table in column.tables), row))


def _only_columns(name: str, numbers: Sequence[bool | int | float], *, halves: bool) -> tuple[Expression, ...]:
    """Tables of the numbers: as integers, as reals, and as bits of FLOAT_16."""
    return (
        _named("std::int64_t", f"{name}_whole", [_number(number, "std::int64_t") for number in _whole(numbers)]),
        _named("double", f"{name}_reals", [_number(number, "double") for number in numbers]),
        _named("std::uint16_t", f"{name}_halves", [f"0x{float_bits(number):04x}u" for number in numbers if halves]),
    )


def code(datatype: DataType) -> str:
    """The enumerator of a type; its number for types that older SDK headers lack."""
    if datatype.bits == 4 or datatype.name in ("BFLOAT_16", "FLOAT_64", "STRING"):
        return f"static_cast<Qnn_DataType_t>(0x{datatype.code:04x})"
    return datatype.qnn


# --- members of Args -------------------------------------------------------------------------------------------


def _input_field(tensor: Tensor, index: int, name: str, dialect: Dialect) -> tuple[Field, Expression]:
    if tensor.default is None or tensor.repeated or tensor.given:
        return _tensor_field(tensor, index, dialect), _NOTHING
    view = _view(tensor, dialect)
    otherwise = _default(tensor, name, view, dialect)
    return _field(tensor, view, _with_default(f"node.input<{view}>", str(index), otherwise)), otherwise


def _tensor_field(tensor: Tensor, index: int, dialect: Dialect) -> Field:
    view = _view(tensor, dialect)
    if tensor.repeated:
        return _field(tensor, f"udo::Repeated<{view}>", f"node.{tensor.role}s<{view}>({index})")
    return _field(tensor, view, f"node.{tensor.role}<{view}>({index})")


def _field(tensor: Tensor, kind: str, value: str, initial: str = "") -> Field:
    return Field(identifier(tensor.name), kind, initial, tuple(comment(tensor)), value)


def _view(tensor: Tensor, dialect: Dialect) -> str:
    if dialect.view is not None:
        return dialect.view(tensor)
    kind = "Output" if tensor.role == "output" else "Input"
    elements = {dialect.element(datatype) for datatype in tensor.datatypes}
    return f"udo::{kind}<{elements.pop()}>" if len(elements) == 1 else f"udo::Any{kind}"


def _presence_fields(op: Op, taken: set[str], dialect: Dialect) -> list[Field]:
    """`has_x` for each scalar x that may be absent; renamed if a tensor has that name."""
    fields = []
    for index, param in enumerate(op.params):
        if param.mandatory or param.default is not None or not _by_value(param):
            continue
        name = f"has_{identifier(param.name)}"
        while name in taken:
            name += "_"
        meaning = (f"whether the client gave {identifier(param.name)}",)
        fields.append(Field(name, "bool", " = false", meaning, f"node.has({dialect.key(param, index)})"))
    return fields


def _by_value(param: Tensor) -> bool:
    return param.is_scalar or all(datatype.kind == "string" for datatype in param.datatypes)


def _param_field(
    param: Tensor, key: str, name: str, enums: Mapping[str, str], dialect: Dialect
) -> tuple[Field, Expression]:
    if all(datatype.kind == "string" for datatype in param.datatypes):
        text = cpp_string(values.show(param.default)) if param.default is not None else '""'
        value = f"node.string({key}, args.{identifier(param.name)})"
        return _field(param, "const char*", value, f" = {text}"), _NOTHING
    if param.is_scalar:
        return _scalar_field(param, key, enums), _NOTHING
    view = _view(param, dialect)
    if param.default is None:
        return _field(param, view, f"node.tensor<{view}>({key})"), _NOTHING
    otherwise = _default(param, name, view, dialect)
    return _field(param, view, _with_default(f"node.tensor<{view}>", key, otherwise)), otherwise


def _with_default(function: str, key: str, otherwise: Expression) -> str:
    line = f"{function}({key}, {otherwise.code})"
    return line if len(line) < _WIDTH - 20 else f"{function}(\n      {key}, {otherwise.code})"


def _scalar_field(param: Tensor, key: str, enums: Mapping[str, str]) -> Field:
    name = identifier(param.name)
    default = param.default if isinstance(param.default, bool | int | float) else 0
    if param.enum:
        kind = enums[param.name]
        initial = f"{kind}::{identifier(param.enum[int(default)])}"
    else:
        kind = _scalar_type(param.datatypes)
        initial = _number(default, kind)
    return _field(param, kind, f"node.scalar({key}, args.{name})", f" = {initial}")


def _default(param: Tensor, name: str, view: str, dialect: Dialect) -> Expression:
    """A default in the form of the backend, with its tables."""
    default = param.default if param.default is not None else 0
    leaves, dims = values.flatten(default), values.shape(default) or _ones(param)
    datatype = default_type(param)
    # Halves are written as bits: C++ has no literals for them.
    half = datatype.name == "FLOAT_16"
    element = "std::uint16_t" if half else (dialect.default_element or dialect.element)(datatype)
    shift = dialect.shift(datatype)
    whole = [leaf + shift if shift and isinstance(leaf, int | float) else leaf for leaf in leaves or [0]]
    numbers = [f"0x{float_bits(leaf):04x}u" if half else _number(leaf, element) for leaf in whole]
    data = Table(element, f"{name}_data", tuple(numbers))
    shape = Table("std::uint32_t", f"{name}_dims", tuple(str(dim) for dim in dims))
    expression = dialect.default(Default(f"{name}_default", datatype, data, shape, len(dims)), view)
    return Expression(expression.code, (data, shape, *expression.tables), expression.constants)


def _ones(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a default that is one number: all ones, with a rank that the input may have."""
    ranks = tensor.rank.ranks if tensor.role == "input" else ()
    return (1,) * max(1, min(ranks, default=1))


def default_type(param: Tensor) -> DataType:
    """The first type of a parameter that stores its default exactly."""
    leaves = values.flatten(param.default if param.default is not None else 0)
    return next((row for row in param.datatypes if _holds(row, leaves)), param.datatypes[0])


def scalar_type(param: Tensor) -> DataType:
    """The type of a scalar default in the QNN API: the parameter's own; floats have 32 bits or more."""
    datatype = default_type(param)
    return BY_NAME["FLOAT_32"] if datatype.kind == "float" and datatype.bits < 32 else datatype


def scalar_type_of_htp(param: Tensor) -> DataType:
    """The type of a scalar default as HTP delivers it, with 32 bits."""
    if _scalar_type(param.datatypes) in ("float", "double"):
        return BY_NAME["FLOAT_32"]
    return BY_NAME["UINT_32" if isinstance(param.default, int) and param.default >= 1 << 31 else "INT_32"]


def with_defaults(
    view: OpNames, op: Op, dialect: Dialect = USUAL, scalar: Callable[[Tensor], DataType] = scalar_type
) -> OpNames:
    """The op with a table of its parameters' defaults; a kernel may get them by position."""
    tables = {table.name: table for table in view.tables}
    rows = []
    for index, param in enumerate(op.params):
        if param.default is None:
            continue
        name = view.table_names[param.role, param.name]
        datatype = default_type(param)
        if datatype.kind == "string":
            text = (*values.show(param.default).encode(), 0)
            more: tuple[Table, ...] = (Table("unsigned char", f"{name}_data", tuple(map(str, text))),)
            shape = "{}"
        else:
            datatype = scalar(param) if param.is_scalar else datatype
            more = _default(replace(param, datatypes=(datatype,)), name, "", dialect).tables[:2]
            shape = f"{name}_dims"
        tables |= {table.name: table for table in more}
        rows.append((str(index), code(datatype), f"{name}_data", f"sizeof {name}_data", shape))
    if not rows:
        return view
    defaults = Table("ParamDefault", f"{view.prefix}_defaults", tuple(rows))
    return replace(view, tables=(*tables.values(), defaults), param_defaults=defaults.name)


def with_only_defaults(view: OpNames, op: Op) -> OpNames:
    """The same for an op whose other defaults nothing reads."""
    return with_defaults(replace(view, tables=tuple(view.spec_tables)), op)


def _holds(datatype: DataType, leaves: Sequence[object]) -> bool:
    """Whether this type stores these numbers exactly."""
    span = datatype.range()
    return span is None or all(isinstance(leaf, int) and span[0] <= leaf <= span[1] for leaf in leaves)


def _scalar_type(datatypes: Sequence[DataType]) -> str:
    """The C++ type that holds all values of these types exactly, if one exists."""
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
    """A number as a C++ literal of this type, clamped to its range."""
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


def float_bits(value: object, form: str = "<e") -> int:
    """The bits of a number as a float: of 16 bits, or in another format of `struct`; infinity if it is too large."""
    number = float(value) if isinstance(value, bool | int | float) else 0.0
    try:
        packed = struct.pack(form, number)
    except OverflowError:
        packed = struct.pack(form, -_INFINITE if number < 0 else _INFINITE)
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
    """The C++ type of each enumeration, by its parameter; renamed if a field has that name."""
    taken = {identifier(tensor.name) for tensor in op.tensors}
    types = {}
    for param in op.params:
        if param.enum:
            name = f"{identifier(param.name).rstrip('_')}_enum"
            while name in taken:
                name += "_t"
            taken.add(name)
            types[param.name] = name
    return types


def _enum(param: Tensor, name: str) -> Enum:
    base = _scalar_type(param.datatypes)
    if base == "bool" or not _holds(param.datatypes[0], [len(param.enum) - 1]):
        base = "std::uint32_t"
    return Enum(name, base, tuple(EnumItem(identifier(item), value) for value, item in enumerate(param.enum)))


def comment(tensor: Tensor) -> list[str]:
    """A tensor described in lines of a C++ comment."""
    facts = [" or ".join(datatype.name for datatype in tensor.datatypes)]
    facts.append("scalar" if tensor.is_scalar else f"rank {tensor.rank}".replace("rank ND", "any rank"))
    if tensor.converted:
        facts.append(
            f"converted from {' or '.join(datatype.name for datatype in tensor.converted)} if the client has that"
        )
    if tensor.layout and tensor.layout != "UNDEFINED":
        facts.append(tensor.layout)
    if tensor.role != "param" and not tensor.mandatory and tensor.default is None:
        facts.append("optional: test it before use")
    facts += _default_comment(tensor)
    text = "; ".join(passage.text for passage in tensor.description)
    return cpp_comment(f"{', '.join(facts)}." + (f"  {text}" if text else ""))


def _default_comment(tensor: Tensor) -> list[str]:
    facts = [] if tensor.default is None else [f"default {values.show(tensor.default)[:60]}"]
    if tensor.only_default and (tensor.default is not None or tensor.default_text):
        facts.append("no other value is supported")
    if tensor.default_text:
        facts.append(f"default {tensor.default_text[:60]}, to be applied by the kernel")
    return facts


def _bool(value: bool) -> str:
    return "true" if value else "false"
