"""Expressions of rules in C++, in the words of `RuleTypes.hpp`, which calculates as Python does."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from udogen.generate.backends.cxx import code
from udogen.opdef import datatypes
from udogen.opdef.names import cpp_string, identifier
from udogen.opdef.outputs import calls
from udogen.opdef.outputs.checked import Checked
from udogen.opdef.outputs.types import (
    DTYPE,
    OUTPUT,
    REAL,
    TEXT,
    TRUTH,
    UNKNOWN,
    WHOLE,
    Member,
    Type,
    list_of,
    united,
)  # fmt: skip

_PLAIN = {WHOLE: "udo::Int", REAL: "double", TRUTH: "bool", TEXT: "std::string", DTYPE: "Qnn_DataType_t"}
_INFIX = {"Add": "+", "Sub": "-", "Mult": "*"}
_SIGNS = {"Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!="}
_FUNCTIONS = {
    "abs": "udo::absolute", "int": "udo::whole", "list": "udo::copied", "math.ceil": "udo::ceil",
    "math.floor": "udo::floor", "math.prod": "udo::product", "sum": "udo::sum", "max": "udo::greatest",
    "min": "udo::least",
}  # fmt: skip
_EXACT = 1 << 53


class Names:
    """Identifiers of one scope, each given once."""

    def __init__(self, *taken: str) -> None:
        self._taken = set(taken)

    def new(self, name: str) -> str:
        """An identifier made of a name, unlike all before."""
        plain = made = identifier(name)
        number = 1
        while made in self._taken:
            number += 1
            made = f"{plain}_{number}"
        self._taken.add(made)
        return made


def type_name(kind: Type, structs: Mapping[str, str]) -> str:
    """The C++ type of values of a type."""
    if kind.kind == "list":
        return f"udo::List<{type_name(kind.of or WHOLE, structs)}>"
    if kind.kind == "op":
        return f"rules::{structs[kind.op]}"
    return "udo::Tensor" if kind.kind == "tensor" else _PLAIN.get(kind, "udo::Int")


class Expressions:
    """The expressions of one function."""

    def __init__(
        self,
        checked: Checked,
        names: Mapping[str, str],
        structs: Mapping[str, str],
        accessors: Mapping[tuple[str, str], str],
    ) -> None:
        self.checked, self.names, self._structs, self._accessors = checked, names, structs, accessors
        self.here = Names(*names.values(), *structs.values())
        self.variables: dict[str, str] = {}
        self._inner: list[dict[str, str]] = []

    def type(self, kind: Type) -> str:
        return type_name(kind, self._structs)

    def expr(self, node: ast.expr, wanted: Type | None = None) -> str:
        if node in self.checked.as_real:
            if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value <= _EXACT:
                return f"{node.value}.0"
            return f"udo::real({self._plain(node, wanted)})"
        return self._plain(node, wanted)

    def _plain(self, node: ast.expr, wanted: Type | None) -> str:
        if node in self.checked.members:
            return f"{self._asked(node)}.{self._accessor(node)}()"
        said: str = getattr(self, f"_{type(node).__name__}")(node, wanted)
        return said

    def _operand(self, node: ast.expr, wanted: Type | None = None) -> str:
        said = self.expr(node, wanted)
        calls_itself = node in self.checked.as_real
        simple = not isinstance(node, (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.UnaryOp))
        is_call = isinstance(node, ast.BinOp) and type(node.op).__name__ not in _INFIX
        return said if calls_itself or simple or is_call else f"({said})"

    def _asked(self, node: ast.expr) -> str:
        assert isinstance(node, (ast.Attribute, ast.Subscript))
        return self.expr(node.value)

    def _accessor(self, node: ast.expr) -> str:
        assert isinstance(node, (ast.Attribute, ast.Subscript))
        op = self.checked.types[node.value].op
        return self._accessors[op, self.checked.members[node].key]

    def _Constant(self, node: ast.Constant, _wanted: Type | None) -> str:
        value = node.value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return f"{value}_i"
        if isinstance(value, float):
            return repr(value)
        if self.checked.types[node] == DTYPE and (row := datatypes.parse(str(value))):
            return code(row)
        return f"std::string({cpp_string(str(value))})"

    def _Name(self, node: ast.Name, wanted: Type | None) -> str:
        for inner in reversed(self._inner):
            if node.id in inner:
                return inner[node.id]
        value = self.checked.constants.get(node)
        return f"({self.expr(value, wanted)})" if value is not None else self.variables[node.id]

    def _Attribute(self, node: ast.Attribute, _wanted: Type | None) -> str:
        tensor = self._operand(node.value)
        if node.attr == "data":
            kind = self.checked.types[node].of
            return f"{tensor}.{'wholeNumbers' if kind == WHOLE else 'realNumbers'}()"
        return f"{tensor}.{'shape' if node.attr == 'shape' else 'type'}()"

    def _Subscript(self, node: ast.Subscript, _wanted: Type | None) -> str:
        base = self._operand(node.value)
        if not isinstance(node.slice, ast.Slice):
            return f"{base}[{self.expr(node.slice)}]"
        borders = [node.slice.lower, node.slice.upper, node.slice.step]
        while len(borders) > 1 and borders[-1] is None:
            borders.pop()
        return f"{base}.slice({', '.join('{}' if each is None else self.expr(each) for each in borders)})"

    def _List(self, node: ast.List, wanted: Type | None) -> str:
        kind = self.checked.types.get(node, list_of(UNKNOWN))
        found = united(kind, wanted) if wanted and wanted.kind == "list" else kind
        item = (found or kind).of or WHOLE
        name = self.type(list_of(WHOLE if item == UNKNOWN else item))
        groups: list[str] = []
        plain: list[str] = []
        for each in node.elts:
            if isinstance(each, ast.Starred):
                if plain:
                    groups.append(f"{name}{{{', '.join(plain)}}}")
                groups.append(self._operand(each.value, list_of(item)))
                plain = []
            else:
                plain.append(self.expr(each, item))
        if plain or len(groups) < 2:
            groups.append(f"{name}{{{', '.join(plain)}}}" if plain else f"{name}()")
        return groups[0] if len(groups) == 1 else f"({' + '.join(groups)})"

    def _ListComp(self, node: ast.ListComp, wanted: Type | None) -> str:
        loop = node.generators[0]
        items = self.items(loop.iter)
        names = stored(loop.target)
        each = self.here.new(names[0] if len(names) == 1 else "each")
        values = [each] if len(names) == 1 else [f"{each}.first", f"{each}.second"]
        self._inner.append(dict(zip(names, values, strict=True)))
        head = f"[&]([[maybe_unused]] const auto& {each})"
        made = self.expr(node.elt, wanted.of if wanted else None)
        conditions = " && ".join(self._operand(test) for test in loop.ifs)
        self._inner.pop()
        chosen = f", {head} {{ return {conditions}; }}" if conditions else ""
        return f"udo::listed({items}, {head} {{ return {made}; }}{chosen})"

    def items(self, node: ast.expr) -> str:
        """What a loop goes over."""
        if isinstance(node, ast.Call) and node not in self.checked.calls:
            name = calls.name_of(node)
            if name in ("range", "enumerate", "zip"):
                return f"udo::{name}({', '.join(self.expr(each) for each in node.args)})"
        return self.expr(node)

    def _BinOp(self, node: ast.BinOp, wanted: Type | None) -> str:
        sign = type(node.op).__name__
        kind = self.checked.types.get(node, UNKNOWN)
        inner = (united(kind, wanted) if wanted else kind) if kind.kind == "list" else None
        if sign in _INFIX:
            left, right = (
                self._operand(each, inner if self.checked.types.get(each, UNKNOWN).kind == "list" else None)
                for each in (node.left, node.right)
            )
            return f"{left} {_INFIX[sign]} {right}"
        function = {"Div": "divided", "FloorDiv": "floordiv", "Mod": "modulo"}[sign]
        return f"udo::{function}({self.expr(node.left)}, {self.expr(node.right)})"

    def _UnaryOp(self, node: ast.UnaryOp, _wanted: Type | None) -> str:
        sign = {"Not": "!", "USub": "-", "UAdd": "+"}[type(node.op).__name__]
        return f"{sign}{self._operand(node.operand)}"

    def _BoolOp(self, node: ast.BoolOp, _wanted: Type | None) -> str:
        sign = " && " if isinstance(node.op, ast.And) else " || "
        return sign.join(self._operand(each) for each in node.values)

    def _IfExp(self, node: ast.IfExp, wanted: Type | None) -> str:
        inner = wanted or self.checked.types[node]
        sides = f"{self._operand(node.body, inner)} : {self._operand(node.orelse, inner)}"
        return f"{self._operand(node.test)} ? {sides}"

    def _Compare(self, node: ast.Compare, _wanted: Type | None) -> str:
        sides = [node.left, *node.comparators]
        said = []
        for left, operator, right in zip(sides, node.ops, node.comparators, strict=False):
            if isinstance(operator, (ast.Is, ast.IsNot)):
                there = self._is_there(left)
                said.append(there if isinstance(operator, ast.IsNot) else f"!{there}")
            elif isinstance(operator, (ast.In, ast.NotIn)):
                found = f"{self._among(left, right)}.has({self.expr(left)})"
                said.append(found if isinstance(operator, ast.In) else f"!{found}")
            else:
                kinds = [self.checked.types.get(each, UNKNOWN) for each in (left, right)]
                inner = united(*kinds) if kinds[0].kind == "list" else None
                sign = _SIGNS[type(operator).__name__]
                said.append(f"{self._operand(left, inner)} {sign} {self._operand(right, inner)}")
        return " && ".join(said)

    def _among(self, left: ast.expr, right: ast.expr) -> str:
        if not isinstance(right, (ast.Tuple, ast.List)):
            return self._operand(right)
        kind = self.checked.types[left]
        return f"{self.type(list_of(kind))}{{{', '.join(self.expr(each, kind) for each in right.elts)}}}"

    def _is_there(self, node: ast.expr) -> str:
        member = self.checked.members.get(node)
        if member is not None:
            if member.tensor.role == "input" and not member.tensor.repeated:
                return f"{self._asked(node)}.{self._accessor(node)}().isThere()"
            return presence(member, f"{self._asked(node)}.asked")
        if isinstance(node, ast.Attribute) and node.attr == "data":
            return f"{self._operand(node.value)}.hasData()"
        return f"{self._operand(node)}.isThere()"

    def _Call(self, node: ast.Call, wanted: Type | None) -> str:
        helper = self.checked.calls.get(node)
        if helper is not None:
            given = zip(node.args, helper.arguments.values(), strict=True)
            return f"rules::{self.names[helper.key]}({', '.join(self.expr(each, kind) for each, kind in given)})"
        name = calls.name_of(node)
        name = f"math.{name}" if f"math.{name}" in calls.KNOWN else name
        first = node.args[0]
        if name == "len":
            if self.checked.types[first] == OUTPUT:
                place = self.checked.members[first].place
                assert place is not None
                return f"{self._asked(first)}.asked.outputs({place.first}, {place.behind or 0})"
            return f"{self._operand(first)}.size()"
        if name == "float":
            return self.expr(first)
        if name in ("min", "max") and len(node.args) > 1:
            kind = self.type(list_of(self.checked.types[node]))
            return f"{_FUNCTIONS[name]}({kind}{{{', '.join(self.expr(each) for each in node.args)}}})"
        return f"{_FUNCTIONS[name]}({self.expr(first, wanted if name == 'list' else None)})"


def presence(member: Member, asked: str) -> str:
    """Whether a parameter, an output or a repeated input is there, in C++."""
    if member.tensor.role == "param":
        return f"{asked}.has({cpp_string(member.tensor.name)})"
    assert member.place is not None
    first, behind = member.place.first, member.place.behind or 0
    if member.tensor.role == "input":
        return f"{asked}.hasInputs({first}, {behind})"
    return (
        f"({asked}.outputs({first}, {behind}) > 0_i)"
        if member.tensor.repeated
        else f"{asked}.hasOutput({first + behind})"
    )


def stored(target: ast.expr) -> list[str]:
    """The names that are given values, in their order."""
    elements = target.elts if isinstance(target, ast.Tuple) else [target]
    return [each.id for each in elements if isinstance(each, ast.Name)]
