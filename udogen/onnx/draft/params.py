"""Derives parameters from the attributes of all uses: types, defaults, enumerations; QNN cannot express some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from udogen.findings import Finding
from udogen.init.draft import remark
from udogen.onnx.models.model import Attribute, OnnxConstant, qnn_type, why_another_type
from udogen.onnx.models.uses import Use
from udogen.opdef import names, values
from udogen.opdef.datatypes import BY_NAME, DataType
from udogen.opdef.model import Rank, Tensor, Value

_MOST_VALUES = 256  # of a default; a larger tensor belongs in a file
_MOST_LETTERS = 2000
_INT_32 = (-(1 << 31), (1 << 31) - 1)
_NO_WORD = {
    "GRAPH": "a graph", "GRAPHS": "graphs", "STRINGS": "a list of texts", "TENSORS": "a list of tensors",
    "SPARSE_TENSOR": "a sparse tensor", "SPARSE_TENSORS": "sparse tensors", "TYPE_PROTO": "a type",
    "TYPE_PROTOS": "types", "UNDEFINED": "of no known kind", "REFERENCE": "that of the function around it",
}  # fmt: skip


@dataclass(frozen=True)
class FormalAttribute:
    """An attribute as declared by a schema or function; `default` is None if there is none."""

    name: str
    required: bool
    default: Attribute | None = None


@dataclass(frozen=True)
class Param:
    """A parameter, and its value in each use (None if a use has none)."""

    tensor: Tensor
    in_uses: tuple[Value | None, ...]


def params_of(
    uses: Sequence[Use], op: str, formals: Sequence[FormalAttribute], taken: set[str]
) -> tuple[list[Param], list[Finding]]:
    """The parameters of an op, scalars first (both config languages can express that), in order of first use."""
    by_name = {each.name: each for each in formals}
    order = dict.fromkeys([*by_name, *(attribute.name for use in uses for attribute in use.attributes)])
    params: list[Param] = []
    remarks: list[Finding] = []
    for name in order:
        attributes = [next((attribute for attribute in use.attributes if attribute.name == name), None) for use in uses]
        formal = by_name.get(name)
        if not any(attributes) and (formal is None or formal.default is None):
            continue
        made, about_it = _param(op, name, attributes, formal, taken)
        remarks += about_it
        if made is not None:
            params.append(made)
    return sorted(params, key=lambda each: not each.tensor.is_scalar), remarks


def _param(
    op: str,
    name: str,
    attributes: Sequence[Attribute | None],
    formal: FormalAttribute | None,
    taken: set[str],
) -> tuple[Param | None, list[Finding]]:
    present = [attribute for attribute in attributes if attribute is not None]
    samples = [*present, *([formal.default] if formal and formal.default else [])]
    kind = _kind(samples)
    if kind in _NO_WORD:
        sentence = f"attribute `{name}` is {_NO_WORD[kind]}, which QNN has no parameter for; it is left out"
        return None, [remark((op,), sentence, decide=True)]
    made = _named(name, taken)
    about, remarks = (op, made), []
    if made != name:
        remarks = [remark(about, f"attribute `{name}` of the model; converters look for that name", decide=True)]
    shape, of_shape = _shape_of(kind, samples, about)
    remarks += of_shape
    if shape is None:
        return None, remarks
    found = [None if attribute is None else shape.value(attribute) for attribute in attributes]
    default, of_default = _default(found, formal, shape, about)
    remarks += of_default
    missing = any(attribute is None for attribute in attributes)
    mandatory = default is None and not missing and not (formal and not formal.required)
    tensor = Tensor(
        name=about[1],
        role="param",
        datatypes=(shape.datatype,),
        rank=shape.rank,
        mandatory=mandatory,
        default=default,
        enum=shape.enum,
    )
    return Param(tensor, tuple(found)), remarks


def _kind(samples: Sequence[Attribute]) -> str:
    """The kind of all; FLOAT if some uses have an integer instead, UNDEFINED if uses differ otherwise."""
    kinds = {sample.kind for sample in samples}
    if len(kinds) == 1:
        return kinds.pop()
    for mixed, one in (({"FLOAT", "INT"}, "FLOAT"), ({"FLOATS", "INTS"}, "FLOATS")):
        if kinds == mixed:
            return one
    return "UNDEFINED"


def _named(name: str, taken: set[str]) -> str:
    good = name if not names.fault_of_tensor(name) else names.identifier(name)[: names.LONGEST]
    made, number = good, 2
    while names.identifier(made) in taken:
        made, number = f"{good}_param" if number == 2 else f"{good}_param{number - 1}", number + 1
    taken.add(names.identifier(made))
    return made


@dataclass(frozen=True)
class _Shape:
    """The attribute as a parameter of QNN."""

    datatype: DataType
    rank: Rank
    enum: tuple[str, ...] = ()

    def value(self, attribute: Attribute) -> Value | None:
        """The value of one use; None if the model file does not contain it."""
        found = _plain(attribute.value)
        if self.enum:
            return self.enum.index(str(found))
        if isinstance(found, tuple) and self.rank.scalar:  # a tensor without axes
            found = values.flatten(found)[0]
        if attribute.value is None or (isinstance(attribute.value, OnnxConstant) and attribute.value.array is None):
            return None
        return _as_floats(found) if self.datatype.kind == "float" else found


# A shape (None if QNN cannot express the attribute), and remarks about it.
_Shaped = tuple[_Shape | None, list[Finding]]


def _shape_of(kind: str, samples: Sequence[Attribute], about: tuple[str, str]) -> _Shaped:
    """The type and rank that can represent all samples."""
    if kind == "STRING":
        return _text(samples, about)
    if kind == "TENSOR":
        return _tensor(samples, about)
    if kind in ("FLOAT", "FLOATS"):
        return _Shape(BY_NAME["FLOAT_32"], Rank(scalar=True) if kind == "FLOAT" else Rank((1,))), []
    return _numbers(kind, samples, about)


def _numbers(kind: str, samples: Sequence[Attribute], about: tuple[str, str]) -> _Shaped:
    """Integers: INT_32 if all samples fit; a longer one can be passed as a scalar, but not in a list."""
    numbers = [number for sample in samples for number in values.flatten(_plain(sample.value))]
    if all(_INT_32[0] <= int(number) <= _INT_32[1] for number in numbers):
        shape = _Shape(BY_NAME["INT_32"], Rank(scalar=True) if kind == "INT" else Rank((1,)))
        if kind == "INT" and set(numbers) <= {0, 1}:
            return shape, [remark(about, "only 0 and 1 in the model; use BOOL_8 if it is a switch")]
        return shape, []
    if kind == "INT":
        text = "it holds numbers of more than 32 bits; ONNX Runtime's QNN provider cannot pass them"
        return _Shape(BY_NAME["INT_64"], Rank(scalar=True)), [remark(about, text, decide=True)]
    return None, [_left_out(about, "lists numbers of more than 32 bits, which no backend passes to an op")]


def _text(samples: Sequence[Attribute], about: tuple[str, str]) -> _Shaped:
    """An enumeration of the texts in the model if they are valid names, because every backend supports that."""
    texts = tuple(dict.fromkeys(str(sample.value) for sample in samples))
    if not any(names.fault_of_tensor(text) for text in texts) and not names.collisions(texts):
        text = (
            f"a string in ONNX; the model has {' '.join(texts)}: complete the list.  ONNX Runtime's QNN provider "
            "passes no strings: for it leave the attribute out, or make it an INT and this parameter INT_32"
        )
        return _Shape(BY_NAME["UINT_32"], Rank(scalar=True), texts), [remark(about, text, decide=True)]
    return _Shape(BY_NAME["STRING"], Rank(scalar=True)), []


def _tensor(samples: Sequence[Attribute], about: tuple[str, str]) -> _Shaped:
    tensors = [sample.value for sample in samples if isinstance(sample.value, OnnxConstant)]
    rows = {qnn_type(tensor.dtype) for tensor in tensors}
    row = rows.pop() if len(rows) == 1 else None
    if row is None:
        kinds = " or ".join(sorted(tensor.dtype for tensor in tensors))
        return None, [_left_out(about, f"is a tensor of {kinds}, which no backend has")]
    numbers = [number for sample in samples for number in values.flatten(_plain(sample.value))]
    if (span := row.range()) and not all(span[0] <= number <= span[1] for number in numbers if isinstance(number, int)):
        return None, [_left_out(about, "holds numbers of more than 32 bits, which no backend passes to an op")]
    row = BY_NAME["FLOAT_32"] if row.name == "FLOAT_16" else row
    remarks = []
    if any(why_another_type(tensor.dtype) for tensor in tensors):
        text = f"{tensors[0].dtype} in the model, {row.name} here: {why_another_type(tensors[0].dtype)}"
        remarks = [remark(about, text)]
    return _Shape(row, _rank_of(tensors)), remarks


def _rank_of(tensors: Sequence[OnnxConstant]) -> Rank:
    """The common rank; any rank if they differ or QNN does not support it."""
    ranks = {len(tensor.shape) for tensor in tensors}
    if len(ranks) > 1 or max(ranks) > 5:
        return Rank()
    rank = ranks.pop()
    return Rank((rank,)) if rank else Rank(scalar=True)


def _left_out(about: tuple[str, str], why: str) -> Finding:
    return remark(about[:1], f"attribute `{about[1]}` {why}; it is left out", decide=True)


def _default(
    found: Sequence[Value | None],
    formal: FormalAttribute | None,
    shape: _Shape,
    about: tuple[str, str],
) -> tuple[Value | None, list[Finding]]:
    """The default of the schema or function; otherwise the value that all uses have in common."""
    if formal is not None:
        return (_small(shape.value(formal.default)) if formal.default else None), []
    if any(value is None for value in found):
        missing = sum(value is None for value in found)
        text = f"{missing} of {len(found)} uses leave it out, and the model does not define its value: add a <Default>"
        return None, [remark(about, text, decide=True)]
    distinct = list(dict.fromkeys(found))
    if len(distinct) > 1:
        shown = ", ".join(values.show(value) for value in distinct[:4] if value is not None)
        return None, [remark(about, f"in the model: {shown}{', …' if len(distinct) > 4 else ''}")]
    default = _small(distinct[0])
    if default is None:
        return None, []
    which = {1: "the only use has", 2: "both uses have"}.get(len(found), f"all {len(found)} uses have")
    return default, [remark(about, f"the default is what {which}")]


def _small(value: Value | None) -> Value | None:
    """The value if a config can contain it as a default (not too long, no text that XML cannot represent)."""
    if value is None or (isinstance(value, str) and (len(value) > _MOST_LETTERS or not value.isprintable())):
        return None
    return value if len(values.flatten(value)) <= _MOST_VALUES else None


def _plain(value: Any) -> Value:
    """A value of the model, with arrays as tuples."""
    if isinstance(value, OnnxConstant):
        return _tuples(value.array.tolist()) if value.array is not None else ()
    return value if isinstance(value, int | float | str | tuple) else ""


def _tuples(value: Any) -> Value:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _as_floats(value: Value) -> Value:
    """Numbers rounded to the shortest decimal with the same float32: 0.1, not 0.10000000149011612."""
    if isinstance(value, tuple):
        return tuple(_as_floats(item) for item in value)
    return value if isinstance(value, str) else float(str(np.float32(value)))
