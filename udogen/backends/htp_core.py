"""HTP's older interface: ops in the C++ macros of the SDK's headers.

Every op is a function template over the tensor classes of the SDK, registered for each combination of them.  The macros
are from the topics `writing_op_package` and `implementing_ops` of the QNN documentation; the storage of data types was
measured on libQnnHtp 2.48.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite, isnan, prod
from typing import NamedTuple

from udogen.backends import common, op_tables
from udogen.backends.plan import Source
from udogen.errors import UsageError
from udogen.opdef.datatypes import BY_NAME, DataType
from udogen.opdef.model import Op, OpPackage, Tensor
from udogen.opdef.names import cpp_string, identifier

_ANY = "Tensor"  # the base of all tensor classes
# An op with more combinations of types is registered only for those with one type for all tensors that allow it.
_MOST_COMBINATIONS = 24
# Macros of the SDK's headers that may be names in a config.
_MACROS = frozenset(
    "ANALYSIS BEGIN EARLY LATE MIDDLE MIN_WIDTH NOINLINE QNN SPACE_DEPTH TILE_HEIGHT TILING TRANSLATE".split()
)


class _Stored(NamedTuple):
    """How HTP stores a data type: the class of its flat tensors of rank 4, its DType, and its elements in C++."""

    tensor: str
    dtype: str
    element: str


_FLOATS = {
    32: _Stored("PlainFloatTensor", "Float32", "float"),
    16: _Stored("PlainFloat16Tensor", "Float16", "Float16"),
}
# Signed types of 8 and 16 bits arrive as unsigned ones with an offset.
_WHOLE = {
    8: _Stored("QuantUint8Tensor", "QUInt8", "std::uint8_t"),
    16: _Stored("QuantUint16Tensor", "QUInt16", "std::uint16_t"),
    32: _Stored("Int32Tensor", "Int32", "std::int32_t"),
}


def contents(
    package: OpPackage, source: Source, qhpi: common.BackendFolder, place: common.Placement
) -> common.Contents:
    """What the backend contributes, based on the folder of a QHPI package."""
    own = qhpi._replace(
        api="core",
        template_folder="htp_core",
        headers=(),  # only those of the SDK
        templates={"Makefile": "../htp/Makefile.mako", "src/{package}Interface.cpp": "src/Interface.cpp.mako"},
        copies=(
            "include/hexagon/hexagon_protos.h",
            "include/hexagon/hexagon_types.h",
            "makefiles/htp_core.mk",
        ),
        header=(
            "shared/BackendUtils.hpp",
            "shared/Values.hpp",
            "shared/Executions.hpp",
            "shared/Validation.hpp",
            "htp_core/HtpCoreUtils.hpp",
        ),
        support=(
            "shared/BackendUtils.cpp",
            "shared/Executions.cpp",
            "shared/WithoutRefusal.cpp",
            "shared/Validation.cpp",
            "htp/HtpValidation.cpp",
            "htp_core/HtpCoreUtils.cpp",
        ),
        kernel="src/ops/Op.cpp.mako",
        op_templates={
            "include/ops/{op}.hpp": "include/ops/Op.hpp.mako",
            "include/ops/{op}.registration.hpp": "include/ops/Registration.hpp.mako",
        },
        data={**qhpi.data, "core": True},
        dialect=_DIALECT,
        view=_view,
    )
    package = package.with_ops(tuple(op.with_all_inputs() for op in package.ops))
    return common.contents(package, source, own, place)


def _stored(datatype: DataType) -> _Stored | None:
    """How HTP stores a type; None for types that it never passes."""
    return (_FLOATS if datatype.kind == "float" else _WHOLE).get(datatype.bits)


def _rows(tensor: Tensor) -> list[_Stored]:
    return [row for datatype in tensor.datatypes if (row := _stored(datatype))]


def _element(datatype: DataType) -> str:
    """The C++ type of one stored element of a parameter."""
    row = _stored(datatype)
    if row is None or (datatype.bits == 32 and datatype.integral):
        return op_tables.stored(datatype)
    return row.element


def _default(default: op_tables.Default, view: str) -> op_tables.Expression:
    """HTP passes the default of a tensor parameter: it is registered with the order of the parameters."""
    return op_tables.Expression(
        f"{view}()", constants=(op_tables.Constant(default.name, op_tables.code(default.datatype)),)
    )


# Defaults are stored as a client would pass them.
_DIALECT = op_tables.Dialect(
    element=_element, key=lambda _param, index: str(index), default=_default, default_element=op_tables.stored
)


class _Argument(NamedTuple):
    """A tensor argument of the kernel, as its comment describes it."""

    name: str
    comment: list[str]
    types: str


class _Check(NamedTuple):
    """The types that generated code accepts for an argument."""

    argument: str
    literal: str
    types: str


class _Entry(NamedTuple):
    """A function that HTP calls."""

    name: str
    signature: str
    given: str


@dataclass(frozen=True, eq=False, repr=False)
class _CoreOp(op_tables.OpNames):
    registration: str
    impl: str
    template_list: str
    signature: str
    unused_signature: str
    arguments: tuple[_Argument, ...]
    params_given: tuple[op_tables.Field, ...]
    call: str
    checks: tuple[_Check, ...]
    default_params: tuple[op_tables.Constant, ...]
    order: str
    entries: tuple[_Entry, ...]
    typed: tuple[str, ...]
    generic: tuple[str, ...]
    properties: str


def _view(base: op_tables.OpNames, op: Op) -> op_tables.OpNames:
    base = _without_macros(base, op)
    tensors = (*op.outputs, *op.inputs)
    types = _type_names(tensors)
    variables = _free_names([*(_no_macro(identifier(tensor.name)) for tensor in tensors), "params"])
    front = len(base.fields) - len(op.tensors)
    parts = [*_parameters(tensors, types, variables[:-1]), f"const Params& {variables[-1]}"]
    entries = tuple(_entry(op, types, left_out) for left_out in _left_out(op))
    return _CoreOp(
        **vars(base),
        registration=f"include/ops/{op.name}.registration.hpp",
        impl=f"{op.name.lower()}Impl",
        template_list=", ".join(f"class {kind}" for kind in types),
        signature=",\n//       ".join(parts),
        unused_signature=",\n    ".join(f"[[maybe_unused]] {part}" for part in parts),
        arguments=tuple(_argument(*row) for row in zip(tensors, variables, types, strict=False)),
        params_given=(*base.fields[:front], *base.fields[len(base.fields) - len(op.params) :]),
        call=", ".join([*(_place(tensor, op) for tensor in tensors), "args"]),
        checks=tuple(_check(tensor, op) for tensor in tensors),
        default_params=tuple(constant for param in op.params if (constant := _default_param(base, param))),
        order=_order(base, op),
        entries=entries,
        typed=tuple(f"{entry.name}<{', '.join(classes)}>" for entry in entries for classes in _combinations(tensors)),
        generic=tuple(f"{entry.name}<{', '.join(_ANY for _ in tensors)}>" for entry in entries),
        properties=_properties(op),
    )


def _parameters(tensors: Sequence[Tensor], types: Sequence[str], names: Sequence[str]) -> list[str]:
    """Tensors as parameters of a C++ function."""
    return [
        f"{'' if tensor.role == 'output' else 'const '}{kind}& {name}"
        for tensor, kind, name in zip(tensors, types, names, strict=True)
    ]


def _check(tensor: Tensor, op: Op) -> _Check:
    types = dict.fromkeys(f"DType::{row.dtype}" for row in _rows(tensor))
    return _Check(_place(tensor, op), cpp_string(tensor.name), ", ".join(types))


def _without_macros(view: op_tables.OpNames, op: Op) -> op_tables.OpNames:
    """Append an underscore to names that are macros of the SDK; refuse an op's name, which clients use."""
    if op.name in _MACROS:
        raise UsageError(f"an op cannot be called `{op.name}`: the SDK's headers have a macro of this name")
    enums = [
        enum._replace(items=tuple(item._replace(name=_no_macro(item.name)) for item in enum.items))
        for enum in view.enums
    ]
    return replace(view, enums=tuple(enums), fields=tuple(_field_without_macros(field) for field in view.fields))


def _field_without_macros(field: op_tables.Field) -> op_tables.Field:
    scope, _, word = field.initial.rpartition("::")
    initial = f"{scope}::{_no_macro(word)}" if word in _MACROS else field.initial
    name = _no_macro(field.name)
    value = field.value.replace(f"args.{field.name}", f"args.{name}")
    return field._replace(initial=initial, name=name, value=value)


def _no_macro(name: str) -> str:
    return f"{name}_" if name in _MACROS else name


def _type_names(tensors: Sequence[Tensor]) -> list[str]:
    """`input` -> `InputType`."""
    names = [identifier(tensor.name) for tensor in tensors]
    return _free_names([f"{name[:1].upper()}{name[1:]}Type" for name in names])


def _free_names(names: list[str]) -> list[str]:
    """The names, with underscores appended to repeated ones."""
    distinct: list[str] = []
    for name in names:
        free = name
        while free in distinct:
            free += "_"
        distinct.append(free)
    return distinct


def _argument(tensor: Tensor, variable: str, kind: str) -> _Argument:
    classes = dict.fromkeys([*_classes(tensor), _ANY])
    return _Argument(variable, op_tables.comment(tensor), f"{kind} is one of {', '.join(classes)}")


def _place(tensor: Tensor, op: Op) -> str:
    """The name of an argument in generated code: `in0`, `out0` …"""
    row = op.outputs if tensor.role == "output" else op.inputs
    return f"{'out' if tensor.role == 'output' else 'in'}{row.index(tensor)}"


# --- combinations ---------------------------------------------------------------------------------------------


def _classes(tensor: Tensor) -> list[str]:
    """The classes of a tensor that HTP may pass; packages have none for more than four dimensions."""
    if tensor.rank.ranks and min(tensor.rank.ranks) > 4:
        return [_ANY]
    return list(dict.fromkeys(row.tensor for row in _rows(tensor)))


def _combinations(tensors: Sequence[Tensor]) -> list[tuple[str, ...]]:
    choices = [_classes(tensor) for tensor in tensors]
    if prod(len(types) for types in choices) <= _MOST_COMBINATIONS:
        combinations = list(product(*choices))
    else:
        kinds = dict.fromkeys(kind for types in choices for kind in types)
        rows = [tuple(kind if kind in types else types[0] for types in choices) for kind in kinds]
        combinations = list(dict.fromkeys(rows))
    return [combination for combination in combinations if set(combination) != {_ANY}]


# --- parameters -----------------------------------------------------------------------------------------------


def _left_out(op: Op) -> list[frozenset[int]]:
    """The sets of parameters that a client may omit together: always the last ones, as HTP passes no names."""
    free = [index for index, param in enumerate(op.params) if not param.mandatory and param.default is None]
    return [frozenset(free[count:]) for count in range(len(free), -1, -1)]


def _entry(op: Op, types: Sequence[str], left_out: frozenset[int]) -> _Entry:
    """The function that HTP calls if these parameters are absent."""
    tensors = (*op.outputs, *op.inputs)
    there = [index for index in range(len(op.params)) if index not in left_out]
    arguments = _parameters(tensors, types, [_place(tensor, op) for tensor in tensors])
    arguments += [f"const {_ANY}& param{index}" for index in there]
    pointers = [f"&param{index}" if index in there else "nullptr" for index in range(len(op.params))] or ["nullptr"]
    return _Entry(f"with{len(there)}", ",\n    ".join(arguments), ", ".join(pointers))


def _default_param(view: op_tables.OpNames, param: Tensor) -> op_tables.Constant | None:
    """The default of a parameter in HTP's form; None if it has none."""
    if param.default is None:
        return None
    name = view.table_names[param.role, param.name]
    literal = cpp_string(param.name)
    if param.is_scalar:
        # Scalars of the API cannot be halves.
        datatype = BY_NAME["FLOAT_32"] if param.datatypes[0].kind == "float" else param.datatypes[0]
        call = f"scalarParam({literal}, {op_tables.code(datatype)}, {_double(param.default)})"
    else:
        code = next(row.value for row in view.defaults if row.name == f"{name}_default")
        call = f"tensorParam({literal}, {code}, {name}_data, {name}_dims)"
    return op_tables.Constant(f"{name}_default", call)


def _double(value: object) -> str:
    number = float(value) if isinstance(value, bool | int | float) else 0.0
    if isfinite(number):
        return repr(number)
    return "NAN" if isnan(number) else "INFINITY" if number > 0 else "-INFINITY"


def _order(view: op_tables.OpNames, op: Op) -> str:
    """For each parameter, in order: its name, whether it is mandatory, and its default."""
    rows = []
    for param in op.params:
        name = f"&udo::{op.name}_registered::{view.table_names[param.role, param.name]}_default"
        default = "nullptr" if param.default is None else name
        must = "true" if param.mandatory and param.default is None else "false"
        rows.append(f"{cpp_string(param.name)}, {must}, {default}")
    return ",\n    ".join(rows)


def _properties(op: Op) -> str:
    """The properties of an op: all tensors flat and in main memory, as a portable kernel expects.

    Each op has one definition, even if parameters may be absent: with a second one, libQnnHtp 2.48 finalizes no graph.
    """
    inputs = [cpp_string(_place(tensor, op)) for tensor in op.inputs]
    outputs = [cpp_string(_place(tensor, op)) for tensor in op.outputs]
    params = [cpp_string(f"param{index}") for index in range(len(op.params))]
    flat = ", ".join([*outputs, *inputs, *params])
    named = ", ".join([cpp_string(op.name), *inputs, *params])
    return f"Op({named}),\n    Outputs({', '.join(outputs)}),\n    Flat({flat}),\n    MainMemory({flat})"
