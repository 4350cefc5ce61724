"""A subgraph -> the kernel, the config, the reference, the test file and the model with the new op."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.errors import UsageError
from udogen.onnx.fuse.ops import Call, call_of, shortest, title
from udogen.onnx.fuse.subgraph import SourceModel, Subgraph
from udogen.onnx.models.model import STANDARD
from udogen.onnx.models.reading import graphs_of, inferred, onnx_module
from udogen.opdef.datatypes import BY_NAME
from udogen.opdef.model import (
    Constraint,
    Op,
    OpPackage,
    OpSupplement,
    Passage,
    Rank,
    Supplement,
    Tensor,
    TensorSupplement,
)
from udogen.opdef.names import distinct, identifier

if TYPE_CHECKING:
    from udogen.onnx.models.model import Array

DOMAIN = "udogen.fused"
# dtype -> data type of a tensor in the op; tensors of other dtypes are cast before and after it.
_PORTS = {"float32": "FLOAT_32", "int32": "INT_32", "uint8": "UINT_8"}
_FLOATS = ("FLOAT_32", "FLOAT_16", "UFIXED_POINT_8", "UFIXED_POINT_16")
_SHORT = ("int8", "uint8", "int16", "uint16")  # integers that may overflow: kernels calculate them in 32 bits
_WIDTH = 110
_MOST_AXES = 4  # on HTP
_TAKEN = frozenset({"onnx", "Whole", "hl", "min", "max", "float", *keyword.kwlist})


@dataclass(frozen=True)
class OpPort:
    """An input or an output of the op."""

    name: str  # in the op
    value: str  # in the model
    dtype: str  # of numpy, in the op
    shape: tuple[int, ...]  # in the op, where a value without axes has one axis
    static: bool = False


@dataclass(frozen=True)
class FusedOp:
    """An op made of a subgraph."""

    name: str
    source: str  # the model's file
    part: Subgraph
    inputs: tuple[OpPort, ...]
    outputs: tuple[OpPort, ...]
    flat: bool  # elementwise, regardless of the shape
    calls: tuple[Call, ...]
    params: Mapping[str, str] = field(default_factory=dict)  # constants that are parameters of the op -> their names

    @property
    def literals(self) -> frozenset[str]:
        """Constants of one number, which are written into the kernel."""
        given = {port.value for port in self.inputs}
        return frozenset(
            name for call in self.calls for name in call.inputs if name in self.part.static and name not in given
        )

    def array(self, port: OpPort) -> Array:
        """Its value in the model, with its type and shape in the op."""
        return np.ascontiguousarray(self.part.values[port.value].astype(port.dtype)).reshape(port.shape)

    def name_in_model(self, port: OpPort) -> str:
        """The name of its value in the new model: of a cast or reshaped value if types or shapes differ."""
        array = self.part.values[port.value]
        is_same = array.dtype == port.dtype and array.shape == port.shape
        return port.value if is_same else f"{self.name}/{port.name}"


def fused_op(name: str, source: str, part: Subgraph) -> FusedOp:
    """The op with its ports; raises if a node or a tensor cannot be in an op."""
    calls = tuple(call_of(node, part.opset, part.values, part.static) for node in part.nodes)
    tensors = {tensor for call in calls for tensor in call.inputs if tensor}
    inputs = [tensor for tensor in part.inputs if tensor in tensors and not _is_literal(part, tensor)]
    if not any(tensor not in part.static for tensor in inputs):
        raise UsageError(
            "these nodes take nothing that the model calculates", hint="choose nodes that depend on an input"
        )
    names = iter(distinct(_name(tensor) for tensor in (*inputs, *part.outputs)))
    ports = [_port(part, next(names), value) for value in inputs]
    outputs = [_port(part, next(names), value) for value in part.outputs]
    return FusedOp(name, source, part, tuple(ports), tuple(outputs), _is_flat(part, calls, inputs), calls)


def _name(value: str) -> str:
    made = identifier(value)
    return f"{made}_" if made in _TAKEN else made


def _is_literal(part: Subgraph, name: str) -> bool:
    return name in part.static and part.values[name].size == 1


def _port(part: Subgraph, name: str, value: str) -> OpPort:
    array = part.values[value]
    if array.ndim > _MOST_AXES:
        maker = next((title(node) for node in part.nodes if value in node.output), f"value `{value}`")
        raise UsageError(
            f"{maker}: `{value}` has {array.ndim} axes; the op takes and returns tensors of at most {_MOST_AXES}",
            hint="begin or end the op at another node",
        )
    kind = "float32" if array.dtype.kind == "f" else str(array.dtype) if str(array.dtype) in _PORTS else "int32"
    return OpPort(name, value, kind, array.shape or (1,), value in part.static)


def _is_flat(part: Subgraph, calls: Sequence[Call], inputs: Sequence[str]) -> bool:
    """Whether each element depends only on those at the same index."""
    shapes = {part.values[name].shape for name in (*inputs, *part.outputs)}
    return len(shapes) == 1 and not any(call.row.whole for call in calls)


# --- the kernel -------------------------------------------------------------------------------------------------------


def kernel_text(op: FusedOp) -> str:
    """The kernel: one line for each node."""
    names = _local_names(op)
    ports = [*op.inputs, *op.outputs]
    views = {port.name: "" if op.flat else f": Whole({len(port.shape)})" for port in ports}
    count = f"{len(op.part.nodes)} nodes" if len(op.part.nodes) > 1 else "One node"
    imports = (
        "from udogen.onnx import kernels as onnx"
        if op.flat
        else "from udogen.kernels import Whole\nfrom udogen.onnx import kernels as onnx"
    )
    lines = [f'"""{count} of {_plain(op.source)}, as one op."""', "", imports, "", ""]
    parameters = [*(name + view for name, view in views.items()), *dict.fromkeys(op.params.values())]
    lines.append(f"def {op.name}({', '.join(parameters)}):")
    lines += [f"    {names[port.value]} = {_input_text(op, port)}" for port in op.inputs]
    lines += [_node_text(op, *row, names) for row in zip(op.part.nodes, op.calls, strict=True)]
    lines += [f"    onnx.store({port.name}, {names[port.value]})" for port in op.outputs]
    return "\n".join(map(_wrapped, lines)) + "\n"


def _input_text(op: FusedOp, port: OpPort) -> str:
    """An input as the functions of `udogen.onnx.kernels` take it."""
    known = op.part.values[port.value]
    shape = "".join(f", {extent}" for extent in known.shape)
    made = f"onnx.flat({port.name})" if op.flat else f"onnx.tensor({port.name}{shape})"
    return f'onnx.Cast({made}, to="BOOL")' if known.dtype == np.bool_ else made


def _node_text(op: FusedOp, node: Any, call: Call, names: Mapping[str, str]) -> str:
    """The line of a node."""
    targets = ", ".join(names[tensor] if tensor else "_" for tensor in node.output)
    if call.row.type == "Split" and len(node.output) == 1:
        targets = f"({targets},)"
    comment = f"  # {_plain(node.name)}" if node.name else ""
    return f"    {targets} = {_call_text(op, node, call, names)}{comment}"


def _wrapped(line: str) -> str:
    """A line, wrapped after commas."""
    rows = [""]
    for part in re.split(r"(?<=, )", line):
        if rows[-1] and len(rows[-1]) + len(part) > _WIDTH:
            rows[-1] = rows[-1].rstrip()
            rows.append("        ")
        rows[-1] += part
    return "\n".join(rows)


def _plain(text: str) -> str:
    """A text of a model, made valid in a comment or a docstring."""
    return "".join(letter if letter.isprintable() and letter not in '"\\' else "?" for letter in text)


def _local_names(op: FusedOp) -> dict[str, str]:
    """A Python name for each value of the subgraph."""
    names = {port.value: port.name for port in op.inputs}
    taken = {*names.values(), *(port.name for port in op.outputs), *op.params.values(), *_TAKEN}
    for node in op.part.nodes:
        for value in node.output:
            if value and value not in names:
                name = identifier(value)
                while name in taken:
                    name += "_"
                names[value] = name
                taken.add(name)
    return names


def _call_text(op: FusedOp, node: Any, call: Call, names: Mapping[str, str]) -> str:
    literals = op.literals
    rank = max((op.part.values[name].ndim for name in call.inputs if name and name not in literals), default=0)
    given = []
    for name in call.inputs:
        if not name:
            given.append("None")
        elif name in op.params:
            given.append(f"onnx.constant({op.params[name]})")
        elif name in literals:
            given.append(_literal(op.part.values[name], rank if not call.row.whole else 0))
        else:
            given.append(names[name])
    given += [f"{key}={_text(value)}" for key, value in call.keywords.items()]
    text = f"onnx.{call.row.type}({', '.join(given)})"
    to = op.part.values[next(name for name in node.output if name)].dtype.name
    return f'onnx.Cast({text}, to="{to.upper()}")' if call.row.overflows and to in _SHORT else text


def _literal(array: Array, rank: int) -> str:
    """A constant of one number; its shape matters if the other tensors have fewer axes."""
    number = _text(array.reshape(-1)[0].item() if array.dtype.kind != "f" else shortest(float(array.reshape(-1)[0])))
    shape = "".join(f", {extent}" for extent in array.shape)
    return number if array.ndim <= rank else f"onnx.constant({number}{shape})"


def _text(value: object) -> str:
    """A value as a Python literal."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value)


# --- the config -------------------------------------------------------------------------------------------------------


def package_of(op: FusedOp) -> OpPackage:
    """The package of the op, for CPU and HTP."""

    def tensor(port: OpPort, role: str) -> Tensor:
        floats = port.dtype == "float32"
        shape = f"As in the model: {list(port.shape)}"
        return Tensor(
            name=port.name,
            role=role,
            datatypes=(BY_NAME["BACKEND_SPECIFIC" if floats else _PORTS[port.dtype]],),
            rank=Rank() if op.flat else Rank((len(port.shape),)),
            constraints=(Constraint(0, "Shape", shape),) if not op.flat else (),
        )

    ports = [(port, "input") for port in op.inputs] + [(port, "output") for port in op.outputs]
    made = Op(
        name=op.name,
        inputs=tuple(tensor(port, "input") for port in op.inputs),
        outputs=tuple(tensor(port, "output") for port in op.outputs),
        description=(Passage(f"{len(op.part.nodes)} nodes of {_plain(op.source)} as one op."),),
        backends=("CPU", "HTP"),
    )
    types = {"CPU": _FLOATS[:1], "HTP": _FLOATS}
    supplements = []
    for backend, names in types.items():
        rows = tuple(
            TensorSupplement(port.name, role, tuple(BY_NAME[name] for name in names))
            for port, role in ports
            if port.dtype == "float32"
        )
        if rows:
            supplements.append(Supplement(backend, (OpSupplement(op.name, rows),)))
    return OpPackage(
        name=f"{op.name}Package", ops=(made,), domain=DOMAIN, version="1.0", supplements=tuple(supplements)
    )


# --- the reference and its cases --------------------------------------------------------------------------------------


def reference_model(op: FusedOp, source: SourceModel) -> bytes:
    """The nodes, unchanged, as a separate model that takes the op's inputs."""
    onnx, helper, part = source.onnx, source.onnx.helper, op.part
    ports = {port.value for port in op.inputs}
    static = dict.fromkeys(name for node in part.nodes for name in node.input if name in part.static)
    constants = [name for name in static if name not in ports]
    nodes = []
    for port in op.inputs:
        nodes += _as_in_model(port.name, f"{port.name}/in", part.values[port.value], port)
    nodes += _own_nodes(op, onnx, constants)
    for port in op.outputs:
        nodes += _as_in_op(f"{port.value}/own", port.name, part.values[port.value], port)
    graph = helper.make_graph(
        nodes,
        op.name,
        [_info(port.name, np.dtype(port.dtype), port.shape) for port in op.inputs],
        [_info(port.name, np.dtype(port.dtype), port.shape) for port in op.outputs],
        [onnx.numpy_helper.from_array(part.values[name], name) for name in constants],
    )
    opsets = [row for row in source.model.opset_import if row.domain in STANDARD]
    made = helper.make_model(graph, opset_imports=opsets, producer_name="udogen")
    made.ir_version = max(source.model.ir_version, 4)
    data: bytes = made.SerializeToString(deterministic=True)
    return data


def _own_nodes(op: FusedOp, onnx: Any, constants: Sequence[str]) -> list[Any]:
    """The op's nodes; all values except constants get new names."""
    nodes = []
    renamed = {port.value: f"{port.name}/in" for port in op.inputs} | {name: name for name in ("", *constants)}
    for node in op.part.nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for side in (copy.input, copy.output):
            for place, name in enumerate(side):
                side[place] = renamed.get(name, f"{name}/own")
        nodes.append(copy)
    return nodes


def _as_in_model(before: str, after: str, array: Array, port: OpPort) -> list[Any]:
    """Nodes that convert a value of the op to the value of the model."""
    return _converted(before, after, array.dtype, np.dtype(port.dtype), () if array.shape != port.shape else None)


def _as_in_op(before: str, after: str, array: Array, port: OpPort) -> list[Any]:
    """Nodes that convert a value of the model to the value of the op."""
    return _converted(
        before, after, np.dtype(port.dtype), array.dtype, port.shape if array.shape != port.shape else None
    )


def _converted(before: str, after: str, to: Any, given: Any, shape: Sequence[int] | None) -> list[Any]:
    """Nodes that give a value another name, and another type and shape where it needs them."""
    helper, numpy_helper = onnx_module("helper"), onnx_module("numpy_helper")
    nodes = []
    if shape is not None:
        numbers = numpy_helper.from_array(np.array(shape, np.int64))
        reshaped = after if to == given else f"{after}/reshaped"
        nodes.append(helper.make_node("Constant", [], [f"{after}/shape"], value=numbers))
        nodes.append(helper.make_node("Reshape", [before, f"{after}/shape"], [reshaped]))
        before = reshaped
    if to != given:
        nodes.append(helper.make_node("Cast", [before], [after], to=helper.np_dtype_to_tensor_dtype(np.dtype(to))))
    return nodes or [helper.make_node("Identity", [before], [after])]


def _info(name: str, dtype: Any, shape: Sequence[int]) -> Any:
    helper = onnx_module("helper")
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape))


VALUES = "values"  # the folder of the op's inputs in the model


def tests_text(op: FusedOp, config: str) -> str:
    """The test file: the op with its inputs in the model."""
    shapes = ", ".join(f'{port.name} = "{"x".join(map(str, port.shape))}"' for port in (*op.inputs, *op.outputs))
    files = ", ".join(f'{port.name} = "{VALUES}/{port.name}.npy"' for port in op.inputs)
    return f"""# What `udogen test` checks of {op.name}: the reference is ONNX Runtime's CPU.
config = "{config}"
kernels = "kernels"

[[op]]
name = "{op.name}"
reference = "onnx:{op.name}.reference.onnx"
tolerance = {{ FLOAT_32 = 1e-4 }}
dtype = "FLOAT_32"

[[op.case]]
name = "as in the model"
shape = {{ {shapes} }}
values = {{ {files} }}
"""


def arrays_of(op: FusedOp) -> dict[str, Array]:
    """The op's inputs in the model, by port."""
    return {port.name: op.array(port) for port in op.inputs}


# --- the model --------------------------------------------------------------------------------------------------------


def rewritten(op: FusedOp, source: SourceModel, feeds: Mapping[str, Array]) -> bytes:
    """The model with the new op in place of the nodes, without what is no longer needed.

    Constants that nodes of the model make become initializers: QNN accepts weights only in this form.
    """
    onnx, helper = source.onnx, source.onnx.helper
    inside = {id(node) for node in op.part.nodes}
    rest = [node for node in source.nodes if id(node) not in inside and not source.is_static(node)]
    names = {port: op.name_in_model(port) for port in (*op.inputs, *op.outputs)}
    inputs, outputs = ([names[port] for port in ports] for ports in (op.inputs, op.outputs))
    custom = helper.make_node(op.name, inputs, outputs, name=op.name, domain=DOMAIN)
    made = onnx.ModelProto()
    made.CopyFrom(inferred(source.model, []))
    cast = {names[port]: op.array(port) for port in op.inputs if port.static and names[port] != port.value}
    constants = cast | source.run(feeds, _folded([*rest, custom], source))
    made.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    _set_nodes(made, _sorted([*rest, custom, *_casts(op, names)]))
    _set_infos(made, [(name, np.dtype(port.dtype), port.shape) for port, name in names.items()])
    if all(row.domain != DOMAIN for row in made.opset_import):
        made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    data: bytes = made.SerializeToString(deterministic=True)
    return data


def _folded(nodes: Sequence[Any], source: SourceModel) -> list[str]:
    """Values that are the same in every run and that other nodes make for these nodes, or as outputs of the model."""
    needed = {name for node in nodes for name in _all_taken(node)} | {tensor.name for tensor in source.graph.output}
    return [name for name in sorted(needed & source.static) if name in source.makers]


def _casts(op: FusedOp, names: Mapping[OpPort, str]) -> Iterator[Any]:
    """The nodes between values of the model and ports of other types."""
    for port, name in names.items():
        if name != port.value and port in op.outputs:
            yield from _as_in_model(name, port.value, op.part.values[port.value], port)
        elif name != port.value and not port.static:
            yield from _as_in_op(port.value, name, op.part.values[port.value], port)


def _sorted(nodes: Sequence[Any]) -> list[Any]:
    """The nodes, each after those that make its inputs; otherwise in the same order."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    ordered: list[Any] = []
    done = [False] * len(nodes)
    for start in range(len(nodes)):
        todo = [start]
        while todo:
            index = todo[-1]
            needs = [makers[name] for name in _all_taken(nodes[index]) if name in makers and not done[makers[name]]]
            if needs and not done[index]:
                todo.append(needs[0])
                continue
            todo.pop()
            if not done[index]:
                done[index] = True
                ordered.append(nodes[index])
    return ordered


def _all_taken(node: Any) -> set[str]:
    """All names that occur in a node and in graphs in it."""
    return {*node.input} | {name for graph in graphs_of(node) for each in graph.node for name in _all_taken(each)}


def _set_nodes(model: Any, nodes: Sequence[Any]) -> None:
    """Set the nodes of a model, without nodes and constants that are not needed."""
    graph = model.graph
    needed = {tensor.name for tensor in graph.output}
    kept = []
    for node in reversed(nodes):
        if needed & {*node.output}:
            kept.append(type(node).FromString(node.SerializeToString()))
            needed |= _all_taken(node) | {tensor.name for inner in graphs_of(node) for tensor in inner.output}
    del graph.node[:]
    graph.node.extend(reversed(kept))
    constants = [tensor for tensor in graph.initializer if tensor.name in needed]
    gone = {tensor.name for tensor in graph.initializer} - needed
    copies = [type(constant).FromString(constant.SerializeToString()) for constant in constants]
    del graph.initializer[:]
    graph.initializer.extend(copies)
    rows = [tensor for tensor in graph.input if tensor.name not in gone]
    copies = [type(row).FromString(row.SerializeToString()) for row in rows]
    del graph.input[:]
    graph.input.extend(copies)


def _set_infos(model: Any, infos: Sequence[tuple[str, Any, tuple[int, ...]]]) -> None:
    """Set the types and shapes of values: those of the model that remain, and those of the op."""
    graph = model.graph
    there = {name for node in graph.node for name in node.output}
    declared = {tensor.name for tensor in (*graph.input, *graph.output, *graph.initializer)}
    fresh = {name: _info(name, dtype, shape) for name, dtype, shape in infos}
    rows = [info for info in graph.value_info if info.name in there and info.name not in fresh]
    rows += [row for name, row in fresh.items() if name not in declared]
    copies = [type(row).FromString(row.SerializeToString()) for row in rows]
    del graph.value_info[:]
    graph.value_info.extend(copies)
