"""The command for the worker that executes a model, its reply, and the lines printed from that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from udogen.qnn.tensors import QnnTensor
from udogen.runtime.buffers.plan import BufferPlan
from udogen.runtime.contexts.commands import OutputRow
from udogen.runtime.contexts.report import GraphProfile, output_line, profile_lines, time_text
from udogen.runtime.models.chain import MemoryBreakdown, Timing
from udogen.runtime.models.description import ModelDescription
from udogen.runtime.models.wiring import GraphChain, OuterTensor, Wiring
from udogen.runtime.sessions import SessionPlan
from udogen.tables import many
from udogen.verdict import Verdict


@dataclass(frozen=True)
class RunSteps:
    """Execute steps of a model; with `dry_run` only determine what they would be."""

    description: ModelDescription
    steps: int  # 0: as many as the file of `against` has arrays for
    feeds: Mapping[str, str]  # TENSOR or GRAPH:TENSOR -> file: one array, or one for each step
    output_dir: Path | None
    dry_run: bool
    against: Path | None = None  # .npz: CONTEXT.TENSOR -> one array, or one for each step
    profile: bool = False
    tolerance: float = 0.0  # in stored steps for fixed-point tensors; for others as a part of the range


@dataclass(frozen=True)
class StepRan:
    """The result of one step."""

    number: int
    graph: str
    seconds: float
    outputs: tuple[OutputRow, ...]


@dataclass(frozen=True)
class ComparedTensor:
    """A tensor of a step, compared with the expected one; `apart` is in stored steps or a part of its range."""

    step: int
    graph: str
    context: str
    tensor: str  # CONTEXT.TENSOR
    dtype: str
    shape: tuple[int, ...]
    apart: float
    unit: str
    wrong: bool
    elements: int  # number that differ
    index: tuple[int, ...] = ()  # of the element that is farthest off
    found: str = ""
    expected: str = ""


@dataclass(frozen=True)
class StepsRan:
    """A model and its sessions, and the results of its steps (none in a dry run)."""

    wiring: Wiring
    sessions: SessionPlan
    steps: tuple[StepRan, ...] = ()
    timings: tuple[Timing, ...] = ()
    shared: Mapping[str, str] = field(default_factory=dict)  # what contexts store once for several graphs
    memory: MemoryBreakdown | None = None
    plan: BufferPlan | None = None
    copied: int = 0  # bytes
    zeros: tuple[str, ...] = ()  # inputs that were given no data
    profiles: tuple[GraphProfile, ...] = ()  # of the last step of each graph
    compared: tuple[ComparedTensor, ...] = ()  # in the order in which the tensors were written
    # `model`: tensors that the expected ones lack; `file`: expected ones that no context wrote.
    not_compared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    proof: tuple[Any, ...] | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict on the tensors of the model and of the expected ones; those that only one has are skipped."""
        wrong, skipped = sum(tensor.wrong for tensor in self.compared), sum(map(len, self.not_compared.values()))
        planned, passed = len(self.compared) + skipped, len(self.compared) - wrong
        return Verdict(planned, passed=passed, failed=wrong, skipped=skipped, unit="tensor")

    @property
    def first(self) -> ComparedTensor | None:
        """The first tensor that differs, in the order of execution."""
        return next((tensor for tensor in self.compared if tensor.wrong), None)


def model_lines(ran: StepsRan, runtime: str) -> Iterator[str]:
    """The result of a model as readable lines."""
    yield str(ran.sessions)
    yield from (f"stored once in {context}: {what}" for context, what in ran.shared.items())
    yield ""
    if not ran.steps:
        yield from _wiring_lines(ran.wiring, ran.sessions)
    if ran.zeros:
        yield f"zeros: {', '.join(ran.zeros)}"
    if not ran.steps:
        return
    assert ran.memory
    yield str(ran.memory)
    yield ""
    last = {step.graph: step for step in ran.steps}
    for row in ran.timings:
        yield f"{row.graph}: {many(row.steps, 'step')}, {time_text(row.mean)}{' each' * (row.steps > 1)}"
        for output in last[row.graph].outputs:
            yield f"  {output_line(output)}"
    for profile in ran.profiles:
        yield f"{profile.context}: {profile.graph}: {time_text(profile.seconds)}"
        yield from profile_lines(profile.events, "  ")
    yield from _comparison_lines(ran)
    yield from (f"! {note}" for note in ran.notes)
    yield f"copied: {ran.copied:,} bytes"
    yield f"{many(sum(row.steps for row in ran.timings), 'step')} executed on {runtime}"


def _comparison_lines(ran: StepsRan) -> Iterator[str]:
    """The largest difference from the expected tensors, what was not compared, and the first tensor that is wrong."""
    if not ran.compared:
        return
    farthest = max(ran.compared, key=lambda tensor: tensor.apart)
    yield f"compared: {len(ran.compared)} tensors, " + (
        f"the largest difference is that of `{farthest.tensor}` in step {farthest.step}: "
        f"{farthest.apart:.3g} {farthest.unit}"
        if farthest.apart or farthest.wrong
        else "all equal"
    )
    for where, names in ran.not_compared.items():
        if names:
            yield f"not compared: {len(names)}, which only the {where} has: {', '.join(names)}"
    if ran.first is not None:
        first, before = ran.first, ran.compared[: ran.compared.index(ran.first)]
        yield f"first difference: `{first.tensor}`, {first.dtype} {list(first.shape)}, step {first.step}"
        yield (
            f"  {first.apart:.3g} {first.unit} off; {first.elements} elements differ, "
            f"the farthest at {list(first.index)}: {first.found} instead of {first.expected}"
        )
        yield f"  last tensor that agrees: `{before[-1].tensor}`" if before else "  no tensor before it was compared"


# --- the model, in a dry run ------------------------------------------------------------------------------------------


def _wiring_lines(wiring: Wiring, sessions: SessionPlan) -> Iterator[str]:
    """The graphs of a model: contexts with their sessions, inputs, outputs, state, and tensors that are passed on."""
    for chain in wiring.chains:
        yield f"{chain.name}: {many(len(chain.stages), 'context')}"
        for stage, context in enumerate(chain.contexts):
            name = wiring.contexts[context]
            yield f"  {name} on {sessions.session_of(name).name}"
            yield from (f"    {line}" for line in _stage_lines(wiring, chain, stage))


def _stage_lines(wiring: Wiring, chain: GraphChain, stage: int) -> Iterator[str]:
    yield from _outer_lines("input", chain.inputs, stage)
    for state in wiring.states:
        if state.context == chain.contexts[stage] and chain.name in state.uses:
            reads, writes = state.uses[chain.name]
            yield f"state   {_shown(reads or writes, state.info)}" + (f", next: {writes}" if writes else "")
    yield from _outer_lines("output", chain.outputs, stage)
    for connection in chain.connections:
        if connection.source == stage:
            ends = ((wiring.contexts[chain.contexts[end]], tensor.name) for end, tensor in connection.targets)
            targets = ", ".join(f"{tensor} of {context}" for context, tensor in ends)
            yield f"link    {_shown(connection.output.name, connection.output)} → {targets}"


def _outer_lines(side: str, tensors: Iterable[OuterTensor], stage: int) -> Iterator[str]:
    return (f"{side:<7} {_shown(outer.name, outer.info)}" for outer in tensors if stage in dict(outer.ends))


def _shown(name: str, info: QnnTensor) -> str:
    return f"{name} {info.dtype} {info.sizes if any(info.dynamic) else 'x'.join(map(str, info.shape)) or 'scalar'}"
