"""Checked rules as Python that can be compiled: the same statements, where C++ differs from Python as calls."""

from __future__ import annotations

import ast
from typing import Any

from udogen.opdef.outputs import calls
from udogen.opdef.outputs.checked import Checked, Rules, plainly
from udogen.opdef.outputs.types import OUTPUT, WHOLE


def rewritten(rules: Rules) -> ast.Module:
    """All functions, each under its key."""
    module = ast.Module([_Rewriter(each).function() for each in rules.functions], [])
    return ast.fix_missing_locations(module)


class _Rewriter:
    """One function; what is known of its expressions is known by node, so nodes are copied, not changed."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked

    def function(self) -> ast.FunctionDef:
        """The function under its key, without what says nothing."""
        node = self._checked.node
        arguments = ast.arguments(
            posonlyargs=[],
            args=[ast.arg(each) for each in self._checked.arguments],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
        )
        body = [self._any(each) for each in node.body]
        made = ast.FunctionDef(name=self._checked.key, args=arguments, body=body, decorator_list=[])
        made.type_params = []  # type: ignore[attr-defined, unused-ignore]
        return ast.copy_location(made, node)

    def _any(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._any(each) for each in node]
        if not isinstance(node, ast.AST):
            return node
        if isinstance(node, ast.AugAssign):
            node = plainly(node)
        made = getattr(self, f"_{type(node).__name__}", self._copy)(node)
        if node in self._checked.as_real:
            made = _call("the real", made)
        return ast.copy_location(made, node)

    def _copy(self, node: Any) -> Any:
        return type(node)(**{name: self._any(value) for name, value in ast.iter_fields(node)})

    def _Name(self, node: ast.Name) -> ast.expr:
        value = self._checked.constants.get(node)
        found: ast.expr = self._any(value) if value is not None else ast.Name(node.id, ast.Load())
        return found

    def _Attribute(self, node: ast.Attribute) -> ast.expr:
        if node in self._checked.members:
            return self._member(node, "the ask")
        made: ast.expr = self._any(node.value)
        if node.attr == "data":
            item = self._checked.types[node].of
            return _call("the whole numbers" if item == WHOLE else "the numbers of", made)
        return ast.Attribute(made, node.attr, ast.Load())

    def _Subscript(self, node: ast.Subscript) -> ast.expr:
        if node in self._checked.members:
            return self._member(node, "the ask")
        return ast.Subscript(self._any(node.value), self._any(node.slice), ast.Load())

    def _Assign(self, node: ast.Assign) -> ast.stmt:
        [target] = node.targets
        made = self._target(target)
        return ast.Assign([made], self._any(node.value))

    def _target(self, target: ast.expr) -> ast.expr:
        if isinstance(target, ast.Subscript):
            return ast.Subscript(self._any(target.value), self._any(target.slice), ast.Store())
        return target

    def _For(self, node: ast.For) -> ast.stmt:
        return ast.For(node.target, _call("the each", self._any(node.iter)), self._any(node.body), [])

    def _comprehension(self, node: ast.comprehension) -> ast.comprehension:
        return ast.comprehension(node.target, _call("the each", self._any(node.iter)), self._any(node.ifs), 0)

    def _BinOp(self, node: ast.BinOp) -> ast.expr:
        sign = ast.Constant(type(node.op).__name__)
        return _call("the operate", sign, self._any(node.left), self._any(node.right))

    def _UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        return _call("the checked", self._copy(node))

    def _Compare(self, node: ast.Compare) -> ast.expr:
        if not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            made: ast.expr = self._copy(node)
            return made
        left = node.left
        if left in self._checked.members:
            there = self._member(left, "the has")
        elif isinstance(left, ast.Attribute):
            there = _call("the data are there", self._any(left.value))
        else:
            there = _call("the view is there", self._any(left))
        return there if isinstance(node.ops[0], ast.IsNot) else ast.UnaryOp(ast.Not(), there)

    def _Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            return _call("the append", self._any(node.func.value), self._any(node.args[0]))
        helper = self._checked.calls.get(node)
        name = calls.name_of(node)
        if name == "len" and self._checked.types.get(node.args[0]) == OUTPUT:
            return self._member(node.args[0], "the count")
        if helper is not None:
            name = helper.key
        elif f"math.{name}" in calls.KNOWN:
            name = f"math.{name}"
        return _call(name, *self._any(node.args))

    def _Raise(self, node: ast.Raise) -> ast.stmt:
        assert isinstance(node.exc, ast.Call)
        return ast.Raise(_call("the fault", self._any(node.exc.args[0])))

    def _member(self, node: ast.expr, function: str) -> ast.expr:
        assert isinstance(node, (ast.Attribute, ast.Subscript))
        member = self._checked.members[node]
        return _call(function, self._any(node.value), ast.Constant(member.key))


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])
