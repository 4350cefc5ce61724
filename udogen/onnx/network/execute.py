"""Executes networks on QNN, in a worker, and finds the node at which an execution fails."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udogen.build.emulator import build_watch
from udogen.build.package import open_packages
from udogen.build.tools import preloading
from udogen.errors import UdogenError
from udogen.onnx.models.reading import onnx_module
from udogen.onnx.network.evaluate import Evaluator
from udogen.onnx.network.model import BITS_8, FLOAT, Network, title
from udogen.onnx.network.quantize import STORED, Quant, Quantizer
from udogen.onnx.ort.commands import ArrayRow, NetworkRan, OpenOrt, OrtOpened, RunNetwork
from udogen.onnx.ort.op_session import explain_failure
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
            packages=tuple(each.resolve() for each in options.packages),
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
            first, found = self._first_failure(samples[:1], preload)
            raise (fault if found is None else self._named(found, first)) from fault
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
        names = {each.name for each in model.graph.output}
        outputs = [name if name in names else f"{name}{STORED}" for name in network.observed]
        return run_on_qnn(options, model, outputs, rows, preload=preload)

    def _needed(self, network: Network) -> tuple[Path, ...]:
        """The op packages that are needed: if only a part of the network runs, those with an op in it."""
        if not self.options.until and network is self.network:
            return self.options.packages
        used = {node.op_type for node in network.nodes}
        return tuple(
            path
            for path in self.options.packages
            if not path.is_dir() or used & {op for each in open_packages(path) for op in each.ops}
        )


def _real(rows: Sequence[ArrayRow], quants: Mapping[str, Quant]) -> dict[str, Array]:
    found = {}
    for row in rows:
        array, name = row.array, row.name.removesuffix(STORED)
        found[name] = quants[name].real(array) if name in quants and name != row.name else array
    return found


def _watch() -> Sequence[Path]:
    """The library with which a crash names the library in which it happened; none without a C compiler."""
    try:
        return (build_watch(),)
    except UdogenError:
        return ()
