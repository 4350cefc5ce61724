"""An ONNX model, frozen: graphs of nodes, what is known about each value, small constants; data types in QNN."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from udogen.opdef.datatypes import BY_NAME, DataType

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
class OnnxNode:
    """One use of an op."""

    op: OpName
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[Attribute, ...] = ()
    graphs: tuple[tuple[str, OnnxGraph], ...] = ()  # subgraphs, by the attribute that holds them


@dataclass(frozen=True, eq=False)
class OnnxGraph:
    """A graph, or the body of an If, Loop or Scan, which sees the values around it too."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
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
    nodes: tuple[OnnxNode, ...]


@dataclass(frozen=True)
class OnnxModel:
    """A model as it was read."""

    file: str  # its name, without folders
    graph: OnnxGraph
    functions: tuple[Function, ...] = ()
    opsets: Mapping[str, int] = field(default_factory=dict)

    def function(self, op: OpName) -> Function | None:
        """The model's own definition of an op."""
        return next((function for function in self.functions if function.op == op), None)


def walk(graph: OnnxGraph, scopes: tuple[OnnxGraph, ...] = ()) -> Iterator[tuple[OnnxNode, tuple[OnnxGraph, ...]]]:
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


class TypeRow(NamedTuple):
    """One data type of ONNX."""

    onnx: str
    qnn: str  # what tensors of it are in QNN; empty where there is nothing like it
    why: str = ""  # where that is another type: who makes it so
    fixed: str = ""  # what it is in QNN where it is the stored side of a quantization


_WIDE = "converters make it so: no backend passes 64 bits to a custom op"

_ROWS = (
    TypeRow("FLOAT", "FLOAT_32"),
    TypeRow("FLOAT16", "FLOAT_16"),
    TypeRow("BFLOAT16", "FLOAT_32", "no backend passes bfloat16 to a custom op"),
    TypeRow("DOUBLE", "FLOAT_32", _WIDE),
    TypeRow("INT8", "INT_8", "", "SFIXED_POINT_8"),
    TypeRow("INT16", "INT_16", "", "SFIXED_POINT_16"),
    TypeRow("INT32", "INT_32", "", "SFIXED_POINT_32"),
    TypeRow("INT64", "INT_32", _WIDE),
    TypeRow("UINT8", "UINT_8", "", "UFIXED_POINT_8"),
    TypeRow("UINT16", "UINT_16", "", "UFIXED_POINT_16"),
    TypeRow("UINT32", "UINT_32"),
    TypeRow("UINT64", "UINT_32", _WIDE),
    TypeRow("BOOL", "BOOL_8"),
    TypeRow("INT4", "INT_8", "it is unpacked: no backend passes 4 bits to a custom op", "SFIXED_POINT_8"),
    TypeRow("UINT4", "UINT_8", "it is unpacked: no backend passes 4 bits to a custom op", "UFIXED_POINT_8"),
)
BY_ONNX = {row.onnx: row for row in _ROWS}

# A type that a backend does not hand to custom ops -> the nearest that it does.
NEAREST = {
    "FLOAT_16": "FLOAT_32",
    "INT_16": "INT_32",
    "UINT_16": "UINT_32",
    "INT_8": "INT_32",
    "UINT_32": "INT_32",
    "SFIXED_POINT_8": "FLOAT_32",
    "SFIXED_POINT_16": "FLOAT_32",
    "SFIXED_POINT_32": "INT_32",
    "UFIXED_POINT_16": "FLOAT_32",
}


def qnn_type(dtype: str) -> DataType | None:
    """The type in QNN of a tensor that is not quantized; None where there is nothing like it."""
    row = BY_ONNX.get(dtype)
    return BY_NAME[row.qnn] if row and row.qnn else None


def qnn_stored_type(dtype: str) -> DataType | None:
    """The fixed-point type of integers that a DequantizeLinear reads."""
    row = BY_ONNX.get(dtype)
    return BY_NAME[row.fixed] if row and row.fixed else None


def why_another_type(dtype: str) -> str:
    """Why QNN has another type for it; empty where it has the same."""
    row = BY_ONNX.get(dtype)
    return row.why if row else ""
