"""Places -> inputs and outputs of the config: names, types, ranks, what is constant; and remarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from udogen.init import datatypes
from udogen.init.draft import Remark
from udogen.init.places import Place
from udogen.opdef.datatypes import BY_NAME, DataType
from udogen.opdef.model import Constraint, Rank, Tensor, TensorSupplement
from udogen.opdef.onnx import types
from udogen.opdef.onnx.uses import Argument

_MOST_RANK = 5
_SHOWN_SHAPES = 4

Supplements = Mapping[str, TensorSupplement]


def tensor_of(place: Place, op: str, chosen: Sequence[str], remarks: list[Remark]) -> tuple[Tensor, Supplements]:
    """The tensor, and what backends have otherwise."""
    about = (op, place.name)
    known, said = datatypes.of_arguments(place.all)
    if not known:
        known = (BY_NAME["FLOAT_32"],)
        remarks.append(Remark(about, _no_type(place), decide=True))
    found, supplements = datatypes.in_config(place.name, place.role, datatypes.on_backends(known, chosen, param=False))
    remarks += [Remark(about, sentence) for sentence in said]
    remarks += [Remark(about, sentence) for sentence in _substitutes(known, chosen)]
    remarks += _of_place(place, about)
    tensor = Tensor(
        name=place.name,
        role=place.role,
        datatypes=found,
        rank=_rank(place, about, remarks),
        mandatory=place.mandatory,
        repeated=place.repeated,
        static=place.role == "input" and bool(place.all) and all(each.static for each in place.all),
    )
    return tensor, supplements


def _no_type(place: Place) -> str:
    other = next((each.type.other for each in place.all if each.type.other), "")
    told = sorted({each.type.dtype for each in place.all} - {""})
    if other:
        return f"it is a {other} in the model, which QNN has not; FLOAT_32 stands here for something else"
    if told:
        return f"it is {' or '.join(told)} in the model, which no backend has; FLOAT_32 stands here for something else"
    return "the model does not tell its data type; FLOAT_32 stands here as a guess"


def _substitutes(known: Sequence[DataType], chosen: Sequence[str]) -> Iterator[str]:
    for backend, found in datatypes.on_backends(known, chosen, param=False).items():
        if not set(found) & set(known):
            there = " ".join(row.name for row in found)
            yield f"{backend.upper()} hands no {known[0].name} to an op: it is {there} there"


def _of_place(place: Place, about: tuple[str, ...]) -> Iterator[Remark]:
    if place.decide:
        yield Remark(about, place.decide, decide=True)
    shapes = Counter(show_shape(each) for each in place.all)
    if shapes:
        told = [
            f"{shape}{f' ({count} times)' if count > 1 else ''}" for shape, count in shapes.most_common(_SHOWN_SHAPES)
        ]
        more = f", and {len(shapes) - _SHOWN_SHAPES} more shapes" if len(shapes) > _SHOWN_SHAPES else ""
        yield Remark(about, f"in the model: {', '.join(told)}{more}")
    static = sum(each.static for each in place.all)
    if place.role == "input" and 0 < static < len(place.all):
        yield Remark(
            about,
            f"it is constant in {static} of {len(place.all)} uses; must it always be? then it is a static tensor",
            decide=True,
        )
    if any(each.quantized and each.quantized.scale is None for each in place.all):
        yield Remark(about, "it is quantized with one scale for each channel, or a computed one, in the model")


def show_shape(argument: Argument) -> str:
    """A shape as people write it: 1x3x8, or [N, 3, ?] where not all are numbers."""
    shape = argument.type.shape
    if shape is None:
        return "unknown shape"
    texts = ["?" if each is None else str(each) for each in shape]
    plain = all(isinstance(each, int) for each in shape)
    return ("x".join(texts) if plain else f"[{', '.join(texts)}]") if texts else "a single number"


def _rank(place: Place, about: tuple[str, ...], remarks: list[Remark]) -> Rank:
    shapes = [each.type.shape for each in place.all]
    ranks = sorted({max(len(shape), 1) for shape in shapes if shape is not None})
    unknown = sum(shape is None for shape in shapes)
    if unknown or not ranks:
        told = f"its rank is not known in {unknown} of {len(shapes)} uses" if shapes else "no use of the model has it"
        remarks.append(Remark(about, f"{told}, so any rank is allowed here", decide=True))
        return Rank()
    if any(shape == () for shape in shapes):
        remarks.append(Remark(about, "it is a single number in the model; QNN's tensors have at least one axis: 1D"))
    if len(ranks) > 1:
        told = " and ".join(map(str, ranks))
        remarks.append(Remark(about, f"ranks {told} in the model, so any rank is allowed here"))
        return Rank()
    return Rank((ranks[0],)) if ranks[0] <= _MOST_RANK else Rank()


def same_shape(output: Place, inputs: Sequence[Place]) -> tuple[Constraint, ...]:
    """ "Same shape as …", where every use of the model has it so and no other input would do as well."""
    fitting = [each for each in inputs if each.mandatory and not each.repeated and _always_like(output, each)]
    dynamic = [each for each in fitting if not all(arg.static for arg in each.all)]
    if output.repeated or not dynamic:
        return ()
    return (Constraint(0, "Shape", f"Same shape as {dynamic[0].name}"),)


def _always_like(output: Place, one: Place) -> bool:
    pairs = [(out[0], into[0]) for out, into in zip(output.arguments, one.arguments, strict=True) if out and into]
    shapes = [(out.type.shape, into.type.shape) for out, into in pairs]
    return bool(shapes) and all(out is not None and out == into for out, into in shapes)


def qnn_types(argument: Argument) -> tuple[str, tuple[float, int] | None]:
    """The type of a tensor in a case, and its quantization: fixed point where the model quantizes it."""
    import numpy as np

    quantized = argument.quantized
    stored = types.of_stored(quantized.dtype) if quantized else None
    if quantized and stored is not None and quantized.scale is not None:
        return stored.name, (float(str(np.float32(quantized.scale))), -quantized.zero_point)
    return plain_type(argument)


def plain_type(argument: Argument) -> tuple[str, None]:
    """The same where nothing is quantized."""
    plain = types.of_tensor(argument.type.dtype)
    return (plain.name if plain else "FLOAT_32"), None
