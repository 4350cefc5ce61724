"""The uses of an op -> cases with the model's real shapes, parameters and quantization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from udogen.init.draft import CaseTensor, DraftCase
from udogen.init.params import Param
from udogen.init.places import Place
from udogen.init.tensors import qnn_types
from udogen.opdef.model import Op
from udogen.opdef.onnx.uses import Argument, Use

MOST = 16  # cases of one op; a model may use it a thousand times
_MOST_VALUES = 64  # numbers of a constant that stand in the test file
_BATCH = ("batch", "n", "b", "bs")
_OTHER = 8  # the size of an axis that the model leaves open


def size_of(extent: int | str | None, dims: Mapping[str, int]) -> int:
    """The size that an axis has in a case: 1 for a batch, 8 for any other that is open."""
    if isinstance(extent, int):
        return extent
    if extent is None:
        return dims.get("?", _OTHER)
    known = next((row for name, row in dims.items() if name.lower() == extent.lower()), None)
    return known or (1 if extent.lower() in _BATCH or "batch" in extent.lower() else _OTHER)


def cases_of(
    op: Op,
    uses: Sequence[Use],
    inputs: Sequence[Place],
    outputs: Sequence[Place],
    params: Sequence[Param],
    dims: Mapping[str, int],
) -> list[DraftCase]:
    """A case for each different use; uses of unknown shapes have none."""
    found: dict[str, DraftCase] = {}
    for number, use in enumerate(uses):
        made = _case(op, use, number, inputs, outputs, params, dims)
        if made is not None and len(found) < MOST:
            found.setdefault(repr((made.inputs, made.outputs, made.params)), made)
    return list(found.values())


def _case(
    op: Op,
    use: Use,
    number: int,
    inputs: Sequence[Place],
    outputs: Sequence[Place],
    params: Sequence[Param],
    dims: Mapping[str, int],
) -> DraftCase | None:
    sides: list[dict[str, CaseTensor]] = []
    for side in (inputs, outputs):
        made: dict[str, CaseTensor] = {}
        for place in side:
            for part, argument in enumerate(place.arguments[number]):
                if argument.type.shape is None and place.role == "input":
                    return None
                if argument.type.shape is not None:
                    made[f"{place.name}.{part}" if place.repeated else place.name] = _tensor(argument, dims)
        sides.append(made)
    values = {each.tensor.name: each.in_uses[number] for each in params if each.in_uses[number] is not None}
    texts = {
        each.tensor.name: each.tensor.enum[value]
        for each in params
        if each.tensor.enum and isinstance(value := each.in_uses[number], int)
    }
    given = {name: value for name, value in {**values, **texts}.items() if not _is_default(op, name, values[name])}
    return DraftCase(use.title, op.name, sides[0], sides[1], given)


def _is_default(op: Op, name: str, value: object) -> bool:
    return any(param.name == name and param.default == value for param in op.params)


def _tensor(argument: Argument, dims: Mapping[str, int]) -> CaseTensor:
    shape = tuple(size_of(each, dims) for each in argument.type.shape or ())
    dtype, quant = qnn_types(argument)
    array = argument.constant.array if argument.constant is not None else None
    small = array is not None and array.size <= _MOST_VALUES and array.dtype.kind in "fiub"
    return CaseTensor(shape or (1,), dtype, quant, array if small and quant is None else None)
