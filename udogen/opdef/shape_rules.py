"""Shape rules: Python functions for the shapes and data types of an op's outputs, which no config can express.

    def MaxPool(op):
        batch, rows, columns, channels = op.image.shape
        return {"pooled": [batch, rows // op.stride, columns // op.stride, channels]}

    rules = load_shape_rules(Path("rules.py"), package.ops)
    rules.infer("MaxPool", {"image": Given((1, 32, 32, 3))}, {"stride": 2})["pooled"].shape

The file is ordinary Python, and is run.  Outputs without a rule follow from the config (`inference`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from udogen.errors import RunFailed, UsageError
from udogen.findings import suggestion
from udogen.opdef import datatypes
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, Tensor
from udogen.python_files import last_line, load_module, user_code, words_of

Extent = int | tuple[int, int]  # a number, or an axis of an input: (input, axis)


class SameAs(NamedTuple):
    """The same as of this input."""

    input: int
    why: str


class Extents(NamedTuple):
    """Axis by axis."""

    extents: tuple[Extent, ...]
    why: str


class Only(NamedTuple):
    """Always this type."""

    datatype: DataType
    why: str


_SAME = r"(?:has |must have |must be )?(?:the )?same {} (?:as|of|like) (?:the |that of |of )*`?(?P<name>[^`]+?)`?\.?"
_SAME_SHAPE = re.compile(
    _SAME.format(r"(?:shapes?|dimensions?|dims?|size|rank and (?:shape|dimensions))"), re.IGNORECASE
)
_SAME_TYPE = re.compile(_SAME.format(r"(?:data ?types?|types?)"), re.IGNORECASE)
_TEXT = re.compile(r"[\[({]\s*(.*?)\s*[\])}]\Z", re.DOTALL)
_AXIS = re.compile(r"[A-Za-z_]\w*|\d+")


def shape(op: Op, output: Tensor) -> SameAs | Extents | None:
    """An output's shape by the config, or None."""
    texts = [constraint.text for constraint in output.constraints if constraint.type == "Shape"]
    for text in (*texts, output.shape_text):
        found = _same(_SAME_SHAPE, text, op)
        if found is not None:
            return SameAs(found, _line(text))
    if output.rank.ranks == (0,) or output.rank.scalar:
        return Extents((), "rank 0")
    return _by_names(op, output)


def datatype(op: Op, output: Tensor) -> SameAs | Only | None:
    """An output's data type by the config, or None."""
    if len(output.datatypes) == 1 and output.datatypes[0].kind != "special":
        return Only(output.datatypes[0], "the only type of the config")
    for text in [constraint.text for constraint in output.constraints if constraint.type == "Datatype"]:
        found = _same(_SAME_TYPE, text, op)
        if found is not None:
            return SameAs(found, _line(text))
    twins = [index for index, each in enumerate(op.inputs) if not each.static and each.datatypes == output.datatypes]
    if len(twins) == 1 and _reachable(op, twins[0]):
        return SameAs(twins[0], "the config allows it the same types as this input, and no other input")
    return None


def _same(pattern: re.Pattern[str], text: str, op: Op) -> int | None:
    """The input that a sentence names, if it contains nothing else."""
    match = pattern.fullmatch(" ".join(text.split()))
    index = _input(match["name"], op) if match else None
    return index if index is not None and _reachable(op, index) else None


def _input(name: str, op: Op) -> int | None:
    text = name.strip().strip("'\"`")
    plain = re.sub(r"^input (?!\[)|(?<=\S) input$", "", text).strip("'\"`")
    for index, each in enumerate(op.inputs):
        if each.name in (text, plain):
            return index
    numbered = re.fullmatch(r"(?:in|inputs?) ?[\[(]? ?(\d+) ?[\])]?", text, re.IGNORECASE)
    if numbered and int(numbered[1]) < len(op.inputs):
        return int(numbered[1])
    dynamic = [index for index, each in enumerate(op.inputs) if not each.static]
    if text.lower() in ("input", "input tensor", "inputs") and len(dynamic) == 1:
        return dynamic[0]
    return None


def _reachable(op: Op, index: int) -> bool:
    """False after a repeated or optional input: its position is unknown then."""
    return all(tensor.mandatory and not tensor.repeated for tensor in op.inputs[:index]) and op.inputs[index].mandatory


def _by_names(op: Op, output: Tensor) -> Extents | None:
    """`[N, H, W, C]`, where each letter is an axis in the shape of an input."""
    names = _axes(output.shape_text)
    if not names:
        return None
    known: dict[str, tuple[int, int]] = {}
    for index, each in enumerate(op.inputs):
        axes = _axes(each.shape_text) if _reachable(op, index) else ()
        for axis, name in enumerate(axes):
            if not name.isdigit():
                known.setdefault(name, (index, axis))
    if not all(name.isdigit() or name in known for name in names):
        return None
    return Extents(tuple(int(name) if name.isdigit() else known[name] for name in names), _line(output.shape_text))


def _axes(text: str) -> tuple[str, ...]:
    match = _TEXT.fullmatch(text.strip())
    parts = re.split(r"\s*[,x]\s*", match[1]) if match else []
    return tuple(parts) if parts and all(_AXIS.fullmatch(part) for part in parts) else ()


def _line(text: str) -> str:
    return " ".join(text.split())


MOST_AXES = 8
_DTYPES = "_dtypes"  # the ending of functions that return data types

Rule = Callable[["OpView"], object]


class ShapeRuleFailed(RunFailed):
    """A rule raised, or returned something other than shapes or data types."""

    kind = "shape-rule-failed"


@dataclass(frozen=True)
class Given:
    """A tensor as a rule sees it: an input, or a parameter that is a tensor."""

    shape: tuple[int, ...]
    dtype: str = "FLOAT_32"
    data: Sequence[float] | None = None  # its numbers, row by row, if known


@dataclass(frozen=True)
class Inferred:
    """Shape and type of an output; None if neither a rule nor the config gives it."""

    shape: tuple[int, ...] | None
    dtype: str | None


class OpView:
    """The op of a model as rules see it: `op.image.shape`, `op.stride`, `op["in[0]"]`, `op.outputs["pieces"]`.

    An optional input or parameter that the model leaves out is None, a repeated input a list.
    """

    def __init__(self, name: str, values: Mapping[str, object], outputs: Mapping[str, int]) -> None:
        self._name = name
        self._values = values
        self.outputs = outputs  # the number of each output: 0 if it is absent

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(_unknown(name, self._values, f"op `{self._name}`")) from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]


@dataclass(frozen=True)
class ShapeRules:
    """The rules of one file."""

    file: Path
    ops: Mapping[str, Op]
    functions: Mapping[str, Rule]

    def has_shapes(self, op: str) -> bool:
        """Whether there is a rule for the shapes of this op's outputs."""
        return op in self.functions

    def infer(
        self,
        op: str,
        inputs: Mapping[str, Given | Sequence[Given]],
        params: Mapping[str, object] | None = None,
        *,
        outputs: Mapping[str, int] | None = None,
    ) -> dict[str, Inferred]:
        """Shape and data type of each output: from its rule, else from the config.

        `outputs`: how many there are of a repeated output, and 0 or 1 for an optional one. Those of a repeated output
        are named `y.0`, `y.1` …
        """
        rule = self.ops.get(op)
        if rule is None:
            raise UsageError(_unknown(op, self.ops, "the config", "op"), hint="name an op of the config")
        view = _view(rule, inputs, params or {}, outputs or {})
        shapes = self._run(op, rule, view)
        dtypes = self._run(op + _DTYPES, rule, view)
        inferred: dict[str, Inferred] = {}
        for tensor in rule.outputs:
            number = view.outputs[tensor.name]
            names = [f"{tensor.name}.{n}" for n in range(number)] if tensor.repeated else [tensor.name][:number]
            some_shapes = self._several(op, shapes, tensor, number) or [_shape_of_config(rule, tensor, view)] * number
            some_dtypes = (
                self._several(op + _DTYPES, dtypes, tensor, number) or [_dtype_of_config(rule, tensor, view)] * number
            )
            for name, shape, dtype in zip(names, some_shapes, some_dtypes, strict=True):
                inferred[name] = Inferred(self._shape(op, tensor, shape), self._dtype(op + _DTYPES, tensor, dtype))
        return inferred

    def _run(self, name: str, op: Op, view: OpView) -> Mapping[str, object]:
        """What a rule returns: something for each output by name."""
        if name not in self.functions:
            return {}
        try:
            with user_code(self.file):
                returned = self.functions[name](view)
        except Exception as fault:  # a user's function may raise anything
            text = str(fault) if isinstance(fault, ValueError) else words_of(fault)
            place, _, line = last_line(fault).partition(": ")
            raise ShapeRuleFailed(f"{place or self.file}: {text}", hint=line and f"in: {line}") from fault
        if not isinstance(returned, Mapping):
            self._fail(name, f"returned {returned!r}", f"return {{'{op.outputs[0].name}': …}}")
        for output in returned:
            if output not in view.outputs:
                self._fail(name, _unknown(output, view.outputs, f"op `{op.name}`", "output"), "name an output")
        return returned

    def _several(self, name: str, returned: Mapping[str, object], tensor: Tensor, number: int) -> list[object]:
        if tensor.name not in returned:
            return []
        value = returned[tensor.name]
        if not tensor.repeated:
            return [value][:number]
        if not isinstance(value, list | tuple) or len(value) != number:
            self._fail(
                name, f"returned {value!r} for `{tensor.name}`", f"there are {number}: return a list of {number}"
            )
        return list(value)

    def _shape(self, name: str, tensor: Tensor, value: object) -> tuple[int, ...] | None:
        if value is None:
            return None
        try:
            shape = tuple(item.__index__() for item in value)  # type: ignore[attr-defined]
        except (TypeError, AttributeError):
            self._fail(name, f"returned {value!r} for `{tensor.name}`", "a shape is a list of integers")
        if len(shape) > MOST_AXES or any(not 0 < size < 1 << 32 for size in shape):
            self._fail(
                name,
                f"returned the shape {list(shape)} for `{tensor.name}`",
                f"an extent is at least 1, and there are at most {MOST_AXES}",
            )
        if tensor.rank.ranks and not tensor.rank.scalar and len(shape) not in tensor.rank.ranks:
            self._fail(
                name,
                f"returned a shape of rank {len(shape)} for `{tensor.name}`: {list(shape)}",
                f"{tensor.location}: the config gives {tensor.rank}",
            )
        return shape

    def _dtype(self, name: str, tensor: Tensor, value: object) -> str | None:
        if value is None:
            return None
        row = datatypes.parse(value) if isinstance(value, str) else None
        if row is None:
            self._fail(name, f"returned {value!r} for `{tensor.name}`", "return a data type, as in 'FLOAT_32'")
        allowed = [each.name for each in tensor.datatypes if each != datatypes.BACKEND_SPECIFIC]
        if allowed and row.name not in allowed:
            self._fail(
                name,
                f"returned {row.name} for `{tensor.name}`",
                f"{tensor.location}: the config allows {', '.join(allowed)}",
            )
        return row.name

    def _fail(self, name: str, message: str, hint: str) -> NoReturn:
        line = self.functions[name].__code__.co_firstlineno if hasattr(self.functions.get(name), "__code__") else 0
        raise ShapeRuleFailed(f"{self.file}:{line}: {name} {message}", hint=hint)


def load_shape_rules(file: Path, ops: Iterable[Op]) -> ShapeRules:
    """Run a file of rules; its functions that are named like these ops are the rules."""
    functions = {name: value for name, value in vars(load_module(file)).items() if callable(value)}
    known = {op.name: op for op in ops}
    names = [name for op in known for name in (op, op + _DTYPES)]
    rules = {name: functions[name] for name in names if name in functions}
    if not rules:
        raise UsageError(
            f"{file} has no rule for any of the ops {', '.join(known)}",
            hint="write one: " + " or ".join(f"def {op}(op): …" for op in list(known)[:3]),
        )
    return ShapeRules(file, known, rules)


def _view(
    op: Op, inputs: Mapping[str, Given | Sequence[Given]], params: Mapping[str, object], outputs: Mapping[str, int]
) -> OpView:
    for role, given, known in (
        ("input", inputs, op.inputs),
        ("parameter", params, op.params),
        ("output", outputs, op.outputs),
    ):
        names = [each.name for each in known]
        for name in given:
            if name not in names:
                raise UsageError(_unknown(name, names, f"op `{op.name}`", role))
    values: dict[str, object] = {}
    for tensor in op.inputs:
        value = inputs.get(tensor.name)
        several = [] if value is None else [value] if isinstance(value, Given) else list(value)
        if tensor.mandatory and not several:
            raise UsageError(f"op `{op.name}` needs the input `{tensor.name}`", hint="give its shape")
        values[tensor.name] = several if tensor.repeated else several[0] if several else None
    for tensor in op.params:
        values[tensor.name] = _param(tensor, params.get(tensor.name, tensor.default))
    return OpView(op.name, values, {each.name: outputs.get(each.name, int(each.mandatory)) for each in op.outputs})


def _param(tensor: Tensor, value: object) -> object:
    """A parameter as rules see it: a number in the precision of its type, or a tensor with its numbers."""
    if value is None or isinstance(value, Given):
        return value
    if not tensor.is_scalar:
        shape, numbers = _flat(value)
        return Given(shape, tensor.datatypes[0].name, numbers)
    if isinstance(value, float) and any(each.name == "FLOAT_32" for each in tensor.datatypes):
        return struct.unpack("f", struct.pack("f", value))[0]
    return value


def _flat(value: object) -> tuple[tuple[int, ...], list[float]]:
    """The shape and the numbers of nested lists."""
    if not isinstance(value, list | tuple):
        return (), [value]  # type: ignore[list-item]
    parts = [_flat(item) for item in value]
    inner = parts[0][0] if parts else ()
    return (len(parts), *inner), [number for _, numbers in parts for number in numbers]


def _shape_of_config(op: Op, output: Tensor, view: OpView) -> object:
    found = shape(op, output)
    shapes = [_first(view[tensor.name]).shape for tensor in op.inputs if view[tensor.name]]
    if isinstance(found, SameAs):
        return shapes[found.input]
    if isinstance(found, Extents):
        try:
            return [extent if isinstance(extent, int) else shapes[extent[0]][extent[1]] for extent in found.extents]
        except IndexError:
            raise UsageError(
                f"op `{op.name}`: {found.why} of output `{output.name}` names an axis that its inputs lack",
                hint=f"{output.location}: give inputs of the rank in the config",
            ) from None
    return None


def _dtype_of_config(op: Op, output: Tensor, view: OpView) -> object:
    found = datatype(op, output)
    if isinstance(found, Only):
        return found.datatype.name
    if isinstance(found, SameAs):
        return _first(view[op.inputs[found.input].name]).dtype
    return None


def _first(value: Given | Sequence[Given]) -> Given:
    return value if isinstance(value, Given) else value[0]


def _unknown(name: str, known: Iterable[str], owner: str, role: str = "input, parameter or op") -> str:
    names = list(known)
    return f"{owner} has no {role} `{name}`: " + suggestion(name, names, f"it has {', '.join(names)}")
