"""Correct numbers in wrong places: parameters, layouts, axes, exchanged inputs, nothing computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

from udogen.verify.cases import Quants
from udogen.verify.diagnosis.wrong_output import Cause, OpExecution, Prediction, WrongOutput

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_AXIS_WORDS = ("axis", "axes", "dim")

# Orders of axes that kernels and converters mix up, with their usual names.
_ORDERS: dict[tuple[int, ...], str] = {
    (2, 0, 1): "CHW instead of HWC", (1, 2, 0): "HWC instead of CHW", (0, 2, 1): "NCW instead of NWC",
    (0, 3, 1, 2): "NCHW instead of NHWC", (0, 2, 3, 1): "NHWC instead of NCHW", (0, 2, 1, 3): "NWHC instead of NHWC",
    (0, 1, 3, 2): "with the last two axes exchanged", (0, 4, 1, 2, 3): "NCDHW instead of NDHWC",
    (0, 2, 3, 4, 1): "NDHWC instead of NCDHW", (1, 0): "transposed",
}  # fmt: skip


def is_axis(param: str) -> bool:
    """Whether a parameter names an axis."""
    return any(word in param.lower() for word in _AXIS_WORDS)


def missing_param(output: WrongOutput) -> Iterator[Cause]:
    """A parameter that does not reach the kernel."""
    params = output.case.params
    for name, value in params.items():
        without = {other: given for other, given in params.items() if other != name}
        guesses: list[tuple[str, object]] = []
        if name in output.defaults:
            guesses.append((f"its default, {output.defaults[name]}, is used", output.defaults[name]))
        if isinstance(value, int | float) and not is_axis(name):  # an axis is tried as one
            guesses += [(f"{number} is used", type(value)(number)) for number in (0, 1) if number != value]
        yield Cause("missing-param", {"param": name, "value": value, "how": "its default is used"},
                    lambda it, params=without: it.predict(params=params))  # fmt: skip
        for how, other in guesses:
            yield Cause("missing-param", {"param": name, "value": value, "how": how},
                        lambda it, params={**without, name: other}: it.predict(params=params))  # fmt: skip


def _as_written(array: Array, order: tuple[int, ...]) -> Array:
    """The contents of memory after an array is written with its axes in another order."""
    return np.asarray(np.ascontiguousarray(array.transpose(order)).reshape(array.shape))


def _as_read(array: Array, order: tuple[int, ...]) -> Array:
    """The array that a kernel reads if it assumes another order of axes."""
    there = tuple(array.shape[axis] for axis in order)
    return np.asarray(np.ascontiguousarray(array).reshape(there).transpose([*np.argsort(order)]))


def layout(output: WrongOutput) -> Iterator[Cause]:
    """Images, sequences or matrices whose axes are in another order: in inputs, the output, or both."""
    for order, name in _ORDERS.items():
        if output.found.ndim == len(order):
            yield Cause("layout.output", {"output": output.name, "order": name},
                        lambda it, order=order: [_as_written(it.expected, order)])  # fmt: skip
        fitting = [input_name for input_name, array in output.case.inputs.items() if array.ndim == len(order)]
        for group in ([fitting] if len(fitting) > 1 else []) + [[input_name] for input_name in fitting]:

            def read(it: OpExecution, order: tuple[int, ...] = order, group: list[str] = group) -> Prediction | None:
                return it.predict(inputs={input_name: _as_read(it.inputs[input_name], order) for input_name in group})

            def both(it: OpExecution, read: Callable[..., Prediction | None] = read,
                     order: tuple[int, ...] = order) -> Prediction | None:  # fmt: skip
                return [_as_written(array, order) for array in read(it) or () if array.ndim == len(order)] or None

            names = "the inputs are" if len(group) > 1 else f"the input `{group[0]}` is"
            yield Cause("layout.inputs", {"inputs": names, "order": name}, read)
            yield Cause("layout.both", {"inputs": names, "order": name}, both)


def axis(output: WrongOutput) -> Iterator[Cause]:
    """The op works along an axis other than the one in its parameter, or as if axes were exchanged."""
    rank = max((array.ndim for array in output.case.inputs.values()), default=0)
    yield from _other_axis(output, rank)
    yield from _exchanged_axes(rank)


def _other_axis(output: WrongOutput, rank: int) -> Iterator[Cause]:
    case = output.case
    for name, value in {**output.defaults, **case.params}.items():
        if isinstance(value, int | np.integer) and not isinstance(value, bool) and is_axis(name) and rank:
            meant = int(value) % rank
            for used in sorted({*range(rank)} - {meant}, key=lambda axis: abs(axis - meant)):
                yield Cause("axis", {"used": used, "meant": meant},
                            lambda it, params={**case.params, name: used}: it.predict(params=params))  # fmt: skip


def _exchanged_axes(rank: int) -> Iterator[Cause]:
    for one, other in sorted(combinations(range(rank), 2), key=lambda pair: (pair[1] - pair[0], -pair[1])):
        for back in (True, False):

            def exchanged(it: OpExecution, one: int = one, other: int = other, back: bool = back) -> Prediction | None:
                turned = {name: array.swapaxes(one, other) for name, array in it.inputs.items() if array.ndim == rank}
                predicted = it.predict(inputs=turned, any_shape=True) or ()
                return [
                    array.swapaxes(one, other) if back and array.ndim == rank else array for array in predicted
                ] or None

            yield Cause("axis.exchanged", {"used": one, "meant": other}, exchanged)


def left_out(output: WrongOutput) -> Iterator[Cause]:
    """A loop that begins one too late, or ends one too early, along a reduced axis."""
    for name, array in output.case.inputs.items():
        for along, (which, part) in product(range(array.ndim), (("last", slice(0, -1)), ("first", slice(1, None)))):
            cut = (slice(None),) * along + (part,)
            if array.shape[along] > 2:
                yield Cause("off-by-one", {"which": which, "axis": along, "input": name},
                            lambda it, name=name, cut=cut: it.predict(inputs={name: it.inputs[name][cut]}))  # fmt: skip


def swapped_inputs(output: WrongOutput) -> Iterator[Cause]:
    """Two inputs that are exchanged."""
    case = output.case
    for one, other in combinations(case.inputs, 2):
        a, b = case.inputs[one], case.inputs[other]
        if a.shape != b.shape or a.dtype != b.dtype:
            continue
        both = {name: case.quants[of] for name, of in ((one, other), (other, one)) if of in case.quants}
        grids: list[Quants] = [{}, both]
        for quants in grids:

            def predict(
                it: OpExecution, one: str = one, other: str = other, quants: Quants = quants
            ) -> Prediction | None:
                return it.predict(inputs={one: it.inputs[other], other: it.inputs[one]}, quants=quants)

            yield Cause("swapped-inputs", {"one": one, "other": other}, predict)


def copy(output: WrongOutput) -> Iterator[Cause]:
    """The output is a copy of an input, or all zeros."""
    for name, array in output.case.inputs.items():
        if array.size == output.found.size and array.dtype == output.found.dtype:
            yield Cause("copy", {"output": output.name, "input": name},
                        lambda it, name=name: [it.inputs[name].reshape(it.found.shape)])  # fmt: skip
    yield Cause("copy.zero", {"output": output.name}, lambda it: [np.zeros_like(it.found)])
