"""The result of a network: as data, as text and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from udogen.onnx.network.model import BITS_8
from udogen.tables import columns, many
from udogen.verdict import Verdict

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array

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
        return next((each for each in self.layers if each.wrong), None)

    @property
    def on_qnn(self) -> int:
        """The number of tensors that QNN computed; only these are evidence."""
        return sum(each.on == QNN for each in self.layers)

    @property
    def verdict(self) -> Verdict:
        """The verdict on all tensors; those that QNN did not compute are skipped."""
        wrong, skipped = sum(each.wrong for each in self.layers), len(self.layers) - self.on_qnn
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
        for each in self.assumed:
            yield f"open dimensions taken as 1: {each}"
        for nodes, reason in self.reasons():
            yield f"not on QNN: {nodes}: {reason}"
        yield self.sentence()
        bits = self.bits if self.bits != BITS_8 else "8 bits"
        yield f"{many(self.samples, 'sample')}, {bits} on {self.runtime}"

    def reasons(self) -> Iterator[tuple[str, str]]:
        """The nodes that did not run on QNN, and the reason, for each reason."""
        by_reason = defaultdict(list)
        for each in self.elsewhere:
            by_reason[each.reason].append(f"{each.node} ({each.op})")
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
            "elsewhere": [vars(each) for each in self.elsewhere],
            "layers": [vars(each) for each in self.layers],
            "first_wrong": None if first is None else first.tensor,
        }
