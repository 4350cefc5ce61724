"""Calls in rules: Python's own functions that they may use, and the file's own helpers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from udogen.opdef.outputs.types import OUTPUT, REAL, TRUTH, UNKNOWN, WHOLE, Type, is_number, list_of
from udogen.opdef.problems import nearest

if TYPE_CHECKING:
    from udogen.opdef.outputs.expressions import Expressions

_LOOPS = ("range", "enumerate", "zip")  # these only stand behind `in` of a loop


def name_of(node: ast.Call) -> str:
    """What is called: `len`, or `ceil` of math.ceil; empty where it is nothing with a name."""
    if isinstance(node.func, ast.Name):
        return node.func.id
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "math":
        return f"math.{node.func.attr}"
    return ""


def check(at: Expressions, node: ast.Call) -> Type:
    """The type of what a call gives back."""
    name = name_of(node)
    if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
        return at.fault(node, "arguments are given plainly, by their places", f"write {name or 'f'}(a, b)")
    if name in at.source.functions:
        return _helper(at, node, name)
    full = f"math.{name}" if name in at.source.imported else name
    if full.startswith("math.") and not {"math", name} & at.source.imported:
        return at.fault(node, f"{full} is not known here", "write `import math` at the top of the file")
    if full in _LOOPS:
        return at.fault(
            node, f"{full}(…) only stands in a loop", f"write `for i in {full}(…)`, or [i for i in {full}(…)]"
        )
    handler = KNOWN.get(full)
    if handler is None:
        if isinstance(node.func, ast.Attribute) and not name:
            return at.fault(node, f"rules have no .{node.func.attr}(…) here", _METHODS.get(node.func.attr, _WHAT))
        near = nearest(full, [*at.source.functions, *KNOWN])
        hint = _INSTEAD.get(full) or (f"did you mean {near}(…)?" if near else _WHAT)
        return at.fault(node, f"rules have no function {full or 'like this'}", hint)
    return handler(at, node)


def iterated(at: Expressions, node: ast.expr) -> Sequence[Type]:
    """What a loop over this gives each time: one type, or two of enumerate and zip."""
    name = name_of(node) if isinstance(node, ast.Call) else ""
    if not isinstance(node, ast.Call) or name not in _LOOPS or name in at.source.functions:
        return (at.items(node),)
    at.checked.types[node] = list_of(WHOLE)
    if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
        at.fault(node, "arguments are given plainly, by their places", f"write {name}(a, b)")
        return (UNKNOWN,)
    if name == "range":
        if _count(at, node, 1, 3):
            for each in node.args:
                at.whole(each, "an argument of range")
        return (WHOLE,)
    if name == "enumerate":
        return (WHOLE, at.items(node.args[0])) if _count(at, node, 1, 1) else (WHOLE, UNKNOWN)
    if not _count(at, node, 2, 2):
        return (UNKNOWN, UNKNOWN)
    return tuple(at.items(each) for each in node.args)


def _helper(at: Expressions, node: ast.Call, name: str) -> Type:
    kinds = [at.expr(each) for each in node.args]
    if UNKNOWN in kinds:
        return UNKNOWN
    if OUTPUT in kinds:
        return at.fault(node, "an output cannot be given to a function", "give it what is needed of the op")
    found = at.helpers.call(name, kinds)
    if isinstance(found, str):
        message, _, hint = found.partition("; ")
        return at.fault(node, message, hint) if message else UNKNOWN
    at.checked.calls[node] = found
    return found.returns or UNKNOWN


def _count(at: Expressions, node: ast.Call, least: int, most: int) -> bool:
    if least <= len(node.args) <= most:
        return True
    wanted = str(least) if least == most else f"{least} to {most}"
    at.fault(
        node,
        f"{name_of(node)} takes {wanted} arguments here, not {len(node.args)}",
        "as in Python, but for rarer forms",
    )
    return False


def _len(at: Expressions, node: ast.Call) -> Type:
    if not _count(at, node, 1, 1):
        return WHOLE
    kind = at.expr(node.args[0])
    member = at.checked.members.get(node.args[0])
    if kind == OUTPUT and member is not None:
        if not member.tensor.repeated:
            at.fault(
                node, f"the output `{member.tensor.name}` is not repeated", "it is one; of its shape this is the rule"
            )
    elif kind.kind == "tensor":
        at.fault(node, "a tensor is no list", "its rank is len(….shape)")
    elif kind.kind not in ("list", "unknown"):
        at.fault(node, f"{kind} has no length", "only lists have one")
    return WHOLE


def _number(at: Expressions, node: ast.Call) -> Type:
    """One number; its type."""
    kind = at.expr(node.args[0]) if _count(at, node, 1, 1) else UNKNOWN
    if kind in (UNKNOWN, WHOLE, REAL):
        return kind
    return at.fault(node, f"{name_of(node)} is for numbers, and this is {kind}", "give it a number")


def _int(at: Expressions, node: ast.Call) -> Type:
    if len(node.args) == 1 and at.expr(node.args[0]) == TRUTH:
        return WHOLE
    _number(at, node)
    return WHOLE


def _float(at: Expressions, node: ast.Call) -> Type:
    if _number(at, node) == WHOLE:
        at.checked.as_real.add(node.args[0])
    return REAL


def _rounded(at: Expressions, node: ast.Call) -> Type:
    _number(at, node)
    return WHOLE


def _extreme(at: Expressions, node: ast.Call) -> Type:
    if len(node.args) == 1:
        return _of_list(at, node, (WHOLE, REAL, UNKNOWN))
    if not _count(at, node, 2, 8):
        return UNKNOWN
    kinds = {each: at.expr(each) for each in node.args}
    if UNKNOWN in kinds.values():
        return UNKNOWN
    if not all(map(is_number, kinds.values())):
        return at.fault(node, f"{name_of(node)} is for numbers", "give it numbers, or one list of them")
    if REAL not in kinds.values():
        return WHOLE
    at.checked.as_real.update(each for each, kind in kinds.items() if kind == WHOLE)
    return REAL


def _total(at: Expressions, node: ast.Call) -> Type:
    if _count(at, node, 1, 1):
        _of_list(at, node, (WHOLE, UNKNOWN))
    return WHOLE


def _of_list(at: Expressions, node: ast.Call, allowed: Sequence[Type]) -> Type:
    [given] = node.args
    if isinstance(given, ast.GeneratorExp):  # all of it is taken, so it is as good as a list
        given = node.args[0] = ast.copy_location(ast.ListComp(given.elt, given.generators), given)
    item = at.items(given)
    if item not in allowed:
        return at.fault(node, f"{name_of(node)} is for whole numbers, and these are not", "write a loop")
    return item


def _list(at: Expressions, node: ast.Call) -> Type:
    if not _count(at, node, 1, 1):
        return list_of(UNKNOWN)
    [given] = node.args
    if isinstance(given, ast.Call) and name_of(given) in _LOOPS:
        return at.fault(node, "list(…) copies a list here", f"write [i for i in {name_of(given)}(…)]")
    return list_of(at.items(given))


KNOWN: Mapping[str, Callable[[Expressions, ast.Call], Type]] = {
    "abs": _number,
    "float": _float,
    "int": _int,
    "len": _len,
    "list": _list,
    "math.ceil": _rounded,
    "math.floor": _rounded,
    "math.prod": _total,
    "max": _extreme,
    "min": _extreme,
    "sum": _total,
}
_WHAT = "there are " + ", ".join(sorted({*KNOWN, *_LOOPS}))
_INSTEAD = {
    "all": "write a loop with `if … : return False` in a function",
    "any": "write a loop with `if … : return True` in a function",
    "sorted": "write what you need of the order with min and max",
    "reversed": "write list[::-1]",
    "round": "write math.floor(x + 0.5)",
    "tuple": "write a list: [a, b]",
    "print": "a rule only answers; raise ValueError(f'…') says what is wrong",
    "isinstance": "what is what is known from the config",
    "pow": "write a product",
    "divmod": "write a // b and a % b",
}
_METHODS = {
    "append": "it stands on a line of its own, behind a name: shape.append(1)",
    "extend": "write shape = shape + [...]",
    "insert": "write shape = shape[:1] + [n] + shape[1:]",
    "pop": "write shape = shape[:-1]",
    "copy": "write list(shape)",
    "index": "write a loop with enumerate",
    "reverse": "write shape = shape[::-1]",
    "format": "texts with values in them only stand in raise ValueError(f'…')",
}
