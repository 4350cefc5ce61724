"""A model -> a draft: the ops that QNN does not know, over all their uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from udogen.errors import UsageError
from udogen.init import from_onnx, naming, onnx_params, onnx_tensors
from udogen.init.draft import USUAL_BACKENDS, Draft, DraftCase, Remark, clean, obstacle
from udogen.init.onnx_params import FormalAttribute
from udogen.init.onnx_tensors import Formal, Place, places_of
from udogen.opdef.model import Op, OpPackage, OpSupplement, Passage, Supplement, Tensor, TensorSupplement
from udogen.opdef.onnx import custom_ops
from udogen.opdef.onnx.load import Loaded, load_model
from udogen.opdef.onnx.model import Attribute, Function, OpName
from udogen.opdef.onnx.uses import Use, standalone_model, uses_of


@dataclass(frozen=True)
class Found:
    """One op of a model, as a config has it."""

    op: Op
    remarks: tuple[Remark, ...]
    cases: tuple[DraftCase, ...]
    supplements: Mapping[str, tuple[TensorSupplement, ...]]  # by backend
    reference: str = ""
    file: bytes | None = None


def draft(
    model: Path,
    *,
    wanted: Sequence[str] = (),
    package: str = "",
    chosen: Sequence[str] = (),
    dims: Mapping[str, int] | None = None,
) -> Draft:
    """The config and cases for the custom ops of a model, or for those that are wanted."""
    loaded = load_model(model, wanted)
    if not loaded.ops:
        raise _nothing_custom(loaded)
    names = naming.op_names([(op.domain, op.type) for op in loaded.ops])
    found = tuple(
        _found(loaded, op, name, tuple(chosen) or USUAL_BACKENDS, dims or {})
        for op, name in zip(loaded.ops, names, strict=True)
    )
    made = OpPackage(
        name=package or naming.package_name(model.stem),
        domain=naming.domain(loaded.ops[0].domain),
        version="1.0",
        ops=tuple(each.op for each in found),
        supplements=tuple(_supplements(found, tuple(chosen) or USUAL_BACKENDS)),
    )
    notes = tuple(Remark((), note) for note in loaded.notes)
    remarks = (*notes, *(remark for each in found for remark in each.remarks))
    return Draft(
        package=made,
        remarks=remarks,
        cases=tuple(case for each in found for case in each.cases),
        references={each.op.name: each.reference for each in found if each.reference},
        files={each.reference.partition(":")[2]: each.file for each in found if each.file is not None},
    )


def _nothing_custom(loaded: Loaded) -> UsageError:
    from collections import Counter

    from udogen.opdef.onnx.model import walk

    used = Counter(str(node.op) for node, _ in walk(loaded.model.graph))
    shown = ", ".join(f"{name} ({count})" for name, count in used.most_common(12))
    return UsageError(
        f"{loaded.model.file} has no custom ops: all of its {sum(used.values())} nodes are of published types",
        hint=f"name one of its types with --op; it has {shown}" if used else "it has no nodes at all",
    )


def _found(loaded: Loaded, source: OpName, name: str, chosen: Sequence[str], dims: Mapping[str, int]) -> Found:
    model = loaded.model
    uses, function, schema = uses_of(model, source), model.function(source), custom_ops.schema(source, model.opsets)
    remarks: list[Remark] = []
    if name != source.type:
        told = f"the model calls it {source}, which cannot be its name here; converters look for the model's name"
        remarks.append(Remark((name,), told, decide=True))
    taken: set[str] = set()
    inputs = places_of(uses, "input", _formals(function, schema, "inputs"), taken)
    outputs = places_of(uses, "output", _formals(function, schema, "outputs"), taken)
    attributes = onnx_params.params_of(uses, name, _formal_attributes(function, schema), taken, remarks)
    if not inputs or not outputs:
        side = "input" if not inputs else "output"
        raise UsageError(
            f"{source} of {model.file} has no {side}, so it can be no op of QNN", hint="name other ops with --op"
        )
    repeated = next((each.name for each in (*inputs, *outputs) if each.repeated), "")
    text = next((each.tensor.name for each in attributes if each.tensor.datatypes[0].kind == "string"), "")
    obstacles = {backend: obstacle(backend, repeated=repeated, text=text) for backend in chosen}
    remarks += [Remark((name,), why, decide=True) for why in obstacles.values() if why]
    left = tuple(backend for backend, why in obstacles.items() if not why)
    if not left:
        left = USUAL_BACKENDS[:1]
    made, supplements = _tensors([*inputs, *outputs], name, left, remarks)
    made = [
        replace(tensor, constraints=onnx_tensors.same_shape(place, inputs)) if place.role == "output" else tensor
        for tensor, place in zip(made, (*inputs, *outputs), strict=True)
    ]
    remarks += _of_op(name, inputs, outputs)
    remarks += _concluded(name, (*inputs, *outputs), loaded)
    op = Op(
        name=name,
        inputs=tuple(tensor for tensor in made if tensor.role == "input"),
        outputs=tuple(tensor for tensor in made if tensor.role == "output"),
        params=tuple(each.tensor for each in attributes),
        description=(Passage(clean(_described(source, uses, model.file))),),
        backends=tuple(backend.upper() for backend in left),
    )
    cases = from_onnx.cases_of(op, uses, (*inputs, *outputs), attributes, dims)
    reference, file = _reference(loaded, source, op, uses)
    return Found(op, tuple(remarks), tuple(cases), supplements, reference, file)


def _reference(loaded: Loaded, source: OpName, op: Op, uses: Sequence[Use]) -> tuple[str, bytes | None]:
    """What the op is held against: ONNX's own, or the body that the model has for it."""
    if not source.domain and loaded.model.function(source) is None and custom_ops.knows(source):
        return f"onnx:{source.type}", None
    file = standalone_model(loaded.proto, source, uses)
    return (f"onnx:{op.name}.reference.onnx", file) if file is not None else ("", None)


def _described(source: OpName, uses: Sequence[Use], file: str) -> str:
    times = f"{len(uses)} times" if len(uses) > 1 else "once"
    return f"{source} of {file}, which uses it {times}." if uses else f"{source} of {file}."


def _formals(function: Function | None, schema: Any, side: str) -> list[Formal]:
    if function is not None:
        return [Formal(name) for name in getattr(function, side)]
    return [
        Formal(each.name, each.option.name == "Optional", each.option.name == "Variadic")
        for each in (getattr(schema, side) if schema is not None else ())
    ]


def _formal_attributes(function: Function | None, schema: Any) -> list[FormalAttribute]:
    if function is not None:
        required = [FormalAttribute(name, required=True) for name in function.required]
        return required + [FormalAttribute(each.name, required=False, default=each) for each in function.defaults]
    if schema is None:
        return []
    from udogen.opdef.onnx.from_proto import attribute_of

    found = []
    for name, each in schema.attributes.items():
        default: Attribute | None = attribute_of(each.default_value) if each.default_value.name else None
        found.append(FormalAttribute(name, bool(each.required), default))
    return found


def _tensors(
    places: Sequence[Place], op: str, chosen: Sequence[str], remarks: list[Remark]
) -> tuple[list[Tensor], Mapping[str, tuple[TensorSupplement, ...]]]:
    made = []
    by_backend: dict[str, tuple[TensorSupplement, ...]] = {}
    for place in places:
        tensor, supplements = onnx_tensors.tensor_of(place, op, chosen, remarks)
        made.append(tensor)
        for backend, entry in supplements.items():
            by_backend[backend] = (*by_backend.get(backend, ()), entry)
    return made, by_backend


def _supplements(found: Sequence[Found], chosen: Sequence[str]) -> list[Supplement]:
    made = []
    for backend in chosen:
        ops = tuple(
            OpSupplement(each.op.name, each.supplements[backend]) for each in found if backend in each.supplements
        )
        if ops:
            made.append(Supplement(backend.upper(), ops))
    return made


def _concluded(op: str, places: Sequence[Place], loaded: Loaded) -> list[Remark]:
    """What is known of tensors only because it follows from something else."""
    reasons = {value: why for _, value, why in loaded.concluded}
    found = {(place.name, reasons[each.name]): None for place in places for each in place.all if each.name in reasons}
    return [Remark((op, name), f"not told by the model, but concluded: {why}") for name, why in found]


def _of_op(op: str, inputs: Sequence[Place], outputs: Sequence[Place]) -> list[Remark]:
    ranks = {len(each.type.shape or ()) for place in (*inputs, *outputs) for each in place.all if not each.static}
    if 4 not in ranks:
        return []
    told = (
        "ONNX has images as NCHW, QNN's own ops and converters as NHWC; "
        "if this op cares which axis is which, add a <Layout>"
    )
    return [Remark((op,), told, decide=True)]
