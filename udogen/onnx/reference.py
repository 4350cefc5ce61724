"""References of test files: an ONNX op, or a whole model, in ONNX's reference implementation in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from udogen.errors import UsageError
from udogen.onnx.models.reading import onnx_module
from udogen.verify.test_files.references import Function


def find(name: str, folder: Path) -> Function:
    """A function that runs an ONNX op or a whole model in ONNX's reference implementation in numpy."""
    onnx, evaluator = onnx_module(), onnx_module("reference").ReferenceEvaluator
    if name.endswith(".onnx"):
        return _onnx_model(folder / name, onnx, evaluator)
    if not onnx.defs.has(name):
        raise UsageError(f"ONNX has no op `{name}`", hint="names are written as in Softmax, LeakyRelu")
    outputs = [f"y{number}" for number, _ in enumerate(onnx.defs.get_schema(name).outputs)]

    def run_op(*inputs: Any, **params: object) -> Any:
        names = [f"x{number}" if each is not None else "" for number, each in enumerate(inputs)]
        given = {key: np.asarray(each) for key, each in zip(names, inputs, strict=True) if each is not None}
        node = onnx.helper.make_node(name, names, outputs, **params)
        rows = [
            onnx.helper.make_tensor_value_info(key, onnx.helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
            for key, each in given.items()
        ]
        results = [onnx.helper.make_tensor_value_info(key, onnx.TensorProto.UNDEFINED, None) for key in outputs]
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "op", rows, results))
        return [each for each in evaluator(model).run(None, given) if each is not None]

    return run_op


def _onnx_model(file: Path, onnx: Any, evaluator: Any) -> Function:
    try:
        model = onnx.load(file)
        session = evaluator(model)
    except Exception as error:
        raise UsageError(f"{file} is not an ONNX model: {error}", hint="name a model, or an op") from error
    kinds = {row.name: row.type.tensor_type.elem_type for row in model.graph.input}
    dtypes = {key: onnx.helper.tensor_dtype_to_np_dtype(kind) for key, kind in kinds.items() if kind}

    def run_model(*inputs: Any, **params: object) -> Any:
        # References get float64, which ops cannot combine with 32-bit constants of a model.
        named = {name: value for name, value in params.items() if name in session.input_names[len(inputs) :]}
        given = {
            key: each if each is None else np.asarray(each, dtypes.get(key))
            for key, each in (*zip(session.input_names, inputs, strict=False), *named.items())
        }
        return session.run(None, given)

    return run_model
