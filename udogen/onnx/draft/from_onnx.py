"""Makes a draft from an ONNX model: its custom ops, from all their uses, with test cases."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from udogen import backends
from udogen.errors import UdogenError, UsageError
from udogen.findings import Finding
from udogen.init.draft import USUAL_BACKENDS, CaseTensor, Draft, DraftCase, clean, remark
from udogen.onnx.draft.params import FormalAttribute, Param, params_of
from udogen.onnx.draft.tensors import (
    FormalOperand,
    Operand,
    case_type,
    operands_of,
    same_shape,
    show_shape,
    tensor_of,
)
from udogen.onnx.fuse.ops import title
from udogen.onnx.fuse.subgraph import SourceModel
from udogen.onnx.fuse.write import FusedOp, fused_op, kernel_text
from udogen.onnx.models.load import Loaded, TypeOf, knows, load_model, nearest_standard, schema_of
from udogen.onnx.models.model import Attribute, Function, OnnxGraph, OnnxNode, OpName, ValueType, walk
from udogen.onnx.models.reading import attribute_of, onnx_module
from udogen.onnx.models.uses import Argument, Use, definition, standalone_model, uses_of
from udogen.opdef import names
from udogen.opdef.model import Op, OpPackage, OpSupplement, Passage, Supplement, Tensor, TensorSupplement

_FLOAT = 1  # of AttributeProto


def drafts(
    model: Path, *, wanted: Sequence[str] = (), chosen: Sequence[str] = (), dims: Mapping[str, int] | None = None
) -> list[Draft]:
    """A package for each custom op of a model, as ONNX Runtime requires; or for each op named in `wanted`."""
    assumed = _LikeFirstInput()
    loaded = load_model(model, wanted, assumed)
    if not loaded.ops:
        raise _nothing_custom(loaded)
    labels = op_names([(op.domain, op.type) for op in loaded.ops])
    backends = tuple(chosen) or USUAL_BACKENDS
    first, *others = (
        _draft(loaded, *pair, backends, dims or {}, assumed.values) for pair in zip(loaded.ops, labels, strict=True)
    )
    notes = (remark((), note) for note in loaded.notes)
    return [replace(first, remarks=(*notes, *first.remarks)), *others]


def op_names(types: Sequence[tuple[str, str]]) -> list[str]:
    """A QNN name for each (domain, type): the type, if it is a valid name and unique."""
    found: list[str] = []
    for domain, name in types:
        made = names.suggestion(name)
        if made.lower() in {each.lower() for each in found}:
            made = names.suggestion(f"{domain}_{name}")
        while made.lower() in {each.lower() for each in found}:
            made = names.suggestion(f"{made}_2")
        found.append(made)
    return found


def domain_name(name: str) -> str:
    """A Domain for the package: that of the op if it is valid, otherwise `custom`."""
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", name) else "custom"


def _nothing_custom(loaded: Loaded) -> UsageError:
    used = Counter(str(node.op) for node, _ in walk(loaded.model.graph))
    shown = ", ".join(f"{name} ({count})" for name, count in used.most_common(12))
    return UsageError(
        f"{loaded.model.file} has no custom ops: all nodes are ops of ONNX or ONNX Runtime",
        hint=f"name one of them with --op; it has {shown}" if used else "it has no nodes at all",
    )


class _LikeFirstInput:
    """Outputs of custom nodes that the model leaves open: assumed to have the type and shape of the first input."""

    def __init__(self) -> None:
        self.values: set[str] = set()

    def __call__(self, node: OnnxNode, scopes: tuple[OnnxGraph, ...], type_of: TypeOf) -> Sequence[ValueType]:
        names = (name for name in node.inputs if name and not any(name in graph.constants for graph in scopes))
        first = type_of(next(names, ""))
        if knows(node.op) or not first.complete:
            return ()
        self.values.update(name for name in node.outputs if not type_of(name).complete)
        return [first] * len(node.outputs)


def _draft(
    loaded: Loaded,
    source: OpName,
    name: str,
    chosen: Sequence[str],
    dims: Mapping[str, int],
    assumed: Collection[str],
) -> Draft:
    model = loaded.model
    uses, function, schema = uses_of(model, source), model.function(source), schema_of(source, model.opsets)
    remarks = _of_name(source, name, is_function=function is not None)
    taken: set[str] = set()
    inputs = operands_of(uses, "input", _formals(function, schema, "inputs"), taken)
    outputs = operands_of(uses, "output", _formals(function, schema, "outputs"), taken)
    attributes, of_params = params_of(uses, name, _formal_attributes(function, schema), taken)
    remarks += of_params
    if not inputs or not outputs:
        side = "input" if not inputs else "output"
        raise UsageError(
            f"{source} of {model.file} has no {side}, so it cannot be an op of QNN", hint="name other ops with --op"
        )
    obstacles = _obstacles([*inputs, *outputs], attributes, chosen)
    remarks += [remark((name,), why, decide=True) for why in obstacles.values() if why]
    left = tuple(backend for backend, why in obstacles.items() if not why) or USUAL_BACKENDS[:1]
    tensors, supplements, of_tensors = _tensors([*inputs, *outputs], name, left)
    remarks += [*of_tensors, *_of_assumed(name, outputs, assumed), *_of_op(name, inputs, outputs)]
    op = Op(
        name=name,
        inputs=tuple(tensors[: len(inputs)]),
        outputs=tuple(
            replace(tensor, constraints=same_shape(operand, inputs))
            for tensor, operand in zip(tensors[len(inputs) :], outputs, strict=True)
        ),
        params=tuple(param.tensor for param in attributes),
        description=(Passage(clean(_described(source, uses, model.file))),),
        backends=tuple(backend.upper() for backend in left),
    )
    package = OpPackage(
        name=f"{name}OpPackage",
        domain=domain_name(source.domain),
        version="1.0",
        ops=(op,),
        supplements=tuple(
            Supplement(backend.upper(), (OpSupplement(name, tuple(rows)),)) for backend, rows in supplements.items()
        ),
    )
    reference, files = _reference(loaded, source, op, uses)
    kernel, why = _kernel(loaded, source, op, uses, dims)
    remarks += [remark((name,), f"a kernel cannot be made of its body in the model: {why}")] if why else []
    return Draft(
        package,
        remarks=tuple(remarks),
        cases=tuple(cases_of(op, uses, (*inputs, *outputs), attributes, dims)),
        references={name: reference} if reference else {},
        files=files | ({f"kernels/{name}.py": kernel.encode()} if kernel else {}),
    )


def _of_name(source: OpName, name: str, *, is_function: bool) -> list[Finding]:
    """Remarks on an op that ONNX does not have, and on a name that differs from the model's."""
    remarks: list[Finding] = []
    if not source.domain and not is_function and not knows(source):
        near = nearest_standard(source.type)
        text = f"it is in ONNX's own domain, which has no such op{f'; did you mean {near}?' if near else ''}"
        remarks.append(remark((name,), text, decide=True))
    if name != source.type:
        text = f"the model calls it {source}, which cannot be its name here; converters look for the model's name"
        remarks.append(remark((name,), text, decide=True))
    return remarks


def _kernel(loaded: Loaded, source: OpName, op: Op, uses: Sequence[Use], dims: Mapping[str, int]) -> tuple[str, str]:
    """A kernel in Python from the body that the model has for the op, or why it is not possible."""
    body, calls = definition(loaded.proto, source)
    if body is None or not calls:
        return "", ""
    if not all(
        len(use.inputs) == len(op.inputs) and all(tensor.type.complete for tensor in use.inputs) for use in uses
    ):
        return "", "types, shapes or inputs of it are not known"
    try:
        made = [_fused(op, loaded.model.file, body, calls[0], _inputs(body, use, dims)) for use in uses]
        if len({_shapes(use, dims) for use in uses}) > 1 and not all(kernel.flat for kernel in made):
            raise UsageError(
                f"the model uses {op.name} with several shapes", hint="write the kernel with views of Rows or Whole"
            )
        return kernel_text(made[0]), ""
    except UdogenError as fault:
        return "", fault.message


def _shapes(use: Use, dims: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(size_of(extent, dims) for extent in tensor.type.shape or ()) for tensor in use.inputs)


def _inputs(body: Any, use: Use, dims: Mapping[str, int]) -> list[Any]:
    """The inputs of the body in one use of the model, as ValueInfoProtos."""
    number, make = onnx_module().TensorProto.DataType.Value, onnx_module("helper").make_tensor_value_info
    rows = zip(body.input, use.inputs, _shapes(use, dims), strict=True)
    return [make(name, number(value.type.dtype), shape) for name, value, shape in rows]


def _fused(op: Op, file: str, body: Any, call: Any, inputs: Sequence[Any]) -> FusedOp:
    """The body (a FunctionProto) as a fused op with the names of the config; `call` is a node that calls it."""
    source, params = _body_model(op, file, body, call, inputs)
    nodes = [node for node in source.nodes if not source.is_static(node)]
    made = fused_op(op.name, file, source.subgraph(nodes, source.feeds({})))
    known = {value: names.identifier(tensor.name) for value, tensor in zip(body.input, op.inputs, strict=True)}
    known |= {value: names.identifier(tensor.name) for value, tensor in zip(body.output, op.outputs, strict=True)}
    return replace(
        made,
        inputs=tuple(replace(port, name=known.get(port.value, port.name)) for port in made.inputs),
        outputs=tuple(replace(port, name=known[port.value]) for port in made.outputs),
        params=params,
    )


def _body_model(
    op: Op, file: str, body: Any, call: Any, inputs: Sequence[Any]
) -> tuple[SourceModel, Mapping[str, str]]:
    """The body as a model, and the values in it that are parameters of the op, with their names."""
    helper = onnx_module("helper")
    given = {each.name: each for each in (*body.attribute_proto, *call.attribute)}
    params, nodes = {}, []
    for node in body.node:
        copy = type(node).FromString(node.SerializeToString())
        for attribute in copy.attribute:
            name = attribute.ref_attr_name
            if not name:
                continue
            if name not in given:
                raise UsageError(f"{title(copy)} takes the attribute `{name}`, which a node leaves out", hint="")
            own = attribute.name
            attribute.CopyFrom(given[name])
            attribute.name = own
            if copy.op_type != "Constant" or attribute.type != _FLOAT:
                raise UsageError(
                    f"{title(copy)} takes the attribute `{name}` of {op.name}", hint="write the kernel by hand"
                )
            params[copy.output[0]] = names.identifier(name)
        nodes.append(copy)
    results = [helper.make_tensor_value_info(name, 0, None) for name in body.output]
    graph = helper.make_graph(nodes, op.name, inputs, results)
    return SourceModel(helper.make_model(graph, opset_imports=list(body.opset_import), ir_version=8), file, {}), params


def _obstacles(operands: Sequence[Operand], attributes: Sequence[Param], chosen: Sequence[str]) -> dict[str, str]:
    """Why each backend does not support the op; empty if it does."""
    repeated = [operand.name for operand in operands if operand.repeated]
    texts = [param.tensor.name for param in attributes if param.tensor.datatypes[0].kind == "string"]
    why = {}
    for row in (backends.ALL[name] for name in chosen):
        faults = [f"`{name}` is repeated" for name in repeated if not row.can_repeat]
        faults += [f"`{name}` is a string" for name in texts if not row.has_texts]
        why[row.id] = f"{row.title} is left out, as {faults[0]}, which it does not support" if faults else ""
    return why


def _reference(loaded: Loaded, source: OpName, op: Op, uses: Sequence[Use]) -> tuple[str, dict[str, bytes]]:
    """The reference of the op: ONNX's own, or the body that the model has for it; and the file that it needs."""
    if not source.domain and loaded.model.function(source) is None and knows(source):
        return f"onnx:{source.type}", {}
    body, file = standalone_model(loaded.proto, source, uses), f"{op.name}.reference.onnx"
    return (f"onnx:{file}", {file: body}) if body is not None else ("", {})


def _described(source: OpName, uses: Sequence[Use], file: str) -> str:
    times = f"{len(uses)} times" if len(uses) > 1 else "once"
    return f"{source} of {file}, which uses it {times}." if uses else f"{source} of {file}."


def _formals(function: Function | None, schema: Any, side: str) -> list[FormalOperand]:
    if function is not None:
        return [FormalOperand(name) for name in getattr(function, side)]
    return [
        FormalOperand(formal.name, formal.option.name == "Optional", formal.option.name == "Variadic")
        for formal in (getattr(schema, side) if schema is not None else ())
    ]


def _formal_attributes(function: Function | None, schema: Any) -> list[FormalAttribute]:
    if function is not None:
        required = [FormalAttribute(name, required=True) for name in function.required]
        return required + [FormalAttribute(each.name, required=False, default=each) for each in function.defaults]
    if schema is None:
        return []
    formals = []
    for name, attribute in schema.attributes.items():
        default: Attribute | None = attribute_of(attribute.default_value) if attribute.default_value.name else None
        formals.append(FormalAttribute(name, bool(attribute.required), default))
    return formals


def _tensors(
    operands: Sequence[Operand], op: str, chosen: Sequence[str]
) -> tuple[list[Tensor], Mapping[str, Sequence[TensorSupplement]], list[Finding]]:
    made = []
    remarks: list[Finding] = []
    by_backend: dict[str, list[TensorSupplement]] = {}
    for operand in operands:
        tensor, supplements, about = tensor_of(operand, op, chosen)
        remarks += about
        made.append(tensor)
        for backend, entry in supplements.items():
            by_backend.setdefault(backend, []).append(entry)
    return made, by_backend, remarks


def _of_assumed(op: str, outputs: Sequence[Operand], assumed: Collection[str]) -> list[Finding]:
    """Remarks on outputs whose type and shape the model does not have."""
    text = "the model does not define it: assumed to be like the first input"
    unknown = [output for output in outputs if any(value.name in assumed for value in output.all)]
    return [remark((op, output.name), text, decide=True) for output in unknown]


def _of_op(op: str, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> list[Finding]:
    ranks = {
        len(argument.type.shape or ())
        for operand in (*inputs, *outputs)
        for argument in operand.all
        if not argument.static
    }
    if 4 not in ranks:
        return []
    text = (
        "ONNX has images as NCHW, QNN's own ops and converters as NHWC; "
        "if this op cares which axis is which, add a <Layout>"
    )
    return [remark((op,), text, decide=True)]


# --- test cases ------------------------------------------------------------------------------------------------------


MOST = 16  # cases of one op; a model may use it a thousand times
_MOST_VALUES = 64  # numbers of a constant that the test file may hold
_BATCH = ("batch", "n", "b", "bs")
_OTHER = 8  # the size of an axis that the model leaves open


def size_of(extent: int | str | None, dims: Mapping[str, int]) -> int:
    """The size of an axis in a case: 1 for an open batch axis, 8 for any other open axis."""
    if isinstance(extent, int):
        return extent
    if extent is None:
        return dims.get("?", _OTHER)
    known = next((row for name, row in dims.items() if name.lower() == extent.lower()), None)
    return known or (1 if extent.lower() in _BATCH or "batch" in extent.lower() else _OTHER)


def cases_of(
    op: Op,
    uses: Sequence[Use],
    operands: Sequence[Operand],
    params: Sequence[Param],
    dims: Mapping[str, int],
) -> list[DraftCase]:
    """A case for each distinct use, and another one if it is quantized; uses with unknown shapes are skipped."""
    cases: dict[str, DraftCase] = {}
    for number, use in enumerate(uses):
        for quantized in (False, True):
            made = _case(op, use, number, operands, params, dims, quantized=quantized)
            if made is not None and len(cases) < MOST:
                cases.setdefault(repr((made.inputs, made.outputs, made.params)), made)
    return list(cases.values())


def _case(
    op: Op,
    use: Use,
    number: int,
    operands: Sequence[Operand],
    params: Sequence[Param],
    dims: Mapping[str, int],
    *,
    quantized: bool,
) -> DraftCase | None:
    made: dict[str, dict[str, CaseTensor]] = {"input": {}, "output": {}}
    for operand in operands:
        for part, argument in enumerate(operand.arguments[number]):
            if argument.type.shape is None and operand.role == "input":
                return None
            if argument.type.shape is not None:
                name = f"{operand.name}.{part}" if operand.repeated else operand.name
                made[operand.role][name] = _tensor(argument, dims, quantized=quantized)
    tensors = [*made["input"].values(), *made["output"].values()]
    if quantized and not any(tensor.quant for tensor in tensors):
        return None
    return DraftCase(
        name=use.title + (", quantized" if quantized else ""),
        op=op.name,
        inputs=made["input"],
        outputs=made["output"],
        params=_params(params, number),
        backends=_where(op, made["input"], made["output"]),
        note=_open(operands, number),
    )


def _open(operands: Sequence[Operand], number: int) -> str:
    """A note with the model's shapes of tensors with open axes."""
    text = {
        operand.name: show_shape(argument)
        for operand in operands
        for argument in operand.arguments[number]
        if any(not isinstance(extent, int) for extent in argument.type.shape or ())
    }
    return f"in the model: {', '.join(f'{name} {shape}' for name, shape in text.items())}" if text else ""


def _params(params: Sequence[Param], number: int) -> dict[str, object]:
    """The values of one use that are not the default; values of an enumeration as words."""
    found: dict[str, object] = {}
    for param in params:
        value, tensor = param.in_uses[number], param.tensor
        if value not in (None, tensor.default):
            found[tensor.name] = tensor.enum[value] if tensor.enum and isinstance(value, int) else value
    return found


def _where(op: Op, inputs: Mapping[str, CaseTensor], outputs: Mapping[str, CaseTensor]) -> tuple[str, ...]:
    """The backends that pass these tensors to an op; empty if all backends of the op do."""
    mine = [name.lower() for name in op.backends]
    kinds = {tensor.dtype for tensor in (*inputs.values(), *outputs.values())}
    given = {*inputs, *outputs}
    omitted = any(not tensor.mandatory and tensor.name not in given for tensor in (*op.inputs, *op.outputs))
    able = [
        name
        for name in mine
        if not backends.ALL[name].delivers or kinds <= set(backends.ALL[name].delivers)
        if backends.ALL[name].can_omit or not omitted
    ]
    return tuple(able) if able != mine else ()


def _tensor(argument: Argument, dims: Mapping[str, int], *, quantized: bool) -> CaseTensor:
    shape = tuple(size_of(size, dims) for size in argument.type.shape or ())
    dtype, quant = case_type(argument, quantized=quantized)
    array = argument.constant.array if argument.constant is not None else None
    small = array is not None and array.size <= _MOST_VALUES and array.dtype.kind in "fiub"
    return CaseTensor(shape or (1,), dtype, quant, array if small and quant is None else None)
