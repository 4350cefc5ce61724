"""Compares the tensors of a network on QNN with those that ONNX Runtime's CPU and references compute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from udogen.build.package import open_packages
from udogen.configs.load import load
from udogen.errors import UsageError
from udogen.onnx.models.reading import onnx_module
from udogen.onnx.network.execute import (
    STORED,
    Executed,
    Executor,
    NetworkOptions,
    Quant,
    ops_in,
    quants_of,
    rounded,
    rounded_constants,
)
from udogen.onnx.network.model import BITS_8, DEQUANTIZE, QUANTIZE, Evaluator, Network, first_output, is_fused, title
from udogen.tables import columns, many
from udogen.verdict import Verdict

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

# The largest allowed own error of a layer of floats, relative to the range of its output.
TOLERANCES = {"cpu": 1e-5, "htp": 4e-3}  # HTP computes FLOAT_32 with 16 bits


class Allowed(NamedTuple):
    """The largest allowed own error of a layer of 8 bits: the larger of steps and a difference of real numbers."""

    steps: float = 1.5
    real: float = 0.0


# By backend and op, where it is more than that of other ops; tests/verify/test_network_tolerances.py measures it.
ALLOWED = {
    ("htp", "MatMul"): Allowed(4.5),  # if both inputs are activations
    ("htp", "LogSoftmax"): Allowed(2.5),
    ("htp", "Softmax"): Allowed(real=1 / 256),  # HTP computes probabilities in such steps, however small all are
}
_OPSET_8_BITS = 10  # the first with QuantizeLinear

# Why a node did not run on QNN if its provider gives no reason.
_OPTIMIZED = "ONNX Runtime removed it, or computed it from constants, before QNN got the model"
_AT_BORDER = "at the border of QNN's graph, ONNX Runtime's CPU quantizes"


def run_network(options: NetworkOptions) -> NetworkResult:
    """Run a network on QNN and compare it; raises if it cannot run."""
    least_opset = _OPSET_8_BITS if options.bits == BITS_8 else 0
    network = Network(onnx_module(), options.model, until=options.until, least_opset=least_opset)
    samples, random, assumed = network.samples(options.inputs or {})
    evaluator = Evaluator(network, options.references or {}, defaults=_defaults(options.packages))
    expected = [evaluator.run(sample) for sample in samples]
    quants: dict[str, Quant] = {}
    if options.bits == BITS_8:
        quants = quants_of(network, expected)
        evaluator = evaluator.with_constants(rounded_constants(network, quants))
    _check_packages(network, options.packages)
    made = Executor(options, network, evaluator, quants).run(samples)
    values = [{**rounded(sample, quants), **found} for sample, found in zip(samples, made.values, strict=True)]
    layers = [*_Layers(options, evaluator, quants, expected, values, made.on_qnn)]
    return NetworkResult(
        runtime=made.runtime,
        backend=options.backend,
        bits=options.bits,
        samples=len(samples),
        layers=tuple(layers),
        seconds=made.seconds,
        elsewhere=tuple(_elsewhere(network, made)),
        random=random,
        assumed=assumed,
        outputs={name: made.values[-1][name] for name in network.outputs if name in made.values[-1]},
    )


def _check_packages(network: Network, packages: Sequence[Path]) -> None:
    """Raise if a custom op is in none of the packages; the ops of a library without its folder are unknown."""
    if not all(path.is_dir() for path in packages):
        return
    known = set[str]().union(*map(ops_in, packages))
    used = {node.op_type: title(node) for node in network.nodes if network.is_custom(node)}
    faults = [f"op {op} (node `{node}`) is in no package that is given" for op, node in used.items() if op not in known]
    if faults:
        raise UsageError(
            f"{network.path}: {faults[0]}", details=faults[1:], hint="--package DIR, a built package with it"
        )


def _is_on_qnn(node: Any, names: Collection[str]) -> bool:
    """Whether the node or a tensor that it computes is in QNN's graphs."""
    return not {alias for name in node.output if name for alias in (name, f"{name}{STORED}")}.isdisjoint(names)


def _elsewhere(network: Network, made: Executed) -> Iterator[Elsewhere]:
    for node in network.nodes:
        if not _is_on_qnn(node, made.on_qnn):
            usual = _AT_BORDER if node.op_type in (QUANTIZE, DEQUANTIZE) else _OPTIMIZED
            yield Elsewhere(title(node), node.op_type, made.reasons.get(first_output(node), usual))


def op_types(model: Path, until: str = "") -> frozenset[str]:
    """The types of the nodes of an ONNX model, or of those that a tensor needs."""
    return frozenset(node.op_type for node in Network(onnx_module(), model, until=until).nodes)


def _defaults(packages: Sequence[Path]) -> dict[str, dict[str, object]]:
    """The defaults of parameters in the configs of these packages, by op: a node may leave its attributes out."""
    configs = dict.fromkeys(
        file for path in packages if path.is_dir() for package in open_packages(path) for file in package.configs
    )
    return {
        op.name: {
            param.name: param.default
            if param.is_scalar or isinstance(param.default, str)
            else np.asarray(param.default)
            for param in op.params
            if param.default is not None
        }
        for file in configs
        for package in load([file])[0]
        for op in package.ops
    }


def _limit(options: NetworkOptions, quant: Quant | None, op: str, span: float) -> float:
    """The largest allowed own error of a layer, relative to its range; `op` is its ops, as in the table."""
    if options.tolerance is not None:
        return options.tolerance
    op, _, quantizer = op.partition(", ")
    allowed = ALLOWED.get((options.backend, op), Allowed())
    if quant is not None:
        return max(allowed.steps / 255, allowed.real / span)
    steps = allowed.steps / span if QUANTIZE in (op, quantizer) else 0.0
    return max(TOLERANCES[options.backend], steps)


@dataclass(frozen=True)
class _Layers:
    """The largest errors over all samples, for each output of each node."""

    options: NetworkOptions
    evaluator: Evaluator
    quants: Mapping[str, Quant]
    expected: Sequence[Mapping[str, Array]]
    values: Sequence[Mapping[str, Array]]  # the tensors on QNN, with inputs
    on_qnn: Collection[str]

    def __iter__(self) -> Iterator[LayerResult]:
        hidden = self.evaluator.network.hidden
        for number, node in enumerate(self.evaluator.nodes):
            targets = [[self.evaluator.node(number, sample) for sample in self.values]]
            if self.quants and is_fused(node):
                targets.append([self.evaluator.fused(number, sample) for sample in self.values])
            for name in (tensor for tensor in node.output if tensor and tensor not in hidden):
                yield self._of(number, name, [[sample[name] for sample in target] for target in targets])

    @cached_property
    def _makers(self) -> dict[str, int]:
        return {name: number for number, node in enumerate(self.evaluator.nodes) for name in node.output}

    def _of(self, number: int, name: str, targets: Sequence[Sequence[Array]]) -> LayerResult:
        """The result of an output, compared with what the node computes from its own inputs: the closest target."""
        node, hidden, quant = self.evaluator.nodes[number], self.evaluator.network.hidden, self.quants.get(name)
        maker = self._makers[node.input[0]] if node.op_type == QUANTIZE and node.input[0] in hidden else number
        named = self.evaluator.nodes[maker]
        expected, made = [sample[name] for sample in self.expected], [value[name] for value in self.values]
        spans = [span_of(whole) if quant is None else quant.span for whole in expected]
        if quant is not None:
            targets = [[quant.rounded(array) for array in target] for target in targets]
        own = min(_error(made, target, spans) for target in targets)
        op = named.op_type if named is node else f"{named.op_type}, {node.op_type}"
        return LayerResult(
            title(named),
            op,
            name,
            str(expected[0].dtype),
            tuple(expected[0].shape),
            own,
            _error(made, expected, spans),
            steps=None if quant is None else own * 255,
            wrong=own > _limit(self.options, quant, op, min(spans)),
            on=QNN if self._on_qnn(node, named) else CPU,
        )

    def _on_qnn(self, *nodes: Any) -> bool:
        return any(_is_on_qnn(node, self.on_qnn) for node in nodes)


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


QNN, CPU = "qnn", "cpu"  # what computed a layer; the second is ONNX Runtime's
_MARKS = {QNN: "", CPU: "not on QNN"}


@dataclass(frozen=True)
class LayerResult:
    """One output of a node, with its errors over all samples, relative to the range of the tensor."""

    node: str
    op: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    own: float  # from the same inputs as on QNN
    error: float  # from the first layer on
    steps: float | None  # the own error in steps of 8 bits
    wrong: bool
    on: str = QNN


@dataclass(frozen=True)
class Elsewhere:
    """A node that did not run on QNN, and why."""

    node: str
    op: str
    reason: str


@dataclass(frozen=True)
class NetworkResult:
    """The result of running a network."""

    runtime: str
    backend: str
    bits: str
    samples: int
    layers: tuple[LayerResult, ...]
    seconds: float  # of one execution on QNN, with all tensors as outputs
    elsewhere: tuple[Elsewhere, ...]
    random: tuple[str, ...]  # inputs that were not given
    outputs: Mapping[str, Array]  # of the model, for the last sample, as real numbers
    assumed: tuple[str, ...] = ()  # open dimensions of random inputs, taken as 1

    @property
    def first_wrong(self) -> LayerResult | None:
        """The first layer whose own error is too large."""
        return next((layer for layer in self.layers if layer.wrong), None)

    @property
    def on_qnn(self) -> int:
        """The number of tensors that QNN computed; only these are evidence."""
        return sum(layer.on == QNN for layer in self.layers)

    @property
    def verdict(self) -> Verdict:
        """The verdict on all tensors; those that QNN did not compute are skipped."""
        wrong, skipped = sum(layer.wrong for layer in self.layers), len(self.layers) - self.on_qnn
        return Verdict(len(self.layers), passed=self.on_qnn - wrong, failed=wrong, skipped=skipped, unit="tensor")

    @property
    def fault(self) -> str:
        """Why the network is not right; empty if it is."""
        if self.first_wrong is not None:
            return f"the first wrong layer is {self.first_wrong.tensor}"
        return "" if self.verdict.ok else "no node ran on QNN, so nothing was compared"

    def lines(self) -> Iterator[str]:
        """The table of layers, and what follows from it."""
        head = ("layer", "op", "shape", "own error", *(("steps",) if self.bits == BITS_8 else ()), "error", "")
        rows = []
        for layer in self.layers:
            steps = () if self.bits != BITS_8 else ("" if layer.steps is None else f"{layer.steps:.2f}",)
            shape = "x".join(map(str, layer.shape)) or "scalar"
            mark = "wrong" if layer.wrong else _MARKS[layer.on]
            rows.append((layer.tensor, layer.op, shape, f"{layer.own:.2g}", *steps, f"{layer.error:.2g}", mark))
        yield from columns([head, *rows])
        yield ""
        if self.random:
            yield f"random numbers: {', '.join(self.random)}"
        for name in self.assumed:
            yield f"open dimensions taken as 1: {name}"
        for nodes, reason in self.reasons():
            yield f"not on QNN: {nodes}: {reason}"
        yield self.sentence()
        bits = self.bits if self.bits != BITS_8 else "8 bits"
        yield f"{many(self.samples, 'sample')}, {bits} on {self.runtime}"

    def reasons(self) -> Iterator[tuple[str, str]]:
        """The nodes that did not run on QNN, and the reason, for each reason."""
        by_reason = defaultdict(list)
        for node in self.elsewhere:
            by_reason[node.reason].append(f"{node.node} ({node.op})")
        for reason, nodes in by_reason.items():
            yield ", ".join(nodes), reason.rstrip(".")

    def sentence(self) -> str:
        """Whether the tensors that QNN computed agree."""
        first, count, on_qnn = self.first_wrong, len(self.layers), self.on_qnn
        if first is not None:
            steps = "" if first.steps is None else f" ({first.steps:.2f} steps of 8 bits)"
            return (
                f"wrong: {self.verdict.failed} of {count} tensors; the first is `{first.tensor}` of node "
                f"`{first.node}` ({first.op}): {first.own:.2g} of its range{steps} off from its own inputs"
            )
        if self.fault:
            return self.fault
        some = f"{on_qnn} of {count} tensors were computed on QNN, and they"
        return f"{f'all {count} tensors' if on_qnn == count else some} agree with ONNX Runtime's CPU"

    def as_json(self) -> dict[str, object]:
        """The result as `--json` prints it."""
        first = self.first_wrong
        return {
            **self.verdict.as_json(),
            "fault": self.fault,
            "runtime": self.runtime,
            "backend": self.backend,
            "bits": self.bits,
            "samples": self.samples,
            "seconds": self.seconds,
            "random": list(self.random),
            "assumed": list(self.assumed),
            "on_qnn": self.on_qnn,
            "elsewhere": [vars(node) for node in self.elsewhere],
            "layers": [vars(layer) for layer in self.layers],
            "first_wrong": None if first is None else first.tensor,
        }
