"""The references of ops: a function in a Python file, an ONNX op, or a function of torch.

All are called with the inputs as real numbers, in the op's order, and the parameters by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from udogen.errors import ToolMissing, UdogenError, UsageError
from udogen.opdef.problems import suggestion
from udogen.python_files import last_line, load_module, user_code, words_of

Function = Callable[..., Any]


class ReferenceFailed(UdogenError):
    """The reference raised, or returned something that is not an array."""

    exit_code = 6
    kind = "reference"


class ReferenceUnwritten(ReferenceFailed):
    """The reference is not implemented yet."""

    kind = "reference-unwritten"


@dataclass(frozen=True)
class ReferenceFunction:
    """A function that computes the expected outputs, and its name in the test file."""

    text: str
    function: Function

    def __call__(self, inputs: Sequence[Any], params: Mapping[str, object], outputs: Sequence[str]) -> dict[str, Any]:
        """Call the function; return the outputs by name, as real numbers."""
        try:
            with np.errstate(all="ignore"), user_code():
                found = self.function(*inputs, **params)
        except NotImplementedError as error:
            where = last_line(error).partition(": ")[0]
            raise ReferenceUnwritten(f"{where or self.text}: {error or 'it is not written yet'}") from error
        except Exception as error:  # a user's function may raise anything
            raise ReferenceFailed(
                f"the reference {self.text} raised {words_of(error)}",
                hint=last_line(error) or "it is called with the inputs in the op's order, and the parameters by name",
            ) from error
        return _by_name(found, outputs, self.text)


def _by_name(found: Any, outputs: Sequence[str], text: str) -> dict[str, Any]:
    if isinstance(found, Mapping):
        strangers = [name for name in found if name not in outputs]
        if strangers:
            raise ReferenceFailed(
                f"the reference {text} returns `{strangers[0]}`, which is not an output",
                hint="the op has " + ", ".join(outputs),
            )
        by_name = dict(found)
    else:
        several = found if isinstance(found, tuple | list) else (found,)
        if len(several) > len(outputs):
            raise ReferenceFailed(
                f"the reference {text} returns {len(several)} arrays, the op has {len(outputs)} outputs",
                hint="return one array for each output, or a dict by name",
            )
        by_name = dict(zip(outputs, several, strict=False))
    made = {name: np.asarray(each) for name, each in by_name.items()}
    for name, array in made.items():
        if array.dtype.kind not in "fiub":
            raise ReferenceFailed(
                f"the reference {text} returns {type(by_name[name]).__name__} for `{name}`, which is not an array",
                hint="return numpy arrays",
            )
    return made


def find(text: str, folder: Path) -> ReferenceFunction:
    """The reference that a test file names: `reference.py:softmax`, `onnx:Softmax`, `torch:nn.functional.softmax`."""
    scheme, colon, rest = text.partition(":")
    if not colon or not rest:
        raise UsageError(
            f"`{text}` names no reference", hint="as in reference.py:softmax, onnx:Softmax, torch:nn.functional.softmax"
        )
    loaders: Mapping[str, Callable[[str, Path], Function]] = {"onnx": _onnx, "torch": _torch}
    function = loaders[scheme](rest, folder) if scheme in loaders else _of_file(folder / scheme, rest)
    return ReferenceFunction(text, function)


def _of_file(file: Path, name: str) -> Function:
    module = load_module(file)
    found = getattr(module, name, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    there = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
    raise UsageError(f"{file} defines no function `{name}`", hint=suggestion(name, there, f"define it: def {name}(…)"))


def _onnx(name: str, folder: Path) -> Function:
    """A function that runs an ONNX op or a whole model in ONNX's reference implementation in numpy."""
    try:
        onnx: Any = importlib.import_module("onnx")
        evaluator: Any = importlib.import_module("onnx.reference").ReferenceEvaluator
    except ImportError as error:
        raise ToolMissing("the Python package onnx is not installed", hint="pip install onnx") from error
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


def _torch(name: str, _folder: Path) -> Function:
    """A function of torch."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        raise ToolMissing("the Python package torch is not installed", hint="pip install torch") from error
    function = torch
    for part in name.removeprefix("torch.").split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise UsageError(f"torch has no function `{name}`", hint="as in torch:nn.functional.softmax")

    def run(*inputs: Any, **params: object) -> Any:
        given = [None if each is None else torch.from_numpy(each.copy()) for each in inputs]
        found = function(*given, **params)
        return [each.numpy() for each in found] if isinstance(found, tuple | list) else found.numpy()

    return run
