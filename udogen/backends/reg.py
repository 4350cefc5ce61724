"""The registration library of a UDO package: its operations as tables of `utils/IUdoOpDefinition.hpp`.

SNPE has three cores, and a tensor has one type on each.  A config may allow several types, including some that SNPE
lacks: SNPE gets one of them, validation accepts all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from udogen.backends.backend import UdoCore
from udogen.backends.op_tables import Table, float_bits, table_names
from udogen.backends.plan import PlannedFile, Source
from udogen.opdef import values
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage, Tensor, Value
from udogen.opdef.names import cpp_string

_HEADERS = ("UdoBase.h", "UdoShared.h", "UdoReg.h")
_UTILITIES = ("IUdoOpDefinition.hpp", "UdoMacros.hpp", "UdoUtil.hpp")

_Seen = Sequence[tuple[UdoCore, OpPackage]]  # the package as each backend sees it, with the backend's core

_LAYOUTS = ("NHWC", "NCHW", "NDHWC")  # others become LAST, as in SNPE's packages


class _Word(NamedTuple):
    """SNPE's name of a type of QNN, and others that mean the same."""

    word: str
    also: tuple[str, ...] = ()


# SNPE's documents call quantized activations UINT_8 as often as FIXED_8.  Types that SNPE lacks (from BOOL_8 on)
# become the nearest type, to which SNPE converts a model.
_WORDS = {
    "FLOAT_16": _Word("FLOAT_16"),
    "FLOAT_32": _Word("FLOAT_32"),
    **{f"{kind}_{bits}": _Word(f"{kind}_{bits}") for kind in ("INT", "UINT") for bits in (8, 16, 32)},
    "UFIXED_POINT_4": _Word("FIXED_4"),
    "SFIXED_POINT_4": _Word("FIXED_4"),
    **{f"UFIXED_POINT_{bits}": _Word(f"FIXED_{bits}", (f"UINT_{bits}",)) for bits in (8, 16, 32)},
    **{f"SFIXED_POINT_{bits}": _Word(f"FIXED_{bits}", (f"INT_{bits}",)) for bits in (8, 16, 32)},
    "BOOL_8": _Word("UINT_8", ("INT_8",)),
    "INT_64": _Word("INT_32"),
    "UINT_64": _Word("UINT_32"),
    "BFLOAT_16": _Word("FLOAT_16"),
    "FLOAT_64": _Word("FLOAT_32"),
    "STRING": _Word("UINT_8"),
}
_ANY = _Word("FLOAT_32", tuple(row.word for row in _WORDS.values()))

_BITS = re.compile(r"\d+\Z")


class _Reg(NamedTuple):
    """One op on each of its cores."""

    cores: Mapping[str, tuple[Op, ...]]  # core -> the op resolved for its backends
    calculates: Mapping[str, tuple[str, ...]]  # core -> types

    @property
    def op(self) -> Op:
        """The op on its first core: names, ranks and order are the same on all."""
        return next(iter(self.cores.values()))[0]


def files(
    package: OpPackage, seen: _Seen, source: Source, libraries: Sequence[tuple[str, str]]
) -> tuple[PlannedFile, ...]:
    """The sources of the registration library; `libraries` are (core, file name) of the implementation libraries."""
    data = _data(package, seen, source, libraries)
    return (
        PlannedFile(f"jni/src/reg/{package.name}RegLib.cpp", template="snpe/reg/RegLib.cpp.mako", data=data),
        PlannedFile("jni/src/utils/UdoUtil.cpp", copy="snpe/jni/src/utils/UdoUtil.cpp"),
        *(PlannedFile(f"include/utils/{name}", copy=f"snpe/include/utils/{name}") for name in _UTILITIES),
        *(PlannedFile(f".sdk/include/SnpeUdo/{name}", copy=f"headers:SnpeUdo/{name}") for name in _HEADERS),
    )


def _data(package: OpPackage, seen: _Seen, source: Source, libraries: Sequence[tuple[str, str]]) -> dict[str, object]:
    named = list(dict.fromkeys(core.core for core, _ in seen if core.core in dict(libraries)))
    regs = _regs(seen, named)
    names = table_names([reg.op for reg in regs])
    ops = [_op(reg, *reg_names) for reg, reg_names in zip(regs, names, strict=True)]
    tensors = [len(reg.op.inputs) + len(reg.op.outputs) for reg in regs]
    sizes = (
        len(libraries),
        len(regs),
        sum(len(reg.op.params) for reg in regs),
        sum(tensors),
        sum(count * len(reg.cores) for count, reg in zip(tensors, regs, strict=True)),
        sum(len(reg.cores) for reg in regs),
    )
    return {
        "config": source.label,
        "package": _PackageView(
            literal=cpp_string(package.name),
            cores=_mask("CORETYPE", named),
            version=_version(package.version),
            operations=cpp_string(" ".join(reg.op.name for reg in regs)),
        ),
        "libraries": _libraries(libraries),
        "tables": [table for op in ops for table in op.tables],
        "ops": ops,
        "sizes": ", ".join(str(max(size, 1)) for size in sizes),
    }


class _PackageView(NamedTuple):
    literal: str
    cores: str
    version: str
    operations: str


class _CoreLibrary(NamedTuple):
    """An implementation library, and the macro that names it."""

    core: str
    macro: str
    literal: str


class _RegisteredOp(NamedTuple):
    literal: str
    cores: str
    core_infos: str
    params: str
    inputs: str
    outputs: str
    tables: tuple[Table, ...]


class _Row(NamedTuple):
    """A row of a table of tensors, and the tables that it refers to."""

    members: tuple[str, ...]
    tables: tuple[Table, ...]


def _libraries(libraries: Sequence[tuple[str, str]]) -> list[_CoreLibrary]:
    """Each library with its macro: UDO_LIB_NAME_DSP, UDO_LIB_NAME_DSP_2 …"""
    views: list[_CoreLibrary] = []
    for core, name in libraries:
        number = sum(view.core == core for view in views) + 1
        macro = f"UDO_LIB_NAME_{core}" + (f"_{number}" if number > 1 else "")
        views.append(_CoreLibrary(core, macro, cpp_string(name)))
    return views


def _regs(seen: _Seen, cores: Sequence[str]) -> list[_Reg]:
    """The ops of all backends, each with the cores that have it."""
    names = dict.fromkeys(op.name for _, package in seen for op in package.ops)
    calculates = {core.core: core.calculates for core, _ in seen}
    regs: list[_Reg] = []
    for name in names:
        by_core = {
            core: tuple(
                op for udo_core, package in seen if udo_core.core == core for op in package.ops if op.name == name
            )
            for core in cores
        }
        if any(by_core.values()):
            regs.append(_Reg({core: ops for core, ops in by_core.items() if ops}, calculates))
    return regs


def _op(reg: _Reg, prefix: str, names: Mapping[tuple[str, str], str]) -> _RegisteredOp:
    core_infos = _core_infos(reg, prefix)
    specs, below = {}, []
    for role, tensors, spec in (
        ("params", reg.op.params, "ParamSpec"),
        ("inputs", reg.op.inputs, "TensorSpec"),
        ("outputs", reg.op.outputs, "TensorSpec"),
    ):
        rows = [_row(reg, tensor.role, index, names[tensor.role, tensor.name]) for index, tensor in enumerate(tensors)]
        below += [table for row in rows for table in row.tables]
        specs[role] = Table(spec, f"{prefix}_{role}", tuple(row.members for row in rows))
    return _RegisteredOp(
        literal=cpp_string(reg.op.name),
        cores=_mask("CORETYPE", reg.cores),
        core_infos=core_infos.name,
        params=specs["params"].name if reg.op.params else "{}",
        inputs=specs["inputs"].name,
        outputs=specs["outputs"].name,
        tables=(core_infos, *below, *(table for table in specs.values() if table.items)),
    )


def _core_infos(reg: _Reg, prefix: str) -> Table:
    """The data types of each core: those of its calculations, and of its tensors."""
    infos = []
    for core, ops in reg.cores.items():
        own = [word for op in ops for tensor in (*op.inputs, *op.outputs) for word in _words(tensor.datatypes)]
        infos.append((f"SNPE_UDO_CORETYPE_{core}", _mask("DATATYPE", (*reg.calculates[core], *own))))
    return Table("SnpeUdo_OpCoreInfo_t", f"{prefix}_core_infos", tuple(infos))


def _row(reg: _Reg, role: str, index: int, name: str) -> _Row:
    if role == "param":
        return _param(reg, index, name)
    tensor = _tensors(reg.op, role)[index]
    types, ranks = _types(reg, role, index, name), _ranks(tensor, name)
    flags = (_bool(flag) for flag in (tensor.required, tensor.repeated, tensor.static))
    named = ranks[0].name if ranks else "{}"
    return _Row((cpp_string(tensor.name), _layout(tensor), types.name, named, *flags), (types, *ranks))


def _param(reg: _Reg, index: int, name: str) -> _Row:
    # The default of the first core that has one: a supplement may give it for one core only.
    seen = [op.params[index] for ops in reg.cores.values() for op in ops]
    param, default = seen[0], next((declared.default for declared in seen if declared.default is not None), None)
    types, ranks = _types(reg, "param", index, name), _ranks(param, name)
    bits, text, data, dims = "0", '""', "nullptr", "{}"
    kind = "TENSOR"
    tables: tuple[Table, ...] = ()
    if all(datatype.kind == "string" for datatype in param.datatypes):
        kind, text = "STRING", cpp_string(values.show(default)) if default is not None else text
    elif param.is_scalar:
        kind, bits = "SCALAR", f"0x{_bits(default, _words(param.datatypes)[0]):x}u"
    elif default is not None and values.flatten(default):
        tables = _default(default, _words(param.datatypes)[0], name)
        data, dims = (table.name for table in tables)
    required = param.mandatory and default is None
    members = (
        cpp_string(param.name),
        f"SNPE_UDO_PARAMTYPE_{kind}",
        _layout(param),
        types.name,
        ranks[0].name if ranks else "{}",
        _bool(required),
        f"{{{bits}, {text}, {data}, {dims}}}",
    )
    return _Row(members, (types, *ranks, *tables))


def _types(reg: _Reg, role: str, index: int, name: str) -> Table:
    rows = []
    for core, ops in reg.cores.items():
        datatypes = [datatype for op in ops for datatype in _tensors(op, role)[index].datatypes]
        accepted = [datatype for op in ops for datatype in _tensors(op, role)[index].accepted]
        words = [word for datatype in accepted for word in (_word(datatype).word, *_word(datatype).also)]
        first = _words(datatypes)[0]
        rows.append((f"SNPE_UDO_CORETYPE_{core}", f"SNPE_UDO_DATATYPE_{first}", _mask("DATATYPE", words)))
    return Table("CoreTypes", f"{name}_types", tuple(rows))


def _ranks(tensor: Tensor, name: str) -> tuple[Table, ...]:
    if not tensor.rank.ranks or tensor.is_scalar:
        return ()
    return (Table("std::uint32_t", f"{name}_ranks", tuple(str(rank) for rank in tensor.rank.ranks)),)


def _default(default: Value, word: str, name: str) -> tuple[Table, Table]:
    """Two tables: the numbers as stored, and the shape."""
    leaves, dims = values.flatten(default), values.shape(default) or (1,)
    items = tuple(f"0x{_bits(leaf, word):x}u" for leaf in leaves)
    return (
        Table(f"std::uint{_stored(word)}_t", f"{name}_data", items),
        Table("std::uint32_t", f"{name}_dims", tuple(str(dim) for dim in dims), constant=False),
    )


def _stored(word: str) -> int:
    """The bits of a stored element of this type."""
    bits = _BITS.search(word)
    return max(8, int(bits[0])) if bits else 32


def _bits(value: object, word: str) -> int:
    """A number as bits of this type, clamped to its range; None becomes 0."""
    number = value if isinstance(value, bool | int | float) else 0
    bits = _stored(word)
    if word.startswith("FLOAT"):
        return float_bits(number, "<f" if bits == 32 else "<e")
    low, high = (0, (1 << bits) - 1) if word.startswith("UINT") else (-(1 << (bits - 1)), (1 << bits) - 1)
    whole = round(min(max(number, low), high)) if number == number else 0
    return whole & ((1 << bits) - 1)


def _tensors(op: Op, role: str) -> tuple[Tensor, ...]:
    return {"input": op.inputs, "output": op.outputs, "param": op.params}[role]


def _word(datatype: DataType) -> _Word:
    return _WORDS.get(datatype.name, _ANY)


def _words(datatypes: Sequence[DataType]) -> list[str]:
    """SNPE's names of these types, the one for registration first.

    UINT_8 in a config that means activations on the DSP remains UINT_8; both types are allowed.
    """
    words = [_word(datatype).word for datatype in datatypes] or [_ANY.word]
    own = [datatype.name for datatype in datatypes if datatype.kind == "uint"]
    if words[0].startswith("FIXED_") and words[0].replace("FIXED", "UINT") in own:
        words.insert(0, words[0].replace("FIXED", "UINT"))
    return list(dict.fromkeys(words))


def _layout(tensor: Tensor) -> str:
    return f"SNPE_UDO_LAYOUT_{tensor.layout if tensor.layout in _LAYOUTS else 'LAST'}"


def _mask(kind: str, words: Mapping[str, object] | Sequence[str]) -> str:
    return " | ".join(f"SNPE_UDO_{kind}_{word}" for word in dict.fromkeys(words)) or "0"


def _version(text: str) -> str:
    """A config's version, such as `1.2.0`, as three numbers; 1, 0, 0 without one."""
    numbers = [part[:9] for part in re.findall(r"\d+", text, re.ASCII)[:3]] or ["1"]
    return ", ".join(str(int(part)) for part in [*numbers, "0", "0"][:3])


def _bool(value: bool) -> str:
    return "true" if value else "false"
