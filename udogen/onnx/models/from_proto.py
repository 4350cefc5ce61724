"""The protobuf of a model -> the frozen model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from udogen.onnx.models.model import Attribute, Function, Node, OnnxConstant, OnnxGraph, OnnxModel, OpName, ValueType
from udogen.onnx.models.reading import onnx_module

if TYPE_CHECKING:
    from udogen.onnx.models.model import Array

_INVENTED = re.compile(r"(unk__\d+)?\Z")  # names that onnx's inference makes up
_GRAPH, _GRAPHS = "GRAPH", "GRAPHS"


def freeze(proto: Any, file: str) -> OnnxModel:
    """The model; `file` is what messages call it."""
    freezer = _Freezer()
    return OnnxModel(
        file=file,
        graph=freezer.graph(proto.graph),
        functions=tuple(freezer.function(each) for each in proto.functions),
        opsets={_domain(row.domain): row.version for row in proto.opset_import},
    )


def attribute_of(proto: Any) -> Attribute:
    """One attribute, such as the default that a schema has."""
    return _Freezer().attribute(proto)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


class _Freezer:
    """Knows the names of onnx's numbers."""

    def __init__(self) -> None:
        onnx = onnx_module()
        self._types: dict[int, str] = {number: name for name, number in onnx.TensorProto.DataType.items()}
        self._kinds: dict[int, str] = {number: name for name, number in onnx.AttributeProto.AttributeType.items()}
        self._external: int = onnx.TensorProto.EXTERNAL
        self._to_array = onnx_module("numpy_helper").to_array

    def graph(self, proto: Any) -> OnnxGraph:
        constants = {each.name: self.constant(each) for each in proto.initializer}
        for sparse in proto.sparse_initializer:
            constants[sparse.values.name] = OnnxConstant(self.dtype(sparse.values.data_type), tuple(sparse.dims))
        types = {name: ValueType(each.dtype, each.shape) for name, each in constants.items()}
        for each in (*proto.value_info, *proto.output, *proto.input):
            found = self.value_type(each)
            if each.name not in types or found.complete:
                types[each.name] = found
        return OnnxGraph(
            name=proto.name,
            inputs=tuple(each.name for each in proto.input if each.name not in constants),
            outputs=tuple(each.name for each in proto.output),
            nodes=tuple(self.node(each) for each in proto.node),
            types=types,
            constants=constants,
        )

    def node(self, proto: Any) -> Node:
        return Node(
            op=OpName(_domain(proto.domain), proto.op_type),
            name=proto.name,
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes=tuple(self.attribute(each) for each in proto.attribute),
            graphs=tuple(self.graphs(proto.attribute)),
        )

    def graphs(self, attributes: Iterable[Any]) -> Iterable[tuple[str, OnnxGraph]]:
        for each in attributes:
            kind = self._kinds.get(each.type)
            for body in [each.g] if kind == _GRAPH else each.graphs if kind == _GRAPHS else []:
                yield each.name, self.graph(body)

    def function(self, proto: Any) -> Function:
        return Function(
            op=OpName(_domain(proto.domain), proto.name),
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            required=tuple(proto.attribute),
            defaults=tuple(self.attribute(each) for each in proto.attribute_proto),
            nodes=tuple(self.node(each) for each in proto.node),
        )

    def attribute(self, proto: Any) -> Attribute:
        """Of a kind that old files leave out, the kind follows from the value."""
        kind = self._kinds.get(proto.type, "UNDEFINED")
        value: Any = None
        if kind in ("FLOAT", "INT", "STRING"):
            value = {"FLOAT": proto.f, "INT": proto.i, "STRING": proto.s}[kind]
            value = _text(value) if kind == "STRING" else value
        elif kind in ("FLOATS", "INTS"):
            value = tuple(proto.floats if kind == "FLOATS" else proto.ints)
        elif kind == "STRINGS":
            value = tuple(_text(each) for each in proto.strings)
        elif kind == "TENSOR":
            value = self.constant(proto.t)
        return Attribute(proto.name, kind if not proto.ref_attr_name else "REFERENCE", value)

    def constant(self, proto: Any) -> OnnxConstant:
        return OnnxConstant(self.dtype(proto.data_type), tuple(proto.dims), self._array(proto))

    def _array(self, proto: Any) -> Array | None:
        if proto.data_location == self._external:
            return None
        try:
            array: Array = self._to_array(proto)
        except Exception:  # its data was too large to keep, or does not fit its shape
            return None
        return array

    def dtype(self, number: int) -> str:
        name = self._types.get(number, "")
        return "" if name == "UNDEFINED" else name

    def value_type(self, proto: Any) -> ValueType:
        what = proto.type.WhichOneof("value")
        if what is None:
            return ValueType()
        if what != "tensor_type":
            return ValueType(other=what.removesuffix("_type").replace("_", " "))
        tensor = proto.type.tensor_type
        shape = None
        if tensor.HasField("shape"):
            shape = tuple(_extent(each) for each in tensor.shape.dim)
        return ValueType(self.dtype(tensor.elem_type), shape)


def _extent(proto: Any) -> int | str | None:
    """A dimension; one of -1 or 0, which exporters write for "any", is not known."""
    what = proto.WhichOneof("value")
    if what == "dim_value":
        return int(proto.dim_value) if proto.dim_value > 0 else None
    return str(proto.dim_param) if what == "dim_param" and not _INVENTED.match(proto.dim_param) else None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
