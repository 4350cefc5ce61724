"""Expressions of rules: what type each has, and what none may be.  Everything wrong is told with its line."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Protocol

from udogen.opdef import datatypes
from udogen.opdef.names import LONGEST
from udogen.opdef.outputs import calls
from udogen.opdef.outputs.checked import Checked
from udogen.opdef.outputs.reading import Source
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
    is_number,
    list_of,
    united,
)  # fmt: skip
from udogen.opdef.outputs.words import FEATURES, SIGNS, called
from udogen.opdef.problems import Location, Problems, nearest

_INT64 = 1 << 63
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class Helpers(Protocol):
    """Who checks the functions that a function calls."""

    def call(self, name: str, arguments: Sequence[Type]) -> Checked | str:
        """The function for these arguments, or what is wrong with the call."""


class Expressions:
    """The types of the expressions of one function."""

    def __init__(self, checked: Checked, source: Source, helpers: Helpers, problems: Problems) -> None:
        self.checked = checked
        self.source = source
        self.helpers = helpers
        self.op_members: Mapping[str, Mapping[str, Member]] = {}
        self._problems = problems
        self._inner: list[dict[str, Type]] = []  # names of list comprehensions
        self.sure = set(checked.arguments)  # variables that have a value for sure

    def fault(self, node: ast.AST, message: str, hint: str) -> Type:
        """Tell what is wrong at a node; nothing more is told of what depends on it."""
        self._problems.error(Location(self.source.file, getattr(node, "lineno", 0)), message, hint)
        return UNKNOWN

    def expr(self, node: ast.expr, wanted: Type | None = None) -> Type:
        """The type of an expression; `wanted` says what a text shall be."""
        handler = getattr(self, f"_of_{type(node).__name__}", None)
        if handler is None:
            kind = type(node).__name__
            return self.fault(
                node, f"rules have no {called(node)}", FEATURES["expression"].get(kind, "write it plainly")
            )
        found: Type = handler(node, wanted) if isinstance(node, (ast.Constant, ast.List, ast.IfExp)) else handler(node)
        self.checked.types[node] = found
        return found

    def whole(self, node: ast.expr, what: str) -> None:
        """Demand a whole number."""
        kind = self.expr(node)
        if kind not in (WHOLE, UNKNOWN):
            self.fault(node, f"{what} must be a whole number, and this is {kind}", "int(…) makes one")

    def truth(self, node: ast.expr) -> None:
        """Demand something that is true or false."""
        kind = self.expr(node)
        if kind in (TRUTH, UNKNOWN):
            return
        hint = {"list": "write len(…) != 0", "tensor": "write `is not None`"}.get(
            kind.kind, "write a comparison, as in … != 0"
        )
        self.fault(node, f"a condition must be true or false, and this is {kind}", hint)

    def items(self, node: ast.expr) -> Type:
        """The items of a list; UNKNOWN where it is none."""
        kind = self.expr(node)
        if kind.kind == "list":
            return kind.of or UNKNOWN
        if kind.kind == "tensor":
            return self.fault(node, "a tensor is no list", "write its .shape, or the .data of one that is constant")
        if kind != UNKNOWN:
            self.fault(node, f"this must be a list, and is {kind}", "write a list: [a, b]")
        return UNKNOWN

    def join(self, one: ast.expr, other: ast.expr, kinds: tuple[Type, Type]) -> Type | None:
        """The type of two that must be alike; a whole number goes for one with a fraction."""
        if set(kinds) == {WHOLE, REAL}:
            self.checked.as_real.add(one if kinds[0] == WHOLE else other)
            return REAL
        return united(*kinds)

    # --- leaves ----------------------------------------------------------------------------------

    def _of_Constant(self, node: ast.Constant, wanted: Type | None) -> Type:
        value = node.value
        if isinstance(value, bool):
            return TRUTH
        if isinstance(value, int):
            if value >= _INT64:
                return self.fault(node, "this number is too large", "whole numbers of rules have 64 bits")
            return WHOLE
        if isinstance(value, float):
            return REAL if value - value == 0 else self.fault(node, "this number is too large", "write a smaller one")
        if isinstance(value, str):
            if not self.sayable(node, value):
                return UNKNOWN
            if wanted == TEXT or (wanted != DTYPE and datatypes.parse(value) is None):
                return TEXT
            if (row := datatypes.parse(value)) is None or row.kind == "special":
                near = nearest(value, datatypes.spellings())
                hint = f"did you mean {near}?" if near else "as in 'FLOAT_32', 'UFIXED_POINT_8'"
                return self.fault(node, f"`{value[:LONGEST]}` is no data type", hint)
            return DTYPE
        if value is None:
            return self.fault(node, "None only stands behind `is` and `is not`", "write `op.x is None`")
        return self.fault(node, f"rules have no {type(value).__name__}", "they have numbers, texts, lists")

    def sayable(self, node: ast.AST, text: str) -> bool:
        """Whether C++ can say a text; tells where it cannot."""
        if "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text):
            return True
        self.fault(node, "this text has characters that no message can have", "write plain letters")
        return False

    def _of_Name(self, node: ast.Name) -> Type:
        for inner in reversed(self._inner):
            if node.id in inner:
                return inner[node.id]
        known = self.checked.arguments.get(node.id) or self.checked.variables.get(node.id)
        if known is not None:
            if node.id not in self.sure:
                return self.fault(node, f"`{node.id}` may have no value here", "give it one before, in every case")
            return known
        if node.id in self.source.constants:
            value = self.source.constants[node.id]
            self.checked.constants[node] = value
            return self.expr(value)
        if node.id in self.source.functions or node.id in calls.KNOWN:
            return self.fault(node, f"`{node.id}` is a function", f"call it: {node.id}(…)")
        near = nearest(node.id, [*self.checked.arguments, *self.checked.variables, *self.source.constants])
        return self.fault(
            node, f"there is no `{node.id}` here", f"did you mean `{near}`?" if near else "give it a value before"
        )

    def _of_Attribute(self, node: ast.Attribute) -> Type:
        base = self.expr(node.value)
        if base.kind == "op":
            return self._member(node, base.op, node.attr)
        if base.kind == "tensor":
            if node.attr == "shape":
                return list_of(WHOLE)
            if node.attr == "dtype":
                return DTYPE
            if node.attr == "data" and base.of:
                return list_of(base.of)
            hints = {"rank": "write len(….shape)", "ndim": "write len(….shape)", "size": "write math.prod(….shape)"}
            near = nearest(node.attr, ("shape", "dtype", "data"))
            hint = f"did you mean .{near}?" if near else "it has .shape, .dtype, and .data where it is constant"
            return self.fault(node, f"a tensor has no .{node.attr}", hints.get(node.attr, hint))
        if base != UNKNOWN:
            hint = (
                "an output is only asked for in len(op.y) and `op.y is None`"
                if base == OUTPUT
                else "only op and tensors have names behind a dot"
            )
            self.fault(node, f"{base} has no .{node.attr}", hint)
        return UNKNOWN

    def _member(self, node: ast.expr, op: str, name: str) -> Type:
        known = self.op_members[op]
        member = known.get(name)
        if member is None:
            names = [each for each in known if not each.startswith("[")]
            near = nearest(name.strip("[]"), names)
            hint = f"did you mean op.{near}?" if near else "it has " + ", ".join(names)
            return self.fault(node, f"`{op}` has no input, parameter or output `{name.strip('[]')}`", hint)
        if member.place is None and member.tensor.role != "param":
            return self.fault(
                node,
                f"where `{member.tensor.name}` of `{op}` stands cannot be told: several before it may be there or not",
                "write this rule in C++, in ConverterOpPackage.cpp",
            )
        if member.tensor.role == "param" and member.tensor.repeated:
            return self.fault(node, f"`{member.tensor.name}` is a repeated parameter", "write this rule in C++")
        self.checked.members[node] = member
        return member.type

    def _of_Subscript(self, node: ast.Subscript) -> Type:
        base = self.expr(node.value)
        if base.kind == "op":
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                return self._member(node, base.op, f"[{node.slice.value}]")
            return self.fault(node, "what stands in the brackets behind op must be a name", "as in op['in[0]']")
        if base.kind not in ("list", "unknown"):
            hint = "write its .shape[…]" if base.kind == "tensor" else "only lists have items"
            return self.fault(node, f"{base} has no items", hint)
        if isinstance(node.slice, ast.Slice):
            for each in (node.slice.lower, node.slice.upper, node.slice.step):
                if each is not None:
                    self.whole(each, "a border of a slice")
            return base
        self.whole(node.slice, "an index")
        return base.of or UNKNOWN

    # --- lists -----------------------------------------------------------------------------------

    def _of_List(self, node: ast.List, wanted: Type | None) -> Type:
        item = UNKNOWN
        first: ast.expr | None = None
        plain: list[ast.expr] = []
        for each in node.elts:
            kind = self.items(each.value) if isinstance(each, ast.Starred) else self.expr(each, wanted and wanted.of)
            if kind == UNKNOWN:
                continue
            if kind == OUTPUT or kind.kind == "op":
                return self.fault(each, f"{kind} cannot be in a list", "write numbers")
            found = united(item, kind)
            if found is None and {item, kind} == {WHOLE, REAL} and not isinstance(each, ast.Starred):
                found = REAL
            if found is None:
                return self.fault(
                    each, f"a list holds things of one kind; here are {item} and {kind}", "write two lists"
                )
            first, item = first or each, found
            plain.append(each)
        if item == REAL:
            wholes = [each for each in plain if self.checked.types.get(each) == WHOLE]
            self.checked.as_real.update(wholes)
            if any(
                isinstance(each, ast.Starred) and self.checked.types[each.value] == list_of(WHOLE) for each in plain
            ):
                return self.fault(
                    node, "a list holds things of one kind; here are whole numbers and others", "float(…) makes others"
                )
        return list_of(item)

    def _of_ListComp(self, node: ast.ListComp) -> Type:
        [*more] = node.generators
        if len(more) != 1:
            return self.fault(node, "a list may be made in one loop only", "write nested for loops")
        loop = more[0]
        names = dict(self.targets(loop.target, calls.iterated(self, loop.iter)))
        self._inner.append(names)
        try:
            for each in loop.ifs:
                self.truth(each)
            return list_of(self.expr(node.elt))
        finally:
            self._inner.pop()

    def targets(self, target: ast.expr, items: Sequence[Type]) -> list[tuple[str, Type]]:
        """The names that a loop gives values, and their types."""
        if len(items) == 1 and isinstance(target, ast.Name):
            return [(target.id, items[0])]
        if isinstance(target, ast.Tuple) and len(target.elts) == len(items):
            names = [each.id for each in target.elts if isinstance(each, ast.Name)]
            if len(set(names)) == len(items):
                return list(zip(names, items, strict=True))
        hint = "write `for i, x in …`" if len(items) == 2 else "write `for x in …`"
        self.fault(target, "the names of this loop do not fit what it goes over", hint)
        return [(each.id, UNKNOWN) for each in ast.walk(target) if isinstance(each, ast.Name)]

    # --- operators -------------------------------------------------------------------------------

    def _of_BinOp(self, node: ast.BinOp) -> Type:
        kinds = self.expr(node.left), self.expr(node.right)
        operator = type(node.op).__name__
        if operator in FEATURES["operator"]:
            return self.fault(node, f"rules have no operator {SIGNS[operator]}", FEATURES["operator"][operator])
        if UNKNOWN in kinds:
            return UNKNOWN
        if operator == "Add" and kinds[0].kind == kinds[1].kind == "list":
            return united(*kinds) or self.fault(
                node, f"{kinds[0]} and {kinds[1]} do not make one list", "use lists of one kind"
            )
        if operator == "Mult" and {kinds[0].kind, kinds[1].kind} == {"list", "whole"}:
            return kinds[0] if kinds[0].kind == "list" else kinds[1]
        if not all(map(is_number, kinds)):
            wrong = next(kind for kind in kinds if not is_number(kind))
            hint = {"truth": "write `1 if … else 0`", "list": "write [a, b] + [c]", "tensor": "write its .shape[…]"}
            return self.fault(
                node, f"one cannot calculate with {wrong}", hint.get(wrong.kind, "only numbers are calculated with")
            )
        if operator == "Div":
            self.checked.as_real.update(
                each for each, kind in zip((node.left, node.right), kinds, strict=True) if kind == WHOLE
            )
            return REAL
        joined = self.join(node.left, node.right, kinds) or UNKNOWN
        if joined == REAL and operator in ("FloorDiv", "Mod"):
            return self.fault(node, f"{SIGNS[operator]} is for whole numbers", "write math.floor(a / b)")
        return joined

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Type:
        if isinstance(node.op, ast.Not):
            self.truth(node.operand)
            return TRUTH
        kind = self.expr(node.operand)
        if isinstance(node.op, ast.Invert):
            return self.fault(node, "rules have no operator ~", FEATURES["operator"]["Invert"])
        if not is_number(kind) and kind != UNKNOWN:
            return self.fault(node, f"one cannot calculate with {kind}", "only numbers are calculated with")
        return kind

    def _of_BoolOp(self, node: ast.BoolOp) -> Type:
        for each in node.values:
            self.truth(each)
        return TRUTH

    def _of_IfExp(self, node: ast.IfExp, wanted: Type | None) -> Type:
        self.truth(node.test)
        kinds = self.expr(node.body, wanted), self.expr(node.orelse, wanted)
        if UNKNOWN in kinds:
            return UNKNOWN
        if OUTPUT in kinds:
            return self.fault(node, "an output has no value", "say its shape")
        found = self.join(node.body, node.orelse, kinds)
        return found or self.fault(node, f"this is {kinds[0]} or {kinds[1]}", "make both alike")

    def _of_Compare(self, node: ast.Compare) -> Type:
        sides = [node.left, *node.comparators]
        if len(sides) > 2 and not all(
            isinstance(each, (ast.Name, ast.Constant, ast.Attribute)) for each in sides[1:-1]
        ):
            return self.fault(node, "what stands in the middle of a comparison must be a name", "give it one before")
        if len(sides) > 2 and any(isinstance(each, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for each in node.ops):
            return self.fault(node, "`is` and `in` stand in no chain", "write `and` between them")
        for left, operator, right in zip(sides, node.ops, node.comparators, strict=False):
            if isinstance(operator, (ast.Is, ast.IsNot)):
                self._is_none(left, right)
            elif isinstance(operator, (ast.In, ast.NotIn)):
                self._is_in(left, right)
            else:
                self._is_alike(left, operator, right)
        return TRUTH

    def _is_none(self, left: ast.expr, right: ast.expr) -> None:
        kind = self.expr(left)
        if not (isinstance(right, ast.Constant) and right.value is None):
            self.fault(right, "`is` is only for None", "write ==")
        elif kind.kind not in ("tensor", "unknown") and left not in self.checked.members and not self.is_data(left):
            self.fault(left, "this is never None", "only what a model may leave out, and .data, can be None")

    def is_data(self, node: ast.expr) -> bool:
        """Whether this is the .data of a tensor."""
        return (
            isinstance(node, ast.Attribute)
            and self.checked.types.get(node.value, UNKNOWN).kind == "tensor"
            and node.attr == "data"
        )

    def _is_in(self, left: ast.expr, right: ast.expr) -> None:
        kind = self.expr(left)
        if isinstance(right, (ast.Tuple, ast.List)):
            item = UNKNOWN
            for each in right.elts:
                found = united(item, self.expr(each, kind))
                if found is None or isinstance(each, ast.Starred):
                    self.fault(each, "what is looked for must be among things of its kind", "write a list of one kind")
                    return
                item = found
            self.checked.types[right] = list_of(item)
        else:
            item = self.items(right)
        if kind.kind in ("tensor", "op", "output") or united(kind, item) is None:
            self.fault(left, f"this is {kind}, and is looked for among {item}", "compare what is of one kind")

    def _is_alike(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> None:
        kind = self.expr(left)
        kinds = (kind, self.expr(right, kind))
        if kinds[0] != TEXT != kinds[1] or isinstance(right, ast.Constant):
            pass
        elif isinstance(left, ast.Constant):  # the text stands in front
            kinds = (self.expr(left, kinds[1]), kinds[1])
        if UNKNOWN in kinds:
            return
        joined = self.join(left, right, kinds)
        if joined is None or joined.kind in ("tensor", "op", "output"):
            self.fault(left, f"{kinds[0]} cannot be compared with {kinds[1]}", "compare what is of one kind")
        elif isinstance(operator, _ORDERED) and not is_number(joined):
            self.fault(left, f"{joined} is neither less nor more than another", "write == or !=")

    def _of_Call(self, node: ast.Call) -> Type:
        return calls.check(self, node)
