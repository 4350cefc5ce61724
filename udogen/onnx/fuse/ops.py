"""The standard ONNX ops for which kernels can be written, one row each, and how a node becomes a line of a kernel.

Each row has a function of the same name in `udogen.onnx.kernels`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.errors import UsageError
from udogen.onnx.models.model import STANDARD
from udogen.onnx.models.reading import onnx_module

if TYPE_CHECKING:
    from udogen.onnx.models.model import Array


_BROADCAST, _REDUCTIONS = "two or more tensors, broadcast", "reductions"


@dataclass(frozen=True)
class OpRow:
    """One op of ONNX."""

    type: str
    group: str
    settings: tuple[str, ...] = ()  # names of inputs that must be constant, by position; empty for tensors
    attributes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()  # attributes that change nothing here
    since: int = 1  # the first opset whose form of the op is known
    limits: str = ""
    whole: bool = False  # not element by element

    @property
    def overflows(self) -> bool:
        """Whether integers that it makes may be larger than those that it takes."""
        return self.group in (_BROADCAST, _REDUCTIONS) or self.type in ("Neg", "Abs", "BitwiseNot")

    @property
    def keywords(self) -> frozenset[str]:
        """Names that may be attributes: in older opsets, settings were attributes."""
        return frozenset(self.attributes) | frozenset(setting for setting in self.settings if setting)


def _rows(group: str, *rows: str | tuple[str, dict[str, Any]], whole: bool = True, **common: Any) -> Iterator[OpRow]:
    """Rows of a group; a string names several ops that have only the common fields."""
    for row in rows:
        names, own = (row, {}) if isinstance(row, str) else row
        fields = {**common, **own}
        for key in ("settings", "attributes", "ignored"):
            words = fields.get(key, "").split()
            fields[key] = tuple("" if word == "-" else word for word in words)
        for name in names.split():
            yield OpRow(name, group, whole=whole, **fields)


_WINDOW = "strides pads dilations auto_pad kernel_shape"
_ROWS = (
    *_rows(
        "element by element",
        "Identity Abs Neg Relu PRelu Exp Log Sqrt Reciprocal Sigmoid Tanh HardSwish Softplus Softsign Mish Erf Floor",
        "Ceil Round Sign Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh IsNaN Not BitwiseNot",
        ("LeakyRelu ThresholdedRelu Elu Celu Swish", {"attributes": "alpha"}),
        ("Selu", {"attributes": "alpha gamma"}),
        ("HardSigmoid", {"attributes": "alpha beta"}),
        ("Gelu", {"attributes": "approximate"}),
        ("Shrink", {"attributes": "bias lambd"}),
        ("IsInf", {"attributes": "detect_negative detect_positive"}),
        ("Clip", {"settings": "- min max"}),
        ("Dropout", {"settings": "- ratio training_mode", "ignored": "seed is_test", "limits": "as in inference"}),
        ("Cast", {"attributes": "to", "ignored": "saturate round_mode"}),
        ("CastLike", {"ignored": "saturate round_mode"}),
        whole=False,
    ),
    *_rows(
        _BROADCAST,
        "Add Sub Mul Div Pow Max Min Sum Mean And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual Where",
        "BitwiseAnd BitwiseOr BitwiseXor",
        ("Mod", {"attributes": "fmod"}),
        whole=False,
        since=7,
    ),
    *_rows(
        _REDUCTIONS,
        "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
        "ReduceSumSquare",
        settings="- axes",
        attributes="keepdims noop_with_empty_axes",
    ),
    *_rows(
        _REDUCTIONS,
        ("ArgMax ArgMin", {"attributes": "axis keepdims select_last_index"}),
        ("CumSum", {"settings": "- axis", "attributes": "exclusive reverse"}),
    ),
    *_rows(
        "shapes",
        ("Reshape Expand", {"settings": "- shape", "ignored": "allowzero", "since": 5}),
        ("Flatten Concat", {"attributes": "axis", "since": 4}),
        ("Squeeze Unsqueeze", {"settings": "- axes"}),
        ("Transpose", {"attributes": "perm"}),
        ("Tile", {"settings": "- repeats", "since": 6}),
        ("Split", {"settings": "- split", "attributes": "axis", "ignored": "num_outputs", "since": 2}),
        ("Slice", {"settings": "- starts ends axes steps"}),
        ("Pad", {"settings": "- pads value axes", "attributes": "mode", "since": 2}),
        ("Gather GatherElements", {"attributes": "axis"}),
        ("GatherND", {"attributes": "batch_dims"}),
        ("OneHot", {"settings": "- depth", "attributes": "axis"}),
        ("Trilu", {"settings": "- k", "attributes": "upper"}),
        ("DepthToSpace", {"attributes": "blocksize mode"}),
        ("SpaceToDepth", {"attributes": "blocksize"}),
    ),
    *_rows(
        "softmax and norms",
        ("Softmax LogSoftmax Hardmax", {"attributes": "axis"}),
        ("LpNormalization", {"attributes": "axis p"}),
        (
            "BatchNormalization",
            {
                "attributes": "epsilon",
                "ignored": "momentum spatial training_mode",
                "since": 7,
                "limits": "as in inference",
            },
        ),
        ("InstanceNormalization", {"attributes": "epsilon", "since": 6}),
        ("GroupNormalization", {"attributes": "epsilon num_groups", "ignored": "stash_type"}),
        ("LayerNormalization", {"attributes": "axis epsilon", "ignored": "stash_type", "limits": "its first output"}),
        ("RMSNormalization", {"attributes": "axis epsilon", "ignored": "stash_type"}),
        ("MeanVarianceNormalization", {"attributes": "axes"}),
    ),
    *_rows(
        "sums of products",
        "MatMul",
        ("Gemm", {"attributes": "alpha beta transA transB", "since": 7}),
        ("Conv", {"attributes": f"group {_WINDOW}"}),
        (
            "ConvTranspose",
            {
                "attributes": "output_padding strides pads dilations kernel_shape",
                "limits": "no `group`, `auto_pad`, `output_shape`",
            },
        ),
    ),
    *_rows(
        "pooling",
        "GlobalMaxPool GlobalAveragePool",
        ("MaxPool", {"attributes": f"ceil_mode {_WINDOW}", "ignored": "storage_order", "limits": "its first output"}),
        ("AveragePool", {"attributes": f"ceil_mode count_include_pad {_WINDOW}"}),
        ("LpPool", {"attributes": f"ceil_mode p {_WINDOW}"}),
        ("GlobalLpPool", {"attributes": "p"}),
    ),
    *_rows(
        "quantization",
        (
            "QuantizeLinear",
            {"attributes": "axis", "ignored": "saturate output_dtype precision", "limits": "8 and 16 bits"},
        ),
        ("DequantizeLinear", {"attributes": "axis", "ignored": "output_dtype"}),
    ),
)
TABLE: Mapping[str, OpRow] = {row.type: row for row in _ROWS}
_NUMBERS = ("min", "max", "axis", "value", "depth", "k")  # settings that are one number
# Nodes of these types depend only on shapes and constants: they are always calculated in advance.
OF_SHAPES = ("Shape", "Size")
# Types that numbers are cast to; floats of all types are calculated in 32 bits.
_CAST = frozenset("FLOAT FLOAT16 DOUBLE BFLOAT16 BOOL INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64".split())
_OLD_ROWS = 13  # before this opset, Softmax and similar ops flattened the axes from `axis` on


def title(node: Any) -> str:
    """A node's name and type, for messages."""
    return f"node `{node.name or next((name for name in node.output if name), '?')}` ({node.op_type})"


def row_of(node: Any, opset: int) -> OpRow:
    """The row of a node's op; raises if the op has none."""
    row = TABLE.get(node.op_type) if node.domain in STANDARD else None
    if row is None:
        domain = f" of domain {node.domain}" if node.domain not in STANDARD else ""
        raise UsageError(
            f"{title(node)}: udogen writes no kernel of {node.op_type}{domain}",
            hint="choose nodes without it",
        )
    if opset < row.since:
        raise UsageError(
            f"{title(node)}: its form in opset {opset} is not known, only that since opset {row.since}",
            hint=f"convert the model: onnx.version_converter.convert_version(model, {max(row.since, 13)})",
        )
    return row


@dataclass(frozen=True)
class Call:
    """The arguments of a node's function; inputs are names of values, empty for absent ones."""

    row: OpRow
    inputs: tuple[str, ...]
    keywords: Mapping[str, object]


def call_of(node: Any, opset: int, values: Mapping[str, Array], static: frozenset[str]) -> Call:
    """The call of a node: its tensors by position, its settings and attributes by name."""
    row = row_of(node, opset)
    tensors: list[str] = []
    keywords: dict[str, object] = {}
    for place, name in enumerate(node.input):
        setting = row.settings[place] if place < len(row.settings) else ""
        if not setting:
            tensors.append(name)
        elif name and name not in static and setting != "shape":
            raise UsageError(
                f"{title(node)}: its input `{setting}` is calculated by the model",
                hint="make it a constant of the model, or end the op before this node",
            )
        elif name:
            keywords[setting] = _setting(setting, values[name])
    for attribute in node.attribute:
        if attribute.name in row.keywords:
            keywords[attribute.name] = _attribute(attribute)
        elif attribute.name not in row.ignored:
            raise UsageError(
                f"{title(node)}: its attribute `{attribute.name}` is not covered",
                hint="choose nodes without it",
            )
    if node.op_type == "CastLike":
        tensors.pop()  # only its type is used
    while tensors and not tensors[-1]:
        tensors.pop()
    _check_form(node, values, is_training=bool(keywords.pop("training_mode", False)))
    keywords.pop("ratio", None)
    return Call(row, tuple(tensors), keywords | _of_form(node, opset, values, keywords))


def _check_form(node: Any, values: Mapping[str, Array], *, is_training: bool) -> None:
    """Raise for a form of a node that kernels do not support."""
    names = [name for name in node.output if name]
    if len(names) > 1 and node.op_type != "Split":
        raise UsageError(
            f"{title(node)}: its output `{names[1]}` is used, and only the first one is covered",
            hint="choose nodes without it",
        )
    if is_training or any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute):
        raise UsageError(f"{title(node)}: it is set to training", hint="export the model for inference")
    if node.op_type == "BitwiseNot" and (dtype := values[node.input[0]].dtype.name) in ("uint16", "uint32", "uint64"):
        raise UsageError(
            f"{title(node)}: kernels have {dtype} as int32, in which its result is another number",
            hint="choose nodes without it",
        )


def _of_form(node: Any, opset: int, values: Mapping[str, Array], keywords: Mapping[str, object]) -> dict[str, object]:
    """The keywords that depend on the opset, or on shapes and types."""
    kind, flags = node.op_type, {attribute.name: attribute.i for attribute in node.attribute}
    made = values[next(name for name in node.output if name)]
    if kind in ("Reshape", "Expand"):
        return {"shape": tuple(made.shape)}
    if kind == "Split":
        axis = int(flags.get("axis", 0))
        return {"split": tuple(int(values[name].shape[axis]) for name in node.output)}
    if kind in ("Softmax", "LogSoftmax", "Hardmax") and opset < _OLD_ROWS:
        return {"axis": keywords.get("axis", 1), "flat": True}
    if kind == "GroupNormalization" and opset < 21:
        return {"by_group": True}
    if kind == "QuantizeLinear":
        return {"to": _onnx_type(made)}
    if kind not in ("Cast", "CastLike"):
        return {}
    to = _type_name(flags["to"]) if kind == "Cast" else _onnx_type(values[node.input[1]])
    if to not in _CAST:
        raise UsageError(f"{title(node)}: kernels do not round numbers to {to}", hint="choose nodes without it")
    return {"to": to}


def _setting(name: str, array: Array) -> object:
    if name in _NUMBERS and array.size == 1:
        number = array.reshape(-1)[0].item()
        return shortest(number) if isinstance(number, float) else number
    value = array.tolist()
    return tuple(value) if isinstance(value, list) else value


def _attribute(attribute: Any) -> object:
    value = onnx_module("helper").get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return shortest(value)
    return tuple(value) if isinstance(value, Sequence) else value


def shortest(number: float) -> float:
    """The shortest decimal number that is the same 32-bit float."""
    return float(str(np.float32(number)))


def _type_name(number: int) -> str:
    name: str = onnx_module().TensorProto.DataType.Name(number)
    return name


def _onnx_type(array: Array) -> str:
    return _type_name(onnx_module("helper").np_dtype_to_tensor_dtype(array.dtype))


def table() -> str:
    """The table of docs/fuse-ops.md."""
    lines = ["| ops | what they are | limits |", "|---|---|---|"]
    groups: dict[tuple[str, str], list[str]] = {}
    for row in _ROWS:
        limits = [row.limits] if row.limits else []
        limits += [f"since opset {row.since}"] if row.since > 1 and row.group != _BROADCAST else []
        settings = [setting for setting in row.settings if setting and row.type != "Dropout"]
        if settings and row.type not in ("Reshape", "Expand", "Split"):
            limits.append(f"{', '.join(f'`{setting}`' for setting in settings)} constant")
        groups.setdefault((row.group, "; ".join(limits)), []).append(f"`{row.type}`")
    return "\n".join(
        [*lines, *(f"| {' '.join(types)} | {group} | {limits} |" for (group, limits), types in groups.items())]
    )
