"""File -> the protobuf of an ONNX model, without its weights, and with every value's type that onnx can infer."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.errors import ToolMissing, UsageError, open_plain, read_plain, reading
from udogen.onnx.models.model import (
    Attribute,
    Function,
    OnnxConstant,
    OnnxGraph,
    OnnxModel,
    OnnxNode,
    OpName,
    ValueType,
)
from udogen.resources import pip_install

if TYPE_CHECKING:
    from udogen.onnx.models.model import Array

_GRAPH, _GRAPHS = 5, 10  # kinds of attributes
_WHOLE_BYTES = frozenset((*range(1, 8), *range(9, 17)))  # data types whose elements have whole bytes, but no STRING
_LARGEST = 1 << 12  # bytes of a tensor that stay: shapes, axes, scales of channels
_DATA = ("float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data", "uint64_data")
# What people give by mistake, by how it begins: (at, bytes, what it is).
_OTHERS = (
    (0, b"version https://git-lfs", "a pointer of Git LFS, not the model itself: `git lfs pull` fetches it"),
    (0, b"PK\x03\x04", "a ZIP archive; a model of PyTorch must be exported: torch.onnx.export"),
    (4, b"ORTM", "in ONNX Runtime's own format (.ort); give the .onnx that it was made of"),
    (4, b"TFL3", "a TensorFlow Lite model; tf2onnx makes ONNX of it"),
    (0, b"\x89HDF", "an HDF5 file"),
    (0, b"<", "an XML or HTML text"),
    (0, b"{", "a text of JSON"),
    (0, b"\x7fELF", "a library or program"),
)


_DAMAGED = "the model may be damaged: copy it again, or export it again"


def onnx_module(name: str = "") -> Any:
    """The package onnx, or a module of it; the error where it is missing has a hint how to install it."""
    try:
        return importlib.import_module(f"onnx.{name}" if name else "onnx")
    except ImportError as fault:
        reason = "the Python package onnx is not installed" if fault.name == "onnx" else f"onnx cannot be used: {fault}"
        raise ToolMissing(reason, hint=pip_install("onnx")) from fault


def read_whole(path: Path) -> Any:
    """The `ModelProto` of a file with all its data, external data too."""
    onnx = onnx_module()
    try:
        open_plain(path).close()
        model = onnx.load(str(path), load_external_data=False)
        files = {tensor.name: _file_of(tensor) for tensor in _initializers(model.graph)}
        importlib.import_module("onnx.external_data_helper").load_external_data_for_model(model, str(path.parent))
    except Exception as fault:  # protobuf, file, external data: each raises its own
        text = " ".join(str(fault).split())[:300]
        raise UsageError(
            f"{path} cannot be read as an ONNX model: {text}",
            hint="give a .onnx file, with its files of weights beside it",
        ) from fault
    for tensor in _initializers(model.graph):
        _check_size(tensor, f"{path}: {files[tensor.name] or 'the model'} has")
    for node in (node for body in bodies_of(model.graph) for node in body.node):
        if not any(node.output):
            raise UsageError(f"{path}: a node {node.op_type} has no output", hint=_DAMAGED)
    return model


def _initializers(graph: Any) -> Iterator[Any]:
    return (tensor for body in bodies_of(graph) for tensor in body.initializer)


def _file_of(tensor: Any) -> str:
    """The file of external data; empty if the data is in the model."""
    return next((row.value for row in tensor.external_data if row.key == "location"), "")


def _check_size(tensor: Any, has: str) -> None:
    """Raise where a constant has more or less data than its shape needs."""
    helper, count = onnx_module("helper"), math.prod(tensor.dims)
    try:
        if tensor.HasField("raw_data") and tensor.data_type in _WHOLE_BYTES:
            need = count * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
            if len(tensor.raw_data) == need:
                return
            raise ValueError(f"{len(tensor.raw_data)} bytes for it, which needs {need}")
        onnx_module("numpy_helper").to_array(tensor)
    except (KeyError, TypeError, ValueError) as fault:
        raise UsageError(
            f"{has} too little or too much data of tensor `{tensor.name}`, {list(tensor.dims)}: {fault}",
            hint="copy the model and its files of weights again, or export it again",
        ) from fault


def read_proto(path: Path) -> Any:
    """The `ModelProto` of a file without large data; external data is not looked for."""
    model = onnx_module().ModelProto()
    with reading(path, hint="give the path of an ONNX model"):
        data = read_plain(path)
    if not data:
        raise UsageError(f"{path} is empty", hint="give an ONNX model")
    try:
        model.ParseFromString(data)
        _slim(model)
    except UnicodeDecodeError as fault:
        raise _no_model(path, data[:32], "one of its names is not UTF-8") from fault
    except Exception as fault:  # DecodeError of protobuf
        raise _no_model(path, data[:32], "protobuf cannot read it") from fault
    if not model.HasField("graph") or not (model.ir_version or model.opset_import):
        raise _no_model(path, data[:32], "it contains no graph")
    return model


def _slim(message: Any) -> None:
    """Remove large data of tensors from a message; raises for a text that is not UTF-8."""
    if message.DESCRIPTOR.name == "TensorProto" and message.ByteSize() > _LARGEST:
        for name in _DATA:
            message.ClearField(name)
    for field, value in message.ListFields():
        values = [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value
        if field.type == field.TYPE_MESSAGE:
            for inner in values:
                _slim(inner)
        elif field.type == field.TYPE_STRING:
            for text in values:
                str(text, "utf-8") if isinstance(text, bytes) else text


def _no_model(path: Path, head: bytes, reason: str) -> UsageError:
    for at, mark, what in _OTHERS:
        if head[at : at + len(mark)] == mark:
            return UsageError(f"{path} is not an ONNX model: it is {what}", hint="give an ONNX model")
    return UsageError(
        f"{path} is not an ONNX model that can be read: {reason}", hint="download it again: it may be incomplete"
    )


def inferred(proto: Any, notes: list[str]) -> Any:
    """The model with what `onnx.shape_inference` finds; as it is, with a note, where that refuses."""
    inference = onnx_module("shape_inference")
    try:
        return inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=True)
    except Exception as fault:  # a C++ library: RuntimeError, ValueError, InferenceError, by release
        first = " ".join(str(fault).split())[:200]
        note = f"onnx cannot infer shapes in this model ({first}); only the shapes in the file are used"
        if note not in notes:
            notes.append(note)
        return proto


def prepare(proto: Any) -> None:
    """Add what inference needs: the domains of all nodes to those that the model lists."""
    known = {_domain(row.domain) for row in proto.opset_import}
    used = {_domain(node.domain) for body in bodies_of(proto.graph) for node in body.node}
    for name in sorted(used - known):
        proto.opset_import.add(domain=name, version=1 if name else 17)
    for function in proto.functions:
        imported = {"" if row.domain == "ai.onnx" else row.domain for row in function.opset_import}
        for name in sorted({node.domain for node in function.node} - imported - {"ai.onnx"}):
            function.opset_import.add(domain=name, version=1 if name else 17)


def cpu_session(model: Any) -> Any:
    """ONNX Runtime's CPU with a `ModelProto`, without optimization; raises what ONNX Runtime raises."""
    try:
        runtime: Any = importlib.import_module("onnxruntime")
    except ImportError as fault:
        raise ToolMissing("onnxruntime is not installed", hint=pip_install("run")) from fault
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # no pools: a network has a session for each node, and not all pools end
    return runtime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def graphs_of(node: Any) -> Iterator[Any]:
    """The graphs inside of a node, in the order of its attributes."""
    for attribute in node.attribute:
        if attribute.type == _GRAPH:
            yield attribute.g
        elif attribute.type == _GRAPHS:
            yield from attribute.graphs


def bodies_of(graph: Any) -> Iterator[Any]:
    """A graph (or a function), and the graphs inside of its nodes."""
    yield graph
    for node in graph.node:
        for inner in graphs_of(node):
            yield from bodies_of(inner)


def captured_by(node: Any) -> Iterator[str]:
    """Names of tensors around a node that the graphs inside of it take, or return."""
    for graph in graphs_of(node):
        own = {tensor.name for tensor in (*graph.input, *graph.initializer)}
        own |= {name for each in graph.node for name in each.output}
        names = [*(name for each in graph.node for name in taken_by(each)), *(tensor.name for tensor in graph.output)]
        yield from (name for name in names if name not in own)


def taken_by(node: Any) -> Iterator[str]:
    """Names of tensors that a node takes, also in graphs inside of it."""
    yield from (name for name in node.input if name)
    yield from captured_by(node)


_INVENTED = re.compile(r"(unk__\d+)?\Z")  # names that onnx's inference makes up


def freeze(proto: Any, file: str) -> OnnxModel:
    """The model; `file` is what messages call it."""
    freezer = _Freezer()
    return OnnxModel(
        file=file,
        graph=freezer.graph(proto.graph),
        functions=tuple(freezer.function(function) for function in proto.functions),
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
        constants = {tensor.name: self.constant(tensor) for tensor in proto.initializer}
        for sparse in proto.sparse_initializer:
            constants[sparse.values.name] = OnnxConstant(self.dtype(sparse.values.data_type), tuple(sparse.dims))
        types = {name: ValueType(constant.dtype, constant.shape) for name, constant in constants.items()}
        for tensor in (*proto.value_info, *proto.output, *proto.input):
            found = self.value_type(tensor)
            if tensor.name not in types or found.complete:
                types[tensor.name] = found
        return OnnxGraph(
            name=proto.name,
            inputs=tuple(tensor.name for tensor in proto.input if tensor.name not in constants),
            outputs=tuple(tensor.name for tensor in proto.output),
            nodes=tuple(self.node(node) for node in proto.node),
            types=types,
            constants=constants,
        )

    def node(self, proto: Any) -> OnnxNode:
        return OnnxNode(
            op=OpName(_domain(proto.domain), proto.op_type),
            name=proto.name,
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes=tuple(self.attribute(attribute) for attribute in proto.attribute),
            graphs=tuple(self.graphs(proto.attribute)),
        )

    def graphs(self, attributes: Iterable[Any]) -> Iterable[tuple[str, OnnxGraph]]:
        for each in attributes:
            for body in [each.g] if each.type == _GRAPH else each.graphs if each.type == _GRAPHS else []:
                yield each.name, self.graph(body)

    def function(self, proto: Any) -> Function:
        return Function(
            op=OpName(_domain(proto.domain), proto.name),
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            required=tuple(proto.attribute),
            defaults=tuple(self.attribute(attribute) for attribute in proto.attribute_proto),
            nodes=tuple(self.node(node) for node in proto.node),
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
            value = tuple(_text(string) for string in proto.strings)
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
            shape = tuple(_extent(dim) for dim in tensor.shape.dim)
        return ValueType(self.dtype(tensor.elem_type), shape)


def _extent(proto: Any) -> int | str | None:
    """A dimension; one of -1 or 0, which exporters write for "any", is not known."""
    what = proto.WhichOneof("value")
    if what == "dim_value":
        return int(proto.dim_value) if proto.dim_value > 0 else None
    return str(proto.dim_param) if what == "dim_param" and not _INVENTED.match(proto.dim_param) else None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
