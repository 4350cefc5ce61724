"""Shapes and types of what custom nodes return: as the packages' configs and rules say.

ONNX Runtime does not infer them through a schema, and its QNN provider takes no node with a tensor of unknown shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from udogen.clients.package import Package
from udogen.errors import UdogenError, UsageError
from udogen.opdef.datatypes import DataType
from udogen.opdef.model import Op, OpPackage
from udogen.opdef.onnx.model import UNKNOWN, Graph, Node, ValueType
from udogen.opdef.onnx.shape_propagation import Outputs, TypeOf
from udogen.opdef.onnx.types import BY_ONNX
from udogen.opdef.shape_rules import Given, ShapeRules, load_shape_rules

MORE = (
    'say it in the config (<Constraint Type="Shape">Same shape as the input</Constraint>), in Python (`--rules '
    "FILE.py`, `rules=`), or in the model, as value_info"
)
_MOST_DATA = 4096  # numbers: more is data to compute with, not a shape
_FROM_ONNX = {row.onnx: row.qnn for row in BY_ONNX.values()}
_TO_ONNX = {row.qnn: row.onnx for row in BY_ONNX.values() if not row.why}


def of_packages(packages: Sequence[Package], rules: Path | None = None) -> Outputs:
    """As the configs of packages say, and these rules."""
    bare = next((each for each in packages if each.built is None or not each.built.configs), None)
    if rules is not None and bare is not None:
        raise UsageError(
            f"{rules} is read with the config of the op, and {bare.library.file} is a library alone",
            hint="give the folder of the package",
        )
    return _known([op for package in packages for op in package.models], rules)


def of_configs(packages: Sequence[OpPackage], rules: Path | None = None) -> Outputs:
    """As configs say, and these rules."""
    return _known([op for package in packages for op in package.ops], rules)


def _known(ops: Sequence[Op], rules: Path | None) -> Outputs:
    if rules is not None:
        return _Known(load_shape_rules(rules, ops))
    return _Known(ShapeRules(Path(), {op.name: op for op in ops}, {}))


class _Known:
    """Ops of which a config or a rule says something."""

    def __init__(self, rules: ShapeRules) -> None:
        self._rules = rules

    def __call__(self, node: Node, scopes: tuple[Graph, ...], type_of: TypeOf) -> Sequence[ValueType]:
        op = self._rules.ops.get(node.op.type)
        if op is None:
            return ()
        inputs = _inputs(op, node, scopes, type_of)
        if inputs is None:
            return ()
        try:
            answers = self._rules.infer(op.name, inputs, _params(op, node), outputs=_counts(op, len(node.outputs)))
        except UdogenError as fault:
            if op.name in self._rules.functions or f"{op.name}_dtypes" in self._rules.functions:
                where = f"node `{node.name or node.outputs[0]}` of op {op.name}"
                raise UsageError(f"{where}: {fault.message}", details=fault.details, hint=fault.hint) from fault
            return ()  # the node is not what the config says: `check_model` says how
        first = type_of(node.inputs[0]).dtype if node.inputs else ""
        found = []
        for tensor in op.outputs:
            names = [f"{tensor.name}.{each}" for each in range(len(answers))] if tensor.repeated else [tensor.name]
            for name in names:
                if name in answers:
                    found.append(ValueType(_dtype(answers[name].dtype, tensor.datatypes, first), answers[name].shape))
        return [each if each.complete else UNKNOWN for each in found]


def _inputs(
    op: Op, node: Node, scopes: tuple[Graph, ...], type_of: TypeOf
) -> Mapping[str, Given | Sequence[Given]] | None:
    """What the node is given, by the names of the config; None where a shape is not known, or not fixed."""
    spare = len(node.inputs) - len(op.inputs) + 1  # of a repeated input
    found: dict[str, Given | Sequence[Given]] = {}
    at = 0
    for tensor in op.inputs:
        names = node.inputs[at : at + (max(spare, 0) if tensor.repeated else 1)]
        at += len(names)
        given = [_given(name, scopes, type_of(name)) for name in names if name]
        known = [each for each in given if each is not None]
        if len(known) < len(given):
            return None
        if known:
            found[tensor.name] = known if tensor.repeated else known[0]
    return found


def _given(name: str, scopes: tuple[Graph, ...], known: ValueType) -> Given | None:
    if known.shape is None or known.dtype not in _FROM_ONNX:
        return None
    extents = [each for each in known.shape if isinstance(each, int)]
    if len(extents) < len(known.shape):
        return None
    constant = next((graph.constants[name] for graph in reversed(scopes) if name in graph.constants), None)
    data = None
    if constant is not None and constant.array is not None and constant.array.size <= _MOST_DATA:
        data = constant.array.ravel().tolist()
    return Given(tuple(extents), _FROM_ONNX[known.dtype], data)


def _params(op: Op, node: Node) -> dict[str, object]:
    names = {each.name for each in op.params}
    return {each.name: each.value for each in node.attributes if each.name in names}


def _counts(op: Op, number: int) -> dict[str, int]:
    """How many outputs the node has of each."""
    spare = number - len(op.outputs) + 1
    return {each.name: spare if each.repeated else int(at < number) for at, each in enumerate(op.outputs)}


def _dtype(said: str | None, allowed: Sequence[DataType], first: str) -> str:
    """The element type of ONNX; that of the first input where the config leaves it open, or the type is quantized:
    between DequantizeLinear and QuantizeLinear a model has floats."""
    if said in _TO_ONNX:
        return _TO_ONNX[said]
    fits = any(row.quantized or row.name in ("BACKEND_SPECIFIC", _FROM_ONNX.get(first)) for row in allowed)
    return first if fits or not allowed else ""
