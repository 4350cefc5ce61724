"""What checking finds out about a function: enough to say it in C++, and to run it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from udogen.opdef.model import Op
from udogen.opdef.outputs.types import Member, Type


@dataclass(frozen=True, eq=False)
class Checked:
    """One function, for arguments of these types."""

    key: str  # unlike that of every other one
    node: ast.FunctionDef
    arguments: Mapping[str, Type]
    returns: Type | None  # None: a rule, which answers for outputs by name
    types: dict[ast.expr, Type] = field(default_factory=dict)
    as_real: set[ast.expr] = field(default_factory=set)  # whole numbers where others have fractions
    calls: dict[ast.Call, Checked] = field(default_factory=dict)
    members: dict[ast.expr, Member] = field(default_factory=dict)  # what `op.x` is
    constants: dict[ast.expr, ast.expr] = field(default_factory=dict)  # names of the file -> their values
    variables: dict[str, Type] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class OpRules:
    """What a file says of one op's outputs."""

    op: Op
    shapes: Checked | None = None
    dtypes: Checked | None = None
    shaped: frozenset[str] = frozenset()  # the outputs whose shape it says
    typed: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Rules:
    """What a file says of the ops of one package."""

    file: str
    ops: Mapping[str, OpRules]
    functions: tuple[Checked, ...]  # in an order in which each only calls those before it
    content: bytes = b""  # of the file


def plainly(node: ast.AugAssign) -> ast.Assign:
    """`a = a + b` of `a += b`; each time the same nodes, for what is known of them is known by node."""
    found: ast.Assign | None = getattr(node, "plainly", None)
    if found is None:
        value = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        found = ast.copy_location(ast.Assign([node.target], value), node)
        node.plainly = found  # type: ignore[attr-defined]
    return found
