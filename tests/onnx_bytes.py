"""ONNX models as bytes, for tests: the few fields of onnx.proto that they need, without package `onnx`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Shape = Sequence[int]
_FLOAT = 1  # TensorProto.DataType; AttributeProto.AttributeType has the same number for it


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    data = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | 2) + _number(len(data)) + data


def _fields(number: int, values: Sequence[str | bytes]) -> bytes:
    return b"".join(_field(number, value) for value in values)


def _value_info(name: str, shape: Shape) -> bytes:
    dims = b"".join(_field(1, _field(1, size)) for size in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, _FLOAT) + _field(2, dims)))


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], *, domain: str = "", **floats: float) -> bytes:
    """Return a node; its attributes are floats."""
    attributes = [
        _field(1, name) + _number(2 << 3 | 5) + np.float32(value).tobytes() + _field(20, 1)
        for name, value in floats.items()
    ]
    named = _field(3, f"{op}_{outputs[0]}") + _field(4, op)
    return _fields(1, inputs) + _fields(2, outputs) + named + _fields(5, attributes) + _field(7, domain)


def function(
    op: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    nodes: Sequence[bytes],
    *,
    domain: str,
    attributes: Sequence[str] = (),
) -> bytes:
    """Return a function of the model: the schema of a custom op that has no other schema."""
    body = _field(1, op) + _fields(4, inputs) + _fields(5, outputs) + _fields(6, attributes) + _fields(7, nodes)
    return body + _field(9, _field(1, "") + _field(2, 21)) + _field(10, domain)


def initializer(name: str, array: np.ndarray) -> bytes:
    """Return a constant."""
    dims = b"".join(_field(1, size) for size in array.shape)
    return dims + _field(2, _FLOAT) + _field(8, name) + _field(9, array.astype(np.float32).tobytes())


def model(
    nodes: Sequence[bytes],
    *,
    inputs: dict[str, Shape],
    outputs: dict[str, Shape],
    constants: dict[str, np.ndarray] | None = None,
    functions: Sequence[bytes] = (),
    domain: str = "",
) -> bytes:
    """Return a model of opset 21; `domain` is that of its functions."""
    graph = _fields(1, nodes) + _field(2, "graph")
    graph += _fields(5, [initializer(name, array) for name, array in (constants or {}).items()])
    graph += _fields(11, [_value_info(*each) for each in inputs.items()])
    graph += _fields(12, [_value_info(*each) for each in outputs.items()])
    imports = [_field(1, "") + _field(2, 21)] + ([_field(1, domain) + _field(2, 1)] if domain else [])
    return _field(1, 10) + _field(7, graph) + _fields(8, imports) + _fields(25, list(functions))
