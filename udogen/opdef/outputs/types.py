"""What values of rules can be, and what a rule can ask of an op: known before anything runs, for C++ must know it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from udogen.opdef.datatypes import BACKEND_SPECIFIC, DataType
from udogen.opdef.model import Op, OpPackage, Tensor


class Type(NamedTuple):
    """A kind of values; `of`: the items of a list, the numbers of a tensor."""

    kind: str
    of: Type | None = None
    op: str = ""  # whose, where it is an op itself

    def __str__(self) -> str:
        if self.kind == "list":
            return "an empty list" if self.of == UNKNOWN else f"a list of {_PLURALS[self.of.kind if self.of else '']}"
        return _WORDS[self.kind]


UNKNOWN = Type("unknown")  # of what is wrong and told already; of the items of []
WHOLE, REAL, TRUTH, TEXT, DTYPE = Type("whole"), Type("real"), Type("truth"), Type("text"), Type("dtype")
OUTPUT = Type("output")
_WORDS = {
    "unknown": "something unknown",
    "whole": "a whole number",
    "real": "a number with a fraction",
    "truth": "true or false",
    "text": "a text",
    "dtype": "a data type",
    "tensor": "a tensor",
    "output": "an output",
    "op": "the op itself",
}
_PLURALS = {
    "": "something",
    "unknown": "something",
    "whole": "whole numbers",
    "real": "numbers",
    "truth": "true and false",
    "text": "texts",
    "dtype": "data types",
    "tensor": "tensors",
    "output": "outputs",
    "op": "ops",
    "list": "lists",
}


def list_of(item: Type) -> Type:
    """A list with these items."""
    return Type("list", item)


def is_number(kind: Type) -> bool:
    """Whether one can calculate with it."""
    return kind in (WHOLE, REAL)


def united(one: Type, other: Type) -> Type | None:
    """The type that both are, an empty list being any; None where they differ."""
    if one == other or other == UNKNOWN:
        return one
    if one == UNKNOWN:
        return other
    if one.kind == other.kind == "list" and one.of and other.of:
        item = united(one.of, other.of)
        return list_of(item) if item else None
    return None


class Place(NamedTuple):
    """Where a tensor stands among those that a model gives; from the end where one before it is repeated."""

    first: int
    behind: int | None = None  # how many stand behind it


class Member(NamedTuple):
    """Something of an op that rules can name."""

    attribute: str  # as rules write it behind `op.`
    tensor: Tensor
    type: Type
    place: Place | None  # of inputs and outputs, where it can be told

    @property
    def key(self) -> str:
        """What it is known by among all members; two may have one attribute."""
        return f"[{self.tensor.name}]"


def members(op: Op) -> Mapping[str, Member]:
    """All that rules can ask an op for, by attribute and, in brackets, by the config's own name."""
    found: dict[str, Member] = {}
    for tensors in (op.inputs, op.params, op.outputs):
        for index, tensor in enumerate(tensors):
            place = None if tensor.role == "param" else place_of(tensors, index)
            member = Member(_attribute(tensor.name), tensor, _type(tensor), place)
            found.setdefault(member.attribute, member)
            found.setdefault(member.key, member)
    return found


def place_of(tensors: Sequence[Tensor], index: int) -> Place | None:
    """Where it stands; None where too much before it may be there or not."""
    repeated = [number for number, each in enumerate(tensors) if each.repeated]
    if not repeated or index < repeated[0]:
        return Place(index)
    behind = tensors[index + 1 :]
    if len(repeated) > 1 or not all(each.mandatory for each in (*tensors[repeated[0] + 1 : index + 1], *behind)):
        return None
    return Place(index, len(behind))


def datatypes_of(tensor: Tensor, op: Op, package: OpPackage) -> tuple[DataType, ...]:
    """The types that any backend allows it; none where the config leaves them open."""
    found = [each for each in tensor.datatypes if each != BACKEND_SPECIFIC]
    for supplement in package.supplements:
        for said in (each for each in supplement.ops if each.name == op.name):
            found += [
                t
                for each in said.tensors
                if (each.name, each.role) == (tensor.name, tensor.role)
                for t in each.datatypes
            ]
    return () if not found or BACKEND_SPECIFIC in found else tuple(dict.fromkeys(found))


def _attribute(name: str) -> str:
    made = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") if not name.isidentifier() else name
    return f"t_{made}" if not made or made[0].isdigit() else made


def _type(tensor: Tensor) -> Type:
    if tensor.role == "output":
        return OUTPUT
    if tensor.is_scalar:
        kinds = {each.kind for each in tensor.datatypes}
        if kinds == {"string"}:
            return TEXT
        if kinds == {"bool"}:
            return TRUTH
        return WHOLE if kinds and kinds <= {"int", "uint", "bool"} else REAL
    whole = all(each.kind in ("int", "uint", "bool") for each in tensor.datatypes)
    view = Type("tensor", WHOLE if whole else REAL)
    return list_of(view) if tensor.repeated else view
