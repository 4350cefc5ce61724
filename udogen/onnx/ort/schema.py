"""What an ONNX model must define for its custom ops: schemas, and the shapes of their outputs.

A schema is a model-local function, which makes an op known to ONNX Runtime.  Its body defines types and shapes, and
fails when it is executed: if no execution provider accepts the node, ONNX Runtime replaces it with the body, and a body
that computed something would silently return wrong numbers.  The name of the node that fails states the reason.

Shapes come from the packages' configs and shape rules: ONNX Runtime infers none through a schema, and its QNN provider
accepts no node with a tensor of unknown shape.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from udogen.clients.package import Package
from udogen.errors import UdogenError, UsageError
from udogen.onnx.models import reading
from udogen.onnx.models.load import TypeOf, is_custom, load_model
from udogen.onnx.models.model import BY_ONNX, UNKNOWN, OnnxGraph, OnnxModel, OnnxNode, OpName, ValueType, type_in, walk
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op
from udogen.opdef.shape_rules import Given, ShapeRules, load_shape_rules

_FUNCTIONS_SINCE = 8  # the first IR version with functions
_NEWEST_OPSET = 21  # for models that name none
_UNKNOWN_DTYPE = "FLOAT"
MARK = "was_not_taken_by_QNN"


@dataclass(frozen=True)
class Schemas:
    """The changes that make a model's custom ops known to ONNX Runtime."""

    model: OnnxModel
    custom: tuple[OpName, ...]  # custom ops that the model does not define itself
    ops: tuple[OpName, ...]  # the ops in `custom` that get a schema
    added: bytes
    notes: tuple[str, ...]
    external: tuple[str, ...]  # files next to the model with some of its data
    order: Mapping[str, Sequence[str]] = field(default_factory=dict)  # op -> its attributes, as the provider needs them
    reordered: bool = False  # whether nodes have them in another order
    shared: bool = False  # whether several inputs read one DequantizeLinear

    @property
    def changes(self) -> bool:
        """Whether the model must be changed."""
        return bool(self.added or self.reordered or self.shared)

    def of(self, path: Path) -> bytes:
        """The changed model."""
        model = reading.onnx_module().ModelProto.FromString(path.read_bytes())
        _reorder(model, self.order)
        model.MergeFromString(self.added)
        if self.shared:
            for body in _bodies(model):
                _split(body)
        changed: bytes = model.SerializeToString(deterministic=True)
        return changed


@dataclass(frozen=True)
class _Use:
    """One node, and the known types of its inputs and outputs."""

    node: OnnxNode
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]


def schemas_of(
    path: Path,
    only: Sequence[str] = (),
    *,
    ops: Sequence[Op] = (),
    rules: Path | None = None,
    known: Sequence[OpName] = (),
) -> Schemas:
    """Schemas for the custom ops of a model, or for `only` some; ops that the model defines itself stay unchanged.

    The configs of `ops` and a file of shape rules define the shapes of outputs, and the order of parameters; `known`
    are ops that ONNX Runtime accepts without a schema.
    """
    loaded = load_model(path, tuple(only), _OutputTypes(ops, rules))
    raw = reading.read_proto(path)
    undefined = [op for op in loaded.ops if loaded.model.function(op) is None]
    if only:  # a built-in op that a package implements needs no schema
        undefined = [op for op in undefined if is_custom(op, loaded.model)]
    without = [op for op in undefined if op not in known]
    uses = _uses(loaded.model, undefined)
    notes = [f"{op} is defined by the model itself: this is kept" for op in loaded.ops if loaded.model.function(op)]
    opset = loaded.model.opsets.get("", _NEWEST_OPSET)
    added = reading.onnx_module().ModelProto()  # protobuf merges it with the model to which it is appended
    added.functions.extend(_function(op, uses[op], opset, notes) for op in without)
    if rows := _missing_types(raw, [use for op in undefined for use in uses[op]]):
        added.graph.value_info.extend(rows)
    _add_imports(added, raw, without)
    # The provider passes up to three attributes in reverse order, more in another order (measured: 2.3.0).
    order = {op.name: tuple(param.name for param in reversed(op.params)) for op in ops if len(op.params) > 1}
    return Schemas(
        loaded.model,
        tuple(undefined),
        tuple(without),
        added.SerializeToString(deterministic=True),
        (*loaded.notes, *notes),
        tuple(dict.fromkeys(_external(raw.graph))),
        order,
        _reorder(raw, order),
        shared=bool(without or raw.functions) and any(_split(body) for body in _bodies(raw)),
    )


def _uses(model: OnnxModel, ops: Sequence[OpName]) -> Mapping[OpName, list[_Use]]:
    uses: dict[OpName, list[_Use]] = defaultdict(list)
    for node, scopes in walk(model.graph):
        if node.op in ops:
            types = (tuple(type_in(name, scopes) for name in names) for names in (node.inputs, node.outputs))
            uses[node.op].append(_Use(node, *types))
    return uses


def for_packages(
    path: Path, packages: Sequence[Package], rules: Path | None = None, *, known: Sequence[OpName] = ()
) -> Schemas:
    """Schemas for the ops of packages in a model, with shapes from their configs and rules."""
    without_config = next((package for package in packages if package.built is None or not package.built.configs), None)
    if rules is not None and without_config is not None:
        raise UsageError(
            f"{rules} needs the config of the op, and {without_config.library.file} is only a library",
            hint="give the folder of the package",
        )
    ops = [op for package in packages for op in package.models]
    return schemas_of(path, [op for package in packages for op in package.ops], ops=ops, rules=rules, known=known)


def without_shape(found: Schemas) -> list[str]:
    """A sentence for each output of a custom node without a known shape."""
    return [
        f"the shape of tensor `{name}`, an output of node `{node.name or name}` of op {node.op.type}, is unknown"
        for node, scopes in walk(found.model.graph)
        if node.op in found.custom
        for name in node.outputs
        if name and type_in(name, scopes).shape is None
    ]


def add_schemas(
    path: Path, out: Path, only: Sequence[str] = (), *, ops: Sequence[Op] = (), rules: Path | None = None
) -> Schemas:
    """Write a model with schemas for its custom ops; its weights are copied unchanged."""
    schemas = schemas_of(path, only, ops=ops, rules=rules)
    if out.exists() and out.samefile(path):
        raise UsageError(f"{out} is the model itself", hint="choose another name")
    if schemas.external and out.resolve().parent != path.resolve().parent:
        raise UsageError(
            f"{path} has data in files beside it, which would be missing beside {out}",
            hint=f"write it to the same folder: -o {path.resolve().parent / out.name}",
        )
    try:
        out.write_bytes(schemas.of(path))
    except OSError as fault:
        raise UsageError(f"{out} cannot be written: {fault.strerror}", hint="give another -o") from fault
    return schemas


def library_of(ops: Sequence[Op], domain: str) -> bytes:
    """A model without nodes that has a function for each op of a config, for `model.functions.extend(…)`."""
    onnx = reading.onnx_module()
    helper = reading.onnx_module("helper")
    functions = []
    for op in ops:
        inputs, outputs = ([tensor.name for tensor in tensors] for tensors in (op.inputs, op.outputs))
        nodes = [node for name in outputs for node in _like(helper, inputs[0], name, op.name)] if inputs else []
        attributes, opsets = [param.name for param in op.params], [helper.make_opsetid("", _NEWEST_OPSET)]
        functions.append(helper.make_function(domain, op.name, inputs, outputs, nodes, opsets, attributes))
    graph = helper.make_graph([], "schemas", [], [])
    imports = [helper.make_opsetid("", _NEWEST_OPSET), helper.make_opsetid(domain, 1)]
    made = helper.make_model(graph, functions=functions, opset_imports=imports, producer_name="udogen")
    made.ir_version = max(_FUNCTIONS_SINCE, min(made.ir_version, onnx.IR_VERSION, 10))
    data: bytes = made.SerializeToString(deterministic=True)
    return data


# --- functions --------------------------------------------------------------------------------------


def _function(op: OpName, uses: Sequence[_Use], opset: int, notes: list[str]) -> Any:
    helper = reading.onnx_module("helper")
    inputs = [f"in{index}" for index in range(max(len(use.node.inputs) for use in uses))]
    outputs = [f"out{index}" for index in range(max(len(use.node.outputs) for use in uses))]
    if not inputs:
        raise UsageError(f"op {op} has no inputs, from which its types follow", hint="give it a constant input")
    nodes = []
    for index, name in enumerate(outputs):
        having = [use for use in uses if index < len(use.outputs)]
        pairs = [(use.inputs[0] if use.inputs else UNKNOWN, use.outputs[index]) for use in having]
        if any(out is UNKNOWN for _, out in pairs) and _alike(pairs):
            notes.append(f"output {index} of {op}: assumed to have the type and shape of its first input")
        nodes += _output(helper, inputs[0], name, op, pairs)
    attributes = sorted({attribute.name for use in uses for attribute in use.node.attributes})
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_function(op.domain, op.type, inputs, outputs, nodes, opsets, attributes)


def _alike(pairs: Sequence[tuple[ValueType, ValueType]]) -> bool:
    """Whether the first input has the type and shape of the output, as far as they are known."""
    return all(out.dtype in ("", given.dtype) and out.shape in (None, given.shape) for given, out in pairs)


def _output(helper: Any, given: str, name: str, op: OpName, pairs: Sequence[tuple[ValueType, ValueType]]) -> list[Any]:
    """The nodes for one output, from the types of (first input, output) of each use."""
    if _alike(pairs):
        return _like(helper, given, name, op.type)
    return _declared(helper, given, name, op, {out.dtype or first.dtype or _UNKNOWN_DTYPE for first, out in pairs})


def _like(helper: Any, given: str, out: str, op: str) -> list[Any]:
    """Nodes that give an output the input's type and shape; executing them always fails: the index is too large."""
    index = f"{out}_index"
    tensor = helper.make_tensor(index, 7, [1, 1], [2**31 - 1])  # 7: INT64
    return [
        helper.make_node("Constant", [], [index], value=tensor),
        helper.make_node("ScatterND", [given, index, given], [out], name=f"{op}_{MARK}"),
    ]


def _declared(helper: Any, given: str, out: str, op: OpName, dtypes: set[str]) -> list[Any]:
    """Nodes that give an output a type; only the model declares its shape.  Executing them fails: a size of -1."""
    if len(dtypes) > 1:
        raise UsageError(
            f"op {op} has outputs of several types: {', '.join(sorted(dtypes))}",
            hint="give the op a different name for each type: a schema has one",
        )
    number = reading.onnx_module().TensorProto.DataType.Value(dtypes.pop())
    minus = f"{out}_minus"
    return [
        helper.make_node("Constant", [], [minus], value=helper.make_tensor(minus, 7, [1], [-1])),
        helper.make_node("NonZero", [given], [f"{out}_places"]),
        helper.make_node("Reshape", [f"{out}_places", minus], [f"{out}_flat"]),
        helper.make_node("Concat", [f"{out}_flat", minus], [f"{out}_shape"], axis=0),
        helper.make_node(
            "ConstantOfShape",
            [f"{out}_shape"],
            [out],
            name=f"{op.type}_{MARK}",
            value=helper.make_tensor("value", number, [1], [0]),
        ),
    ]


def _missing_types(raw: Any, uses: Sequence[_Use]) -> list[Any]:
    """Inferred types of outputs that the file does not declare, as value_info of its graph."""
    helper, onnx = reading.onnx_module("helper"), reading.onnx_module()
    declared = {row.name for row in (*raw.graph.value_info, *raw.graph.output) if row.type.HasField("tensor_type")}
    top = {name for node in raw.graph.node for name in node.output}
    rows = []
    for use in uses:
        for name, found in zip(use.node.outputs, use.outputs, strict=True):
            if name and name in top and name not in declared and found.complete:
                number = onnx.TensorProto.DataType.Value(found.dtype)
                rows.append(helper.make_tensor_value_info(name, number, list(found.shape or ())))
    return rows


def _external(graph: Any) -> Iterator[str]:
    for body in reading.bodies_of(graph):
        for tensor in body.initializer:
            if tensor.data_location == 1:
                yield next((row.value for row in tensor.external_data if row.key == "location"), "")


def _add_imports(added: Any, raw: Any, ops: Sequence[OpName]) -> None:
    """Add the domains of these ops, and an IR version that supports functions."""
    helper = reading.onnx_module("helper")
    imported = {row.domain for row in raw.opset_import}
    domains = dict.fromkeys(op.domain for op in ops if op.domain not in imported)
    added.opset_import.extend(helper.make_opsetid(domain, 1) for domain in domains)
    if ops and raw.ir_version < _FUNCTIONS_SINCE:
        added.ir_version = _FUNCTIONS_SINCE


# --- what the provider needs of a model ---------------------------------------------------------------


def _bodies(model: Any) -> Iterator[Any]:
    """The graph and the functions of a model, and the graphs inside of their nodes."""
    for function in (model.graph, *model.functions):
        yield from reading.bodies_of(function)


def _reorder(model: Any, order: Mapping[str, Sequence[str]]) -> bool:
    """Put the attributes of nodes into this order, others before them; whether a node has changed."""
    changed = False
    for node in (node for body in _bodies(model) for node in body.node if node.op_type in order):
        places = {name: place for place, name in enumerate(order[node.op_type])}
        before = [type(attribute).FromString(attribute.SerializeToString()) for attribute in node.attribute]
        after = sorted(before, key=lambda each: places.get(each.name, -1))
        if after != before and not any(reading.graphs_of(node)):
            del node.attribute[:]
            node.attribute.extend(after)
            changed = True
    return changed


def _split(body: Any) -> bool:
    """Copy each DequantizeLinear of a graph for every input but the first that reads it; whether there was one.

    Beside a model-local function the provider ends the process if nodes of QNN share one: the function's nodes are not
    inlined when it counts the nodes that it could take (2.3.0).
    """
    made = {name: node for node in body.node if node.op_type == "DequantizeLinear" for name in node.output}
    known = {name for node in body.node for name in (*node.input, *node.output, node.name)}
    read: set[str] = set()
    nodes = []
    for node in body.node:
        for at, name in enumerate(node.input):
            if name in read:
                copy = type(node)()
                copy.CopyFrom(made[name])
                own = next(f"{name}_{number}" for number in count(2) if f"{name}_{number}" not in known)
                known.add(own)
                copy.name = copy.output[0] = node.input[at] = own
                nodes.append(copy)
            elif name in made:
                read.add(name)
        nodes.append(node)
    if changed := len(nodes) > len(body.node):
        del body.node[:]
        body.node.extend(nodes)
    return changed


# --- shapes --------------------------------------------------------------------------------------------

SHAPE_HINT = (
    'define it in the config (<Constraint Type="Shape">Same shape as the input</Constraint>), in Python (`--rules '
    "FILE.py`, `rules=`), or in the model, as value_info"
)
_MOST_DATA = 4096  # elements of a constant: larger ones are data, not shapes
_FROM_ONNX = {row.onnx: row.qnn for row in BY_ONNX.values()}
_TO_ONNX = {row.qnn: row.onnx for row in BY_ONNX.values() if not row.why}


class _OutputTypes:
    """Types and shapes of the outputs of nodes, as a config or a rule defines them."""

    def __init__(self, ops: Sequence[Op], rules: Path | None) -> None:
        self._rules = load_shape_rules(rules, ops) if rules else ShapeRules(Path(), {op.name: op for op in ops}, {})

    def __call__(self, node: OnnxNode, scopes: tuple[OnnxGraph, ...], type_of: TypeOf) -> Sequence[ValueType]:
        op = self._rules.ops.get(node.op.type)
        if op is None:
            return ()
        inputs = _inputs(op, node, scopes, type_of)
        if inputs is None:
            return ()
        try:
            inferred = self._rules.infer(op.name, inputs, _params(op, node), outputs=_counts(op, len(node.outputs)))
        except UdogenError as fault:
            if op.name in self._rules.functions or f"{op.name}_dtypes" in self._rules.functions:
                where = f"node `{node.name or node.outputs[0]}` of op {op.name}"
                raise UsageError(f"{where}: {fault.message}", details=fault.details, hint=fault.hint) from fault
            return ()  # the node differs from the config; `check_model` reports how
        first = type_of(node.inputs[0]).dtype if node.inputs else ""
        types = []
        for tensor in op.outputs:
            names = [f"{tensor.name}.{number}" for number in range(len(inferred))] if tensor.repeated else [tensor.name]
            for name in names:
                if name in inferred:
                    dtype = _onnx_dtype(inferred[name].dtype, tensor.datatypes, first)
                    types.append(ValueType(dtype, inferred[name].shape))
        return [value if value.complete else UNKNOWN for value in types]


def _inputs(
    op: Op, node: OnnxNode, scopes: tuple[OnnxGraph, ...], type_of: TypeOf
) -> Mapping[str, Given | Sequence[Given]] | None:
    """The inputs of the node by their names in the config; None if a shape is unknown or not fixed."""
    spare = len(node.inputs) - len(op.inputs) + 1  # the tensors of a repeated input
    inputs: dict[str, Given | Sequence[Given]] = {}
    at = 0
    for tensor in op.inputs:
        names = node.inputs[at : at + (max(spare, 0) if tensor.repeated else 1)]
        at += len(names)
        given = [_given(name, scopes, type_of(name)) for name in names if name]
        known = [value for value in given if value is not None]
        if len(known) < len(given):
            return None
        if known:
            inputs[tensor.name] = known if tensor.repeated else known[0]
    return inputs


def _given(name: str, scopes: tuple[OnnxGraph, ...], known: ValueType) -> Given | None:
    if known.shape is None or known.dtype not in _FROM_ONNX:
        return None
    extents = [size for size in known.shape if isinstance(size, int)]
    if len(extents) < len(known.shape):
        return None
    constant = next((graph.constants[name] for graph in reversed(scopes) if name in graph.constants), None)
    data = None
    if constant is not None and constant.array is not None and constant.array.size <= _MOST_DATA:
        data = constant.array.ravel().tolist()
    return Given(tuple(extents), _FROM_ONNX[known.dtype], data)


def _params(op: Op, node: OnnxNode) -> dict[str, object]:
    names = {param.name for param in op.params}
    return {attribute.name: attribute.value for attribute in node.attributes if attribute.name in names}


def _counts(op: Op, number: int) -> dict[str, int]:
    """The number of outputs that the node has for each output of the config."""
    spare = number - len(op.outputs) + 1
    return {output.name: spare if output.repeated else int(at < number) for at, output in enumerate(op.outputs)}


def _onnx_dtype(inferred: str | None, allowed: Sequence[DataType], first: str) -> str:
    """The ONNX element type of an output.

    It is that of the first input if the config does not define it, or if the type is quantized: between
    DequantizeLinear and QuantizeLinear a model has floats.
    """
    if inferred in _TO_ONNX:
        return _TO_ONNX[inferred]
    fits = any(row.quantized or row.name in ("BACKEND_SPECIFIC", _FROM_ONNX.get(first)) for row in allowed)
    return first if fits or not allowed else ""
