"""Writes a TFLite model of one LeakyRelu as a custom op: `litert_model.py SCHEMA.py OUT.tflite`.

SCHEMA.py is the module of LiteRT's wheel with the classes of TFLite files.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import flatbuffers
from flatbuffers import flexbuffers

CUSTOM = 32  # BuiltinOperator.CUSTOM


def main(schema: str, out: str) -> None:
    spec = importlib.util.spec_from_file_location("schema", schema)
    assert spec is not None and spec.loader is not None
    tflite = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tflite)

    def tensor(name: str) -> object:
        made = tflite.TensorT()
        made.name, made.shape, made.type, made.buffer = name, [1, 2, 3, 4], tflite.TensorType.FLOAT32, 0
        return made

    code, op, graph, model = tflite.OperatorCodeT(), tflite.OperatorT(), tflite.SubGraphT(), tflite.ModelT()
    code.builtinCode = code.deprecatedBuiltinCode = CUSTOM
    code.customCode, code.version = b"LeakyRelu", 1
    options = flexbuffers.Builder()
    with options.Map():
        options.Key("alpha")
        options.Float(0.25)
    op.opcodeIndex, op.inputs, op.outputs, op.customOptions = 0, [0], [1], list(options.Finish())
    graph.name, graph.tensors, graph.operators = b"main", [tensor("x"), tensor("y")], [op]
    graph.inputs, graph.outputs = [0], [1]
    model.version, model.buffers, model.operatorCodes, model.subgraphs = 3, [tflite.BufferT()], [code], [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    Path(out).write_bytes(bytes(builder.Output()))


if __name__ == "__main__":
    main(*sys.argv[1:])
