"""The references of ops: a function in a Python file or of torch, or an op of a source (ONNX).

All are called with the inputs as real numbers, in the op's order, and the parameters by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from udogen.errors import ToolMissing, UdogenError, UsageError
from udogen.findings import suggestion
from udogen.plugins import SOURCES
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

    def __call__(
        self,
        inputs: Sequence[Any],
        params: Mapping[str, object],
        outputs: Sequence[str],
        optional: Collection[str] = (),
    ) -> dict[str, Any]:
        """Call the function; return the outputs by name, as real numbers: all but optional ones."""
        try:
            with np.errstate(all="ignore"), user_code(self.text):
                outcome = self.function(*inputs, **params)
        except NotImplementedError as error:
            where = last_line(error).partition(": ")[0]
            raise ReferenceUnwritten(f"{where or self.text}: {error or 'it is not written yet'}") from error
        except Exception as error:  # a user's function may raise anything
            raise ReferenceFailed(
                f"the reference {self.text} raised {words_of(error)}",
                hint=last_line(error) or "it is called with the inputs in the op's order, and the parameters by name",
            ) from error
        found = _by_name(outcome, outputs, self.text)
        if missing := [name for name in outputs if name not in found and name not in optional]:
            raise ReferenceFailed(
                f"the reference {self.text} returns no `{missing[0]}`, which would not be compared", hint=_EACH
            )
        return found


_EACH = "return one array for each output, or a dict by name"


def _by_name(returned: Any, outputs: Sequence[str], text: str) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        strangers = [name for name in returned if name not in outputs]
        if strangers:
            raise ReferenceFailed(
                f"the reference {text} returns `{strangers[0]}`, which is not an output",
                hint="the op has " + ", ".join(outputs),
            )
        by_name = dict(returned)
    else:
        several = returned if isinstance(returned, tuple | list) else (returned,)
        if len(several) > len(outputs):
            raise ReferenceFailed(
                f"the reference {text} returns {len(several)} arrays, the op has {len(outputs)} outputs",
                hint=_EACH,
            )
        by_name = dict(zip(outputs, several, strict=False))
    arrays = {name: np.asarray(value) for name, value in by_name.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise ReferenceFailed(
                f"the reference {text} returns {type(by_name[name]).__name__} for `{name}`, which is not an array",
                hint="return numpy arrays",
            )
    return arrays


def find(text: str, folder: Path) -> ReferenceFunction:
    """The reference that a test file names: `reference.py:softmax`, `onnx:Softmax`, `torch:nn.functional.softmax`."""
    scheme, colon, rest = text.partition(":")
    if not colon or not rest:
        raise UsageError(
            f"`{text}` names no reference", hint="as in reference.py:softmax, onnx:Softmax, torch:nn.functional.softmax"
        )
    source = None if scheme.endswith(".py") else SOURCES.get(scheme)
    if source is not None:
        function = source.reference(rest, folder)
    else:
        function = _torch(rest) if scheme == "torch" else _of_file(folder / scheme, rest)
    return ReferenceFunction(text, function)


def _of_file(file: Path, name: str) -> Function:
    module = load_module(file)
    function = getattr(module, name, None)
    if callable(function):
        return function  # type: ignore[no-any-return]
    there = [known for known, value in vars(module).items() if callable(value) and not known.startswith("_")]
    raise UsageError(f"{file} defines no function `{name}`", hint=suggestion(name, there, f"define it: def {name}(…)"))


def _torch(name: str) -> Function:
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
        given = [None if array is None else torch.from_numpy(array.copy()) for array in inputs]
        returned = function(*given, **params)
        return [tensor.numpy() for tensor in returned] if isinstance(returned, tuple | list) else returned.numpy()

    return run
