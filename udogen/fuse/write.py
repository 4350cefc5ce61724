"""A subgraph -> the kernel, the config, the reference, the test file and the model with the new op."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.errors import UsageError
from udogen.fuse.ops import Call, call_of, shortest, title
from udogen.fuse.subgraph import SourceModel, Subgraph
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
from udogen.opdef.onnx.reading import graphs_of, inferred, onnx_module

if TYPE_CHECKING:
    from udogen.opdef.onnx.model import Array

DOMAIN = "udogen.fused"
# What a tensor of a dtype is in the op; others are cast before and after it.
_PORTS = {"float32": "FLOAT_32", "int32": "INT_32", "uint8": "UINT_8"}
_FLOATS = ("FLOAT_32", "FLOAT_16", "UFIXED_POINT_8", "UFIXED_POINT_16")
_WIDTH = 110
_MOST_AXES = 4  # of HTP
_TAKEN = frozenset({"onnx", "Whole", "hl", "min", "max", "float", *keyword.kwlist})


@dataclass(frozen=True)
class OpPort:
    """An input or an output of the op."""

    name: str  # in the op
    value: str  # in the model
    dtype: str  # of numpy, in the op
    shape: tuple[int, ...]
    static: bool = False


@dataclass(frozen=True)
class FusedOp:
    """An op made of a subgraph."""

    name: str
    source: str  # the model's file
    part: Subgraph
    inputs: tuple[OpPort, ...]
    outputs: tuple[OpPort, ...]
    flat: bool  # each element for itself, whatever the shape
    calls: tuple[Call, ...]
    params: Mapping[str, str] = field(default_factory=dict)  # constants that are parameters of the op -> their names

    @property
    def literals(self) -> frozenset[str]:
        """Constants of one number, which are written into the kernel."""
        given = {port.value for port in self.inputs}
        return frozenset(
            name for call in self.calls for name in call.inputs if name in self.part.static and name not in given
        )


def fused_op(name: str, source: str, part: Subgraph) -> FusedOp:
    """The op with its ports; raises where a node or a tensor has no place in one."""
    calls = tuple(call_of(node, part.opset, part.values, part.static) for node in part.nodes)
    tensors = {each for call in calls for each in call.inputs if each}
    inputs = [each for each in part.inputs if each in tensors and not _is_literal(part, each)]
    if not any(each not in part.static for each in inputs):
        raise UsageError(
            "these nodes take nothing that the model calculates", hint="choose nodes that depend on an input"
        )
    names = iter(distinct(_name(each) for each in (*inputs, *part.outputs)))
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
    if not 1 <= array.ndim <= _MOST_AXES:
        maker = next((title(node) for node in part.nodes if value in node.output), f"value `{value}`")
        raise UsageError(
            f"{maker}: `{value}` has {array.ndim} axes; the op takes and returns tensors of 1 to {_MOST_AXES}",
            hint="begin or end the op at another node",
        )
    kind = "float32" if array.dtype.kind == "f" else str(array.dtype) if str(array.dtype) in _PORTS else "int32"
    return OpPort(name, value, kind, array.shape, value in part.static)


def _is_flat(part: Subgraph, calls: Sequence[Call], inputs: Sequence[str]) -> bool:
    """Whether each element depends on those in the same place alone."""
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
        "from udogen.kernels import onnx_ops as onnx"
        if op.flat
        else "from udogen.kernels import Whole, onnx_ops as onnx"
    )
    lines = [f'"""{count} of {_plain(op.source)}, as one op."""', "", imports, "", ""]
    parameters = [*(name + view for name, view in views.items()), *dict.fromkeys(op.params.values())]
    lines.append(f"def {op.name}({', '.join(parameters)}):")
    for port in op.inputs:
        shape = "".join(f", {extent}" for extent in port.shape)
        made = f"onnx.flat({port.name})" if op.flat else f"onnx.tensor({port.name}{shape})"
        lines.append(f"    {names[port.value]} = {made}")
    for node, call in zip(op.part.nodes, op.calls, strict=True):
        targets = ", ".join(names[each] if each else "_" for each in node.output)
        comment = f"  # {_plain(node.name)}" if node.name else ""
        lines.append(f"    {targets} = {_call_text(op, node, call, names)}{comment}")
    lines += [f"    onnx.store({port.name}, {names[port.value]})" for port in op.outputs]
    return "\n".join(map(_wrapped, lines)) + "\n"


def _wrapped(line: str) -> str:
    """A line in as many lines as it needs; it is broken behind commas."""
    rows = [""]
    for part in re.split(r"(?<=, )", line):
        if rows[-1] and len(rows[-1]) + len(part) > _WIDTH:
            rows[-1] = rows[-1].rstrip()
            rows.append("        ")
        rows[-1] += part
    return "\n".join(rows)


def _plain(text: str) -> str:
    """A text of a model that can stand in a comment or a docstring."""
    return "".join(each if each.isprintable() and each not in '"\\' else "?" for each in text)


def _local_names(op: FusedOp) -> dict[str, str]:
    """A Python name for each value of the subgraph."""
    found = {port.value: port.name for port in op.inputs}
    taken = {*found.values(), *(port.name for port in op.outputs), *op.params.values(), *_TAKEN}
    for node in op.part.nodes:
        for value in node.output:
            if value and value not in found:
                name = identifier(value)
                while name in taken:
                    name += "_"
                found[value] = name
                taken.add(name)
    return found


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
    return f"onnx.{call.row.type}({', '.join(given)})"


def _literal(array: Array, rank: int) -> str:
    """A constant of one number; its shape matters where the other tensors have fewer axes."""
    number = _text(array.reshape(-1)[0].item() if array.dtype.kind != "f" else shortest(float(array.reshape(-1)[0])))
    shape = "".join(f", {extent}" for extent in array.shape)
    return number if array.ndim <= rank else f"onnx.constant({number}{shape})"


def _text(value: object) -> str:
    """A value as Python has it."""
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
    """The nodes as they are in the model, as a model of their own that takes what the op takes."""
    onnx, helper = source.onnx, source.onnx.helper
    part = op.part
    nodes, constants, inputs, outputs = [], {}, [], []
    given = {port.value: port for port in op.inputs}
    for name in dict.fromkeys(name for node in part.nodes for name in node.input if name in part.static):
        if name not in given:
            constants[name] = part.values[name]
    for port in op.inputs:
        array = part.values[port.value]
        inputs.append(_info(port.name, np.dtype(port.dtype), port.shape))
        nodes.append(_renamed(helper, port.name, f"{port.name}/in", array.dtype, port.dtype))
    renamed = {port.value: f"{port.name}/in" for port in op.inputs}
    for node, call in zip(part.nodes, op.calls, strict=True):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for side in (copy.input, copy.output):
            for place, name in enumerate(side):
                side[place] = renamed.get(name, f"{name}/own" if name and name not in constants else name)
        shapes = [part.values[name].shape if name else () for name in node.input]
        nodes += _plain_nodes(onnx, copy, call, shapes, part.opset)
    for port in op.outputs:
        nodes.append(_renamed(helper, f"{port.value}/own", port.name, np.dtype(port.dtype), ""))
        outputs.append(_info(port.name, np.dtype(port.dtype), port.shape))
    graph = helper.make_graph(
        nodes,
        op.name,
        inputs,
        outputs,
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [row for row in source.model.opset_import if row.domain in ("", "ai.onnx")]
    made = helper.make_model(graph, opset_imports=opsets, producer_name="udogen")
    made.ir_version = max(source.model.ir_version, 4)
    data: bytes = made.SerializeToString(deterministic=True)
    return data


def _plain_nodes(onnx: Any, node: Any, call: Call, shapes: Sequence[tuple[int, ...]], opset: int) -> list[Any]:
    """A node, or what it consists of where ONNX's evaluator lacks its form."""
    helper, kind, rank, options = onnx.helper, node.op_type, len(shapes[0]), call.keywords
    given, made = node.input[0], node.output[0]
    steps = [f"{made}/{number}" for number in range(3)]

    def numbers(name: str, values: Sequence[int]) -> Any:
        return helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(np.array(values, np.int64)))

    def norm(p: object, axes: Sequence[int], result: str) -> list[Any]:
        if opset < 18:
            return [helper.make_node(f"ReduceL{p}", [given], [result], axes=axes)]
        return [numbers(steps[2], axes), helper.make_node(f"ReduceL{p}", [given, steps[2]], [result])]

    if options.get("flat"):  # evaluated as since opset 13
        return [
            helper.make_node("Flatten", [given], steps[:1], axis=options["axis"]),
            helper.make_node(kind, steps[:1], steps[1:2], axis=1),
            numbers(steps[2], shapes[0]),
            helper.make_node("Reshape", steps[1:3], [made]),
        ]
    if kind == "Mean":  # evaluated into the memory of its first input
        largest = max(range(len(shapes)), key=lambda place: math.prod(shapes[place]))
        node.input[0], node.input[largest] = node.input[largest], node.input[0]
    if kind == "LpNormalization" and options.get("p") == 1:  # evaluated without signs
        axis = int(str(options.get("axis", -1)))
        return [*norm(1, [axis], steps[0]), helper.make_node("Div", [given, steps[0]], [made])]
    if kind == "GlobalLpPool":
        return norm(options.get("p", 2), list(range(2, rank)), made)
    if kind == "BatchNormalization" and opset < 14:  # evaluated as in training
        names = [f"{made}/{name}" for name in ("scale", "bias", "mean", "variance")]
        epsilon = onnx.numpy_helper.from_array(np.float32(str(options.get("epsilon", 1e-5))))
        found = [numbers(steps[0], [-1 if axis == 1 else 1 for axis in range(rank)])]
        found += [helper.make_node("Reshape", [node.input[n + 1], steps[0]], [name]) for n, name in enumerate(names)]
        chain: Sequence[tuple[str, list[str], str]] = (
            ("Constant", [], "epsilon"),
            ("Add", [names[3], f"{made}/epsilon"], "moved"),
            ("Sqrt", [f"{made}/moved"], "root"),
            ("Sub", [given, names[2]], "centred"),
            ("Div", [f"{made}/centred", f"{made}/root"], "normalized"),
            ("Mul", [f"{made}/normalized", names[0]], "scaled"),
        )
        for op, inputs, name in chain:
            value = {"value": epsilon} if op == "Constant" else {}
            found.append(helper.make_node(op, inputs, [f"{made}/{name}"], **value))
        return [*found, helper.make_node("Add", [f"{made}/scaled", names[1]], [made])]
    if kind == "DequantizeLinear" and opset < 19:
        axis = int(str(options.get("axis", 1))) % rank if rank else 0
        found, names = [numbers(steps[0], [-1 if each == axis else 1 for each in range(rank)])], []
        for number, name in enumerate(node.input):
            names.append(f"{made}/float{number}")
            along = number > 0 and len(shapes[number]) == 1 and rank > 1
            found.append(helper.make_node("Cast", [name], [f"{names[-1]}/flat"], to=onnx.TensorProto.FLOAT))
            change = ("Reshape", [f"{names[-1]}/flat", steps[0]]) if along else ("Identity", [f"{names[-1]}/flat"])
            found.append(helper.make_node(*change, names[-1:]))
        if len(names) > 2:
            found.append(helper.make_node("Sub", [names[0], names[2]], steps[1:2]))
            names[0] = steps[1]
        return [*found, helper.make_node("Mul", names[:2], [made])]
    return [node]


def _renamed(helper: Any, before: str, after: str, dtype: Any, given: str) -> Any:
    """A node that gives a value another name, and type where it needs one."""
    if str(dtype) == given:
        return helper.make_node("Identity", [before], [after])
    return helper.make_node("Cast", [before], [after], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _info(name: str, dtype: Any, shape: Sequence[int]) -> Any:
    helper = onnx_module("helper")
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape))


VALUES = "values"  # the folder of what the op takes in the model


def tests_text(op: FusedOp, config: str) -> str:
    """The test file: the op with what it takes in the model."""
    shapes = ", ".join(f'{port.name} = "{"x".join(map(str, port.shape))}"' for port in (*op.inputs, *op.outputs))
    files = ", ".join(f'{port.name} = "{VALUES}/{port.name}.npy"' for port in op.inputs)
    return f"""# What `udogen test` checks of {op.name}: the reference is ONNX's own evaluator in numpy.
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
    """What the op takes in the model, by port."""
    return {port.name: np.ascontiguousarray(op.part.values[port.value].astype(port.dtype)) for port in op.inputs}


# --- the model --------------------------------------------------------------------------------------------------------


def rewritten(op: FusedOp, source: SourceModel, feeds: Mapping[str, Array]) -> bytes:
    """The model with the new op where the nodes were; what nothing needs any more is left out.

    Constants that nodes of the model make are initializers in it: QNN takes weights only so.
    """
    onnx, helper = source.onnx, source.onnx.helper
    inside = {id(node) for node in op.part.nodes}
    nodes, constants, infos = [], [], []
    inputs, outputs = [], []
    for port in op.inputs:
        array = op.part.values[port.value]
        if str(array.dtype) == port.dtype:
            inputs.append(port.value)
            infos.append((port.value, array.dtype, port.shape))
            continue
        inputs.append(f"{op.name}/{port.name}")
        infos.append((inputs[-1], np.dtype(port.dtype), port.shape))
        if port.static:
            constants.append(onnx.numpy_helper.from_array(array.astype(port.dtype), inputs[-1]))
        else:
            nodes.append(_renamed(helper, port.value, inputs[-1], port.dtype, ""))
    after = []
    for port in op.outputs:
        array = op.part.values[port.value]
        same = str(array.dtype) == port.dtype
        outputs.append(port.value if same else f"{op.name}/{port.name}")
        infos.append((outputs[-1], np.dtype(port.dtype), port.shape))
        if not same:
            after.append(_renamed(helper, outputs[-1], port.value, array.dtype, ""))
    custom = helper.make_node(op.name, inputs, outputs, name=op.name, domain=DOMAIN)
    kept = [node for node in source.nodes if id(node) not in inside]
    made = onnx.ModelProto()
    made.CopyFrom(inferred(source.model, []))
    rest = [node for node in kept if not all(name in source.static for name in node.output if name)]
    wanted = {name for node in (*rest, custom) for name in _all_taken(node)} | {each.name for each in made.graph.output}
    folded = [name for name in sorted(wanted & source.static) if name in source.makers]
    for name, array in source.run(feeds, folded).items():
        constants.append(onnx.numpy_helper.from_array(array, name))
    made.graph.initializer.extend(constants)
    _set_nodes(made, _sorted([*rest, *nodes, custom, *after]))
    _set_infos(made, infos)
    if all(row.domain != DOMAIN for row in made.opset_import):
        made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    data: bytes = made.SerializeToString(deterministic=True)
    return data


def _sorted(nodes: Sequence[Any]) -> list[Any]:
    """Nodes after those that make what they take; otherwise in the same order."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    found: list[Any] = []
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
                found.append(nodes[index])
    return found


def _all_taken(node: Any) -> set[str]:
    """All names that occur in a node and in graphs in it."""
    return {*node.input} | {name for graph in graphs_of(node) for each in graph.node for name in _all_taken(each)}


def _set_nodes(model: Any, nodes: Sequence[Any]) -> None:
    """The nodes of a model, without those and constants that nothing needs."""
    graph = model.graph
    needed = {each.name for each in graph.output}
    kept = []
    for node in reversed(nodes):
        if needed & {*node.output}:
            kept.append(type(node).FromString(node.SerializeToString()))
            needed |= _all_taken(node) | {each.name for inner in graphs_of(node) for each in inner.output}
    del graph.node[:]
    graph.node.extend(reversed(kept))
    constants = [each for each in graph.initializer if each.name in needed]
    gone = {each.name for each in graph.initializer} - needed
    copies = [type(each).FromString(each.SerializeToString()) for each in constants]
    del graph.initializer[:]
    graph.initializer.extend(copies)
    rows = [each for each in graph.input if each.name not in gone]
    copies = [type(each).FromString(each.SerializeToString()) for each in rows]
    del graph.input[:]
    graph.input.extend(copies)


def _set_infos(model: Any, infos: Sequence[tuple[str, Any, tuple[int, ...]]]) -> None:
    """The types and shapes of values: those of the model that remain, and those of the op."""
    graph = model.graph
    there = {name for node in graph.node for name in node.output}
    declared = {each.name for each in (*graph.input, *graph.output, *graph.initializer)}
    fresh = {name: _info(name, dtype, shape) for name, dtype, shape in infos}
    rows = [each for each in graph.value_info if each.name in there and each.name not in fresh]
    rows += [row for name, row in fresh.items() if name not in declared]
    copies = [type(each).FromString(each.SerializeToString()) for each in rows]
    del graph.value_info[:]
    graph.value_info.extend(copies)
