"""The shapes of outputs as a person's rules say them, for a run that is not told them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from udogen.errors import UsageError
from udogen.opdef.load import load
from udogen.opdef.model import Op
from udogen.opdef.outputs import Given, infer, load_rules
from udogen.runtime.built import Built
from udogen.runtime.op.calls import ParamArg, TensorArg

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

_MOST_DATA = 4096  # numbers: what is larger is data to compute with, not a shape


def ruled(
    outputs: Sequence[TensorArg],
    *,
    rules: Path,
    built: Built,
    op: Op,
    inputs: Sequence[TensorArg],
    params: Sequence[ParamArg],
    told: Mapping[str, tuple[int, ...]],
) -> tuple[TensorArg, ...]:
    """The outputs with the shapes that rules say; those that a person told stay."""
    if built.folder is None:
        raise UsageError(
            f"--rules {rules}: {built.library} is a library alone, and rules are read with the config of its op",
            hint="give the folder of the package, or --shape NAME=2x3x4",
        )
    packages, problems = load(built.folder.configs)
    found = load_rules(rules, packages, problems)
    problems.stop_if_any(what="the rules")
    mine = next((each for each, package in zip(found, packages, strict=True) if package.name == built.package), None)
    if mine is None or op.name not in mine.ops or mine.ops[op.name].shapes is None:
        raise UsageError(f"{rules} has no rule for the shapes of op `{op.name}`", hint=f"write def {op.name}(op): …")
    counts = {each.name: sum(_belongs(each.name, arg.name) for arg in outputs) for each in op.outputs}
    answers = infer(
        mine,
        op.name,
        {
            each.name: _tensors(each.name, inputs, repeated=each.repeated)
            for each in op.inputs
            if _there(each.name, inputs)
        },
        {arg.name: arg.value if isinstance(arg.value, (bool, int, float, str)) else _given(arg) for arg in params},
        outputs=counts,
    )
    made = []
    for number, arg in enumerate(outputs):
        shape = list(answers.values())[number].shape if number < len(answers) else None
        made.append(arg if arg.name in told or shape is None else replace(arg, shape=shape))
    return tuple(made)


def _belongs(tensor: str, name: str) -> bool:
    head, _, number = name.rpartition(".")
    return name == tensor or (head == tensor and number.isdecimal())


def _there(tensor: str, args: Sequence[TensorArg]) -> bool:
    return any(_belongs(tensor, each.name) and not each.omitted for each in args)


def _tensors(tensor: str, args: Sequence[TensorArg], *, repeated: bool) -> Given | list[Given]:
    found = [
        Given(each.shape, each.dtype, _numbers(each.array, each.quant)) for each in args if _belongs(tensor, each.name)
    ]
    return found if repeated else found[0]


def _given(arg: ParamArg) -> Given:
    assert not isinstance(arg.value, (bool, int, float, str))
    return Given(arg.value.shape, arg.dtype, _numbers(arg.value, arg.quant))


def _numbers(array: Array | None, quant: object) -> list[float] | None:
    if array is None or quant is not None or array.size > _MOST_DATA:
        return None
    numbers: list[float] = array.ravel().tolist()
    return numbers
