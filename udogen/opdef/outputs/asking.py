"""An op in a model as rules ask it: tensors and parameters, each perhaps not there."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from udogen.errors import UsageError
from udogen.opdef.model import Op, Tensor
from udogen.opdef.outputs.arithmetic import ABSENT, UNREADABLE, Fault
from udogen.opdef.outputs.types import Member, members
from udogen.opdef.problems import nearest

# Data that rules can read, as numbers without and with a fraction.
_WHOLE = frozenset({"INT_8", "INT_16", "INT_32", "INT_64", "UINT_8", "UINT_16", "UINT_32", "BOOL_8"})
_REAL = _WHOLE | {"FLOAT_32"}


@dataclass(frozen=True)
class Given:
    """A tensor that an op is asked about."""

    shape: Sequence[int]
    dtype: str = "FLOAT_32"
    data: Sequence[float] | None = None  # row by row, where it is constant


class View:
    """A tensor as rules see it; it may be none."""

    def __init__(self, name: str, given: Given | None) -> None:
        self.name, self.given = name, given

    def _there(self) -> Given:
        if self.given is None:
            raise Fault(ABSENT + self.name)
        return self.given

    @property
    def shape(self) -> list[int]:
        """A list of its own each time."""
        return list(self._there().shape)

    @property
    def dtype(self) -> str:
        """By name."""
        return self._there().dtype

    def numbers(self, kind: Callable[[float], float]) -> list[float]:
        """All its values."""
        data = self._there().data
        if data is None or self._there().dtype not in (_WHOLE if kind is int else _REAL):
            raise Fault(UNREADABLE + self.name)
        return [kind(each) for each in data]

    def has_data(self) -> bool:
        """Whether they are known."""
        return self._there().data is not None


@dataclass
class Asked:
    """An op as rules see it."""

    inputs: Mapping[str, list[View]]
    params: Mapping[str, object]
    outputs: Mapping[str, int]
    members: Mapping[str, Member] = field(default_factory=dict)

    def ask(self, name: str) -> Any:
        """`op.name`."""
        member = self.members[name]
        tensor = member.tensor
        if tensor.role == "input":
            views = self.inputs[tensor.name]
            return views if tensor.repeated else views[0]
        value = self.params[tensor.name]
        if value is None:
            raise Fault(ABSENT + tensor.name)
        return value

    def has(self, name: str) -> bool:
        """Whether it is there."""
        tensor = self.members[name].tensor
        if tensor.role == "output":
            return self.outputs[tensor.name] > 0
        if tensor.role == "input":
            return any(each.given is not None for each in self.inputs[tensor.name])
        value = self.params[tensor.name]
        return value.given is not None if isinstance(value, View) else value is not None

    def count(self, name: str) -> int:
        """How many outputs of a repeated one."""
        return self.outputs[self.members[name].tensor.name]


def asked_of(
    op: Op, inputs: Mapping[str, Given | Sequence[Given]], params: Mapping[str, object], outputs: Mapping[str, int]
) -> Asked:
    for role, given, known in (
        ("input", inputs, op.inputs),
        ("parameter", params, op.params),
        ("output", outputs, op.outputs),
    ):
        for name in given:
            if name not in (names := [each.name for each in known]):
                near = nearest(name, names)
                hint = f"did you mean `{near}`?" if near else f"it has {', '.join(names) or 'none'}"
                raise UsageError(f"op `{op.name}` has no {role} `{name}`", hint=hint)
    views: dict[str, list[View]] = {}
    for tensor in op.inputs:
        said = inputs.get(tensor.name)
        if tensor.mandatory and (said is None or (not isinstance(said, Given) and not said)):
            raise UsageError(f"op `{op.name}` needs the input `{tensor.name}`", hint="give its shape")
        several: Sequence[Given | None] = [said] if said is None or isinstance(said, Given) else said
        views[tensor.name] = [] if tensor.repeated and said is None else [View(tensor.name, each) for each in several]
    # C++ is not given the defaults of parameters that are tensors, either.
    defaults = {tensor.name: tensor.default if tensor.is_scalar else None for tensor in op.params}
    values = {tensor.name: _value(tensor, params.get(tensor.name, defaults[tensor.name])) for tensor in op.params}
    counts = {each.name: outputs.get(each.name, 1 if each.mandatory else 0) for each in op.outputs}
    return Asked(views, values, counts, members(op))


def _value(tensor: Tensor, value: object) -> object:
    """A parameter as rules see it: in the precision of its data type."""
    if not tensor.is_scalar:
        if value is None or isinstance(value, Given):
            return View(tensor.name, value)
        shape, data = _flat(value)
        return View(tensor.name, Given(shape, tensor.datatypes[0].name, data))
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, float) and any(each.name == "FLOAT_32" for each in tensor.datatypes):
        return struct.unpack("f", struct.pack("f", value))[0]
    whole = all(each.kind in ("int", "uint", "bool") for each in tensor.datatypes)
    return value if whole or not isinstance(value, int) else float(value)


def _flat(value: object) -> tuple[tuple[int, ...], list[float]]:
    """The shape and the numbers of nested lists."""
    if not isinstance(value, (list, tuple)):
        return (), [value]  # type: ignore[list-item]
    parts = [_flat(each) for each in value]
    inner = parts[0][0] if parts else ()
    return (len(parts), *inner), [number for _, numbers in parts for number in numbers]


WORDS: Mapping[str, Callable[..., Any]] = {
    # What rewritten rules can call.
    "the ask": Asked.ask,
    "the has": Asked.has,
    "the count": Asked.count,
    "the whole numbers": lambda view: view.numbers(int),
    "the numbers of": lambda view: view.numbers(float),
    "the data are there": View.has_data,
    "the view is there": lambda view: view.given is not None,
}
