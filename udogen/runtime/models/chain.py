"""The graphs that one step of an open model executes, and the plan of their buffers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from udogen.qnn.handles import ION
from udogen.runtime.buffers.buffer import RAW
from udogen.runtime.buffers.domains import BufferPair, ManagedBuffer
from udogen.runtime.buffers.plan import BufferPlan, PlannedBuffer, PlannedStep, PlannedTensor
from udogen.runtime.models.wiring import StateTensor, WiredChain
from udogen.runtime.sessions.pipeline import Pipeline

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array


class Chain:
    """The graphs that one step executes, with the shared memory of its inputs and outputs, if it has any."""

    def __init__(self, wired: WiredChain, pipeline: Pipeline, states: Collection[str]) -> None:
        self.wired, self.name, self.pipeline = wired, wired.chain.name, pipeline
        self.inputs = {each.name: each.info for each in wired.inputs}
        self.outputs = {each.name: each.info for each in wired.outputs}
        self.states = states
        self.last: dict[str, Array] = {}  # the outputs that the last step returned
        self.given: dict[str, ManagedBuffer] = {}
        self.got: dict[str, ManagedBuffer] = {}


class _Bound(NamedTuple):
    """A tensor of a chain in a buffer; `steps` are the first and last step in which it is used (None: all steps)."""

    buffer: ManagedBuffer
    stage: int
    tensor: str
    steps: tuple[int, int] | None


def _bound(chain: Chain, states: Iterable[tuple[StateTensor, BufferPair]]) -> Iterator[_Bound]:
    """Every tensor of a chain that is in a buffer of the model."""
    for connection in chain.wired.connections:
        buffer = chain.pipeline.buffers[connection.name]
        ends = [(connection.source, connection.output.name)]
        ends += [(stage, tensor.name) for stage, tensor in connection.targets]
        lifetime = connection.source, max(stage for stage, _ in ends)
        yield from (_Bound(buffer, stage, tensor, lifetime) for stage, tensor in ends)
    for state, pair in states:
        for tensor, buffer in zip(state.uses.get(chain.name, ()), (pair.reading, pair.writing), strict=False):
            if tensor:
                yield _Bound(buffer, chain.wired.chain.contexts.index(state.context), tensor, None)
    for buffers, rows in ((chain.given, chain.wired.inputs), (chain.got, chain.wired.outputs)):
        ends_of = {row.name: row.ends for row in rows}
        for name, buffer in buffers.items():
            lifetime = 0, len(chain.pipeline.graphs) - 1
            yield from (_Bound(buffer, stage, tensor, lifetime) for stage, tensor in ends_of[name])


def plan_of(
    chains: Collection[Chain], states: Sequence[tuple[StateTensor, BufferPair]], *, registers: bool
) -> BufferPlan:
    """The allocated buffers as a plan: one step of each chain."""
    steps: list[PlannedStep] = []
    tensors: list[PlannedTensor] = []
    buffers: dict[str, PlannedBuffer] = {}
    values: dict[ManagedBuffer, int] = {}
    total = sum(len(each.pipeline.graphs) for each in chains)
    for chain in chains:
        first, graphs, contexts = len(steps), chain.pipeline.graphs, chain.wired.chain.contexts
        steps += [PlannedStep(shard, graph.name) for shard, graph in zip(contexts, graphs, strict=True)]
        for each in _bound(chain, states):
            binding = graphs[each.stage].binding(each.tensor)
            value = values.setdefault(each.buffer, len(values))
            name = f"{value}: {each.buffer.name}"  # connections of several chains may have the same name
            buffers[name] = PlannedBuffer(name, max(each.buffer.capacity, 1), 128, each.buffer.allocator)
            begin, end = each.steps or (-first, total - 1 - first)
            tensors.append(
                PlannedTensor(
                    value=value, buffer=name, shard=contexts[each.stage], graph=graphs[each.stage].name,
                    tensor=each.tensor, role=binding.role, dtype=binding.info.dtype, shape=tuple(binding.info.shape),
                    offset=0, nbytes=binding.info.nbytes,
                    first=first + begin, last=first + end, bound=ION if registers else RAW,
                )
            )  # fmt: skip
    return BufferPlan(tuple(steps), tuple(buffers.values()), tuple(tensors), "each buffer is a tensor's own")
