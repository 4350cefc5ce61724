"""A file of rules -> its functions.  It is parsed, never imported: what is no rule, helper or constant is refused.

A function named as an op says the shapes of its outputs; one named `<Op>_dtypes` says their data types; others help.
"""

from __future__ import annotations

import ast
import stat
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from udogen.errors import UsageError, read_plain
from udogen.opdef.model import Op, OpPackage
from udogen.opdef.problems import Location, Problems, nearest

LARGEST = 1 << 20  # bytes; a rule is some lines
DTYPES = "_dtypes"
MATHS = frozenset({"ceil", "floor", "prod"})
BUILT_IN = frozenset(
    {"abs", "enumerate", "float", "int", "len", "list", "max", "min", "range", "sum", "zip", "ValueError", "math"}
)
_WRITE = "a file of rules has functions, constants such as SIZE = 3, and `import math`"


@dataclass(frozen=True)
class Source:
    """What a file of rules defines."""

    file: str
    functions: Mapping[str, ast.FunctionDef]
    constants: Mapping[str, ast.expr]
    imported: frozenset[str]  # `math`, and what is taken from it


@dataclass(frozen=True)
class Found:
    """Which function is the rule for what."""

    shapes: Mapping[str, ast.FunctionDef]  # by op
    dtypes: Mapping[str, ast.FunctionDef]


def text_of(path: Path) -> bytes:
    """The content of a file of rules."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path} is not a file", hint="give a Python file with rules")
        if status.st_size > LARGEST:
            raise UsageError(
                f"{path} has {status.st_size >> 10} kB; rules have at most {LARGEST >> 10} kB",
                hint="a rule is some lines of Python; is this the right file?",
            )
        return read_plain(path)
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        raise UsageError(f"{path} cannot be read: {reason}", hint="give a Python file with rules") from fault


def read(content: bytes, file: str, problems: Problems) -> Source:
    """The functions of a file; everything else in it that means something is a problem."""
    functions: dict[str, ast.FunctionDef] = {}
    constants: dict[str, ast.expr] = {}
    imported: set[str] = set()
    for node in _statements(content, file, problems):
        here = Location(file, node.lineno)
        if isinstance(node, ast.FunctionDef):
            if node.name in functions:
                first = functions[node.name].lineno
                problems.error(here, f"`{node.name}` is defined twice", f"the first one stands in line {first}")
            elif node.name in BUILT_IN:
                problems.error(here, f"`{node.name}` is a word of Python's that rules use", "give it another name")
            functions.setdefault(node.name, node)
            _check_head(node, here, problems)
        elif isinstance(node, ast.Import) and all(each.name == "math" and not each.asname for each in node.names):
            imported.add("math")
        elif isinstance(node, ast.ImportFrom) and node.module == "math":
            for each in node.names:
                if each.name not in MATHS or each.asname:
                    known = ", ".join(sorted(MATHS))
                    problems.error(here, f"`{each.asname or each.name}` of math is not for rules", f"there are {known}")
                imported.add(each.name)
        elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        elif (name := _constant_name(node)) and isinstance(node, ast.Assign):
            if name in constants or name in BUILT_IN:
                problems.error(here, f"`{name}` has a value already", "give it another name")
            constants[name] = node.value
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            problems.error(
                here, "rules import nothing but math: they are translated, not run", "write what you need here"
            )
        elif not _is_text(node):
            problems.error(here, f"this is neither a function nor a constant: {_first_line(node)}", _WRITE)
    for name in constants.keys() & functions.keys():
        problems.error(Location(file, functions[name].lineno), f"`{name}` is a constant and a function", "rename one")
    return Source(file, functions, constants, frozenset(imported))


def assign(source: Source, packages: Sequence[OpPackage], problems: Problems) -> Found:
    """Which function is the rule of which op; one that is no rule must be called by another."""
    ops: dict[str, Op] = {op.name: op for package in packages for op in package.ops}
    shapes = {name: node for name, node in source.functions.items() if name in ops}
    dtypes = {
        op: node
        for name, node in source.functions.items()
        if name not in ops and name.endswith(DTYPES) and (op := name.removesuffix(DTYPES)) in ops
    }
    rules = {node.name for node in (*shapes.values(), *dtypes.values())}
    called = {
        each.func.id
        for node in source.functions.values()
        for each in ast.walk(node)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
    }
    for name, node in source.functions.items():
        here = Location(source.file, node.lineno)
        if name not in rules and name not in called:
            known = [*ops, *(op + DTYPES for op in ops)]
            near = nearest(name, known)
            problems.error(
                here,
                f"the config has no op `{name.removesuffix(DTYPES)}`, and no other function calls `{name}`",
                f"did you mean `{near}`?" if near else f"rules are named {', '.join(known[:6])}",
            )
        elif name in rules and name in called:
            problems.error(
                here, f"`{name}` is a rule, and is called by another function", "put what both need into a third"
            )
        if name in rules and len(node.args.args) != 1:
            problems.error(here, f"the rule `{name}` has {len(node.args.args)} arguments", f"write def {name}(op):")
    if not rules and not problems.errors:
        problems.error(
            Location(source.file), "there is no rule in this file", f"write def {next(iter(ops), 'Op')}(op): …"
        )
    return Found(shapes, dtypes)


def _statements(content: bytes, file: str, problems: Problems) -> list[ast.stmt]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.parse(content, file).body
    except SyntaxError as fault:
        problems.error(Location(file, fault.lineno or 0), f"this is no Python: {fault.msg}", "mend the line")
    except (ValueError, RecursionError, MemoryError) as fault:
        problems.error(
            Location(file), f"this is no Python that can be read: {fault or 'nested too deeply'}", "mend the file"
        )
    return []


def _check_head(node: ast.FunctionDef, here: Location, problems: Problems) -> None:
    arguments = node.args
    if node.decorator_list:
        problems.error(here, f"`{node.name}` has a decorator", "rules are found by their names; remove it")
    if arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg or arguments.defaults:
        problems.error(here, f"`{node.name}` has other than plain arguments", f"write def {node.name}(a, b):")
    for each in arguments.args:
        if each.arg in BUILT_IN:
            problems.error(here, f"`{each.arg}` is a word of Python's that rules use", "give the argument another name")


def _constant_name(node: ast.stmt) -> str:
    """`SIZE` of `SIZE = 3`."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
        return ""
    value = node.value.operand if _is_negative(node.value) else node.value  # type: ignore[attr-defined]
    fits = isinstance(value, ast.Constant) and isinstance(value.value, (bool, int, float, str))
    return node.targets[0].id if fits else ""


def _is_negative(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.UnaryOp)
        and isinstance(value.op, ast.USub)
        and isinstance(value.operand, ast.Constant)
        and type(value.operand.value) in (int, float)
    )


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


def _first_line(node: ast.stmt) -> str:
    try:
        return ast.unparse(node).split("\n", 1)[0][:80]
    except RecursionError:
        return "nested too deeply"
