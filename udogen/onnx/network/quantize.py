"""Networks with 8 bits: the quantization of each tensor, and models in which it is applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.onnx.network.model import DEQUANTIZE, QUANTIZE, STANDARD, Network, first_output

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

STORED, _FLOAT, _REAL = "__stored", "__float", "__real"  # ends of names: quantized, before, dequantized
# Ops that only move numbers: with 8 bits their output has the quantization of their input.
_MOVES = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "MaxPool", "Slice", "Gather", "Identity")
_BIASED = ("Conv", "ConvTranspose", "Gemm")
_WEIGHTED = (*_BIASED, "MatMul")
_WITH_SETTINGS = ("Clip", "Resize", "Pad", "Upsample")  # their further inputs are limits, scales, sizes
# Ops that a runtime may compute together with earlier ones, from inputs that are not rounded to 8 bits yet.
_FUSED = ("Relu", "Clip", "Concat")


@dataclass(frozen=True)
class Quant:
    """8 bits: real = (stored - zero) * scale."""

    scale: float
    zero: int

    @classmethod
    def of_range(cls, low: float, high: float) -> Quant:
        """The quantization of a range, extended to include zero."""
        low, high = min(low, 0.0), max(high, 0.0)
        scale = float(np.float32((high - low) / 255)) or 1.0
        return cls(scale, int(np.clip(round(-low / scale), 0, 255)))

    @classmethod
    def of_weights(cls, weights: Array) -> Quant:
        """Symmetric, as in 8 signed bits: libQnnHtp computes channels with weights beyond that range less exactly."""
        return cls(float(np.float32(np.abs(weights).max() / 127)) or 1.0, 128)

    @property
    def span(self) -> float:
        """The width of the range that it represents."""
        return self.scale * 255

    def real(self, stored: Array) -> Array:
        """The real numbers of stored ones."""
        found: Array = (stored.astype(np.float32) - self.zero) * np.float32(self.scale)
        return found

    def stored(self, real: Array) -> Array:
        """The stored numbers of real ones."""
        found: Array = np.clip(np.rint(real / np.float32(self.scale)) + self.zero, 0, 255).astype(np.uint8)
        return found

    def rounded(self, real: Array) -> Array:
        """Real numbers, rounded to 8 bits."""
        return self.real(self.stored(real))


def rounded(values: Mapping[str, Array], quants: Mapping[str, Quant]) -> dict[str, Array]:
    """The tensors; those in `quants` are rounded to 8 bits."""
    return {name: quants[name].rounded(array) if name in quants else array for name, array in values.items()}


def quants_of(network: Network, expected: Sequence[Mapping[str, Array]]) -> dict[str, Quant]:
    """The 8-bit quantization of every float tensor, from its values for all samples."""
    found: dict[str, Quant] = {}
    for name in (*network.inputs, *network.constants, *network.observed):
        values = [network.constants[name]] if name in network.constants else [each[name] for each in expected]
        if values[0].dtype == np.float32 and values[0].size:
            low, high = min(float(each.min()) for each in values), max(float(each.max()) for each in values)
            found[name] = Quant.of_range(low, high)
    for node in network.nodes:
        if _is_in(node, _WEIGHTED) and node.input[1] in found.keys() & network.constants:
            found[node.input[1]] = Quant.of_weights(network.constants[node.input[1]])
        if _is_in(node, _MOVES) and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def rounded_constants(network: Network, quants: Mapping[str, Quant]) -> dict[str, Array]:
    """The constants rounded to 8 bits, except biases and settings."""
    kept = {
        name
        for node in network.nodes
        for index, name in enumerate(node.input)
        if _is_setting(node, index) or _is_bias(node, index)
    }
    constants = network.constants
    return constants | rounded({name: constants[name] for name in constants.keys() - kept}, quants)


def is_fused(node: Any) -> bool:
    """Whether a runtime may compute a node from inputs that are not rounded yet."""
    return _is_in(node, _FUSED)


def _is_in(node: Any, ops: Sequence[str]) -> bool:
    return node.domain in STANDARD and node.op_type in ops


def _is_bias(node: Any, index: int) -> bool:
    return index == 2 and _is_in(node, _BIASED)


def _is_setting(node: Any, index: int) -> bool:
    """Whether an input configures its node; such inputs are not quantized."""
    return index > 0 and _is_in(node, _WITH_SETTINGS)


class Quantizer:
    """Makes an 8-bit model: each float tensor is quantized and dequantized, and outputs are the stored bytes."""

    def __init__(self, network: Network, quants: Mapping[str, Quant]) -> None:
        self._network, self._onnx, self._quants = network, network.onnx, quants
        self._nodes: list[Any] = []
        self._constants: dict[str, Array] = dict(network.constants)
        self._readers: Counter[str] = Counter()

    def quantized(self, model: Any, values: Mapping[str, Array]) -> Any:
        """A copy of the model; `values` have the shapes of its tensors."""
        network = self._network
        for name in network.inputs.keys() & self._quants:
            self._store(name, name)
        for source in network.nodes:
            self._add(source)
        made = self._onnx.ModelProto()
        made.CopyFrom(model)
        used = {name for node in self._nodes for name in node.input}
        inputs = [each for each in made.graph.input if each.name in network.inputs]
        del made.graph.initializer[:], made.graph.node[:], made.graph.output[:], made.graph.input[:]
        made.graph.input.extend(inputs)
        made.ir_version = max(made.ir_version, 4)  # in earlier versions constants are inputs too
        made.graph.initializer.extend(
            self._onnx.numpy_helper.from_array(np.asarray(value), name)
            for name, value in self._constants.items()
            if name in used
        )
        made.graph.node.extend(self._nodes)
        for name in network.observed:
            if name not in self._quants:
                made.graph.output.append(network.value_info(name, values[name]))
                continue
            made.graph.output.append(network.value_info(f"{name}{STORED}", values[name].astype(np.uint8)))
            reals = [_real_name(name, number) for number in range(self._readers[name])]
            made.graph.value_info.extend(network.value_info(each, values[name]) for each in [f"{name}{_FLOAT}", *reals])
        return made

    def _add(self, source: Any) -> None:
        """Add a node with its inputs dequantized and its outputs quantized."""
        node = self._onnx.NodeProto()
        node.CopyFrom(source)
        node.name = first_output(source)
        for index, name in enumerate(source.input):
            if name in self._quants and not _is_setting(source, index):
                node.input[index] = self._read(source, index, name)
        stored = [name for name in source.output if name in self._quants]
        node.output[:] = [f"{name}{_FLOAT}" if name in stored else name for name in source.output]
        self._nodes.append(node)
        for name in stored:
            self._store(name, f"{name}{_FLOAT}")

    def _read(self, node: Any, index: int, name: str) -> str:
        """The name of a dequantized input for one reader; Qualcomm's provider aborts if a DequantizeLinear has two."""
        constants = self._network.constants
        if name in constants and _is_bias(node, index):
            key = f"{node.output[0]}__bias"
            scale = self._quants[node.input[0]].scale * self._quants[node.input[1]].scale
            self._constants[f"{key}{STORED}"] = np.rint(constants[name].astype(np.float64) / scale).astype(np.int32)
            return self._dequantize(key, scale, np.int32(0))
        quant = self._quants[name]
        if name in constants:
            self._constants[f"{name}{STORED}"] = quant.stored(constants[name])
        return self._dequantize(name, quant.scale, np.uint8(quant.zero))

    def _store(self, name: str, source: str) -> None:
        """Quantize an output of a node."""
        quant = self._quants[name]
        self._node(QUANTIZE, [source, *self._grid(name, quant.scale, np.uint8(quant.zero))], f"{name}{STORED}")

    def _dequantize(self, name: str, scale: float, zero: Any) -> str:
        made = _real_name(name, self._readers[name])
        self._readers[name] += 1
        self._node(DEQUANTIZE, [f"{name}{STORED}", *self._grid(name, scale, zero)], made)
        return made

    def _grid(self, name: str, scale: float, zero: Any) -> list[str]:
        self._constants[f"{name}__scale"], self._constants[f"{name}__zero"] = np.array(scale, np.float32), zero
        return [f"{name}__scale", f"{name}__zero"]

    def _node(self, op: str, inputs: list[str], output: str) -> None:
        self._nodes.append(self._onnx.helper.make_node(op, inputs, [output], f"{output}_{op}"))


def _real_name(name: str, number: int) -> str:
    """The name of a dequantized tensor for the reader with this number."""
    return f"{name}{_REAL}{number or ''}"
