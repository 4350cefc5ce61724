"""ONNX models as a source: of projects, of graphs to print, and of references in test files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import UsageError
from udogen.inspect.graph import Edge, GraphView, Section, ShownNode, shape_or_word
from udogen.onnx.models.model import Attribute, OnnxConstant, OnnxGraph, OnnxNode, OpName, type_in, walk
from udogen.onnx.models.reading import cpu_session, onnx_module, read_whole
from udogen.plugins import ModelSource

if TYPE_CHECKING:
    from udogen.init.draft import Draft
    from udogen.onnx.models.load import Loaded
    from udogen.verify.test_files.references import Function


def _drafts(path: Path, **options: Any) -> list[Draft]:
    from udogen.onnx.draft import from_onnx

    return from_onnx.drafts(path, **options)


def _view(path: Path) -> GraphView:
    from udogen.onnx.models.load import load_model

    return onnx_view(load_model(path))


def is_onnx(data: bytes, suffix: str) -> bool:
    """Whether a file is an ONNX model: by its name, or because it begins with ir_version and a text."""
    return suffix.lower() == ".onnx" or (
        len(data) > 3 and data[0] == 0x08 and 0 < data[1] < 0x40 and data[2] in (0x12, 0x3A)
    )


def find_reference(name: str, folder: Path) -> Function:
    """A function that runs a model on ONNX Runtime's CPU, or an op in ONNX's reference implementation in numpy."""
    import numpy as np

    if name.endswith(".onnx"):
        return _onnx_model(folder / name)
    onnx, evaluator = onnx_module(), onnx_module("reference").ReferenceEvaluator
    if not onnx.defs.has(name):
        raise UsageError(f"ONNX has no op `{name}`", hint="names are written as in Softmax, LeakyRelu")
    outputs = [f"y{number}" for number, _ in enumerate(onnx.defs.get_schema(name).outputs)]

    def run_op(*inputs: Any, **params: object) -> Any:
        names = [f"x{number}" if array is not None else "" for number, array in enumerate(inputs)]
        given = {key: np.asarray(array) for key, array in zip(names, inputs, strict=True) if array is not None}
        node = onnx.helper.make_node(name, names, outputs, **params)
        rows = [
            onnx.helper.make_tensor_value_info(key, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for key, array in given.items()
        ]
        results = [onnx.helper.make_tensor_value_info(key, onnx.TensorProto.UNDEFINED, None) for key in outputs]
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "op", rows, results))
        return [array for array in evaluator(model).run(None, given) if array is not None]

    return run_op


def _onnx_model(file: Path) -> Function:
    import numpy as np

    model = read_whole(file)
    try:
        run = cpu_session(model).run
    except Exception as fault:  # pybind11 raises many kinds: onnxruntime is missing, or older than the model
        try:
            run = onnx_module("reference").ReferenceEvaluator(model).run
        except Exception:
            why = " ".join(str(fault).split())[:300]
            raise UsageError(f"ONNX Runtime's CPU cannot run {file}: {why}", hint="name a model, or an op") from fault
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [row.name for row in model.graph.input if row.name not in constants]
    convert = onnx_module("helper").tensor_dtype_to_np_dtype
    dtypes = {tensor.name: convert(tensor.type.tensor_type.elem_type) for tensor in model.graph.input}

    def run_model(*given: Any, **params: object) -> Any:
        # References get float64, which ops cannot combine with 32-bit constants of a model.
        values = {name: value for name, value in params.items() if name in inputs[len(given) :]}
        values |= {name: array for name, array in zip(inputs, given, strict=False) if array is not None}
        return run(None, {name: np.asarray(value, dtypes[name]) for name, value in values.items()})

    return run_model


MOST_NODES = 250  # of a graph; larger ones are shown only near their custom ops
_NEAR = 3  # steps from a custom op
_ATTRIBUTES = 4
_CONSTANT = OpName("", "Constant")


def onnx_view(loaded: Loaded) -> GraphView:
    """The graphs of a model, those inside its nodes too."""
    model = loaded.model
    nodes = [node for node, _ in walk(model.graph)]
    uses = {op: sum(node.op == op for node in nodes) for op in loaded.ops}
    names = ", ".join(map(str, uses)) or "none"
    description = f"{len(nodes)} nodes, {sum(uses.values())} of custom ops: {names}."
    facts = {
        "kind": "onnx",
        "nodes": len(nodes),
        "custom": [{"op": str(op), "uses": count} for op, count in uses.items()],
    }
    sections = tuple(_sections(model.graph, (), model.graph.name or "graph", frozenset(uses)))
    return GraphView(model.file, description, sections, facts)


def _sections(
    graph: OnnxGraph, scopes: tuple[OnnxGraph, ...], title: str, custom: frozenset[OpName]
) -> Iterator[Section]:
    shown, note = _shown(graph, custom)
    yield _section(graph, (*scopes, graph), shown, title, note, custom)
    for node in shown:
        for attribute, body in node.graphs:
            inner = f"{attribute} of {node.op} {node.name or next(iter(node.outputs), '')}".rstrip()
            yield from _sections(body, (*scopes, graph), inner, custom)


def _shown(graph: OnnxGraph, custom: frozenset[OpName]) -> tuple[list[OnnxNode], str]:
    nodes = [node for node in graph.nodes if node.op != _CONSTANT]
    if len(nodes) <= MOST_NODES:
        return nodes, ""
    marked = {index for index, node in enumerate(nodes) if node.op in custom}
    if not marked:
        return nodes[:MOST_NODES], f"the first {MOST_NODES} of {len(nodes)} nodes; none is a custom op"
    near = sorted(_near(nodes, marked))
    return [nodes[index] for index in near], f"{len(near)} of {len(nodes)} nodes, those near custom ops"


def _near(nodes: Sequence[OnnxNode], centres: set[int]) -> set[int]:
    """The nodes that are at most _NEAR steps from one of the centres."""
    producers = {name: index for index, node in enumerate(nodes) for name in node.outputs if name}
    neighbours: list[set[int]] = [set() for _ in nodes]
    for index, node in enumerate(nodes):
        for producer in {producers[name] for name in node.inputs if name in producers}:
            neighbours[index].add(producer)
            neighbours[producer].add(index)
    near, border = set(centres), set(centres)
    for _ in range(_NEAR):
        border = {other for index in border for other in neighbours[index]} - near
        near |= border
    return near


def _section(
    graph: OnnxGraph,
    scopes: tuple[OnnxGraph, ...],
    shown: Sequence[OnnxNode],
    title: str,
    note: str,
    custom: frozenset[OpName],
) -> Section:
    constants = _constants(graph, scopes)
    producers = {name: f"node {index}" for index, node in enumerate(shown) for name in node.outputs}
    taken = {name for node in shown for name in node.inputs if name and name not in constants}
    inputs = dict.fromkeys([*graph.inputs, *sorted(taken - producers.keys())])
    outputs = [name for name in dict.fromkeys(graph.outputs) if name in producers]
    nodes = [ShownNode(f"input {name}", "input", (name, _typed(name, scopes))) for name in inputs]
    for index, node in enumerate(shown):
        held = [f"{name}: {_typed(name, scopes)}" for name in node.inputs if name in constants]
        lines = (str(node.op), node.name, *held, *_attributes(node))
        nodes.append(ShownNode(f"node {index}", "custom" if node.op in custom else "op", tuple(filter(None, lines))))
    nodes += [ShownNode(f"output {name}", "output", (name, _typed(name, scopes))) for name in outputs]
    edges = [*_edges(shown, scopes, producers, constants)]
    edges += [Edge(producers[name], f"output {name}") for name in outputs]
    return Section(title, tuple(nodes), tuple(edges), note)


def _constants(graph: OnnxGraph, scopes: tuple[OnnxGraph, ...]) -> set[str]:
    in_nodes = {name for node in graph.nodes if node.op == _CONSTANT for name in node.outputs}
    return in_nodes.union(*(scope.constants for scope in scopes))


def _edges(
    shown: Sequence[OnnxNode], scopes: tuple[OnnxGraph, ...], producers: Mapping[str, str], constants: Collection[str]
) -> Iterator[Edge]:
    """The edges to the inputs of nodes; constants are shown inside of nodes."""
    for index, node in enumerate(shown):
        for name in dict.fromkeys(node.inputs):
            if name in producers:
                yield Edge(producers[name], f"node {index}", f"{name}: {_typed(name, scopes)}")
            elif name and name not in constants:
                yield Edge(f"input {name}", f"node {index}")


def _typed(name: str, scopes: tuple[OnnxGraph, ...]) -> str:
    """The type and shape of a value."""
    known = type_in(name, scopes)
    return known.other or f"{known.dtype or 'unknown type'} {shape_or_word(known.shape)}"


def _attributes(node: OnnxNode) -> list[str]:
    """The first attributes of a node, and how many more it has."""
    shown = [_attribute(attribute) for attribute in node.attributes[:_ATTRIBUTES]]
    more = len(node.attributes) - len(shown)
    return [*shown, f"and {more} more"] if more else shown


def _attribute(attribute: Attribute) -> str:
    value = attribute.value
    if isinstance(value, OnnxConstant):
        return f"{attribute.name} = {value.dtype} {shape_or_word(value.shape)}"
    if isinstance(value, tuple):
        numbers = ", ".join(map(_number, value[:8])) + (", ..." if len(value) > 8 else "")
        return f"{attribute.name} = [{numbers}]"
    return (
        f"{attribute.name} = {_number(value)}" if value is not None else f"{attribute.name}: {attribute.kind.lower()}"
    )


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


ONNX = ModelSource("an ONNX model", is_onnx, _drafts, _view, find_reference)
