"""How a Python test file marks its references; imports nothing, for pytest looks for it at every start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
MARK = "__udogen_op_tests__"


def op_test(op: str, *, case: Sequence[dict[str, Any]] = (), **keys: Any) -> Callable[[_Function], _Function]:
    """Make a function the reference of an op; the keys are those of `[[op]]` and `[[op.case]]`, and it may repeat."""

    def mark(function: _Function) -> _Function:
        said = {"name": op, **keys, **({"case": list(case)} if case else {})}
        vars(function).setdefault(MARK, []).insert(0, said)  # the topmost comes last
        return function

    return mark
