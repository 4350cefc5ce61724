"""Compares whole ONNX models on QNN (with op packages) and on ONNX Runtime's CPU (with references), by tensor.

Each layer is judged by its own error: its output on QNN is compared with what ONNX Runtime's CPU (or the reference of
a custom op) computes from the same inputs.  Errors of earlier layers are only in the other column, so the first wrong
layer is the one at fault.
"""

from __future__ import annotations

import copy
import importlib
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.build.package import open_packages
from udogen.clients.ort.commands import ArrayRow, NetworkRan, OpenOrt, OrtOpened, RunNetwork
from udogen.clients.ort.op_session import explain_failure
from udogen.configs.load import load
from udogen.errors import RunFailed, UsageError
from udogen.opdef.onnx.reading import graphs_of, onnx_module, read_whole, taken_by
from udogen.opdef.problems import suggestion
from udogen.runtime.failures import Situation
from udogen.runtime.worker_process import WorkerSession
from udogen.tables import columns
from udogen.verify.cases import Arrays, Case, Origin, Quants, ReferenceCall
from udogen.verify.diagnosis.causes import diagnose
from udogen.verify.diagnosis.wrong_output import FailedCase
from udogen.verify.results import Finding
from udogen.verify.test_files.references import ReferenceFunction
from udogen.verify.test_files.values import load_array

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

FLOAT, BITS_8 = "float", "8"
# The largest allowed own error of a layer: relative to the range of its output, and in steps of 8 bits.
TOLERANCES = {("cpu", FLOAT): 1e-5, ("htp", FLOAT): 4e-3}  # HTP computes FLOAT_32 with 16 bits
STEPS = 1.5
_STANDARD = ("", "ai.onnx")
# Ops that only move numbers: with 8 bits their output has the quantization of their input.
_MOVES = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "MaxPool", "Slice", "Gather", "Identity")
_BIASED = ("Conv", "ConvTranspose", "Gemm")
_WEIGHTED = (*_BIASED, "MatMul")
# Ops that a runtime may compute together with earlier ones, from inputs that are not rounded to 8 bits yet.
_FUSED = ("Relu", "Clip", "Concat")
_OPSET_8_BITS = 10  # the first with QuantizeLinear
_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
_START_SECONDS = 60.0
_TABLE = "the table of `udogen run model` has their names"


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
    replaced: tuple[str, ...] = ()  # ops, nodes or tensors that the reference computes instead of QNN
    timeout: float | None = None


@dataclass(frozen=True)
class LayerResult:
    """One output of a node, with its errors over all samples, relative to the range of the tensor."""

    number: int
    node: str
    op: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    own: float  # from the same inputs as on QNN
    error: float  # from the first layer on
    steps: float | None  # the own error in steps of 8 bits
    wrong: bool
    replaced: bool = False  # by its reference


@dataclass(frozen=True)
class NetworkResult:
    """The result of running a network."""

    runtime: str
    backend: str
    bits: str
    samples: int
    layers: tuple[LayerResult, ...]
    seconds: float  # of one execution on QNN, with all tensors as outputs
    elsewhere: tuple[str, ...]  # nodes that QNN did not accept: ONNX Runtime's CPU computed them
    random: tuple[str, ...]  # inputs that were not given
    outputs: Mapping[str, Array]  # of the model, for the last sample, as real numbers
    failed: FailedCase | None = None  # the first wrong layer, as a case of its op

    @property
    def first_wrong(self) -> LayerResult | None:
        """The first layer whose own error is too large."""
        return next((each for each in self.layers if each.wrong), None)


def run_network(options: NetworkOptions) -> NetworkResult:
    """Run a network on QNN and compare it; raises if it cannot run."""
    onnx = onnx_module()
    least_opset = _OPSET_8_BITS if options.bits == BITS_8 else 0
    network = Network(onnx, options.model, until=options.until, least_opset=least_opset)
    samples, random = network.samples(options.inputs or {})
    evaluator = Evaluator(onnx, network, options.references or {}, defaults=_defaults(options.packages))
    expected = [evaluator.run(sample) for sample in samples]
    quants: dict[str, Quant] = {}
    if options.bits == BITS_8:
        quants = network.quants(expected)
        evaluator = evaluator.with_constants(network.rounded_weights(quants))
    replaced = network.numbers_of(options.replaced)
    made = _Executor(onnx, options, network, evaluator, quants, replaced).run(samples)
    values = [{**_rounded(sample, quants), **found} for sample, found in zip(samples, made.values, strict=True)]
    layers = [*_Layers(options, evaluator, quants, replaced, expected, values)]
    first = next((each for each in layers if each.wrong), None)
    return NetworkResult(
        runtime=made.runtime,
        backend=options.backend,
        bits=options.bits,
        samples=len(samples),
        layers=tuple(layers),
        seconds=made.seconds,
        elsewhere=made.elsewhere,
        random=random,
        outputs={name: made.values[-1][name] for name in network.outputs if name in made.values[-1]},
        failed=None if first is None else _failed(options, evaluator, first, quants, values),
    )


def op_types(model: Path, until: str = "") -> set[str]:
    """The types of the nodes of an ONNX model, or of those that a tensor needs."""
    return {node.op_type for node in Network(onnx_module(), model, until=until).nodes}


def causes(result: NetworkResult) -> tuple[Finding, ...]:
    """The likely causes of the first wrong layer; none if nothing explains it."""
    return diagnose(result.failed) if result.failed is not None else ()


def _failed(
    options: NetworkOptions,
    evaluator: Evaluator,
    layer: LayerResult,
    quants: Mapping[str, Quant],
    values: Sequence[Mapping[str, Array]],
) -> FailedCase:
    """A layer as a case of its op, for the sample with the largest error."""
    cases = []
    for sample in values:
        expected = evaluator.node(layer.number, sample)[layer.tensor]
        cases.append((apart(sample[layer.tensor], expected), sample, expected))
    _, worst, expected = max(cases, key=lambda each: each[0])
    quant = quants.get(layer.tensor)
    span = span_of(expected) if quant is None else quant.span
    inputs, params, reference = evaluator.question(layer.number, layer.tensor, worst)
    origin = Origin(reshaped=lambda _shapes: None, reference=reference, baseline=lambda: None)
    case = Case(
        layer.node,
        layer.op,
        inputs,
        {layer.tensor: expected},
        params=params,
        tolerance=_limit(options, quant, evaluator.nodes[layer.number].op_type, span) * span,
        origin=origin,
    )
    return FailedCase(case, {layer.tensor: worst[layer.tensor]})


def _defaults(packages: Sequence[Path]) -> dict[str, dict[str, object]]:
    """The defaults of parameters in the configs of these packages, by op: a node may leave its attributes out."""
    configs = dict.fromkeys(
        file for path in packages if path.is_dir() for each in open_packages(path) for file in each.configs
    )
    return {
        op.name: {
            each.name: each.default if each.is_scalar or isinstance(each.default, str) else np.asarray(each.default)
            for each in op.params
            if each.default is not None
        }
        for file in configs
        for package in load([file])[0]
        for op in package.ops
    }


def _needed(options: NetworkOptions, network: Network) -> tuple[Path, ...]:
    """The op packages that are needed: if only a part of the network runs, those with an op in it."""
    if not options.until and not options.replaced:
        return options.packages
    used = {node.op_type for node in network.nodes}
    return tuple(
        path
        for path in options.packages
        if not path.is_dir() or used & {op for each in open_packages(path) for op in each.ops}
    )


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


def _rounded(values: Mapping[str, Array], quants: Mapping[str, Quant]) -> dict[str, Array]:
    """The tensors; those in `quants` are rounded to 8 bits."""
    return {name: quants[name].rounded(array) if name in quants else array for name, array in values.items()}


class Network:
    """An ONNX model: its nodes in order, its constants, and models made from it."""

    def __init__(self, onnx: Any, path: Path, *, until: str = "", least_opset: int = 0) -> None:
        self.onnx, self.path = onnx, path
        self.model = read_whole(path)
        if any(each.domain in _STANDARD and each.version < least_opset for each in self.model.opset_import):
            self.model = _converted(self.model, least_opset, path)
        graph = self.model.graph
        self.constants: dict[str, Array] = {
            each.name: onnx.numpy_helper.to_array(each, base_dir=str(path.parent)) for each in graph.initializer
        }
        self.inputs = {each.name: each for each in graph.input if each.name not in self.constants}
        if until:
            self._cut(until)
        self.nodes = [each for each in graph.node if each.op_type != "Constant"]
        for node in graph.node:
            if node.op_type == "Constant":
                self.constants[node.output[0]] = _constant(onnx, node)
        self.outputs = [each.name for each in graph.output]
        self._functions = {(each.domain, each.name) for each in self.model.functions}
        self._check()

    @property
    def computed(self) -> tuple[str, ...]:
        """Every tensor that a node computes."""
        return tuple(name for node in self.nodes for name in node.output if name)

    @property
    def observed(self) -> tuple[str, ...]:
        """Every tensor that QNN returns."""
        return tuple(name for name in self.computed if name not in self.hidden)

    @property
    def hidden(self) -> frozenset[str]:
        """The float tensors between stored ones, in a model that already contains QuantizeLinear and DequantizeLinear.

        Qualcomm's provider computes the nodes between them from stored to stored numbers.  If such a float tensor is
        also an output, that is prevented, or the execution ends with "Inconsistent output sizes" or a crash.
        """
        readers = self._readers()
        real = {name for node in self.nodes if node.op_type == _DEQUANTIZE for name in node.output}
        stored_again = {
            name
            for node in self.nodes
            if real & {*node.input} or node.domain not in _STANDARD
            for name in node.output
            if {each.op_type for each in readers[name]} == {_QUANTIZE} and name not in self.outputs
        }
        return frozenset(real | stored_again)

    def is_custom(self, node: Any) -> bool:
        """Whether the op of a node is neither an ONNX op nor a function of the model."""
        return node.domain not in _STANDARD and (node.domain, node.op_type) not in self._functions

    def _inside(self, node: Any) -> Iterator[Any]:
        """The nodes in the bodies of a node or of the model function that it calls, recursively."""
        bodies = [*graphs_of(node)]
        bodies += [each for each in self.model.functions if (each.domain, each.name) == (node.domain, node.op_type)]
        for body in bodies:
            for each in body.node:
                yield each
                yield from self._inside(each)

    def _readers(self) -> Mapping[str, list[Any]]:
        found: dict[str, list[Any]] = defaultdict(list)
        for node in self.nodes:
            for name in taken_by(node):
                found[name].append(node)
        return found

    def _check(self) -> None:
        """Raise for nodes that Qualcomm's provider does not compute, or whose tensors it returns only in part."""
        readers = self._readers()
        for node in self.nodes:
            where = f"{self.path}: node `{_title(node)}` ({node.op_type})"
            for inner in self._inside(node):
                if self.is_custom(inner):
                    raise UsageError(
                        f"{where} contains the custom node `{_title(inner)}` ({inner.op_type}): only custom "
                        "nodes of the main graph can be run and compared",
                        hint="export the model without the control flow or the function, so that the node is outside",
                    )
            for name in node.output if self.is_custom(node) else ():
                quantizers = [each for each in readers[name] if each.op_type == _QUANTIZE]
                if quantizers and (len(readers[name]) > 1 or name in self.outputs):
                    raise UsageError(
                        f"{where}: its output `{name}` is quantized by node `{_title(quantizers[0])}`, and is used "
                        "elsewhere, too: Qualcomm's provider has only the stored numbers of a custom op",
                        hint=f"use the output of DequantizeLinear in the other places, instead of `{name}`",
                    )

    def _cut(self, until: str) -> None:
        """Keep only the nodes that a tensor needs."""
        graph = self.model.graph
        known = {name for node in graph.node for name in node.output if name}
        if until not in known:
            raise UsageError(f"{self.path} computes no tensor `{until}`", hint=suggestion(until, known, _TABLE))
        needed, kept = {until}, []
        for node in reversed(graph.node):
            if needed & {*node.output}:
                kept.append(node)
                needed |= {*taken_by(node)}
        del graph.node[:]
        graph.node.extend(reversed(kept))
        del graph.output[:]
        graph.output.append(self.onnx.ValueInfoProto(name=until))
        used = [each for each in graph.input if each.name in needed]
        del graph.input[:]
        graph.input.extend(used)
        self.inputs = {name: each for name, each in self.inputs.items() if name in needed}

    def numbers_of(self, names: Sequence[str]) -> frozenset[int]:
        """The indices of the nodes with these names: an op, a node, or a tensor that it computes."""
        found = set()
        for name in names:
            meant = [n for n, node in enumerate(self.nodes) if name in (node.op_type, node.name, *node.output)]
            if not meant:
                known = {each for node in self.nodes for each in (node.op_type, node.name, *node.output) if each}
                hint = suggestion(name, known, _TABLE)
                raise UsageError(f"{self.path} has no op, node or tensor `{name}` to replace", hint=hint)
            found |= {*meant}
        return frozenset(found)

    def part(self, numbers: Collection[int], given: Mapping[str, Array]) -> Network:
        """The network with only these nodes; `given` are additional inputs that they may use."""
        made = copy.copy(self)
        made.nodes = [self.nodes[number] for number in sorted(numbers)]
        used = {name for node in made.nodes for name in taken_by(node)}
        made.model = self.onnx.ModelProto()
        made.model.CopyFrom(self.model)
        graph = made.model.graph
        constant = [node for node in self.model.graph.node if node.op_type == "Constant"]
        del graph.node[:]
        graph.node.extend([*constant, *made.nodes])
        inputs = [each for each in self.inputs.values() if each.name in used]
        inputs += [self.value_info(name, value) for name, value in given.items() if name in used]
        del graph.input[:]
        graph.input.extend(inputs)
        made.inputs = {each.name: each for each in inputs}
        return made

    def samples(self, files: Mapping[str, Path]) -> tuple[list[dict[str, Array]], tuple[str, ...]]:
        """The samples of the inputs, and the names of those that are random numbers."""
        if strange := [name for name in files if name not in self.inputs]:
            hint = suggestion(strange[0], self.inputs, f"it has: {', '.join(self.inputs)}")
            raise UsageError(f"{self.path} has no input `{strange[0]}`", hint=hint)
        given = {name: self._load(name, file) for name, file in files.items()}
        counts = {len(rows) for rows in given.values() if len(rows) != 1}
        if len(counts) > 1:
            raise UsageError("the inputs have different numbers of samples", hint="give the same number for each")
        count = counts.pop() if counts else 1
        numbers = np.random.default_rng(2026)
        random = tuple(name for name in self.inputs if name not in given)
        for name in random:
            dtype, shape = self._type(name)
            rows = numbers.normal(size=(count, *(each or 1 for each in shape)))
            given[name] = [np.asarray(row, dtype) for row in rows]
        return [{name: rows[min(n, len(rows) - 1)] for name, rows in given.items()} for n in range(count)], random

    def _type(self, name: str) -> tuple[Any, tuple[int | None, ...]]:
        tensor = self.inputs[name].type.tensor_type
        shape = tuple(each.dim_value or None for each in tensor.shape.dim)
        return self.onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type), shape

    def _load(self, name: str, file: Path) -> list[Array]:
        found = load_array(file)
        dtype, shape = self._type(name)
        rows = [found] if found.ndim == len(shape) else list(found) if found.ndim == len(shape) + 1 else []
        fits = rows and all(want in (None, have) for have, want in zip(rows[0].shape, shape, strict=True))
        if not fits:
            shown = [each or "?" for each in shape]
            raise UsageError(
                f"{file} has the shape {list(found.shape)}, input `{name}` has {shown}",
                hint="give that shape, or several samples with a first axis more",
            )
        return [np.asarray(row, dtype, order="C") for row in rows]

    def rounded_weights(self, quants: Mapping[str, Quant]) -> dict[str, Array]:
        """The constants rounded to 8 bits, except biases and settings."""
        kept = {
            name
            for node in self.nodes
            for index, name in enumerate(node.input)
            if _is_setting(node, index) or (index == 2 and node.op_type in _BIASED)
        }
        return self.constants | _rounded({name: self.constants[name] for name in self.constants.keys() - kept}, quants)

    # --- models made from it ------------------------------------------------------------------------------------------

    def with_outputs(self, values: Mapping[str, Array]) -> Any:
        """The model with every tensor as an output, and all shapes known."""
        made = self.onnx.ModelProto()
        made.CopyFrom(self.model)
        for value in made.graph.input:  # open dimensions are those of the samples
            if value.name in values:
                value.CopyFrom(self.value_info(value.name, values[value.name]))
        del made.graph.output[:]
        del made.graph.value_info[:]
        made.graph.output.extend(self.value_info(name, values[name]) for name in self.observed)
        made.graph.value_info.extend(self.value_info(name, values[name]) for name in self.hidden)
        made.graph.name = made.graph.name or "network"
        last = self.hidden - self._readers().keys()  # the provider fails with 6004 if no node reads these
        kept = [node for node in made.graph.node if last.isdisjoint(node.output)]
        del made.graph.node[:]
        made.graph.node.extend(kept)
        return made

    def value_info(self, name: str, value: Array) -> Any:
        """A tensor with the type and shape of a value."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        return self.onnx.helper.make_tensor_value_info(name, kind, value.shape)

    def quants(self, expected: Sequence[Mapping[str, Array]]) -> dict[str, Quant]:
        """The 8-bit quantization of every float tensor, from its values for all samples."""
        found: dict[str, Quant] = {}
        for name in (*self.inputs, *self.constants, *self.observed):
            values = [self.constants[name]] if name in self.constants else [each[name] for each in expected]
            if values[0].dtype == np.float32 and values[0].size:
                found[name] = Quant.of_range(
                    min(float(each.min()) for each in values), max(float(each.max()) for each in values)
                )
        for node in self.nodes:
            if (
                node.op_type in _WEIGHTED
                and node.domain in _STANDARD
                and node.input[1] in found.keys() & self.constants
            ):
                found[node.input[1]] = Quant.of_weights(self.constants[node.input[1]])
            if node.op_type in _MOVES and node.domain in _STANDARD and node.input[0] in found:
                found[node.output[0]] = found[node.input[0]]
        return found


class Quantizer:
    """Makes an 8-bit model: each float tensor is quantized and dequantized, and outputs are the stored bytes."""

    def __init__(self, network: Network, quants: Mapping[str, Quant]) -> None:
        self._network, self._onnx, self._quants = network, network.onnx, quants
        self._nodes: list[Any] = []
        self._constants: dict[str, Array] = {}
        self._readers: Counter[str] = Counter()

    def quantized(self, model: Any, values: Mapping[str, Array]) -> Any:
        """A copy of the model; `values` have the shapes of its tensors."""
        network = self._network
        for name in network.inputs:
            if name in self._quants:
                self._store(name, name)
        for source in network.nodes:
            self._add(source)
        made = self._onnx.ModelProto()
        made.CopyFrom(model)
        used = {name for node in self._nodes for name in node.input}
        constants = {**network.constants, **self._constants}
        inputs = [each for each in made.graph.input if each.name in network.inputs]
        del made.graph.initializer[:], made.graph.node[:], made.graph.output[:], made.graph.input[:]
        made.graph.input.extend(inputs)
        made.ir_version = max(made.ir_version, 4)  # in earlier versions constants are inputs too
        made.graph.initializer.extend(
            self._onnx.numpy_helper.from_array(np.asarray(value), name)
            for name, value in constants.items()
            if name in used
        )
        made.graph.node.extend(self._nodes)
        for name in network.observed:
            stored = name in self._quants
            shown = np.zeros(values[name].shape, np.uint8) if stored else values[name]
            made.graph.output.append(network.value_info(f"{name}__stored" if stored else name, shown))
            reals = [_real_name(name, number) for number in range(self._readers[name])]
            for each in [f"{name}__float", *reals] if stored else ():
                made.graph.value_info.append(network.value_info(each, values[name]))
        return made

    def _add(self, source: Any) -> None:
        """Add a node with its inputs dequantized and its outputs quantized."""
        node = self._onnx.NodeProto()
        node.CopyFrom(source)
        for index, name in enumerate(source.input):
            if name in self._quants and not _is_setting(source, index):
                node.input[index] = self._read(source, index, name)
        stored = [name for name in source.output if name in self._quants]
        for index, name in enumerate(source.output):
            if name in stored:
                node.output[index] = f"{name}__float"
        self._nodes.append(node)
        for name in stored:
            self._store(name, f"{name}__float")

    def _read(self, node: Any, index: int, name: str) -> str:
        """The name of a dequantized input for one reader; Qualcomm's provider aborts if a DequantizeLinear has two."""
        constants = self._network.constants
        if name in constants and node.op_type in _BIASED and index == 2 and node.domain in _STANDARD:
            key, scale = (
                f"{node.output[0]}__bias",
                self._quants[node.input[0]].scale * self._quants[node.input[1]].scale,
            )
            stored = np.rint(constants[name].astype(np.float64) / scale).astype(np.int32)
            self._constants[f"{key}__stored"] = stored
            return self._dequantize(key, scale, np.int32(0))
        quant = self._quants[name]
        if name in constants:
            self._constants[f"{name}__stored"] = quant.stored(constants[name])
        return self._dequantize(name, quant.scale, np.uint8(quant.zero))

    def _store(self, name: str, source: str) -> None:
        """Quantize an output of a node."""
        quant = self._quants[name]
        pair = self._grid(name, quant.scale, np.uint8(quant.zero))
        self._node(_QUANTIZE, [source, *pair], f"{name}__stored")

    def _dequantize(self, name: str, scale: float, zero: Any) -> str:
        made = _real_name(name, self._readers[name])
        self._readers[name] += 1
        self._node(_DEQUANTIZE, [f"{name}__stored", *self._grid(name, scale, zero)], made)
        return made

    def _grid(self, name: str, scale: float, zero: Any) -> list[str]:
        self._constants[f"{name}__scale"], self._constants[f"{name}__zero"] = np.array(scale, np.float32), zero
        return [f"{name}__scale", f"{name}__zero"]

    def _node(self, op: str, inputs: list[str], output: str) -> None:
        self._nodes.append(self._onnx.helper.make_node(op, inputs, [output], f"{output}_{op}"))


def _real_name(name: str, number: int) -> str:
    """The name of a dequantized tensor for the reader with this number."""
    return f"{name}__real{number or ''}"


def _converted(model: Any, opset: int, path: Path) -> Any:
    """The model, converted to a later opset, where the settings of some ops are passed differently."""
    try:
        return importlib.import_module("onnx.version_converter").convert_version(model, opset)
    except Exception as fault:  # from ONNX's C++ code, of any type
        raise UsageError(
            f"{path} cannot be converted to opset {opset}, which 8 bits need: {fault}",
            hint=f"export the model with opset {opset} or later",
        ) from fault


def _is_fused(node: Any) -> bool:
    return node.op_type in _FUSED and node.domain in _STANDARD


def _is_setting(node: Any, index: int) -> bool:
    """Whether an input configures its node (limits of Clip, scales of Resize); such inputs are not quantized."""
    return node.domain in _STANDARD and index > 0 and node.op_type in ("Clip", "Resize", "Pad", "Upsample")


def _constant(onnx: Any, node: Any) -> Array:
    [attribute] = [each for each in node.attribute if each.name.startswith("value")]
    value = onnx.helper.get_attribute_value(attribute)
    found: Array = onnx.numpy_helper.to_array(value) if attribute.name == "value" else np.asarray(value)
    return found.astype(np.float32) if found.dtype == np.float64 and attribute.name != "value" else found


def _title(node: Any) -> str:
    return str(node.name or node.output[0])


class Evaluator:
    """Computes nodes one by one: ONNX ops with ONNX Runtime's CPU, custom ops with their references."""

    def __init__(
        self,
        onnx: Any,
        network: Network,
        references: Mapping[str, ReferenceFunction],
        constants: Mapping[str, Array] | None = None,
        *,
        defaults: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        self._defaults = defaults or {}  # of parameters, by op
        self._constants = network.constants if constants is None else constants
        self._onnx, self.network, self._references = onnx, network, references
        self.nodes = network.nodes
        self._sessions: dict[int, tuple[Any, list[str]]] = {}
        missing = sorted({node.op_type for node in network.nodes if self._needs_reference(node)})
        if missing:
            raise UsageError(
                f"there is no reference for the op{'s' * (len(missing) > 1)} {', '.join(missing)}",
                hint=f"--reference {missing[0]}=reference.py:function, or --tests op_tests.toml that names one",
            )
        self._runtime: Any = importlib.import_module("onnxruntime")

    def with_constants(self, constants: Mapping[str, Array]) -> Evaluator:
        """The same evaluator with other values of constants."""
        return Evaluator(self._onnx, self.network, self._references, constants, defaults=self._defaults)

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Every tensor of the network."""
        values: dict[str, Array] = dict(sample)
        for number in range(len(self.network.nodes)):
            values.update(self.node(number, values))
        return values

    def node(self, number: int, values: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of one node from these tensors and the network's constants."""
        node = self.network.nodes[number]
        if self._is_custom(node):
            found = self._reference(node, {**self._constants, **values}, self._attributes(node))
            return {name: array.astype(np.float32) for name, array in found.items()}
        if number not in self._sessions:
            self._sessions[number] = self._session(node, values)
        session, names = self._sessions[number]
        outputs = [name for name in node.output if name]
        found = session.run(outputs, {name: values[name] for name in names})
        return dict(zip(outputs, found, strict=True))

    def fused(self, number: int, values: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of a node, computed from unrounded outputs of the nodes before it."""
        inputs = {}
        for before, node in enumerate(self.nodes[:number]):
            if used := {*node.output} & {*self.nodes[number].input} - {""}:
                found = (self.fused if _is_fused(node) else self.node)(before, values)
                inputs.update({name: found[name] for name in used})
        return self.node(number, {**values, **inputs})

    def question(
        self, number: int, tensor: str, values: Mapping[str, Array]
    ) -> tuple[dict[str, Array], dict[str, object], ReferenceCall]:
        """The inputs of a node, its parameters, and a function of both that returns one of its outputs."""
        node = self.network.nodes[number]
        known = {**self._constants, **values}
        inputs = {name: np.asarray(known[name]) for name in node.input if name}
        is_custom = self._is_custom(node)

        def reference(inputs: Arrays, params: Mapping[str, object], _quants: Quants) -> Arrays:
            found = self._reference(node, inputs, params) if is_custom else self.node(number, {**values, **inputs})
            return {tensor: found[tensor]}

        return inputs, self._attributes(node) if is_custom else {}, reference

    def _is_custom(self, node: Any) -> bool:
        return node.op_type in self._references and node.domain not in _STANDARD

    def _attributes(self, node: Any) -> dict[str, object]:
        given = {each.name: _attribute(self._onnx, each) for each in node.attribute}
        return {**self._defaults.get(node.op_type, {}), **given} if self._is_custom(node) else given

    def _needs_reference(self, node: Any) -> bool:
        return self.network.is_custom(node) and node.op_type not in self._references

    def _reference(self, node: Any, values: Arrays, params: Mapping[str, object]) -> dict[str, Array]:
        inputs = [np.asarray(values[name], np.float64) if name else None for name in node.input]
        found = self._references[node.op_type](inputs, params, [name for name in node.output if name])
        return {name: np.asarray(found[name], np.float64) for name in node.output if name}

    def _session(self, node: Any, values: Mapping[str, Array]) -> tuple[Any, list[str]]:
        helper, network = self._onnx.helper, self.network
        used = list(dict.fromkeys(taken_by(node)))
        names = [name for name in used if name not in self._constants]
        rows = [network.value_info(name, values[name]) for name in names]
        constant = [name for name in used if name in self._constants]
        constants = [self._onnx.numpy_helper.from_array(self._constants[name], name) for name in constant]
        outputs = [self._onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", rows, outputs, constants)
        model = helper.make_model(graph, opset_imports=network.model.opset_import)
        model.functions.extend(network.model.functions)
        model.ir_version = network.model.ir_version
        options = self._runtime.SessionOptions()
        options.graph_optimization_level = self._runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        try:
            made = self._runtime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        except Exception as fault:  # from pybind11, with a type for each kind of error
            raise RunFailed(
                f"ONNX Runtime's CPU cannot compute node `{_title(node)}` ({node.op_type}): "
                + " ".join(str(fault).split())[:300],
                hint="check the model: `onnx.checker.check_model`",
            ) from fault
        return made, names


def _attribute(onnx: Any, attribute: Any) -> object:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


# --- on QNN -----------------------------------------------------------------------------------------------------------


def run_on_qnn(
    options: NetworkOptions, model: Any, outputs: Sequence[str], samples: Sequence[Mapping[str, Array]]
) -> tuple[NetworkRan, str]:
    """Run a model (a ModelProto) in a worker; return these outputs for every sample, and the name of the runtime."""
    with tempfile.TemporaryDirectory(prefix="udogen-network-") as folder:
        path = Path(folder, options.model.name)
        onnx_module().save(model, str(path))
        command = RunNetwork(
            backend=options.backend,
            packages=tuple(each.resolve() for each in options.packages),
            model=path,
            samples=tuple(tuple(ArrayRow.of(name, array) for name, array in sample.items()) for sample in samples),
            outputs=tuple(outputs),
        )
        worker = WorkerSession("udogen.clients.ort.worker", explain=explain_failure)
        situation = Situation(str(options.model), what="model")
        try:
            opened = worker.start(OpenOrt(options.backend), OrtOpened, situation, _START_SECONDS)
            return worker.ask(command, NetworkRan, situation, options.timeout), opened.name
        finally:
            worker.close()


@dataclass(frozen=True)
class _Executed:
    """Every tensor for every sample, as real numbers, and how QNN computed them."""

    values: list[dict[str, Array]]
    runtime: str
    seconds: float
    elsewhere: tuple[str, ...]


@dataclass(frozen=True)
class _Executor:
    """Executes a network on QNN; replaced nodes are computed by their references, from tensors computed on QNN."""

    onnx: Any
    options: NetworkOptions
    network: Network
    evaluator: Evaluator
    quants: Mapping[str, Quant]
    replaced: frozenset[int]

    def run(self, samples: Sequence[Mapping[str, Array]]) -> _Executed:
        """Alternately execute all nodes that need no pending reference, and compute the references that are ready."""
        pending = set(self.replaced)
        given: list[dict[str, Array]] = [{} for _ in samples]
        if len(pending) == len(self.network.nodes):
            raise UsageError("every op of the network is replaced", hint="leave at least one for QNN")
        ran, runtime = NetworkRan((), (0.0,), ()), ""
        while True:
            waiting = self._waiting(pending)
            numbers = [n for n in range(len(self.network.nodes)) if n not in waiting and n not in self.replaced]
            values = [dict(each) for each in given]
            if numbers:
                ran, runtime = self._part(numbers, samples, given)
                for row, rows, sample in zip(values, ran.samples, samples, strict=True):
                    row.update(_real(rows, self.quants))
                    self._add_hidden(row, sample, numbers)
            if not pending:
                return _Executed(values, runtime, min(ran.seconds), ran.elsewhere)
            ready = {number for number in pending if not self._inputs(number) & self._outputs(waiting - {number})}
            for row, sample, known in zip(given, samples, values, strict=True):
                inputs = _rounded(sample, self.quants) | known
                for number in ready:
                    row.update(_rounded(self.evaluator.node(number, inputs), self.quants))
            pending -= ready

    def _add_hidden(self, values: dict[str, Array], sample: Mapping[str, Array], numbers: Sequence[int]) -> None:
        """Add the float tensors that QNN did not return, computed from the stored ones that it did return."""
        for number in numbers:
            if self._outputs([number]) - values.keys():
                values.update(self.evaluator.node(number, {**sample, **values}) | values)

    def _waiting(self, pending: Collection[int]) -> set[int]:
        """The pending nodes, and the nodes that depend on them."""
        waiting, missing = set(pending), self._outputs(pending)
        for number in range(len(self.network.nodes)):
            if self._inputs(number) & missing:
                waiting.add(number)
                missing |= self._outputs([number])
        return waiting

    def _inputs(self, number: int) -> set[str]:
        node = self.network.nodes[number]
        return {*taken_by(node)}

    def _outputs(self, numbers: Collection[int]) -> set[str]:
        return {name for number in numbers for name in self.network.nodes[number].output if name}

    def _part(
        self, numbers: Collection[int], samples: Sequence[Mapping[str, Array]], given: Sequence[Mapping[str, Array]]
    ) -> tuple[NetworkRan, str]:
        network = self.network.part(numbers, given[0]) if self.replaced else self.network
        first = self.evaluator.run({**samples[0]})  # the shapes of all tensors
        model = network.with_outputs(first)
        if self.quants:
            model = Quantizer(network, self.quants).quantized(model, first)
        options = replace(self.options, packages=_needed(self.options, network))
        rows = [
            {name: array for name, array in {**sample, **more}.items() if name in network.inputs}
            for sample, more in zip(samples, given, strict=True)
        ]
        names = {each.name for each in model.graph.output}
        outputs = [name if name in names else f"{name}__stored" for name in network.observed]
        return run_on_qnn(options, model, outputs, rows)


def _real(rows: Sequence[ArrayRow], quants: Mapping[str, Quant]) -> dict[str, Array]:
    found = {}
    for row in rows:
        array, name = row.array, row.name.removesuffix("__stored")
        found[name] = quants[name].real(array) if name in quants and name != row.name else array
    return found


def _limit(options: NetworkOptions, quant: Quant | None, op: str, span: float) -> float:
    """The largest allowed own error of a layer, relative to its range."""
    if options.tolerance is not None:
        return options.tolerance
    if quant is not None:
        return STEPS / 255
    steps = STEPS / span if op == _QUANTIZE else 0.0
    return max(TOLERANCES[options.backend, FLOAT], steps)


@dataclass(frozen=True)
class _Layers:
    """The largest errors over all samples, for each output of each node."""

    options: NetworkOptions
    evaluator: Evaluator
    quants: Mapping[str, Quant]
    replaced: Collection[int]
    expected: Sequence[Mapping[str, Array]]
    values: Sequence[Mapping[str, Array]]  # the tensors on QNN, with inputs

    def __iter__(self) -> Iterator[LayerResult]:
        hidden = self.evaluator.network.hidden
        for number, node in enumerate(self.evaluator.nodes):
            targets = [[self.evaluator.node(number, sample) for sample in self.values]]
            if self.quants and _is_fused(node):
                targets.append([self.evaluator.fused(number, sample) for sample in self.values])
            for name in (each for each in node.output if each and each not in hidden):
                yield self._of(number, name, [[each[name] for each in target] for target in targets])

    @cached_property
    def _makers(self) -> dict[str, int]:
        return {name: number for number, node in enumerate(self.evaluator.nodes) for name in node.output}

    def _of(self, number: int, name: str, targets: Sequence[Sequence[Array]]) -> LayerResult:
        """The result of an output, compared with what the node computes from its own inputs: the closest target."""
        node, hidden, quant = self.evaluator.nodes[number], self.evaluator.network.hidden, self.quants.get(name)
        maker = self._makers[node.input[0]] if node.op_type == _QUANTIZE and node.input[0] in hidden else number
        named = self.evaluator.nodes[maker]
        expected, made = [each[name] for each in self.expected], [each[name] for each in self.values]
        spans = [span_of(whole) if quant is None else quant.span for whole in expected]
        if quant is not None:
            targets = [[quant.rounded(each) for each in target] for target in targets]
        own = min(_error(made, target, spans) for target in targets)
        return LayerResult(
            number,
            _title(named),
            node.op_type if named is node else f"{named.op_type}, {node.op_type}",
            name,
            str(expected[0].dtype),
            tuple(expected[0].shape),
            own,
            _error(made, expected, spans),
            steps=None if quant is None else own * 255,
            wrong=own > _limit(self.options, quant, node.op_type, min(spans)),
            replaced=bool({number, maker} & {*self.replaced}),
        )


def _error(made: Sequence[Array], expected: Sequence[Array], spans: Sequence[float]) -> float:
    """The largest difference over all samples, relative to the tensor's range."""
    return max(apart(one, other) / span for one, other, span in zip(made, expected, spans, strict=True))


def span_of(values: Array) -> float:
    """The range of a tensor, to which errors are relative."""
    numbers = np.asarray(values, np.float64)
    numbers = numbers[np.isfinite(numbers)]
    return float(max(numbers.max() - numbers.min(), abs(numbers).max())) or 1.0 if numbers.size else 1.0


def apart(one: Array, other: Array) -> float:
    """The largest difference; infinite unless NaN and infinity are at the same places."""
    if one.shape != other.shape:
        return float("inf")
    if not one.size:
        return 0.0
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not (finite | same).all():
        return float("inf")
    return float(np.abs(np.where(finite, a, 0) - np.where(finite, b, 0)).max())


# --- text and JSON ----------------------------------------------------------------------------------------------------


def lines(result: NetworkResult) -> Iterator[str]:
    """The table of layers, and the first wrong one."""
    head = ("layer", "op", "shape", "own error", *(("steps",) if result.bits == BITS_8 else ()), "error", "")
    rows = []
    for each in result.layers:
        steps = () if result.bits != BITS_8 else ("" if each.steps is None else f"{each.steps:.2f}",)
        shape = "x".join(map(str, each.shape)) or "scalar"
        rows.append((each.tensor, each.op, shape, f"{each.own:.2g}", *steps, f"{each.error:.2g}", _mark(each)))
    yield from columns([head, *rows])
    yield ""
    if result.random:
        yield f"random numbers: {', '.join(result.random)}"
    if result.elsewhere:
        yield f"not on QNN, but on ONNX Runtime's CPU: {', '.join(result.elsewhere)}"
    first = result.first_wrong
    wrong = sum(each.wrong for each in result.layers)
    if first is None:
        yield f"all {len(result.layers)} tensors agree with ONNX Runtime's CPU"
    else:
        stored = "" if first.steps is None else f" ({first.steps:.2f} steps of 8 bits)"
        yield (
            f"wrong: {wrong} of {len(result.layers)} tensors; the first is `{first.tensor}` of node `{first.node}` "
            f"({first.op}): {first.own:.2g} of its range{stored} off from its own inputs"
        )
    yield f"{result.samples} sample{'s' * (result.samples != 1)}, {result.bits} bits on {result.runtime}".replace(
        "float bits", "float"
    )


def _mark(layer: LayerResult) -> str:
    return "wrong" if layer.wrong else "reference" if layer.replaced else ""


def first_lines(result: NetworkResult) -> Iterator[str]:
    """A description of the first wrong layer, in the order of execution."""
    first = result.first_wrong
    if first is None:
        yield f"no difference: {len(result.layers)} tensors agree with ONNX Runtime's CPU on {result.runtime}"
        return
    before = next((each.tensor for each in reversed(result.layers[: result.layers.index(first)])), "")
    yield f"first difference: `{first.tensor}`, {first.dtype} {list(first.shape)}"
    numbers = sorted({each.number for each in result.layers})
    yield f"  node `{first.node}` ({first.op}), {numbers.index(first.number) + 1} of {len(numbers)}"
    stored = "" if first.steps is None else f" ({first.steps:.2f} steps of 8 bits)"
    yield f"  {first.own:.3g} of its range{stored} off from its own inputs, {first.error:.3g} since the first layer"
    yield f"  last tensor that agrees: `{before}`" if before else "  it is the first layer"


def as_json(result: NetworkResult) -> dict[str, object]:
    """The result as `--json` prints it."""
    first = result.first_wrong
    return {
        "ok": first is None,
        "runtime": result.runtime,
        "backend": result.backend,
        "bits": result.bits,
        "samples": result.samples,
        "seconds": result.seconds,
        "random": list(result.random),
        "elsewhere": list(result.elsewhere),
        "layers": [vars(each) for each in result.layers],
        "first_wrong": None if first is None else first.tensor,
    }
