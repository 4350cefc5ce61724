"""Derives inputs and outputs of the config from the uses of an op: names, types, ranks, optional, repeated; remarks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

import numpy as np

from udogen import backends
from udogen.findings import Finding
from udogen.init.draft import remark
from udogen.onnx.models.model import NEAREST, qnn_stored_type, qnn_type, why_another_type
from udogen.onnx.models.uses import Argument, Use
from udogen.opdef import names
from udogen.opdef.datatypes import BACKEND_SPECIFIC, BY_NAME, DataType
from udogen.opdef.model import Constraint, Rank, Tensor, TensorSupplement
from udogen.tables import shape_text


@dataclass(frozen=True)
class FormalOperand:
    """An input or output, as declared by its schema or function."""

    name: str
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True)
class Operand:
    """One input or output: its arguments in each use, in the order of the uses."""

    name: str
    role: str
    arguments: tuple[tuple[Argument, ...], ...]  # empty if it is left out, several if it is repeated
    mandatory: bool = True
    repeated: bool = False
    decide: str = ""  # why the user must check it

    @property
    def all(self) -> tuple[Argument, ...]:
        """The arguments of all uses."""
        return tuple(argument for use in self.arguments for argument in use)


def operands_of(uses: Sequence[Use], role: str, formals: Sequence[FormalOperand], taken: set[str]) -> list[Operand]:
    """The inputs (or outputs) of an op; `formals` are those of its schema, empty if it has no schema."""
    sides = [use.inputs if role == "input" else use.outputs for use in uses]
    most = max((len(side) for side in sides), default=0)
    if formals:
        return _by_schema(sides, role, formals, most, taken)
    start, decide = _repetition(sides) if role == "input" else (most, "")
    columns = _columns(sides, start, most)
    suggested = [_suggested_name(column, role, repeated=index >= start) for index, column in enumerate(columns)]
    operands = []
    for index, name in enumerate(distinct(suggested, role, taken)):
        column, repeated = columns[index], index >= start
        operands.append(Operand(name, role, column, all(column), repeated, decide if repeated else ""))
    return _doubts(operands, sides, decide if start >= most else "")


def _columns(sides: Sequence[tuple[Argument, ...]], start: int, most: int) -> list[tuple[tuple[Argument, ...], ...]]:
    """The arguments of each operand, by use; from `start` on they are one repeated operand."""
    columns = [tuple(side[index : index + 1] for side in sides) for index in range(start)]
    if start < most:
        columns.append(tuple(side[start:] for side in sides))
    return [tuple(tuple(each for each in use if each.name) for use in column) for column in columns]


def _by_schema(
    sides: Sequence[tuple[Argument, ...]], role: str, formals: Sequence[FormalOperand], most: int, taken: set[str]
) -> list[Operand]:
    """The operands by schema; optional ones without a use are left out."""
    shown = [each for index, each in enumerate(formals) if index < most or not each.optional]
    found = []
    for index, name in enumerate(distinct([each.name for each in shown], role, taken)):
        end = None if shown[index].repeated else index + 1
        column = tuple(tuple(each for each in side[index:end] if each.name) for side in sides)
        mandatory = not shown[index].optional and all(column)
        found.append(Operand(name, role, column, mandatory, shown[index].repeated))
    return found


def _suggested_name(column: tuple[tuple[Argument, ...], ...], role: str, *, repeated: bool) -> str:
    """The name that the model suggests: only weights, inputs and outputs of the graph have meaningful names."""
    arguments = [each for use in column for each in use]
    if repeated or not arguments:
        return role + "s" if repeated else ""
    speaking = all(argument.static or argument.outside for argument in arguments)
    return agreed(argument.name for argument in arguments) if speaking else ""


def _repetition(sides: Sequence[tuple[Argument, ...]]) -> tuple[int, str]:
    """The index from which inputs are one repeated input, and why this is only likely.

    If uses have different lengths and their last inputs are all alike (type, rank, not constant), the input is
    repeated, provided that even the shortest use has one of them, and the longest use has three inputs.
    """
    counts = sorted({len(side) for side in sides})
    if len(counts) < 2:
        return (counts[0] if counts else 0), ""
    shortest, longest = counts[0], counts[-1]
    start = longest
    kind = _kind(max(sides, key=len)[-1])
    while start > 0 and all(_kind(side[start - 1]) == kind for side in sides if len(side) >= start):
        start -= 1
    text = " or ".join(str(count) for count in counts)
    if kind is not None and start < shortest and longest >= 3:
        return (
            start,
            f"uses have {text} inputs, alike from here on, so it is treated as repeated; or are the last optional?",
        )
    return longest, f"uses have {text} inputs, so the last ones are treated as optional; or is it one repeated input?"


def _kind(argument: Argument) -> tuple[str, int | None] | None:
    """Type and rank, which repeated inputs share; None for a constant or omitted one."""
    if not argument.name or argument.static:
        return None
    shape = argument.type.shape
    return argument.type.dtype, None if shape is None else len(shape)


def _doubts(operands: list[Operand], sides: Sequence[tuple[Argument, ...]], decide: str) -> list[Operand]:
    """Remarks about operands that only some uses have."""
    doubts = []
    for operand in operands:
        missing = sum(not use for use in operand.arguments)
        if operand.mandatory or not missing:
            doubts.append(operand)
            continue
        text = decide or f"{missing} of {len(sides)} uses leave it out, so it is treated as optional"
        doubts.append(replace(operand, decide=text if decide else operand.decide))
    return doubts


# A meaningful word: not `12`, `onnx::Conv_7`, `relu_3`, `t`.
_WORD = re.compile(r"[A-Za-z][A-Za-z_]*[A-Za-z]\Z|[a-z]\Z")
_LONGEST = 24


def word(value: str) -> str:
    """The last part of a value's name if it is a word (`weight` for `layer.0.weight`); otherwise empty."""
    last = re.split(r"[/.:\\]", value.strip("/"))[-1]
    good = _WORD.match(last) and len(last) <= _LONGEST and not names.fault_of_tensor(last)
    return last if good else ""


def agreed(values: Iterable[str]) -> str:
    """The word that all uses have for a tensor; empty if there is none, or if they differ."""
    words = {word(value) for value in values}
    return words.pop() if len(words) == 1 else ""


def distinct(wanted: Sequence[str], role: str, taken: set[str]) -> list[str]:
    """A name for each tensor: the suggested one if it is unique, otherwise `input`, or `input_0` and so on.

    `taken` contains the identifiers in use; the new ones are added to it.
    """
    found: list[str] = []
    for index, name in enumerate(wanted):
        generic = role if len(wanted) == 1 else f"{role}_{index}"
        plain = name if name and not names.fault_of_tensor(name) else ""
        others = (f"{generic}_{number}" for number in count(2))
        made = next(each for each in chain([plain or generic, generic], others) if names.identifier(each) not in taken)
        taken.add(names.identifier(made))
        found.append(made)
    return found


# --- data types by backend -------------------------------------------------------------------------------------------


def types_of_arguments(arguments: Sequence[Argument]) -> tuple[tuple[DataType, ...], list[str]]:
    """The types of a tensor in all its uses, and notes about those that QNN replaces."""
    kinds = dict.fromkeys(argument.type.dtype for argument in arguments)
    plain = {kind: row for kind in kinds if (row := qnn_type(kind)) is not None}
    stored = [qnn_stored_type(argument.quantized.dtype) for argument in arguments if argument.quantized]
    types = dict.fromkeys([*plain.values(), *(row for row in stored if row is not None)])
    notes = [
        f"{kind} in the model, {row.name} here: {why}" for kind, row in plain.items() if (why := why_another_type(kind))
    ]
    return tuple(types), notes


def types_on_backends(datatypes: Sequence[DataType], chosen: Sequence[str]) -> Mapping[str, tuple[DataType, ...]]:
    """For each backend, the types that it passes to an op; if there are none, the nearest ones."""
    types = {}
    for backend in chosen:
        delivered = backends.ALL[backend].delivers
        kept = [datatype for datatype in datatypes if not delivered or datatype.name in delivered]
        types[backend] = tuple(kept) or tuple(dict.fromkeys(_nearest(datatype, delivered) for datatype in datatypes))
    return types


def _nearest(datatype: DataType, delivered: Sequence[str]) -> DataType:
    name = datatype.name
    while name not in delivered and name in NEAREST:
        name = NEAREST[name]
    return BY_NAME[name]


def types_in_config(
    name: str, role: str, found: Mapping[str, tuple[DataType, ...]]
) -> tuple[tuple[DataType, ...], Mapping[str, TensorSupplement]]:
    """The types for the op definition, and for the supplement of each backend."""
    kinds = set(found.values())
    if len(kinds) == 1:
        return kinds.pop(), {}
    return (BACKEND_SPECIFIC,), {
        backend: TensorSupplement(name, role, datatypes=rows) for backend, rows in found.items()
    }


# --- tensors of the config -------------------------------------------------------------------------------------------


_MOST_RANK = 5

Supplements = Mapping[str, TensorSupplement]


def tensor_of(operand: Operand, op: str, chosen: Sequence[str]) -> tuple[Tensor, Supplements, list[Finding]]:
    """The tensor, its supplements by backend, and remarks."""
    about = (op, operand.name)
    known, notes = types_of_arguments(operand.all)
    remarks = []
    if not known:
        known = (BY_NAME["FLOAT_32"],)
        remarks = [remark(about, _no_type(operand), decide=True)]
    types, supplements = types_in_config(operand.name, operand.role, types_on_backends(known, chosen))
    remarks += [remark(about, sentence) for sentence in notes]
    remarks += _remarks_of(operand, about)
    rank, of_rank = _rank(operand, about)
    tensor = Tensor(
        name=operand.name,
        role=operand.role,
        datatypes=types,
        rank=rank,
        mandatory=operand.mandatory,
        repeated=operand.repeated,
        static=operand.role == "input" and bool(operand.all) and all(argument.static for argument in operand.all),
    )
    return tensor, supplements, remarks + of_rank


def _no_type(operand: Operand) -> str:
    other = next((argument.type.other for argument in operand.all if argument.type.other), "")
    text = sorted({argument.type.dtype for argument in operand.all} - {""})
    if other:
        return f"it is a {other} in the model, which QNN lacks; FLOAT_32 is a placeholder"
    if text:
        return f"it is {' or '.join(text)} in the model, which no backend has; FLOAT_32 is a placeholder"
    return "the model does not name its data type; FLOAT_32 is a guess"


def _remarks_of(operand: Operand, about: tuple[str, ...]) -> Iterator[Finding]:
    if operand.decide:
        yield remark(about, operand.decide, decide=True)
    static = sum(argument.static for argument in operand.all)
    if operand.role == "input" and 0 < static < len(operand.all):
        yield remark(
            about,
            f"it is constant in {static} of {len(operand.all)} uses; must it always be? then it is a static tensor",
            decide=True,
        )
    if any(argument.quantized and argument.quantized.scale is None for argument in operand.all):
        yield remark(about, "it is quantized with one scale for each channel, or a computed one, in the model")


def show_shape(argument: Argument) -> str:
    """A shape as text."""
    shape = argument.type.shape
    return "unknown shape" if shape is None else shape_text(shape) or "a single number"


def _rank(operand: Operand, about: tuple[str, ...]) -> tuple[Rank, list[Finding]]:
    shapes = [argument.type.shape for argument in operand.all]
    ranks = sorted({max(len(shape), 1) for shape in shapes if shape is not None})
    unknown = sum(shape is None for shape in shapes)
    if unknown or not ranks:
        text = f"its rank is not known in {unknown} of {len(shapes)} uses" if shapes else "no use of the model has it"
        return Rank(), [remark(about, f"{text}, so any rank is allowed here", decide=True)]
    remarks = []
    if any(shape == () for shape in shapes):
        remarks.append(remark(about, "it is a single number in the model; QNN's tensors have at least one axis: 1D"))
    if len(ranks) > 1:
        text = " and ".join(map(str, ranks))
        remarks.append(remark(about, f"ranks {text} in the model, so any rank is allowed here"))
        return Rank(), remarks
    return Rank((ranks[0],)) if ranks[0] <= _MOST_RANK else Rank(), remarks


def same_shape(output: Operand, inputs: Sequence[Operand]) -> tuple[Constraint, ...]:
    """The constraint "Same shape as …" for the first input with that shape in every use; empty if there is none."""
    fitting = [tensor for tensor in inputs if tensor.mandatory and not tensor.repeated and _always_like(output, tensor)]
    dynamic = [operand for operand in fitting if not all(arg.static for arg in operand.all)]
    if output.repeated or not dynamic:
        return ()
    return (Constraint(0, "Shape", f"Same shape as {dynamic[0].name}"),)


def _always_like(output: Operand, one: Operand) -> bool:
    pairs = [(out[0], into[0]) for out, into in zip(output.arguments, one.arguments, strict=True) if out and into]
    shapes = [(out.type.shape, into.type.shape) for out, into in pairs]
    return bool(shapes) and all(out is not None and out == into for out, into in shapes)


def case_type(argument: Argument, *, quantized: bool) -> tuple[str, tuple[float, int] | None]:
    """The type of a tensor in a case and its quantization, if the case is quantized and the model quantizes it."""
    inside = argument.quantized if quantized else None
    stored = qnn_stored_type(inside.dtype) if inside else None
    if inside and stored is not None and inside.scale is not None:
        return stored.name, (float(str(np.float32(inside.scale))), -inside.zero_point)
    plain = qnn_type(argument.type.dtype)
    return (plain.name if plain else "FLOAT_32"), None
