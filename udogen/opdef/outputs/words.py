"""What Python has and rules do not: what it is called, and what to write instead."""

from __future__ import annotations

import ast
from collections.abc import Mapping

FEATURES: Mapping[str, Mapping[str, str]] = {
    # What Python has and rules do not: what to write instead.
    "expression": {
        "Lambda": "write a function",
        "NamedExpr": "write the assignment on a line of its own",
        "DictComp": "a dict only stands behind return, as in return {'y': shape}",
        "Dict": "a dict only stands behind return, as in return {'y': shape}",
        "Set": "write a list",
        "SetComp": "write a list",
        "Tuple": "write a list: [a, b]",
        "GeneratorExp": "write a list: [… for …]",
        "JoinedStr": "texts with values in them only stand in raise ValueError(f'…')",
        "Starred": "a star only stands in a list: [*shape, 1]",
    },
    "operator": {
        "Pow": "write a product",
        "MatMult": "write a product",
        "LShift": "write * with a power of two",
        "RShift": "write // with a power of two",
        "BitAnd": "write `and`, or %",
        "BitOr": "write `or`",
        "BitXor": "write !=",
        "Invert": "write `not`",
    },
}
SIGNS = {
    "Pow": "**", "MatMult": "@", "LShift": "<<", "RShift": ">>", "BitAnd": "&", "BitOr": "|", "BitXor": "^",
    "FloorDiv": "//", "Mod": "%",
}  # fmt: skip


def called(node: ast.AST) -> str:
    """What a person calls a kind of expression."""
    words = {
        "Lambda": "lambda", "NamedExpr": ":=", "DictComp": "dict here", "Dict": "dict here", "Set": "set",
        "SetComp": "set", "Tuple": "tuple here", "GeneratorExp": "generator here", "JoinedStr": "text with values here",
        "Starred": "star here", "Await": "await", "Yield": "yield", "YieldFrom": "yield",
    }  # fmt: skip
    return words.get(type(node).__name__, type(node).__name__)
