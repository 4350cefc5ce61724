"""The uses of an op -> cases with the model's real shapes, parameters and quantization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from udogen import backends
from udogen.init.draft import CaseTensor, DraftCase
from udogen.init.params import Param
from udogen.init.places import Place
from udogen.init.tensors import plain_type, qnn_types, show_shape
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
    places: Sequence[Place],
    params: Sequence[Param],
    dims: Mapping[str, int],
) -> list[DraftCase]:
    """A case for each different use, one more where it is quantized; uses of unknown shapes have none."""
    found: dict[str, DraftCase] = {}
    for number, use in enumerate(uses):
        for quantized in (False, True):
            made = _case(op, use, number, places, params, dims, quantized=quantized)
            if made is not None and len(found) < MOST:
                found.setdefault(repr((made.inputs, made.outputs, made.params)), made)
    return list(found.values())


def _case(
    op: Op,
    use: Use,
    number: int,
    places: Sequence[Place],
    params: Sequence[Param],
    dims: Mapping[str, int],
    *,
    quantized: bool,
) -> DraftCase | None:
    made: dict[str, dict[str, CaseTensor]] = {"input": {}, "output": {}}
    for place in places:
        for part, argument in enumerate(place.arguments[number]):
            if argument.type.shape is None and place.role == "input":
                return None
            if argument.type.shape is not None:
                name = f"{place.name}.{part}" if place.repeated else place.name
                made[place.role][name] = _tensor(argument, dims, quantized=quantized)
    tensors = [*made["input"].values(), *made["output"].values()]
    if quantized and not any(each.quant for each in tensors):
        return None
    return DraftCase(
        name=use.title + (", quantized" if quantized else ""),
        op=op.name,
        inputs=made["input"],
        outputs=made["output"],
        params=_params(op, params, number),
        backends=_where(op, made["input"], made["output"]),
        note=_open(places, number),
    )


def _open(places: Sequence[Place], number: int) -> str:
    """What the model says of tensors with axes that it leaves open."""
    told = {
        place.name: show_shape(argument)
        for place in places
        for argument in place.arguments[number]
        if any(not isinstance(extent, int) for extent in argument.type.shape or ())
    }
    return f"in the model: {', '.join(f'{name} {shape}' for name, shape in told.items())}" if told else ""


def _params(op: Op, params: Sequence[Param], number: int) -> dict[str, object]:
    """The values of one use that are not the default; of an enumeration its words."""
    found: dict[str, object] = {}
    for each in params:
        value = each.in_uses[number]
        if value is not None and not _is_default(op, each.tensor.name, value):
            found[each.tensor.name] = each.tensor.enum[value] if each.tensor.enum and isinstance(value, int) else value
    return found


def _where(op: Op, inputs: Mapping[str, CaseTensor], outputs: Mapping[str, CaseTensor]) -> tuple[str, ...]:
    """The backends that hand these tensors to an op; none said where that are all of the op's."""
    mine = [name.lower() for name in op.backends]
    kinds = {each.dtype for each in (*inputs.values(), *outputs.values())}
    given = {*inputs, *outputs}
    omitted = any(not each.mandatory and each.name not in given for each in (*op.inputs, *op.outputs))
    able = [
        name
        for name in mine
        if not backends.ALL[name].delivers or kinds <= set(backends.ALL[name].delivers)
        if backends.ALL[name].can_omit or not omitted
    ]
    return tuple(able) if able != mine else ()


def _is_default(op: Op, name: str, value: object) -> bool:
    return any(param.name == name and param.default == value for param in op.params)


def _tensor(argument: Argument, dims: Mapping[str, int], *, quantized: bool) -> CaseTensor:
    shape = tuple(size_of(each, dims) for each in argument.type.shape or ())
    dtype, quant = qnn_types(argument) if quantized else plain_type(argument)
    array = argument.constant.array if argument.constant is not None else None
    small = array is not None and array.size <= _MOST_VALUES and array.dtype.kind in "fiub"
    return CaseTensor(shape or (1,), dtype, quant, array if small and quant is None else None)
