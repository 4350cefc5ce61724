"""Executes networks on QNN, in a worker, and finds the node at which an execution fails."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.build.emulator import build_watch
from udogen.build.package import open_packages
from udogen.build.tools import preloading
from udogen.errors import UdogenError
from udogen.onnx.models.reading import onnx_module
from udogen.onnx.network.model import (
    BITS_8,
    DEQUANTIZE,
    FLOAT,
    QUANTIZE,
    Evaluator,
    Network,
    first_output,
    is_one_of,
    title,
)
from udogen.onnx.ort.op_session import explain_failure
from udogen.onnx.ort.worker import ArrayRow, NetworkRan, OpenOrt, OrtOpened, RunNetwork
from udogen.runtime.failures import OpCrashed, OpFailed, Situation
from udogen.runtime.worker_process import WorkerSession

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array
    from udogen.verify.test_files.references import ReferenceFunction

_START_SECONDS = 60.0
_OF_ONE_NODE = (OpCrashed.kind, OpFailed.kind, "ort-session-failed")  # kinds of failures


@dataclass(frozen=True)
class NetworkOptions:
    """Options for running a network."""

    model: Path
    packages: tuple[Path, ...] = ()
    backend: str = "cpu"
    bits: str = FLOAT
    inputs: Mapping[str, Path] | None = None  # .npy; one sample, or several along an additional first axis
    references: Mapping[str, ReferenceFunction] | None = None  # of custom ops, by type
    tolerance: float | None = None
    until: str = ""  # a tensor: run only the nodes that it needs
    timeout: float | None = None


def run_on_qnn(
    options: NetworkOptions,
    model: Any,
    outputs: Sequence[str],
    samples: Sequence[Mapping[str, Array]],
    *,
    preload: Sequence[Path] = (),
) -> tuple[NetworkRan, str]:
    """Run a model (a ModelProto) in a worker; return these outputs for every sample, and the name of the runtime."""
    with tempfile.TemporaryDirectory(prefix="udogen-network-") as folder:
        path = Path(folder, options.model.name)
        onnx_module().save(model, str(path))
        command = RunNetwork(
            backend=options.backend,
            packages=tuple(package.resolve() for package in options.packages),
            model=path,
            samples=tuple(tuple(ArrayRow.of(name, array) for name, array in sample.items()) for sample in samples),
            outputs=tuple(outputs),
        )
        worker = WorkerSession("udogen.onnx.ort.worker", env=preloading(preload), explain=explain_failure)
        situation = Situation(str(options.model), what="model")
        try:
            opened = worker.start(OpenOrt(options.backend), OrtOpened, situation, _START_SECONDS)
            return worker.ask(command, NetworkRan, situation, options.timeout), opened.name
        finally:
            worker.close()


@dataclass(frozen=True)
class Executed:
    """Every tensor for every sample, as real numbers, and how QNN computed them."""

    values: list[dict[str, Array]]
    runtime: str
    seconds: float
    on_qnn: frozenset[str]  # nodes and tensors
    reasons: Mapping[str, str]  # why QNN's provider did not take a node, by the node's first output


@dataclass(frozen=True)
class Executor:
    """Executes a network on QNN."""

    options: NetworkOptions
    network: Network
    evaluator: Evaluator
    quants: Mapping[str, Quant]

    def run(self, samples: Sequence[Mapping[str, Array]]) -> Executed:
        """Execute all nodes; the error of a failure names the first node with which they fail."""
        try:
            ran, runtime = self._run(len(self.network.nodes), samples)
        except UdogenError as fault:
            if fault.kind not in _OF_ONE_NODE:
                raise
            preload = _watch() if isinstance(fault, OpCrashed) else ()
            first, failure = self._first_failure(samples[:1], preload)
            raise (fault if failure is None else self._named(failure, first)) from fault
        values = [_real(rows, self.quants) for rows in ran.samples]
        for row, sample in zip(values, samples, strict=True):
            self._add_hidden(row, sample)
        return Executed(values, runtime, min(ran.seconds), frozenset(ran.on_qnn), dict(ran.reasons))

    def _add_hidden(self, values: dict[str, Array], sample: Mapping[str, Array]) -> None:
        """Add the float tensors that QNN did not return, computed from the stored ones that it did return."""
        for number in range(len(self.network.nodes)):
            if self._outputs(number) - values.keys():
                values.update(self.evaluator.node(number, {**sample, **values}) | values)

    def _outputs(self, number: int) -> set[str]:
        return {name for name in self.network.nodes[number].output if name}

    def _first_failure(
        self, samples: Sequence[Mapping[str, Array]], preload: Sequence[Path]
    ) -> tuple[int, UdogenError | None]:
        """By bisection: the last node of the shortest beginning of the network that fails, and the error."""

        def error_of(count: int) -> UdogenError | None:
            try:
                self._run(count, samples, preload)
            except UdogenError as error:
                return error
            return None

        total, hidden = len(self.network.nodes), self.network.hidden  # QNN cannot return hidden tensors
        ends = [count for count in range(1, total + 1) if count == total or not hidden & self._outputs(count - 1)]
        right, wrong, found = -1, len(ends) - 1, error_of(total)
        while found is not None and wrong - right > 1:
            middle = (right + wrong) // 2
            error = error_of(ends[middle])
            right, wrong, found = (middle, wrong, found) if error is None else (right, middle, error)
        return ends[wrong] - 1, found

    def _named(self, fault: UdogenError, number: int) -> UdogenError:
        node = self.network.nodes[number]
        where = f"node `{title(node)}` ({node.op_type}) of {self.options.model}"
        if isinstance(fault, OpCrashed) and fault.fault is not None and fault.fault.frames:
            where += f", in {Path(fault.fault.frames[0].library).name}"
        custom = self.network.is_custom(node)
        bits = FLOAT if self.quants else BITS_8
        hint = fault.hint if custom else f"it is an op of the runtime: try --bits {bits}, other shapes, or another op"
        named = type(fault)(f"{where}: {fault.message}", hint=hint, details=fault.details)
        named.kind = fault.kind
        return named

    def _run(
        self, count: int, samples: Sequence[Mapping[str, Array]], preload: Sequence[Path] = ()
    ) -> tuple[NetworkRan, str]:
        """Run the first nodes."""
        network = self.network if count == len(self.network.nodes) else self.network.beginning(count)
        values = self.evaluator.run({**samples[0]})  # the shapes of all tensors
        model = network.with_outputs(values)
        if self.quants:
            model = Quantizer(network, self.quants).quantized(model, values)
        options = replace(self.options, packages=self._needed(network))
        rows = [{name: array for name, array in sample.items() if name in network.inputs} for sample in samples]
        names = {tensor.name for tensor in model.graph.output}
        outputs = [name if name in names else f"{name}{STORED}" for name in network.observed]
        return run_on_qnn(options, model, outputs, rows, preload=preload)

    def _needed(self, network: Network) -> tuple[Path, ...]:
        """The op packages that are needed: if only a part of the network runs, those with an op in it."""
        if not self.options.until and network is self.network:
            return self.options.packages
        used = {node.op_type for node in network.nodes}
        return tuple(path for path in self.options.packages if not path.is_dir() or used & ops_in(path))


def ops_in(folder: Path) -> set[str]:
    """The ops of the packages in a folder."""
    return {op for package in open_packages(folder) for op in package.ops}


def _real(rows: Sequence[ArrayRow], quants: Mapping[str, Quant]) -> dict[str, Array]:
    reals = {}
    for row in rows:
        array, name = row.array, row.name.removesuffix(STORED)
        reals[name] = quants[name].real(array) if name in quants and name != row.name else array
    return reals


def _watch() -> Sequence[Path]:
    """The library with which a crash names the library in which it happened; none without a C compiler."""
    try:
        return (build_watch(),)
    except UdogenError:
        return ()


STORED, _FLOAT, _REAL = "__stored", "__float", "__real"  # ends of names: quantized, before, dequantized
# Ops that only move numbers: with 8 bits their output has the quantization of their input.
_MOVES = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "MaxPool", "Slice", "Gather", "Identity")
_BIASED = ("Conv", "ConvTranspose", "Gemm")
_WEIGHTED = (*_BIASED, "MatMul")
_WITH_SETTINGS = ("Clip", "Resize", "Pad", "Upsample")  # their further inputs are limits, scales, sizes


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
    quants: dict[str, Quant] = {}
    for name in (*network.inputs, *network.constants, *network.observed):
        values = [network.constants[name]] if name in network.constants else [sample[name] for sample in expected]
        if values[0].dtype == np.float32 and values[0].size:
            low, high = min(float(value.min()) for value in values), max(float(value.max()) for value in values)
            quants[name] = Quant.of_range(low, high)
    for node in network.nodes:
        if is_one_of(node, _WEIGHTED) and node.input[1] in quants.keys() & network.constants:
            quants[node.input[1]] = Quant.of_weights(network.constants[node.input[1]])
        if is_one_of(node, _MOVES) and node.input[0] in quants:
            quants[node.output[0]] = quants[node.input[0]]
    return quants


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


def _is_bias(node: Any, index: int) -> bool:
    return index == 2 and is_one_of(node, _BIASED)


def _is_setting(node: Any, index: int) -> bool:
    """Whether an input configures its node; such inputs are not quantized."""
    return index > 0 and is_one_of(node, _WITH_SETTINGS)


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
        inputs = [tensor for tensor in made.graph.input if tensor.name in network.inputs]
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
