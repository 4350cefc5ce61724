"""Shapes and data types of outputs, if they follow from a config.  Shapes are never guessed."""

from __future__ import annotations

import re
from typing import NamedTuple

from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, Tensor

Extent = int | tuple[int, int]  # a number, or an axis of an input: (input, axis)


class SameAs(NamedTuple):
    """The same as of this input."""

    input: int
    why: str


class Extents(NamedTuple):
    """Axis by axis."""

    extents: tuple[Extent, ...]
    why: str


class Only(NamedTuple):
    """Always this type."""

    datatype: DataType
    why: str


_SAME = r"(?:has |must have |must be )?(?:the )?same {} (?:as|of|like) (?:the |that of |of )*`?(?P<name>[^`]+?)`?\.?"
_SAME_SHAPE = re.compile(
    _SAME.format(r"(?:shapes?|dimensions?|dims?|size|rank and (?:shape|dimensions))"), re.IGNORECASE
)
_SAME_TYPE = re.compile(_SAME.format(r"(?:data ?types?|types?)"), re.IGNORECASE)
_TEXT = re.compile(r"[\[({]\s*(.*?)\s*[\])}]\Z", re.DOTALL)
_AXIS = re.compile(r"[A-Za-z_]\w*|\d+")


def shape(op: Op, output: Tensor) -> SameAs | Extents | None:
    """An output's shape by the config, or None."""
    texts = [each.text for each in output.constraints if each.type == "Shape"]
    for text in (*texts, output.shape_text):
        found = _same(_SAME_SHAPE, text, op)
        if found is not None:
            return SameAs(found, _line(text))
    if output.rank.ranks == (0,) or output.rank.scalar:
        return Extents((), "rank 0")
    return _by_names(op, output)


def datatype(op: Op, output: Tensor) -> SameAs | Only | None:
    """An output's data type by the config, or None."""
    if len(output.datatypes) == 1 and output.datatypes[0].kind != "special":
        return Only(output.datatypes[0], "the only type of the config")
    for text in [each.text for each in output.constraints if each.type == "Datatype"]:
        found = _same(_SAME_TYPE, text, op)
        if found is not None:
            return SameAs(found, _line(text))
    twins = [index for index, each in enumerate(op.inputs) if not each.static and each.datatypes == output.datatypes]
    if len(twins) == 1 and _reachable(op, twins[0]):
        return SameAs(twins[0], "the config allows it the same types as this input, and no other input")
    return None


def _same(pattern: re.Pattern[str], text: str, op: Op) -> int | None:
    """The input that a sentence names, if it contains nothing else."""
    match = pattern.fullmatch(" ".join(text.split()))
    index = _input(match["name"], op) if match else None
    return index if index is not None and _reachable(op, index) else None


def _input(name: str, op: Op) -> int | None:
    text = name.strip().strip("'\"`")
    plain = re.sub(r"^input (?!\[)|(?<=\S) input$", "", text).strip("'\"`")
    for index, each in enumerate(op.inputs):
        if each.name in (text, plain):
            return index
    numbered = re.fullmatch(r"(?:in|inputs?) ?[\[(]? ?(\d+) ?[\])]?", text, re.IGNORECASE)
    if numbered and int(numbered[1]) < len(op.inputs):
        return int(numbered[1])
    dynamic = [index for index, each in enumerate(op.inputs) if not each.static]
    if text.lower() in ("input", "input tensor", "inputs") and len(dynamic) == 1:
        return dynamic[0]
    return None


def _reachable(op: Op, index: int) -> bool:
    """False after a repeated or optional input: its position is unknown then."""
    return all(each.mandatory and not each.repeated for each in op.inputs[:index]) and op.inputs[index].mandatory


def _by_names(op: Op, output: Tensor) -> Extents | None:
    """`[N, H, W, C]`, where each letter is an axis in the shape of an input."""
    names = _axes(output.shape_text)
    if not names:
        return None
    known: dict[str, tuple[int, int]] = {}
    for index, each in enumerate(op.inputs):
        axes = _axes(each.shape_text) if _reachable(op, index) else ()
        for axis, name in enumerate(axes):
            if not name.isdigit():
                known.setdefault(name, (index, axis))
    if not all(name.isdigit() or name in known for name in names):
        return None
    return Extents(tuple(int(name) if name.isdigit() else known[name] for name in names), _line(output.shape_text))


def _axes(text: str) -> tuple[str, ...]:
    match = _TEXT.fullmatch(text.strip())
    parts = re.split(r"\s*[,x]\s*", match[1]) if match else []
    return tuple(parts) if parts and all(_AXIS.fullmatch(part) for part in parts) else ()


def _line(text: str) -> str:
    return " ".join(text.split())
