"""Test files in Python: a reference with what it is the reference of, in the words of op_tests.toml.

from udogen.verify import op_test

@op_test("Softmax", shape=["7", "3x5"], params={"axis": [0, -1]})
def softmax(x, axis=-1): ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from udogen.opdef.problems import Location, Problems
from udogen.verify.references import load_module
from udogen.verify.suite.lines import Path as At
from udogen.verify.suite.model import OpTests
from udogen.verify.suite.read import read

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MARK = "__udogen_op_tests__"


def op_test(op: str, *, case: Sequence[dict[str, Any]] = (), **keys: Any) -> Callable[[_Function], _Function]:
    """Make a function the reference of an op; the keys are those of `[[op]]` and `[[op.case]]`, and it may repeat."""

    def mark(function: _Function) -> _Function:
        said = {"name": op, **keys, **({"case": list(case)} if case else {})}
        vars(function).setdefault(_MARK, []).insert(0, said)  # the topmost comes last
        return function

    return mark


def read_python(path: Path, problems: Problems) -> list[OpTests]:
    """The ops of one file; what is wrong goes to `problems`, with the line of the function."""
    found: list[OpTests] = []
    for name, function in vars(load_module(path)).items():
        for said in getattr(function, _MARK, []):
            location = Location(str(path), function.__code__.co_firstlineno)
            raw = {"op": [{"reference": f"{path.name}:{name}", **said}]}
            found += read(raw, path.parent, _always(location), problems)
    if not found and not problems.errors:
        problems.error(Location(str(path)), "the file marks no function with @op_test", "see udogen.verify.op_test")
    return found


def _always(location: Location) -> Callable[..., Location]:
    def where(*_at: At) -> Location:
        return location

    return where
