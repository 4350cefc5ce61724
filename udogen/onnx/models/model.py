"""An ONNX model, frozen: graphs of nodes, what is known about each value, and small constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

STANDARD = ("", "ai.onnx")  # two names of one domain


class OpName(NamedTuple):
    """What an op is called: its domain and its type."""

    domain: str
    type: str

    def __str__(self) -> str:
        return f"{self.domain}::{self.type}" if self.domain else self.type


@dataclass(frozen=True)
class ValueType:
    """What is known about a value; `dtype` is ONNX's name (FLOAT), empty where it is not known or no tensor.

    A dimension is a number, the name of one, or None; no shape at all means that not even the rank is known.
    """

    dtype: str = ""
    shape: tuple[int | str | None, ...] | None = None
    other: str = ""  # what it is instead of a tensor: sequence, optional, map, sparse tensor

    @property
    def complete(self) -> bool:
        """Type and shape are known, though dimensions may be names."""
        return bool(self.dtype) and self.shape is not None


UNKNOWN = ValueType()


@dataclass(frozen=True, eq=False)
class OnnxConstant:
    """A tensor in the file; `array` is None where its data is large, or lies elsewhere."""

    dtype: str
    shape: tuple[int, ...]
    array: Array | None = None


@dataclass(frozen=True)
class Attribute:
    """An attribute of a node; the values of GRAPH and of types that are not tensors are None."""

    name: str
    kind: str  # FLOAT, INT, STRING, TENSOR, FLOATS … of AttributeProto
    value: float | int | str | tuple[float, ...] | tuple[int, ...] | tuple[str, ...] | OnnxConstant | None = None


@dataclass(frozen=True)
class Node:
    """One use of an op."""

    op: OpName
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[Attribute, ...] = ()
    graphs: tuple[tuple[str, OnnxGraph], ...] = ()  # subgraphs, by the attribute that holds them

    def attribute(self, name: str) -> Attribute | None:
        """The attribute of this name."""
        return next((each for each in self.attributes if each.name == name), None)


@dataclass(frozen=True, eq=False)
class OnnxGraph:
    """A graph, or the body of an If, Loop or Scan, which sees the values around it too."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    types: Mapping[str, ValueType] = field(default_factory=dict)
    constants: Mapping[str, OnnxConstant] = field(default_factory=dict)


@dataclass(frozen=True)
class Function:
    """An op that the model itself defines: a model-local function."""

    op: OpName
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    required: tuple[str, ...]  # attributes without a default
    defaults: tuple[Attribute, ...]
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class OnnxModel:
    """A model as it was read."""

    file: str  # its name, without folders
    graph: OnnxGraph
    functions: tuple[Function, ...] = ()
    opsets: Mapping[str, int] = field(default_factory=dict)

    def function(self, op: OpName) -> Function | None:
        """The model's own definition of an op."""
        return next((each for each in self.functions if each.op == op), None)


def walk(graph: OnnxGraph, scopes: tuple[OnnxGraph, ...] = ()) -> Iterator[tuple[Node, tuple[OnnxGraph, ...]]]:
    """Every node, and the graphs around it from the outermost to its own."""
    inside = (*scopes, graph)
    for node in graph.nodes:
        yield node, inside
        for _, body in node.graphs:
            yield from walk(body, inside)


def type_in(name: str, scopes: tuple[OnnxGraph, ...]) -> ValueType:
    """What is known about a value where a node sees it."""
    for graph in reversed(scopes):
        if name in graph.types:
            return graph.types[name]
    return ValueType()
