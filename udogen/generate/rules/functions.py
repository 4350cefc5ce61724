"""Functions of rules in C++, statement by statement."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping

from udogen.generate.rules.expressions import Expressions, stored
from udogen.opdef.names import cpp_string
from udogen.opdef.outputs.checked import Checked, OpRules, plainly
from udogen.opdef.outputs.types import DTYPE, REAL, TRUTH, WHOLE, Type, list_of, place_of


class Function(Expressions):
    """One function in C++."""

    def __init__(
        self,
        checked: Checked,
        names: Mapping[str, str],
        structs: Mapping[str, str],
        accessors: Mapping[tuple[str, str], str],
        rule: OpRules | None,
    ) -> None:
        super().__init__(checked, names, structs, accessors)
        self._rule = rule
        words = [each for each in ast.walk(self.checked.node) if isinstance(each, ast.Name)]
        self._given = Counter(each.id for each in words if isinstance(each.ctx, ast.Store))
        self._read = {each.id for each in words if isinstance(each.ctx, ast.Load)}
        # `a += 1` reads and gives: its one node only says that it gives.
        changed = [each.target for each in ast.walk(self.checked.node) if isinstance(each, ast.AugAssign)]
        self._read |= {each.id for each in changed if isinstance(each, ast.Name)}
        self._declared: set[str] = set()

    def head(self, returns: str = "") -> str:
        """Its signature."""
        arguments = []
        for name, kind in self.checked.arguments.items():
            made = self.variables[name] = self.here.new(name)
            unused = "" if name in self._read else "[[maybe_unused]] "
            plain = self.type(kind) if name in self._given else f"const {self.type(kind)}&"
            arguments.append(f"{unused}{plain} {made}")
        returned = returns or self.type(self.checked.returns or WHOLE)
        return f"inline {returned} {self.names[self.checked.key]}({', '.join(arguments)})"

    def lines(self) -> list[str]:
        """Its body; `head` comes first."""
        body = self.checked.node.body
        once = {name for name, number in self._given.items() if number == 1}
        loops = {each.target for each in ast.walk(self.checked.node) if isinstance(each, ast.For)}
        in_place = {name for each in body if isinstance(each, ast.Assign) for name in stored(each.targets[0])}
        in_place |= {name for target in loops for name in stored(target)}
        lines = []
        for name, kind in self.checked.variables.items():
            self.variables[name] = self.here.new(name)
            if not (name in once and name in in_place):
                unused = "" if name in self._read else "[[maybe_unused]] "
                plain = {REAL: " = 0", TRUTH: " = false", DTYPE: " = QNN_DATATYPE_UNDEFINED"}.get(kind, "")
                lines.append(f"  {unused}{self.type(kind)} {self.variables[name]}{plain};")
                self._declared.add(name)
        for each in body:
            lines += [f"  {line}" for line in self._statement(each)]
        return lines

    # --- statements ------------------------------------------------------------------------------

    def _statement(self, node: ast.stmt) -> Iterator[str]:
        if isinstance(node, ast.AugAssign):
            node = plainly(node)
        if isinstance(node, ast.Assign):
            yield from self._assign(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            assert isinstance(node.value.func, ast.Attribute)
            known = self.checked.types[node.value.func.value]
            yield f"{self.expr(node.value.func.value)}.append({self.expr(node.value.args[0], known.of)});"
        elif isinstance(node, ast.If):
            yield from self._if(node)
        elif isinstance(node, ast.For):
            yield from self._for(node)
        elif isinstance(node, ast.Return):
            yield from self._return(node)
        elif isinstance(node, ast.Raise):
            assert isinstance(node.exc, ast.Call)
            yield f"throw udo::wrong({self._text(node.exc.args[0])});"
        elif isinstance(node, (ast.Break, ast.Continue)):
            yield f"{type(node).__name__.lower()};"

    def _assign(self, node: ast.Assign) -> Iterator[str]:
        target = node.targets[0]
        if isinstance(target, ast.Name):
            yield self._give(target.id, self.expr(node.value, self._kind(target.id)))
        elif isinstance(target, ast.Subscript):
            known = self.checked.types[target.value]
            index = self.expr(target.slice)
            yield f"{self.expr(target.value)}.set({index}, {self.expr(node.value, known.of)});"
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            # All values are there before the first name has a new one.
            names = stored(target)
            made = [self.here.new(f"new_{name}") for name in names]
            for name, temporary, value in zip(names, made, node.value.elts, strict=True):
                kind = self._kind(name)
                yield f"const {self.type(kind)} {temporary} = {self.expr(value, kind)};"
            for name, temporary in zip(names, made, strict=True):
                yield self._give(name, temporary)
        elif isinstance(target, ast.Tuple):
            parts = self.here.new("parts")
            names = stored(target)
            yield f"const auto {parts} = udo::taken({self.expr(node.value)}, {len(names)});"
            for number, name in enumerate(names):
                yield self._give(name, f"{parts}[{number}_i]")

    def _kind(self, name: str) -> Type:
        return self.checked.arguments.get(name) or self.checked.variables[name]

    def _give(self, name: str, value: str) -> str:
        """A variable's value; with its declaration where this is the only one."""
        if name in self._declared or name in self.checked.arguments:
            return f"{self.variables[name]} = {value};"
        self._declared.add(name)
        unused = "" if name in self._read else "[[maybe_unused]] "
        return f"{unused}{self.type(self.checked.variables[name])} {self.variables[name]} = {value};"

    def _block(self, statements: list[ast.stmt]) -> Iterator[str]:
        for each in statements:
            yield from (f"  {line}" for line in self._statement(each))

    def _if(self, node: ast.If) -> Iterator[str]:
        yield f"if ({self.expr(node.test)}) {{"
        yield from self._block(node.body)
        if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            first, *rest = self._if(node.orelse[0])
            yield f"}} else {first}"
            yield from rest
            return
        if node.orelse:
            yield "} else {"
            yield from self._block(node.orelse)
        yield "}"

    def _for(self, node: ast.For) -> Iterator[str]:
        names = stored(node.target)
        own = all(name not in self._declared for name in names)
        items = self.items(node.iter)
        if own and len(names) == 1:
            unused = "" if names[0] in self._read else "[[maybe_unused]] "
            kind = self.type(self.checked.variables[names[0]])
            yield f"for ({unused}const {kind} {self.variables[names[0]]} : {items}) {{"
            self._declared.add(names[0])
        else:
            each = self.here.new("each")
            yield f"for (const auto& {each} : {items}) {{"
            values = [each] if len(names) == 1 else [f"{each}.first", f"{each}.second"]
            for name, value in zip(names, values, strict=True):
                yield f"  {self._give(name, value)}"
        yield from self._block(node.body)
        yield "}"

    def _return(self, node: ast.Return) -> Iterator[str]:
        if self._rule is None:
            assert node.value is not None
            yield f"return {self.expr(node.value, self.checked.returns)};"
            return
        assert isinstance(node.value, ast.Dict)
        kind = "Shapes" if self.checked is self._rule.shapes else "Types"
        item = list_of(WHOLE) if kind == "Shapes" else DTYPE
        asked = f"{next(iter(self.variables.values()))}.asked"
        steps = []
        for key, value in zip(node.value.keys, node.value.values, strict=True):
            assert isinstance(key, ast.Constant)
            index = next(i for i, each in enumerate(self._rule.op.outputs) if each.name == key.value)
            tensor, place = self._rule.op.outputs[index], place_of(self._rule.op.outputs, index)
            name = cpp_string(tensor.name)
            if place is None:
                continue
            if tensor.repeated:
                said = self.expr(value, list_of(item))
                steps.append(f".ofEach({name}, {place.first}, {place.behind or 0}, {said})")
            elif place.behind is not None:
                steps.append(f".ofFromEnd({name}, {place.behind}, {self.expr(value, item)})")
            else:
                steps.append(f".of({name}, {place.first}, {self.expr(value, item)})")
        yield f"return udo::{kind}({asked}.outputCount())"
        yield from (f"    {step}" for step in steps[:-1])
        yield f"    {steps[-1] if steps else ''};"

    def _text(self, node: ast.expr) -> str:
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        said = []
        for each in parts:
            if isinstance(each, ast.FormattedValue):
                said.append(self.expr(each.value))
            elif isinstance(each, ast.Constant):
                said.append(cpp_string(str(each.value)))
        return ", ".join(said)
