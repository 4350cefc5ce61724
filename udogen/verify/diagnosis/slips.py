"""Slips in one operation: the reference is run again with another operation in the place of one of its own.

The reference is numpy code of the user.  It is called with arrays that report each ufunc to the current tape; the first
tape lists the operations, others replace one of them.  Code that leaves numpy (ONNX, torch) lists none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from udogen.verify.diagnosis.wrong_output import Cause, OpExecution, Prediction, WrongOutput

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_MOST = 60  # operations of a reference that are tried

# What is written in the place of an operation by mistake.
SLIPS: Mapping[str, tuple[str, ...]] = {
    "add": ("subtract", "multiply"), "subtract": ("add",), "multiply": ("add", "divide"), "divide": ("multiply",),
    "maximum": ("minimum", "fmax"), "minimum": ("maximum", "fmin"), "greater": ("greater_equal", "less"),
    "greater_equal": ("greater", "less_equal"), "less": ("less_equal", "greater"),
    "less_equal": ("less", "greater_equal"),
    "exp": ("exp2", "expm1"), "log": ("log2", "log10", "log1p"), "sin": ("cos",), "cos": ("sin",),
    "floor": ("ceil", "trunc", "rint"), "ceil": ("floor",), "rint": ("trunc", "floor"), "trunc": ("floor",),
    "left_shift": ("right_shift",), "right_shift": ("left_shift",), "bitwise_and": ("bitwise_or",),
    "bitwise_or": ("bitwise_and", "bitwise_xor"), "logical_and": ("logical_or",), "logical_or": ("logical_and",),
}  # fmt: skip


class Operation(NamedTuple):
    """One call of a ufunc."""

    ufunc: np.ufunc
    method: str  # __call__, reduce, accumulate
    inputs: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> Any:
        """The result."""
        return getattr(self.ufunc, self.method)(*self.inputs, **self.kwargs)


Slip = Callable[..., Any]  # called with an `Operation`


def _slips(operation: Operation) -> Iterator[tuple[str, Slip]]:
    """What could be wrong about an operation, and how it is computed then."""
    name, inputs = operation.ufunc.__name__, operation.inputs
    for other in SLIPS.get(name, ()):
        yield f"`{other}` in place of `{name}`", lambda it, other=other: it._replace(ufunc=getattr(np, other)).run()
    if operation.method != "__call__":
        for axis in range(np.ndim(inputs[0])):
            yield (
                f"`{name}` along axis {axis}",
                lambda it, axis=axis: it._replace(kwargs={**it.kwargs, "axis": axis}).run(),
            )
        return
    for place, operand in enumerate(inputs):
        if len(inputs) == 2:
            yield f"`{name}` with its operands exchanged", lambda it: it._replace(inputs=it.inputs[::-1]).run()
        if np.ndim(operand) == 0 and not isinstance(operand, bool | np.bool_):
            yield f"{-operand:.6g} in place of {operand:.6g}", lambda it, place=place: it._replace(
                inputs=tuple(-one if at == place else one for at, one in enumerate(it.inputs))).run()  # fmt: skip
        else:
            yield f"`{name}` left out", lambda it, place=place: it.inputs[place]


class _Tape:
    """The operations of a call of the reference; that with the number `at` is replaced."""

    def __init__(self, at: int = -1, slip: Slip = Operation.run) -> None:
        self.operations: list[Operation] = []
        self._at, self._slip = at, slip

    def run(self, operation: Operation) -> Any:
        """The result of an operation, or of its replacement."""
        self.operations.append(operation)
        return self._slip(operation) if len(self.operations) - 1 == self._at else operation.run()


_tapes = [_Tape()]  # the last one is the current one


@contextmanager
def _recording(tape: _Tape) -> Iterator[None]:
    _tapes.append(tape)
    try:
        yield
    finally:
        _tapes.pop()


class _Reporting(np.ndarray[Any, np.dtype[Any]]):
    """An array that reports the operations on it to the tape."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        kwargs = {name: _plain(value) for name, value in kwargs.items()}
        result = _tapes[-1].run(Operation(ufunc, method, tuple(map(_plain, inputs)), kwargs))
        if out and isinstance(out[0], np.ndarray):
            _plain(out[0])[...] = result
            return out[0]
        return result.view(_Reporting) if isinstance(result, np.ndarray) else result

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(func, types, args, kwargs)
        return result.view(_Reporting) if type(result) is np.ndarray else result


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, _Reporting) else value


def slips(output: WrongOutput) -> Iterator[Cause]:
    """One operation of the reference that is another one in the kernel."""
    tape = _Tape()
    _called(output.given, tape)
    for number, operation in enumerate(tape.operations[:_MOST]):
        for what, slip in _slips(operation):

            def predict(it: OpExecution, number: int = number, slip: Slip = slip) -> Prediction | None:
                return _called(it, _Tape(number, slip))

            names = {"what": what, "number": number + 1, "of": len(tape.operations)}
            yield Cause("slip", names, predict)


def _called(it: OpExecution, tape: _Tape) -> Prediction | None:
    inputs: dict[str, Array] = {name: np.ascontiguousarray(array).view(_Reporting) for name, array in it.inputs.items()}
    return it.predict(inputs=inputs, tape=_recording(tape))
