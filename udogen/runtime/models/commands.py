"""The command for the worker that executes a model, its reply, and the lines printed from that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from udogen.qnn.system import TensorInfo
from udogen.runtime.buffers.plan import BufferPlan
from udogen.runtime.contexts.commands import OutputRow
from udogen.runtime.contexts.report import GraphProfile, output_line, profile_lines, time_text
from udogen.runtime.models.description import ModelDescription
from udogen.runtime.models.wiring import GraphChain, OuterTensor, Wiring
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
    apart: float
    unit: str
    wrong: bool


@dataclass(frozen=True)
class Divergence(ComparedTensor):
    """The first tensor that differs, in the order of execution."""

    stage: int  # the number of its context among those of the step
    stages: int
    elements: int  # number that differ
    size: int
    index: tuple[int, ...]  # of the element that is farthest off
    found: str
    expected: str
    after: str  # the last tensor before it that is correct
    reason: str  # the most likely one, if one is known
    dtype: str
    shape: tuple[int, ...]

    def lines(self) -> Iterator[str]:
        """The divergence as readable lines."""
        yield f"first difference: `{self.tensor}`, {self.dtype} {list(self.shape)}"
        yield f"  step {self.step}, graph `{self.graph}`, context {self.context} ({self.stage + 1} of {self.stages})"
        yield (
            f"  {self.apart:.3g} {self.unit} off; {self.elements} of {self.size} elements differ, "
            f"the farthest at {list(self.index)}: {self.found} instead of {self.expected}"
        )
        yield f"  last tensor that agrees: `{self.after}`" if self.after else "  no tensor before it was compared"
        if self.reason:
            yield f"  likely reason: {self.reason}"


@dataclass(frozen=True)
class GraphTiming:
    """All steps of one graph, in seconds; `contexts`: those of each context in the last step."""

    graph: str
    steps: int
    mean: float
    least: float
    contexts: Mapping[str, float]


@dataclass(frozen=True)
class StepsRan:
    """A description of a model, and the results of its steps (none in a dry run)."""

    links: Mapping[str, str]
    state: Mapping[str, str]
    proposed: tuple[str, ...]
    picture: tuple[str, ...]
    sessions: Any  # the plan, as JSON
    table: tuple[str, ...]  # of sessions
    steps: tuple[StepRan, ...] = ()
    timings: tuple[GraphTiming, ...] = ()
    memory: str = ""
    memory_rows: Any = ()
    plan: BufferPlan | None = None
    copied: Mapping[str, int] | None = None
    zeros: tuple[str, ...] = ()  # inputs that were given no data
    profiles: tuple[GraphProfile, ...] = ()  # of the last step of each graph
    compared: tuple[ComparedTensor, ...] = ()  # in the order in which the tensors were written
    first: Divergence | None = None
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


def model_lines(ran: StepsRan, runtime: str) -> Iterator[str]:
    """The result of a model as readable lines."""
    yield from ran.table
    yield ""
    if not ran.steps:
        yield from ran.picture
        yield ""
    if ran.proposed:
        yield "proposed from names, types and shapes: " + ", ".join(ran.proposed)
    if ran.zeros:
        yield f"zeros: {', '.join(ran.zeros)}"
    if not ran.steps:
        return
    if ran.memory:
        yield ran.memory
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
    copied = ran.copied or {}
    yield f"copied: {copied.get('state', 0)} bytes of state, {copied.get('activation', 0)} between contexts"
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
        yield from ran.first.lines()


# --- the picture ------------------------------------------------------------------------------------------------------


def picture(wiring: Wiring, sessions: Mapping[str, str]) -> Iterator[str]:
    """A model for a terminal: contexts from top to bottom with their sessions, inputs, outputs, links and state."""
    for number, chain in enumerate(wiring.chains):
        if number:
            yield ""
        yield f"{chain.name}: {many(len(chain.stages), 'context')}"
        for stage, context in enumerate(chain.contexts):
            yield f"  ┌─ {wiring.contexts[context]}  on {sessions[wiring.contexts[context]]}"
            yield from (f"  │ {line}" for line in _picture_of_stage(wiring, chain, stage))
            yield "  └─"


def _picture_of_stage(wiring: Wiring, chain: GraphChain, stage: int) -> Iterator[str]:
    """The tensors of a context: inputs, states, outputs, and those passed to other contexts."""
    yield from _outer_lines("─▶", chain.inputs, stage)
    for state in wiring.states:
        if state.context == chain.contexts[stage] and chain.name in state.uses:
            reads, writes = state.uses[chain.name]
            row = f"state {reads or '(not read)'} = {writes or '(kept)'}"
            yield f"↺  {_shown(reads or writes, state.info)}  {row}"
    yield from _outer_lines("◀─", chain.outputs, stage)
    for connection in chain.connections:
        if connection.source == stage:
            ends = ((wiring.contexts[chain.contexts[end]], tensor.name) for end, tensor in connection.targets)
            targets = ", ".join(f"{tensor} of {context}" for context, tensor in ends)
            yield f"─▼ {_shown(connection.output.name, connection.output)}  → {targets}"


def _outer_lines(mark: str, tensors: Iterable[OuterTensor], stage: int) -> Iterator[str]:
    return (f"{mark} {_shown(outer.name, outer.info)}" for outer in tensors if stage in dict(outer.ends))


def _shown(name: str, info: TensorInfo) -> str:
    return f"{name} {info.dtype} {info.sizes if any(info.dynamic) else 'x'.join(map(str, info.shape)) or 'scalar'}"
