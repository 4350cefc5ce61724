"""Which nodes of a model are custom: of an unpublished domain, or of a type that its domain does not know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from udogen.findings import nearest
from udogen.onnx.models.model import Function, Node, OnnxGraph, OnnxModel, OpName, walk
from udogen.onnx.models.reading import onnx_module

# Domains whose ops are documented and which converters know; of the first ones onnx itself knows every op.
_WITH_SCHEMAS = ("", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "ai.onnx.preview")
_PUBLISHED = (
    "com.microsoft", "com.microsoft.nchwc", "com.microsoft.experimental", "com.microsoft.extensions",
    "com.microsoft.dml", "com.ms.internal.nhwc",
)  # fmt: skip
# Functions that exporters write for modules and library functions: their bodies are what counts.
_EXPORTERS = ("pkg.", "torch.", "aten", "prims", "onnxscript.", "local_function", "this")


def is_custom(op: OpName, model: OnnxModel) -> bool:
    """Neither standard, nor published, nor a function of which only the body counts."""
    if op.domain in _PUBLISHED:
        return False
    if model.function(op) is not None:
        return not _is_container(op, model, frozenset())
    return op.domain not in _WITH_SCHEMAS or not knows(op)


def knows(op: OpName) -> bool:
    """Whether onnx has a schema for it, of any version."""
    return bool(onnx_module("defs").has(op.type, op.domain))


def nearest_standard(name: str) -> str:
    """The standard op whose name is like this one; empty if there is none."""
    return nearest(name, [each.name for each in onnx_module("defs").get_all_schemas() if not each.domain], cutoff=0.8)


def schema(op: OpName, opsets: Mapping[str, int]) -> Any | None:
    """onnx's own description of an op, as of the version that the model uses."""
    defs = onnx_module("defs")
    if not defs.has(op.type, op.domain):
        return None
    try:
        return defs.get_schema(op.type, opsets.get(op.domain, 1), op.domain)
    except Exception:  # SchemaError of its C++ half: it came later than the model's opset
        return defs.get_schema(op.type, op.domain)


def custom_ops(model: OnnxModel) -> tuple[OpName, ...]:
    """The custom ops of a model, in the order of their first use."""
    return tuple(dict.fromkeys(node.op for node, _ in walk(model.graph) if is_custom(node.op, model)))


def containers(model: OnnxModel, wanted: Iterable[OpName] = ()) -> list[OpName]:
    """The functions that are to be replaced by their bodies: all that are neither custom ops nor requested."""
    keep = set(wanted)
    return [each.op for each in model.functions if each.op not in keep and not is_custom(each.op, model)]


def _is_container(op: OpName, model: OnnxModel, above: frozenset[OpName]) -> bool:
    """An exporter's function, or one around custom ops: the ops are inside."""
    function = model.function(op)
    if function is None or op in above:
        return False
    if op.domain.startswith(_EXPORTERS):
        return True
    return any(_hides_custom(node, model, above | {op}) for node in _nodes(function))


def _hides_custom(node: Node, model: OnnxModel, above: frozenset[OpName]) -> bool:
    """A node of a body that is neither a standard op nor made of standard ops alone."""
    op = node.op
    if model.function(op) is not None:
        return _is_container(op, model, above) and not op.domain.startswith(_EXPORTERS)
    return op.domain not in _PUBLISHED and (op.domain not in _WITH_SCHEMAS or not knows(op))


def _nodes(function: Function) -> list[Node]:
    """The nodes of a body, and of the graphs in it."""
    body = OnnxGraph("", function.inputs, function.outputs, function.nodes)
    return [node for node, _ in walk(body)]


def find(text: str, model: OnnxModel) -> list[OpName]:
    """The ops that `DOMAIN::TYPE`, or `TYPE` alone, means among those the model uses."""
    domain, colons, name = text.rpartition("::")
    domain = "" if domain == "ai.onnx" else domain
    used = dict.fromkeys([node.op for node, _ in walk(model.graph)] + [each.op for each in model.functions])
    return [op for op in used if op.type == name and (not colons or op.domain == domain)]
