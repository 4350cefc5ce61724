"""Test files in Python: a reference with what it is the reference of, in the words of op_tests.toml.

from udogen.verify import op_test

@op_test("Softmax", shape=["7", "3x5"], params={"axis": [0, -1]})
def softmax(x, axis=-1): ...
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from udogen.opdef.problems import Location, Problems
from udogen.python_files import load_module
from udogen.verify.marks import MARK
from udogen.verify.suite.model import OpTests
from udogen.verify.suite.read import read


def read_python(path: Path, problems: Problems) -> list[OpTests]:
    """The ops of one file; what is wrong goes to `problems`, with the line of the function."""
    found: list[OpTests] = []
    for name, function in vars(load_module(path)).items():
        for said in getattr(function, MARK, []):
            location = Location(str(path), function.__code__.co_firstlineno)
            raw = {"op": [{"reference": f"{path.name}:{name}", **said}]}
            found += read(raw, path.parent, _always(location), problems)
    if not found and not problems.errors:
        problems.error(Location(str(path)), "the file marks no function with @op_test", "see udogen.verify.op_test")
    return found


def _always(location: Location) -> Callable[..., Location]:
    def where(*_at: str | int) -> Location:
        return location

    return where
