"""Calls of one op become nodes of one ONNX model; an error for calls that ONNX cannot express."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from udogen.onnx.client import attribute_fault
from udogen.onnx.models import reading
from udogen.opdef import datatypes
from udogen.opdef.model import Op
from udogen.runtime.failures import NotExpressible
from udogen.runtime.op.calls import Chain, OpCall, ParamArg, TensorArg

# Not a standard domain: built-in ops between DequantizeLinear and QuantizeLinear never reach a package.
DOMAIN = "udogen"
_OPSET, _IR_VERSION = 21, 10  # the first with 16-bit types in QuantizeLinear
_QUANTIZED_BITS = (8, 16)
_FLOAT = 1  # of TensorProto
_WIDE = ("INT_64", "UINT_64", "FLOAT_64")
_INT32 = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True)
class CaseModel:
    """An ONNX model with a node for each call, its inputs, and the names of its outputs."""

    data: bytes
    feeds: tuple[tuple[str, Any], ...]
    outputs: tuple[tuple[str, ...], ...]  # for each chain, the outputs of its last call


def build(chains: Sequence[Chain], ops: Mapping[str, Op]) -> CaseModel:
    """The model; its nodes depend on each other only within a chain.  Raises `NotExpressible`."""
    made = _Builder(ops)
    outputs = tuple(made.chain(number, chain) for number, chain in enumerate(chains))
    helper = reading.onnx_module("helper")
    graph = helper.make_graph(made.nodes, "cases", made.inputs, made.outputs, made.constants, value_info=made.between)
    imports = [helper.make_opsetid("", _OPSET), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=imports, producer_name="udogen")
    model.ir_version = _IR_VERSION
    return CaseModel(model.SerializeToString(deterministic=True), tuple(made.feeds), outputs)


class _Builder:
    """Collects the parts of the model."""

    def __init__(self, ops: Mapping[str, Op]) -> None:
        self._ops = ops
        self._helper, self._numpy = reading.onnx_module("helper"), reading.onnx_module("numpy_helper")
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.between: list[Any] = []
        self.constants: list[Any] = []
        self.feeds: list[tuple[str, Any]] = []

    def chain(self, number: int, calls: Chain) -> tuple[str, ...]:
        """Add the nodes of one chain; returns the names of the stored outputs of its last node."""
        stored: list[str] = []
        for step, call in enumerate(calls):
            mark = f"c{number}s{step}"
            given = [
                stored[0] if step and not index else self._input(f"{mark}i{index}", arg, call)
                for index, arg in enumerate(call.inputs)
            ]
            real = [self._dequantized(name, arg, call) for name, arg in zip(given, call.inputs, strict=True)]
            stored = [f"{mark}o{index}" for index in range(len(call.outputs))]
            made = [name + "f" * _quantized(arg) for name, arg in zip(stored, call.outputs, strict=True)]
            node = self._helper.make_node(call.op_type, real, made, name=mark, domain=DOMAIN)
            # The provider passes up to three attributes in reverse order, more in another order (measured: 2.3.0).
            node.attribute.extend(self._attribute(call, param) for param in reversed(call.params))
            self.nodes.append(node)
            for inner, name, arg in zip(made, stored, call.outputs, strict=True):
                self._output(inner, name, arg, call, last=step + 1 == len(calls))
        return tuple(stored)

    def _input(self, name: str, arg: TensorArg, call: OpCall) -> str:
        """Add an input of the model, or a constant."""
        if arg.omitted:
            raise _inexpressible(call, f"Qualcomm's provider ends the process if the input `{arg.name}` is left out")
        row = self._value(name, arg, call)
        if arg.static:
            self.constants.append(self._numpy.from_array(arg.array, name))
        else:
            self.inputs.append(row)
            self.feeds.append((name, arg.array))
        return name

    def _output(self, inner: str, name: str, arg: TensorArg, call: OpCall, *, last: bool) -> None:
        (self.outputs if last else self.between).append(self._value(name, arg, call))
        if inner != name:
            self.between.append(self._helper.make_tensor_value_info(inner, _FLOAT, list(arg.shape)))
            self._convert("QuantizeLinear", inner, name, arg, call)

    def _dequantized(self, name: str, arg: TensorArg, call: OpCall) -> str:
        """Dequantize a stored tensor; the op, between DequantizeLinear and QuantizeLinear, gets fixed point."""
        if not _quantized(arg):
            return name
        made = f"d{len(self.nodes)}_{name}"
        self._convert("DequantizeLinear", name, made, arg, call)
        return made

    def _convert(self, kind: str, given: str, made: str, arg: TensorArg, call: OpCall) -> None:
        row = datatypes.BY_NAME[arg.dtype]
        scale, offset = arg.quant or (1.0, 0)
        low, high = row.range() or (0, 0)
        if row.bits not in _QUANTIZED_BITS:
            raise _inexpressible(call, f"tensor `{arg.name}` is {row.name}, and QuantizeLinear makes 8 and 16 bits")
        if not low <= -offset <= high:
            raise _inexpressible(call, f"the offset {offset} of tensor `{arg.name}` is not a zero point of {row.numpy}")
        constants = {f"{made}_scale": np.float32(scale), f"{made}_zero": np.dtype(row.numpy).type(-offset)}
        self.constants += [self._numpy.from_array(np.asarray(each), name) for name, each in constants.items()]
        self.nodes.append(self._helper.make_node(kind, [given, *constants], [made], name=f"{kind} {made}"))

    def _value(self, name: str, arg: TensorArg, call: OpCall) -> Any:
        row = datatypes.BY_NAME[arg.dtype]
        if not row.numpy or row.name in _WIDE:
            raise _inexpressible(call, f"tensor `{arg.name}` is {row.name}, which the provider passes to no custom op")
        number = self._helper.np_dtype_to_tensor_dtype(np.dtype(row.numpy))
        return self._helper.make_tensor_value_info(name, number, list(arg.shape))

    def _attribute(self, call: OpCall, param: ParamArg) -> Any:
        tensor = next((each for each in self._ops[call.op_type].params if each.name == param.name), None)
        if tensor is not None and (why := attribute_fault(tensor)):
            raise _inexpressible(call, f"parameter `{param.name}` {why}")
        array = np.asarray(param.value)
        if array.dtype.kind not in "biuf" or array.ndim > 1 or not array.size:
            raise _inexpressible(
                call, f"parameter `{param.name}` has the shape {list(array.shape)}; attributes are numbers and lists"
            )
        types = [*(tensor.datatypes if tensor is not None else ()), datatypes.BY_NAME[param.dtype]]
        numbers: list[float] = array.ravel().astype(float).tolist()
        if param.dtype != "FLOAT_32" and any(each.integral for each in types):
            numbers = [int(each) for each in array.ravel()]
            if any(each not in _INT32 for each in numbers):
                raise _inexpressible(call, f"parameter `{param.name}` does not fit into 32 bits")
        return self._helper.make_attribute(param.name, numbers if array.ndim else numbers[0])


def _quantized(arg: TensorArg) -> bool:
    return datatypes.BY_NAME[arg.dtype].quantized


def _inexpressible(call: OpCall, why: str) -> NotExpressible:
    return NotExpressible(f"ONNX cannot express this call of op `{call.op_type}`: {why}")
