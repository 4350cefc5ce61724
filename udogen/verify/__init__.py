"""Tests of ops: test files -> cases -> places -> test run -> results -> diagnosis -> reports.

test_files/    what op_tests.toml and tests/test_*.py declare, and the cases that follow from it
options        options of a test run
cases          a case: inputs, expected outputs, tolerance
tolerances     how far a correct result may be from the reference
places         where ops run: Qualcomm's runtimes, emulators, Hexagon code, ONNX Runtime
packages       packages of a test file, generated and built
runner         cases of one package in one place: run, compare, measure
planning       every case and network in every place where it can run
test_run       runs what was planned
results        the results of a test run, as data
diagnosis/     why numbers are wrong
safety/        safety of kernels: heap, bounds, sanitizers
baseline       costs of an earlier run
report/        terminal, JSON, JUnit and HTML reports, all made from results
pytest_plugin  `pytest --udogen`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = ["op_test"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
MARK = "__udogen_op_tests__"


# No other module of udogen is imported here: pytest loads this package at every start.
def op_test(op: str, *, case: Sequence[dict[str, Any]] = (), **keys: Any) -> Callable[[_Function], _Function]:
    """Make a function the reference of an op; the keys are those of `[[op]]` and `[[op.case]]`, and it may repeat."""

    def mark(function: _Function) -> _Function:
        table = {"name": op, **keys, **({"case": list(case)} if case else {})}
        vars(function).setdefault(MARK, []).insert(0, table)  # the topmost decorator comes last
        return function

    return mark
