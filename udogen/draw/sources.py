"""Diagrams of configs, context binaries and ONNX models: ops with their tensors, custom ops highlighted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from udogen.backends import by_number
from udogen.draw.diagram import Box, Diagram, Section, TextLine, head, quiet, shape_or_word
from udogen.opdef import values
from udogen.opdef.model import Op, OpPackage, Tensor
from udogen.opdef.onnx.load import Loaded
from udogen.opdef.onnx.model import (
    Attribute,
    Node,
    OnnxConstant,
    OnnxGraph,
    OnnxModel,
    OpName,
    ValueType,
    type_in,
    walk,
)
from udogen.opdef.onnx.uses import constant_of
from udogen.qnn.system import BinaryInfo, GraphInfo, TensorInfo
from udogen.runtime.contexts.context_json import describe_quantization
from udogen.tables import many

# --- configs ---------------------------------------------------------------------------------------------------------


def config_diagram(packages: Sequence[OpPackage], name: str) -> Diagram:
    """The ops of all packages."""
    sections = tuple(_config_section(op, package) for package in packages for op in package.ops)
    count = len(sections)
    ops = "1 op with its tensors." if count == 1 else f"{count} ops with their tensors."
    description = f"{', '.join(package.name for package in packages)}: {ops}"
    return Diagram(name, description, sections, {"kind": "config", "packages": [package.name for package in packages]})


def _config_section(op: Op, package: OpPackage) -> Section:
    rows = [head(op.name), quiet(" ".join(op.backends) or "no backend")]
    rows += [TextLine(_param(each)) for each in op.params]
    middle = Box("op", "op", tuple(rows), _op_description(op))
    sides = [*(_config_tensor(each, op, package) for each in (*op.inputs, *op.outputs))]
    edges = [(box.id, "op") if box.id.startswith("in ") else ("op", box.id) for box in sides]
    return Section(f"{package.name}::{op.name}", (middle, *sides), tuple(edges), sides=True)


def _op_description(op: Op) -> str:
    described = " ".join(passage.text for passage in op.description if not passage.code)
    return f"op {op.name}: {len(op.inputs)} in, {len(op.outputs)} out, {len(op.params)} parameters. {described}".strip()


def _param(param: Tensor) -> str:
    default = param.default_text if param.default is None else values.show(param.default)
    if isinstance(param.default, int) and 0 <= param.default < len(param.enum):
        default = param.enum[param.default]
    kind = "|".join(param.enum) if param.enum else _types(param)
    rank = "" if param.is_scalar else f" {param.rank}"
    return f"{param.name}: {kind}{rank}" + (f" = {default}" if default else "" if param.mandatory else " (optional)")


def _config_tensor(tensor: Tensor, op: Op, package: OpPackage) -> Box:
    rows = [head(tensor.name), quiet(_types(tensor)), quiet(", ".join([tensor.role, *_words(tensor)]))]
    backend_types = [
        f"{each.backend}: {' '.join(row.name for row in entry.datatypes)}"
        for each in package.supplements
        for part in each.ops
        if part.name == op.name
        for entry in part.tensors
        if (entry.role, entry.name) == (tensor.role, tensor.name) and entry.datatypes
    ]
    if tensor.backend_specific and backend_types:
        rows[1:2] = [quiet(text) for text in backend_types]
    kind = "static" if tensor.static else tensor.role
    description = f"{tensor.role} {tensor.name}: {_types(tensor)}, {', '.join([*_words(tensor), *backend_types])}"
    return Box(f"{'in' if tensor.role == 'input' else 'out'} {tensor.name}", kind, tuple(rows), description)


def _types(tensor: Tensor) -> str:
    return " ".join(row.name for row in tensor.datatypes) or "any type"


def _words(tensor: Tensor) -> Iterator[str]:
    yield str(tensor.rank) + (f" {tensor.layout}" if tensor.layout else "")
    if not tensor.mandatory:
        yield "optional"
    if tensor.repeated:
        yield "repeated"
    if tensor.static:
        yield "constant"


# --- context binaries ------------------------------------------------------------------------------------------------


def context_diagram(info: BinaryInfo, name: str) -> Diagram:
    """The graphs of a context binary."""
    count = len(info.graphs)
    found = by_number(info.backend_id)
    backend = found.id.upper() if found else f"BACKEND {info.backend_id}"
    graphs = many(count, "graph")
    description = f"Context binary for {backend}, {graphs}; made by {info.build_id or 'an unknown SDK'}."
    facts = {"kind": "context", "backend": backend, "graphs": [graph.name for graph in info.graphs]}
    return Diagram(name, description, tuple(_context_section(each, backend) for each in info.graphs), facts)


def _context_section(graph: GraphInfo, backend: str) -> Section:
    rows = [head(graph.name), quiet(f"graph of {backend}")]
    if graph.htp is not None:
        sizes = {"VTCM": graph.htp.vtcm, "spill/fill": graph.htp.spill_fill, "constants": graph.htp.constants}
        rows += [TextLine(f"{label}: {size:,} bytes") for label, size in sizes.items() if size]
    description = f"graph {graph.name}: {len(graph.inputs)} in, {len(graph.outputs)} out"
    boxes = [Box("graph", "op", tuple(rows), description)]
    boxes += [_context_tensor(each, "input") for each in graph.inputs]
    boxes += [_context_tensor(each, "static", "updateable") for each in graph.updateable]
    boxes += [_context_tensor(each, "output") for each in graph.outputs]
    edges = [(box.id, "graph") if box.kind != "output" else ("graph", box.id) for box in boxes[1:]]
    return Section(f"graph {graph.name}", tuple(boxes), tuple(edges), sides=True)


def _context_tensor(tensor: TensorInfo, kind: str, word: str = "") -> Box:
    sizes = zip(tensor.shape, tensor.dims, strict=True)
    shape = shape_or_word([f"{most}?" if size is None else size for most, size in sizes])  # 4?: may change
    rows = [head(tensor.name), quiet(f"{word or kind}: {tensor.dtype} {shape}")]
    quant = describe_quantization(tensor.quant) if tensor.quant else ""
    if quant:
        rows.append(quiet(quant))
    description = f"{word or kind} {tensor.name}: {tensor.dtype} {shape}, id {tensor.id}" + (
        f", {quant}" if quant else ""
    )
    return Box(f"{kind} {tensor.id} {tensor.name}", kind, tuple(rows), description)


# --- ONNX models -----------------------------------------------------------------------------------------------------


MOST_NODES = 250  # of a graph; larger ones are drawn only near their custom ops
_NEAR = 3  # the default distance from a custom op, in nodes
_ATTRIBUTES = 4
_VALUES = 6  # numbers of a constant that are shown
_CONSTANT = OpName("", "Constant")


def onnx_diagram(loaded: Loaded, *, around: int | None = None) -> Diagram:
    """The diagram of a model; `around` is the largest distance of drawn nodes from its custom ops."""
    model = loaded.model
    sections = tuple(
        _Painter(model, frozenset(loaded.ops), around).sections(model.graph, (), model.graph.name or "graph")
    )
    nodes = [node for node, _ in walk(model.graph)]
    custom = [node for node in nodes if node.op in loaded.ops]
    names = ", ".join(map(str, loaded.ops)) or "none"
    description = f"{len(nodes)} nodes, {len(custom)} of custom ops: {names}."
    facts = {
        "kind": "onnx",
        "nodes": len(nodes),
        "custom": [{"op": str(op), "uses": sum(node.op == op for node in custom)} for op in loaded.ops],
    }
    return Diagram(model.file, description, sections, facts)


@dataclass(frozen=True)
class _Painter:
    """Draws a model, or the part around its custom ops."""

    model: OnnxModel
    ops: frozenset[OpName]
    around: int | None

    def sections(self, graph: OnnxGraph, scopes: tuple[OnnxGraph, ...], title: str) -> Iterator[Section]:
        """The section of the graph, then those of the graphs inside its nodes."""
        inside = (*scopes, graph)
        shown, note = self._shown(graph)
        yield self._section(graph, inside, shown, title, note)
        for node in shown:
            for attribute, body in node.graphs:
                of = f"{attribute} of {node.op} {node.name or next(iter(node.outputs), '')}".rstrip()
                yield from self.sections(body, inside, of)

    def _shown(self, graph: OnnxGraph) -> tuple[list[Node], str]:
        nodes = [node for node in graph.nodes if node.op != _CONSTANT]
        around = self.around if self.around is not None else _NEAR if len(nodes) > MOST_NODES else None
        if around is None:
            return nodes, ""
        centres = [node for node in nodes if self._is_custom(node)]
        if not centres:
            shown = nodes[:MOST_NODES]
            return shown, f"The first {len(shown)} of {len(nodes)} nodes; none is a custom op." if len(nodes) > len(
                shown
            ) else ""
        near = _near(nodes, centres, around)
        return near, f"{len(near)} of {len(nodes)} nodes: those at most {around} away from a custom op."

    def _is_custom(self, node: Node) -> bool:
        return node.op in self.ops or any(inner.op in self.ops for _, body in node.graphs for inner, _ in walk(body))

    def _section(
        self, graph: OnnxGraph, scopes: tuple[OnnxGraph, ...], nodes: Sequence[Node], title: str, note: str
    ) -> Section:
        boxes: dict[str, Box] = {}
        edges: list[tuple[str, str]] = []
        constants = _constants(graph, scopes)
        used = {name for node in nodes for name in node.inputs}

        def value(name: str) -> str:
            """The id of a value's box; the box is added if it is new."""
            id = f"value {name}"
            if id not in boxes:
                boxes[id] = self._value(name, graph, scopes)
            return id

        complete = nodes == [node for node in graph.nodes if node.op != _CONSTANT]
        for name in graph.inputs if complete else ():
            value(name)
        for number, node in enumerate(nodes):
            box = self._node(f"node {number}", node, scopes, constants)
            boxes[box.id] = box
            edges += [(value(name), box.id) for name in filter(None, node.inputs) if name not in constants]
            shown = used | {*graph.outputs} if len(node.outputs) > 1 else {*node.outputs}
            edges += [(box.id, value(name)) for name in filter(None, node.outputs) if name in shown]
        for name in graph.outputs:
            if not nodes or name in graph.inputs:
                value(name)
        return Section(title, tuple(boxes.values()), tuple(dict.fromkeys(edges)), note)

    def _value(self, name: str, graph: OnnxGraph, scopes: tuple[OnnxGraph, ...]) -> Box:
        known = type_in(name, scopes)
        made = any(name in node.outputs for node in graph.nodes)
        kind, word = "tensor", ""
        if name in graph.outputs:
            kind, word = "output", "output"
        elif name in graph.inputs:
            kind, word = "input", "input"
        elif not made:
            kind, word = "input", "from the graph around"
        rows = [TextLine(name or "?"), quiet(f"{word}: {_type(known)}" if word else _type(known))]
        return Box(f"value {name}", kind, tuple(rows), f"{word or 'value'} {name}: {_type(known)}")

    def _node(self, id: str, node: Node, scopes: tuple[OnnxGraph, ...], constants: dict[str, str]) -> Box:
        mine = node.op in self.ops
        rows = [head(node.op.type)]
        if mine:
            rows.append(quiet(f"custom, {node.op.domain or 'of no domain'}"))
        elif node.op.domain:
            rows.append(quiet(node.op.domain))
        if node.name:
            rows.append(quiet(node.name))
        rows += [TextLine(f"{_last(name)}: {constants[name]}") for name in node.inputs if name in constants]
        attributes = [_attribute(each) for each in node.attributes]
        rows += [TextLine(text) for text in attributes[:_ATTRIBUTES]]
        if len(attributes) > _ATTRIBUTES:
            rows.append(quiet(f"and {len(attributes) - _ATTRIBUTES} more"))
        everything = f"{'custom op' if mine else 'op'} {node.op} {node.name}".rstrip()
        return Box(id, "custom" if mine else "op", tuple(rows), ", ".join([everything, *attributes]))


def _near(nodes: Sequence[Node], centres: Sequence[Node], around: int) -> list[Node]:
    """The nodes that are at most `around` steps from one of the centres."""
    makers: dict[str, int] = {name: number for number, node in enumerate(nodes) for name in node.outputs if name}
    joined: list[set[int]] = [set() for _ in nodes]
    for number, node in enumerate(nodes):
        for name in node.inputs:
            if name in makers:
                joined[number].add(makers[name])
                joined[makers[name]].add(number)
    found = {number for number, node in enumerate(nodes) if any(node is each for each in centres)}
    edge = set(found)
    for _ in range(around):
        edge = {other for each in edge for other in joined[each]} - found
        found |= edge
    return [nodes[number] for number in sorted(found)]


def _constants(graph: OnnxGraph, scopes: tuple[OnnxGraph, ...]) -> dict[str, str]:
    """The constants to show inside boxes: initializers of all enclosing graphs, and Constant nodes."""
    found = {name: _held(each) for scope in scopes for name, each in scope.constants.items()}
    for scope in scopes:
        for node in scope.nodes:
            if node.op == _CONSTANT:
                made = next((each for row in node.attributes if (each := constant_of(row)) is not None), None)
                found.update({name: _held(made) if made else _type(type_in(name, scopes)) for name in node.outputs})
    return found


def _last(name: str) -> str:
    """`weight` of `/block/conv.weight`."""
    return re.split(r"[/.:]", name)[-1] or name


def _held(constant: OnnxConstant) -> str:
    if constant.array is not None and constant.array.size <= _VALUES and constant.array.ndim < 2:
        shown = [_number(each) for each in constant.array.reshape(-1).tolist()]
        return f"[{', '.join(shown)}]" if constant.shape else shown[0]
    return f"{constant.dtype} {shape_or_word(constant.shape)}"


def _type(known: ValueType) -> str:
    if known.other:
        return known.other
    return f"{known.dtype or 'unknown type'} {shape_or_word(known.shape)}"


def _attribute(attribute: Attribute) -> str:
    value = attribute.value
    if isinstance(value, OnnxConstant):
        return f"{attribute.name} = {_held(value)}"
    if isinstance(value, tuple):
        shown = ", ".join(_number(each) for each in value[:8])
        return f"{attribute.name} = [{shown}{', …' if len(value) > 8 else ''}]"
    return (
        f"{attribute.name} = {_number(value)}" if value is not None else f"{attribute.name}: {attribute.kind.lower()}"
    )


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def is_onnx(data: bytes, suffix: str) -> bool:
    """Whether a file is an ONNX model: by its name, or because it begins with ir_version and a text."""
    return suffix.lower() == ".onnx" or (
        len(data) > 3 and data[0] == 0x08 and 0 < data[1] < 0x40 and data[2] in (0x12, 0x3A)
    )
