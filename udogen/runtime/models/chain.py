"""The graphs that one step of a model executes, with the memory of what they pass on; the time and memory of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from mmap import PAGESIZE
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from udogen.errors import RunFailed
from udogen.findings import unknown
from udogen.qnn.handles import ION
from udogen.runtime.buffers.buffer import RAW
from udogen.runtime.buffers.domains import INPUT, OUTPUT, BufferPair, ManagedBuffer, MemoryDomain, Role
from udogen.runtime.buffers.plan import BufferPlan, PlannedBuffer, PlannedTensor
from udogen.runtime.contexts.arrays import given_value, layout
from udogen.runtime.contexts.graph import Outputs
from udogen.runtime.models.wiring import Connection, GraphChain, OuterTensor
from udogen.runtime.sessions import MIB
from udogen.tables import columns

if TYPE_CHECKING:
    from udogen.runtime.contexts.binding import TensorBinding
    from udogen.runtime.contexts.graph import Graph
    from udogen.runtime.op.calls import Array


class ChainState(NamedTuple):
    """A state of one graph of a chain: the input that reads it and the output that writes it; "": none."""

    stage: int
    reads: str
    writes: str
    pair: BufferPair


class StageCall(NamedTuple):
    """What a step passes to one graph, and takes from it: tensors, and their names in the chain."""

    graph: Graph
    inputs: tuple[tuple[TensorBinding, str], ...]
    outputs: tuple[tuple[TensorBinding, str], ...]


class Chain:
    """Graphs that are executed in order; then the states that they wrote are swapped.

    Outputs that are inputs of later graphs are bound to buffers of a memory domain; with `shared`, so are the inputs
    and outputs of the whole chain.  States are bound already.
    """

    def __init__(
        self,
        wired: GraphChain,
        graphs: Sequence[Graph],
        domain: MemoryDomain,
        states: Sequence[ChainState],
        *,
        shared: bool,
    ) -> None:
        self.wired, self.name, self.graphs, self.states = wired, wired.name, tuple(graphs), states
        self.inputs = {outer.name: outer.info for outer in wired.inputs}
        self.outputs = {outer.name: outer.info for outer in wired.outputs}
        self.layouts = {name: layout(info) for name, info in self.inputs.items()}
        self._domain = domain
        self._bound: list[tuple[int, str, ManagedBuffer]] = []
        self.handed = {connection.name: self._connect(connection) for connection in wired.connections}
        self._given = self._outer(wired.inputs, INPUT) if shared else {}
        self._returned = self._outer(wired.outputs, OUTPUT) if shared else {}
        self._calls = [
            StageCall(
                graph,
                _ends_in(graph, stage, wired.inputs, self._given),
                _ends_in(graph, stage, wired.outputs, self._returned),
            )
            for stage, graph in enumerate(graphs)
        ]
        self._swaps = [state.pair.swap for state in states if state.writes]
        is_dynamic = any(any(info.dynamic) for graph in graphs for info in (*graph.inputs, *graph.outputs))
        self._execute = self._call if is_dynamic else self._lend
        self.seconds: tuple[float, ...] = ()  # of each graph in the last step
        self.last: dict[str, Array] = {}  # the outputs that the last step returned

    def stored(self, name: str, array: Array) -> Array:
        """An input of a step as its tensor stores it."""
        shape, dtype = self.layouts[name]
        is_stored = array.shape == shape and array.dtype == dtype
        return array if is_stored else given_value(array, self.inputs[name])

    def run(self, arrays: Mapping[str, Array], out: Mapping[str, Array]) -> Outputs:
        """Execute all graphs; returns the outputs by name."""
        if out:
            self._check_out(out)
        seconds = list[float]()
        for name, buffer in self._given.items():
            buffer.copy_from(arrays[name])
        results = {name: array for name, array in out.items() if name not in self._returned} if out else {}
        for call in self._calls:
            began = perf_counter()
            try:
                self._execute(call, arrays, results)
            except RunFailed as finding:
                raise self._located(finding, call) from finding
            seconds.append(perf_counter() - began)
        self.seconds = tuple(seconds)
        for swap in self._swaps:
            swap()
        for name, buffer in self._returned.items():
            results[name] = buffer.copy_to(out.get(name))
        self.last = {name: results[name] for name in self.outputs}
        return Outputs(self.last, self.outputs)

    def _check_out(self, out: Mapping[str, Array]) -> None:
        for name, array in out.items():
            if name not in self.outputs:
                raise unknown(f"graph `{self.name}` has no output", name, self.outputs)
            for call in self._calls:
                for binding, output in call.outputs:
                    if output == name:
                        binding.check(array)

    def _lend(self, call: StageCall, arrays: Mapping[str, Array], results: dict[str, Array]) -> None:
        """Execute a graph on arrays that are as its tensors store them."""
        for binding, name in call.outputs:
            if name not in results:
                results[name] = binding.empty()
        inputs = [(binding, arrays[name]) for binding, name in call.inputs]
        call.graph.lend(inputs, [(binding, results[name]) for binding, name in call.outputs])

    def _call(self, call: StageCall, arrays: Mapping[str, Array], results: dict[str, Array]) -> None:
        """Execute a graph whose tensors may have other shapes in each step."""
        into = {binding.info.name: results[name] for binding, name in call.outputs if name in results}
        written = call.graph({binding.info.name: arrays[name] for binding, name in call.inputs}, out=into or None)
        results.update({name: written[binding.info.name] for binding, name in call.outputs})

    def _located(self, finding: RunFailed, call: StageCall) -> RunFailed:
        graph = call.graph
        return RunFailed(
            f"stage {self._calls.index(call)} (graph `{graph.name}` in {graph.context.name}): {finding.message}",
            hint=finding.hint,
            details=finding.details,
        )

    def _connect(self, connection: Connection) -> ManagedBuffer:
        readers = [(stage, info.name, INPUT) for stage, info in connection.targets]
        return self._allocate(connection.name, [(connection.source, connection.output.name, OUTPUT), *readers])

    def _outer(self, tensors: Sequence[OuterTensor], usage: str) -> dict[str, ManagedBuffer]:
        return {outer.name: self._allocate(outer.name, [(*end, usage) for end in outer.ends]) for outer in tensors}

    def _allocate(self, name: str, ends: Sequence[tuple[int, str, str]]) -> ManagedBuffer:
        """A buffer for tensors of the graphs: (stage, tensor, usage)."""
        roles = [Role(self.graphs[stage], tensor, usage) for stage, tensor, usage in ends]
        buffer = self._domain.allocate(roles, name=f"{self.name}.{name}")
        for role in roles:
            role.graph.bind({role.tensor: buffer})
        self._bound += [(stage, tensor, buffer) for stage, tensor, _ in ends]
        return buffer

    @property
    def array_bytes(self) -> int:
        """Bytes of the arrays that a caller passes and receives."""
        arrays = [self.inputs[name] for name in self.inputs if name not in self._given]
        arrays += [self.outputs[name] for name in self.outputs if name not in self._returned]
        return sum(info.nbytes for info in arrays)

    def plan(self) -> BufferPlan:
        """The buffer of each tensor that is not an array of the caller."""
        states = [
            (state.stage, tensor, buffer)
            for state in self.states
            for tensor, buffer in ((state.reads, state.pair.reading), (state.writes, state.pair.writing))
            if tensor
        ]
        buffers: dict[ManagedBuffer, PlannedBuffer] = {}
        rows = []
        for stage, tensor, buffer in [*self._bound, *states]:
            buffers[buffer] = PlannedBuffer(buffer.name, buffer.size, buffer.alignment, buffer.kind)
            graph, binding = self.graphs[stage], self.graphs[stage].binding(tensor)
            rows.append(
                PlannedTensor(
                    shard=self.wired.contexts[stage], graph=graph.name, tensor=tensor, role=binding.role,
                    dtype=binding.info.dtype, shape=tuple(binding.info.shape), buffer=buffer.name, offset=0,
                    nbytes=binding.info.nbytes, bound=ION if self._domain.registers else RAW,
                )
            )  # fmt: skip
        return BufferPlan(tuple(buffers.values()), tuple(rows), "each buffer is a tensor's own")


def _ends_in(
    graph: Graph, stage: int, tensors: Sequence[OuterTensor], bound: Mapping[str, ManagedBuffer]
) -> tuple[tuple[TensorBinding, str], ...]:
    """The outer tensors of a graph that are not bound to buffers, with their names in the chain."""
    return tuple(
        (graph.binding(tensor), outer.name)
        for outer in tensors
        if outer.name not in bound
        for end, tensor in outer.ends
        if end == stage
    )


# --- what steps need --------------------------------------------------------------------------------------------------


@dataclass
class Timing:
    """The steps of one graph so far, in seconds: `model.timings["kv_forward"].mean`."""

    graph: str
    steps: int = 0
    total: float = 0.0
    least: float = float("inf")
    last: float = 0.0
    names: tuple[str, ...] = ()  # of its contexts
    parts: tuple[float, ...] = ()  # seconds of each context in the last step

    @property
    def contexts(self) -> Mapping[str, float]:
        """The seconds of each context in the last step."""
        return dict(zip(self.names, self.parts, strict=False))

    @property
    def mean(self) -> float:
        """The mean seconds of a step."""
        return self.total / self.steps if self.steps else 0.0

    def add(self, seconds: float, parts: tuple[float, ...]) -> None:
        """Add a step, with the seconds of each of its contexts."""
        self.steps, self.total, self.last, self.parts = self.steps + 1, self.total + seconds, seconds, parts
        if seconds < self.least:
            self.least = seconds


def resident() -> int:
    """The bytes of this process that are in memory: `resident()`."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * PAGESIZE


@dataclass(frozen=True)
class MemoryRow:
    """The memory that one session maps or the host holds, in bytes; with a limit, `total` is that and `free` its rest.

    `print(row.name, row.used, row.free)`
    """

    name: str
    model: int  # weights
    context: int  # state, once
    compute: int  # its next values, activations between contexts, inputs and outputs, spill-fill
    total: int | None = None
    unaccounted: int | None = None  # of the host: by how much this process grew, less all that the rows count

    @property
    def used(self) -> int:
        """The sum of all kinds."""
        return self.model + self.context + self.compute

    @property
    def free(self) -> int | None:
        """The bytes that the session may still map; None without a limit."""
        return None if self.total is None else self.total - self.used


_COLUMNS = ("name", "total", "free", "used", "model", "context", "compute", "unaccounted")


@dataclass(frozen=True)
class MemoryBreakdown:
    """The memory of a model, a row for each session and one for the host: `print(model.memory)`.

    Sizes of weights are those of the binaries, unless the runtime reports them.
    """

    rows: tuple[MemoryRow, ...]

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("memory [MiB]", "total", "free", "self", *_COLUMNS[4:])]
        for row in self.as_json():
            name, *sizes = row.values()
            rows.append((name, *("" if size is None else f"{size / MIB:.2f}" for size in sizes)))
        return "\n".join(columns(rows, right=range(1, 8)))

    def as_json(self) -> list[dict[str, Any]]:
        """The rows, in bytes."""
        return [{column: getattr(row, column) for column in _COLUMNS} for row in self.rows]
