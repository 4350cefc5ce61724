"""A user's rules in the converter op package: ConverterRules.hpp, and what ConverterOpPackage.cpp calls of it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

from udogen.generate.plan import PlannedFile, record
from udogen.generate.rules.expressions import Names, type_name
from udogen.generate.rules.functions import Function
from udogen.generate.write import Change
from udogen.opdef.model import Tensor
from udogen.opdef.names import cpp_comment, cpp_string
from udogen.opdef.outputs import OpRules, Rules
from udogen.opdef.outputs.checked import Checked
from udogen.opdef.outputs.types import REAL, TEXT, TRUTH, WHOLE, Member, members
from udogen.opdef.problems import Location, Problems

PLACE = "ConverterOpPackage/ConverterOpPackage.cpp"
HEADER = "ConverterOpPackage/ConverterRules.hpp"
KEPT = ".sdk/rules.py"  # the user's file as it was when the package was generated
_TYPES = ".sdk/RuleTypes.hpp"


def files(rules: Rules) -> list[PlannedFile]:
    """What a package with rules has more than one without."""
    return [
        PlannedFile(HEADER, template="converter/ConverterRules.hpp.mako", data=_say(rules)),
        PlannedFile(_TYPES, copy=f"converter/{_TYPES.removeprefix('.sdk/')}"),
        PlannedFile(KEPT, content=rules.content),
    ]


def call(op: OpRules | None, what: str) -> str:
    """The call of a rule for shapes, or dtypes; empty where there is none."""
    if op is None or (op.shapes if what == "shapes" else op.dtypes) is None:
        return ""
    return f"rules::{_entry(op.op.name, what)}(op);"


def mind_yours(rules: Rules | None, folder: Path, changes: Sequence[Change], problems: Problems) -> None:
    """Tell where a person wrote C++ in place of the call of a rule: theirs is what counts."""
    source = next((each for each in changes if each.path == PLACE), None)
    text = ((source and source.after) or b"").decode("utf-8", "replace")
    if rules is None or source is None:
        return
    for op in rules.ops.values():
        for what, function in (("shapes", "ShapeInference"), ("dtypes", "DataTypeInference")):
            wanted = call(op, what)
            if wanted and wanted not in text:
                problems.warn(
                    Location(str(folder / PLACE)),
                    f"{op.op.name}{function} is yours, and calls no rule of {Path(rules.file).name}: yours is used",
                    f"write `{wanted}` there where the rule shall be used",
                )


def _entry(op: str, what: str) -> str:
    return f"{op}{'Shapes' if what == 'shapes' else 'DataTypes'}"


def _say(rules: Rules) -> Mapping[str, object]:
    entries = {
        (name, what): _entry(name, what)
        for name in rules.ops
        for what in ("shapes", "dtypes")
        if call(rules.ops[name], what)
    }
    names = Names("udo", "rules", *entries.values())
    structs = {name: names.new(f"{name}Op") for name in rules.ops}
    functions = {
        each.key: names.new(f"of_{each.key}" if each.returns is None else each.key) for each in rules.functions
    }
    accessors = {name: _accessors(op, structs[name]) for name, op in rules.ops.items()}
    by_place = {(op, key): accessor for op, found in accessors.items() for key, (accessor, _) in found.items()}
    return {
        "ops": [
            record(
                name=name,
                struct=structs[name],
                members=[_member(member, accessor) for accessor, member in accessors[name].values()],
            )
            for name in rules.ops
        ],
        "functions": [_function(each, rules, functions, structs, by_place) for each in rules.functions],
        "entries": [
            record(name=entry, struct=structs[name], rule=functions[rule.key])
            for (name, what), entry in entries.items()
            if (rule := rules.ops[name].shapes if what == "shapes" else rules.ops[name].dtypes)
        ],
    }


def _function(
    checked: Checked,
    rules: Rules,
    names: Mapping[str, str],
    structs: Mapping[str, str],
    accessors: Mapping[tuple[str, str], str],
) -> SimpleNamespace:
    rule = next((each for each in rules.ops.values() if checked in (each.shapes, each.dtypes)), None)
    function = Function(checked, names, structs, accessors, rule)
    returns = "" if rule is None else "udo::Shapes" if checked is rule.shapes else "udo::Types"
    [comment] = cpp_comment(f"{KEPT}:{checked.node.lineno}: {checked.node.name}", width=1000)
    return record(comment=comment, head=function.head(returns), lines=function.lines())


def _accessors(op: OpRules, struct: str) -> dict[str, tuple[str, Member]]:
    """By key: the C++ name, and what it is; outputs have no value."""
    names = Names("asked", "udo", struct)
    found = {member.key: member for member in members(op.op).values() if member.tensor.role != "output"}
    return {
        key: (names.new(member.attribute), member)
        for key, member in found.items()
        if member.tensor.role == "param" or member.place is not None
    }


def _member(member: Member, accessor: str) -> SimpleNamespace:
    kind = type_name(member.type, {})
    return record(type=kind, name=accessor, call=_asking(member))


def _asking(member: Member) -> str:
    tensor, name = member.tensor, cpp_string(member.tensor.name)
    if member.place is not None:
        first, behind = member.place
        if tensor.repeated:
            return f"inputs({name}, {first}, {behind or 0})"
        return f"input({name}, {first})" if behind is None else f"inputFromEnd({name}, {behind})"
    if member.type.kind in ("tensor", "list"):
        return f"tensor({name})"
    function = {WHOLE: "whole", REAL: "number", TRUTH: "truth", TEXT: "word"}[member.type]
    default = _default(tensor, function)
    return f"{function}({name}{', ' if default else ''}{default})"


def _default(tensor: Tensor, function: str) -> str:
    value = tensor.default
    if value is None or isinstance(value, tuple):
        return ""
    if function == "word":
        return cpp_string(value) if isinstance(value, str) else ""
    if isinstance(value, str):
        return ""
    if function == "truth":
        return "true" if value else "false"
    if function == "whole":
        return str(int(value)) if -(1 << 63) < value < 1 << 63 else ""
    single = any(each.name == "FLOAT_32" for each in tensor.datatypes)
    found = float(struct.unpack("f", struct.pack("f", value))[0]) if single and abs(value) < 3e38 else float(value)
    return repr(found) if found - found == 0 else ""
