"""The shapes of outputs from shape rules, where a run does not name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from udogen.errors import UsageError
from udogen.opdef.model import Op
from udogen.opdef.shape_rules import Given, Inferred, ShapeRules, load_shape_rules
from udogen.runtime.built import Built
from udogen.runtime.op.calls import ParamArg, TensorArg

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_MOST_DATA = 4096  # numbers: what is larger is data to compute with, not a shape


def with_rules(
    outputs: Sequence[TensorArg],
    *,
    rules: Path,
    built: Built,
    op: Op,
    inputs: Sequence[TensorArg],
    params: Sequence[ParamArg],
    known: Mapping[str, tuple[int, ...]],
) -> tuple[TensorArg, ...]:
    """The outputs with the shapes of the rules; those in `known` stay."""
    if built.folder is None:
        raise UsageError(
            f"--rules {rules}: {built.library} is a library alone, and rules are read with the config of its op",
            hint="give the folder of the package, or --shape NAME=2x3x4",
        )
    assert built.config is not None  # in which the op was found
    found = load_shape_rules(rules, built.config.ops)
    if not found.has_shapes(op.name):
        raise UsageError(f"{rules} has no rule for the shapes of op `{op.name}`", hint=f"write def {op.name}(op): …")
    inferred = infer_outputs(found, op, inputs, params, outputs)
    made = []
    for number, arg in enumerate(outputs):
        shape = list(inferred.values())[number].shape if number < len(inferred) else None
        made.append(arg if arg.name in known or shape is None else replace(arg, shape=shape))
    return tuple(made)


def infer_outputs(
    rules: ShapeRules, op: Op, inputs: Sequence[TensorArg], params: Sequence[ParamArg], outputs: Sequence[TensorArg]
) -> dict[str, Inferred]:
    """What rules return for the outputs of a call."""
    given: dict[str, Given | list[Given]] = {}
    for tensor in op.inputs:
        own = [given_of(arg) for arg in inputs if _belongs(tensor.name, arg.name) and not arg.omitted]
        if own:
            given[tensor.name] = own if tensor.repeated else own[0]
    return rules.infer(
        op.name,
        given,
        {arg.name: arg.value if isinstance(arg.value, (bool, int, float, str)) else given_of(arg) for arg in params},
        outputs={each.name: sum(_belongs(each.name, arg.name) for arg in outputs) for each in op.outputs},
    )


def given_of(arg: TensorArg | ParamArg, *, data: bool = True) -> Given:
    """An argument as shape rules see it, with its numbers where there are few."""
    if isinstance(arg, TensorArg):
        return Given(arg.shape, arg.dtype, _numbers(arg.array, arg.quant) if data else None)
    assert not isinstance(arg.value, (bool, int, float, str))
    return Given(tuple(arg.value.shape), arg.dtype, _numbers(arg.value, arg.quant))


def _belongs(tensor: str, name: str) -> bool:
    head, _, number = name.rpartition(".")
    return name == tensor or (head == tensor and number.isdecimal())


def _numbers(array: Array | None, quant: object) -> list[float] | None:
    if array is None or quant is not None or array.size > _MOST_DATA:
        return None
    numbers: list[float] = array.ravel().tolist()
    return numbers
