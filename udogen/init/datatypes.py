"""Which data types a tensor has in QNN, on each backend: what the model has, or the nearest that is handed to ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from udogen import backends
from udogen.opdef.datatypes import BACKEND_SPECIFIC, BY_NAME, DataType
from udogen.opdef.model import TensorSupplement
from udogen.opdef.onnx import types
from udogen.opdef.onnx.uses import Argument


def of_arguments(arguments: Iterable[Argument]) -> tuple[tuple[DataType, ...], list[str]]:
    """The types of a tensor over all its uses, and sentences about those that QNN has otherwise."""
    found: dict[DataType, None] = {}
    said: dict[str, None] = {}
    for each in arguments:
        row = types.of_tensor(each.type.dtype)
        if row is not None:
            found[row] = None
        if types.why(each.type.dtype) and row is not None:
            said[f"{each.type.dtype} in the model, {row.name} here: {types.why(each.type.dtype)}"] = None
    for each in arguments:
        stored = types.of_stored(each.quantized.dtype) if each.quantized else None
        if stored is not None:
            found[stored] = None
    return tuple(found), list(said)


def on_backends(
    datatypes: Sequence[DataType], chosen: Sequence[str], *, param: bool
) -> Mapping[str, tuple[DataType, ...]]:
    """By backend the types that it hands to an op; where there is none of them, the nearest."""
    found = {}
    for backend in chosen:
        row = backends.ALL[backend]
        delivered = (row.params or row.delivers) if param else row.delivers
        kept = [each for each in datatypes if not delivered or each.name in delivered]
        found[backend] = tuple(kept) or tuple(dict.fromkeys(_nearest(each, delivered) for each in datatypes))
    return found


def _nearest(datatype: DataType, delivered: Sequence[str]) -> DataType:
    name = datatype.name
    while name not in delivered and name in types.NEAREST:
        name = types.NEAREST[name]
    return BY_NAME[name]


def in_config(
    name: str, role: str, found: Mapping[str, tuple[DataType, ...]]
) -> tuple[tuple[DataType, ...], Mapping[str, TensorSupplement]]:
    """The types as the op definition has them, and what the supplement of each backend says."""
    kinds = set(found.values())
    if len(kinds) == 1:
        return kinds.pop(), {}
    return (BACKEND_SPECIFIC,), {
        backend: TensorSupplement(name, role, datatypes=rows) for backend, rows in found.items()
    }
