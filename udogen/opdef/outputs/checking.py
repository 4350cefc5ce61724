"""Functions of rules: which values their variables have, and that each answers in every case."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from udogen.opdef.model import Op, OpPackage
from udogen.opdef.outputs import calls
from udogen.opdef.outputs.answers import Answers
from udogen.opdef.outputs.checked import Checked, OpRules, Rules, plainly
from udogen.opdef.outputs.expressions import Expressions
from udogen.opdef.outputs.reading import BUILT_IN, Found, Source
from udogen.opdef.outputs.types import (
    OUTPUT,
    TEXT,
    UNKNOWN,
    WHOLE,
    Type,
    is_number,
    list_of,
    members,
    united,
)  # fmt: skip
from udogen.opdef.problems import Location, Problems

_STATEMENTS = {
    "While": "write `for i in range(…)`: a rule must come to an end",
    "Assert": "write `if not …: raise ValueError('…')`",
    "Try": "look first whether it can be: `if …`",
    "With": "a rule reads nothing but op",
    "FunctionDef": "write it beside, not inside",
    "ClassDef": "write functions",
    "Delete": "build a new list: shape[:1] + shape[2:]",
    "Global": "give it as an argument, and return it",
    "Nonlocal": "give it as an argument, and return it",
    "Import": "write `import math` at the top of the file",
    "ImportFrom": "write `import math` at the top of the file",
    "AnnAssign": "write x = …",
    "Match": "write if, elif, else",
}
_DEEPEST = 60  # nested nodes: more than any rule that a person can read
_MOST_FUNCTIONS = 1000  # each for each kind of arguments
_FRESH = (ast.List, ast.ListComp, ast.BinOp)  # expressions that make a new list


class Body(Expressions):
    """The statements of one function."""

    def __init__(self, checked: Checked, source: Source, helpers: Book, answers: Answers | None) -> None:
        super().__init__(checked, source, helpers, helpers.problems)
        self.op_members = helpers.members
        self.answers = answers
        self.returned: Type | None = None
        self._made: dict[str, bool] = dict.fromkeys(checked.arguments, False)  # is it always a list of its own?
        self._changed: list[tuple[ast.AST, str]] = []
        self._loops = 0

    def check(self) -> None:
        """Check all of it."""
        node = self.checked.node
        if self._block(node.body):
            what = "return {'y': …}" if self.answers else "return …"
            self.fault(node, f"`{node.name}` does not answer in every case", f"end it with {what}, or with raise")
        for place, name in self._changed:
            if not self._made.get(name, False):
                self.fault(
                    place,
                    f"`{name}` may be a list that others have too",
                    f"write {name} = list({name}) first, under a new name",
                )

    def _block(self, statements: Sequence[ast.stmt]) -> bool:
        """Whether what stands behind these is reached."""
        goes_on = True
        for each in statements:
            if not goes_on:
                self.fault(each, "this is never reached", "remove it")
                return False
            kind = type(each).__name__
            handler: Callable[[ast.stmt], bool] | None = getattr(self, f"_do_{kind}", None)
            if handler is None:
                word = kind.lower().replace("functiondef", "def inside def")
                self.fault(each, f"rules have no `{word}`", _STATEMENTS.get(kind, "write it plainly"))
            else:
                goes_on = handler(each)
        return goes_on

    # --- values ----------------------------------------------------------------------------------

    def _do_Assign(self, node: ast.Assign) -> bool:
        if len(node.targets) != 1:
            self.fault(node, "one assignment gives one thing a value", "write two lines")
            return True
        target = node.targets[0]
        if isinstance(target, ast.Name):
            self._give(target, self.expr(node.value), node.value)
        elif isinstance(target, ast.Subscript):
            self._set_item(target, self.expr(node.value), node.value)
        elif isinstance(target, ast.Tuple) and all(isinstance(each, ast.Name) for each in target.elts):
            self._unpack(node, target)
        else:
            self.fault(node, "this cannot be given a value", "write `name = …`, `a, b = …` or `name[i] = …`")
        return True

    def _unpack(self, node: ast.Assign, target: ast.Tuple) -> None:
        names = [each for each in target.elts if isinstance(each, ast.Name)]
        if len({each.id for each in names}) != len(names):
            self.fault(node, "one name stands twice here", "use two names")
        elif isinstance(node.value, ast.Tuple):
            if len(node.value.elts) != len(names):
                self.fault(node, f"{len(node.value.elts)} values for {len(names)} names", "give each a value")
                return
            kinds = [self.expr(each) for each in node.value.elts]
            for name, kind, value in zip(names, kinds, node.value.elts, strict=True):
                self._give(name, kind, value)
        else:
            item = self.items(node.value)
            for name in names:
                self._give(name, item, None)

    def _do_AugAssign(self, node: ast.AugAssign) -> bool:
        if isinstance(node.target, (ast.Name, ast.Subscript)):
            # `a += b` is `a = a + b` for all that rules can change: lists are made anew.
            plain = plainly(node)
            if self.expr(node.target).kind == "list":
                self.fault(node, "a list is not changed in this way", "write a = a + b, which makes a new one")
                return True
            return self._do_Assign(plain)
        self.fault(node, "this cannot be given a value", "write `name = …`")
        return True

    def _give(self, target: ast.Name, kind: Type, value: ast.expr | None) -> None:
        """A variable has a value of this type from here on."""
        name = target.id
        if name in BUILT_IN or name in self.source.functions or name in self.source.constants:
            self.fault(target, f"`{name}` means something else in this file", "give the variable another name")
            return
        if kind.kind == "op" or kind == OUTPUT:
            self.fault(target, f"{kind} cannot be kept under another name", "use it as it is")
            return
        known = self.checked.arguments.get(name) or self.checked.variables.get(name)
        found = united(known, kind) if known is not None else kind
        if known is not None and value is not None and {known, kind} == {WHOLE, Type("real")} and kind == WHOLE:
            self.checked.as_real.add(value)
            found = known
        if found is None:
            self.fault(target, f"`{name}` was {known}, and is now {kind}", "give it another name")
            found = known or UNKNOWN
        if name in self.checked.arguments:
            if found != known:
                self.fault(target, f"`{name}` was {known}, and is now {kind}", "give it another name")
        elif kind != UNKNOWN or known is None:
            self.checked.variables[name] = found
        self._made[name] = self._made.get(name, True) and value is not None and self._is_fresh(value)
        self.sure.add(name)

    def _is_fresh(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Subscript):
            return isinstance(value.slice, ast.Slice)
        if isinstance(value, ast.Attribute):
            return value.attr in ("shape", "data")
        if isinstance(value, ast.IfExp):
            return self._is_fresh(value.body) and self._is_fresh(value.orelse)
        return isinstance(value, _FRESH) or (isinstance(value, ast.Call) and calls.name_of(value) == "list")

    def _set_item(self, target: ast.Subscript, kind: Type, value: ast.expr) -> None:
        if not isinstance(target.value, ast.Name) or isinstance(target.slice, ast.Slice):
            self.fault(target, "only one item of a list with a name can be given a value", "write name[i] = …")
            return
        self.whole(target.slice, "an index")
        self._change(target, target.value, kind, value)

    def _change(self, place: ast.AST, name: ast.Name, kind: Type, value: ast.expr) -> None:
        """An item of this type comes into a list."""
        known = self.expr(name)
        if known == UNKNOWN or kind == UNKNOWN:
            return
        if known.kind != "list" or known.of is None:
            self.fault(place, f"`{name.id}` is {known}, and has no items", "only lists have items")
            return
        if known.of == Type("real") and kind == WHOLE:
            self.checked.as_real.add(value)
            kind = known.of
        found = united(known, list_of(kind))
        if found is None:
            self.fault(place, f"`{name.id}` is {known}, and this is {kind}", "use lists of one kind")
            return
        if name.id in self.checked.variables:
            self.checked.variables[name.id] = found
            self.checked.types[name] = found
        self._changed.append((place, name.id))

    def _do_Expr(self, node: ast.Expr) -> bool:
        call = node.value
        if isinstance(call, ast.Constant) and isinstance(call.value, str):
            return True
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append":
            if isinstance(call.func.value, ast.Name) and len(call.args) == 1 and not call.keywords:
                self._change(call, call.func.value, self.expr(call.args[0]), call.args[0])
            else:
                self.fault(call, "append is for a list with a name", "write name.append(x)")
            return True
        self.expr(call)
        self.fault(node, "this has no effect", "give it a name: x = …")
        return True

    # --- the way through -------------------------------------------------------------------------

    def _do_Pass(self, _node: ast.Pass) -> bool:
        return True

    def _do_If(self, node: ast.If) -> bool:
        self.truth(node.test)
        before = set(self.sure)
        first = self._block(node.body)
        after_first, self.sure = self.sure, before
        second = self._block(node.orelse)
        if first and second:
            self.sure = after_first & self.sure
        elif first:
            self.sure = after_first
        return first or second

    def _do_For(self, node: ast.For) -> bool:
        if node.orelse:
            self.fault(node.orelse[0], "a loop has no else", "write it behind the loop")
        items = calls.iterated(self, node.iter)
        before = set(self.sure)
        named = [each for each in ast.walk(node.target) if isinstance(each, ast.Name)]
        for name, kind in self.targets(node.target, items):
            self._give(next(each for each in named if each.id == name), kind, None)
        self._loops += 1
        self._block(node.body)
        self._loops -= 1
        self.sure = before
        return True

    def _do_Break(self, node: ast.Break) -> bool:
        if not self._loops:
            self.fault(node, "this stands in no loop", "remove it")
        return False

    def _do_Continue(self, node: ast.Continue) -> bool:
        if not self._loops:
            self.fault(node, "this stands in no loop", "remove it")
        return False

    def _do_Raise(self, node: ast.Raise) -> bool:
        call = node.exc
        right = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "ValueError"
        if not isinstance(call, ast.Call) or not right or len(call.args) != 1 or call.keywords or node.cause:
            self.fault(node, "what is wrong is told by ValueError with a text", "write raise ValueError('…')")
            return False
        [text] = call.args
        parts = text.values if isinstance(text, ast.JoinedStr) else [text]
        for each in parts:
            if isinstance(each, ast.FormattedValue):
                kind = self.expr(each.value)
                if kind not in (WHOLE, TEXT, UNKNOWN, list_of(WHOLE)) or each.format_spec or each.conversion != -1:
                    self.fault(
                        each,
                        f"a message does not show {kind}",
                        "it shows whole numbers, lists of them and texts, plainly",
                    )
            elif isinstance(each, ast.Constant) and isinstance(each.value, str):
                self.sayable(each, each.value)
            else:
                self.fault(each, "a message is a text", "write raise ValueError('…') or ValueError(f'…')")
        return False

    def _do_Return(self, node: ast.Return) -> bool:
        if self.answers is not None:
            self.answers.check(self, node)
            return False
        if node.value is None:
            self.fault(node, "a helper gives something back", "write return …")
            return False
        kind = self.expr(node.value)
        if kind.kind == "op" or kind == OUTPUT:
            self.fault(node, f"a function cannot give back {kind}", "give back numbers")
            return False
        found = kind if self.returned is None else united(self.returned, kind)
        if found is None and self.returned is not None and is_number(kind) and is_number(self.returned):
            self.fault(node, f"this is {kind}, and before it was {self.returned}", "float(…) makes both alike")
        elif found is None:
            self.fault(node, f"this is {kind}, and before it was {self.returned}", "give back things of one kind")
        self.returned = found or self.returned
        return False


class Book:
    """All functions of a file, each for the types of arguments that it is called with."""

    def __init__(self, source: Source, package: OpPackage, problems: Problems) -> None:
        self.source, self.package, self.problems = source, package, problems
        self.members = {op.name: members(op) for op in package.ops}
        self.done: dict[tuple[str, tuple[Type, ...]], Checked] = {}
        self._under_way: list[str] = []

    def call(self, name: str, arguments: Sequence[Type]) -> Checked | str:
        """The helper of this name, checked for these arguments."""
        node = self.source.functions[name]
        if name in self._under_way:
            way = " -> ".join([*self._under_way[self._under_way.index(name) :], name])
            return f"`{name}` calls itself ({way}); write a loop: for i in range(…)"
        if len(node.args.args) != len(arguments):
            return (
                f"`{name}` takes {len(node.args.args)} arguments, not {len(arguments)}; it stands in line {node.lineno}"
            )
        if len(self.done) > _MOST_FUNCTIONS:
            return "functions are called with too many kinds of arguments; write less general ones"
        settled = tuple(_settled(each) for each in arguments)
        if (name, settled) not in self.done:
            self._check(node, settled, None)
        return self.done[name, settled]

    def rule(self, node: ast.FunctionDef, op: Op, what: str) -> tuple[Checked, frozenset[str]]:
        """A rule of an op, and the outputs it speaks of."""
        answers = Answers(op, self.package, what)
        checked = self._check(node, (Type("op", op=op.name),), answers)
        return checked, frozenset(answers.said or ())

    def _check(self, node: ast.FunctionDef, arguments: tuple[Type, ...], answers: Answers | None) -> Checked:
        name = node.name
        number = sum(1 for each, _ in self.done if each == name)
        names = [each.arg for each in node.args.args]
        checked = Checked(
            f"{name}.{number + 1}" if number else name, node, dict(zip(names, arguments, strict=False)), None
        )
        body = Body(checked, self.source, self, answers)
        if _depth(node) > _DEEPEST:
            body.fault(node, f"`{name}` is nested too deeply", "give parts of it names")
            body.returned = UNKNOWN
        else:
            self._under_way.append(name)
            body.check()
            self._under_way.pop()
        if answers is None and body.returned is None:
            body.fault(node, f"`{name}` gives nothing back", "end it with return …")
        for variable, kind in checked.variables.items():
            checked.variables[variable] = _settled(kind)
        returns = None if answers else _settled(body.returned or UNKNOWN)
        finished = Checked(**{**vars(checked), "returns": returns})
        self.done[name, arguments] = finished
        return finished


def _depth(node: ast.AST) -> int:
    """How deeply statements and expressions are nested."""
    deepest, waiting = 0, [(node, 1)]
    while waiting:
        each, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(each)]
    return deepest


def _settled(kind: Type) -> Type:
    """The type with the items of an empty list being numbers, where nobody ever said what they are."""
    if kind.kind != "list" or kind.of is None:
        return kind
    return list_of(WHOLE if kind.of == UNKNOWN else _settled(kind.of))


def check(source: Source, found: Found, package: OpPackage, problems: Problems) -> Rules:
    """The rules of a file for the ops of one package; all that is wrong with them goes to `problems`."""
    book = Book(source, package, problems)
    ops: dict[str, OpRules] = {}
    for op in package.ops:
        made: dict[str, tuple[Checked, frozenset[str]]] = {}
        for what, functions in (("shape", found.shapes), ("data type", found.dtypes)):
            if op.name in functions and len(functions[op.name].args.args) == 1:
                node = functions[op.name]
                try:
                    made[what] = book.rule(node, op, what)
                except RecursionError:
                    here = Location(source.file, node.lineno)
                    problems.error(here, f"the functions that `{node.name}` calls call too many others", "write loops")
        if made:
            shapes, dtypes = made.get("shape"), made.get("data type")
            ops[op.name] = OpRules(
                op,
                shapes and shapes[0],
                dtypes and dtypes[0],
                shapes[1] if shapes else frozenset(),
                dtypes[1] if dtypes else frozenset(),
            )
    return Rules(source.file, ops, tuple(book.done.values()))
