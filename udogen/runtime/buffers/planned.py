"""The buffers of a plan: allocated together, bound graph by graph, given back in the right order."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed
from udogen.qnn.handle import Closing
from udogen.runtime.buffers.allocators import allocate
from udogen.runtime.buffers.attachment import Attachment
from udogen.runtime.buffers.buffer import Buffer
from udogen.runtime.buffers.parts import Part
from udogen.runtime.buffers.plan import RAW, BufferPlan, PlannedTensor
from udogen.runtime.buffers.registered import registrations

if TYPE_CHECKING:
    from udogen.qnn.system import TensorInfo
    from udogen.runtime.contexts.graph import Graph


@dataclass(frozen=True)
class _Ready:
    """An attachment that is made already."""

    made: Attachment

    def attach(self, graph: Any, info: TensorInfo, role: str) -> Attachment:
        return self.made


class PlannedBuffers(Closing):
    """Every buffer of a plan; a context manager.

    `close` unbinds what was bound here, deregisters it last to first, and gives the memory back; contexts may be
    closed before or after it.
    """

    def __init__(self, plan: BufferPlan) -> None:
        self.plan = plan
        self.buffers: dict[str, Buffer] = {}
        self._largest: dict[tuple[int, str, int], PlannedTensor] = {}
        for row in plan.tensors:
            place = (row.shard, row.buffer, row.offset)
            if place not in self._largest or self._largest[place].nbytes < row.nbytes:
                self._largest[place] = row
        with ExitStack() as stack:
            for each in plan.buffers:
                made = allocate(each.allocator, each.size, alignment=each.alignment, name=each.name)
                self.buffers[each.name] = stack.enter_context(made)
            stack.pop_all()

    def part(self, shard: int, graph: str, tensor: str) -> Part:
        """The place of one tensor."""
        for row in self.plan.of(shard, graph):
            if row.tensor == tensor:
                return self._part(row)
        raise RunFailed(
            f"the plan has no tensor `{tensor}` of graph `{graph}` (shard {shard})",
            hint="plan the buffers of all graphs that are executed",
        )

    def bind(self, graph: Graph, *, shard: int = 0) -> None:
        """Let every tensor of a graph lie where the plan says; all of them, or none and an error."""
        names = {info.name for info in (*graph.inputs, *graph.outputs)}
        infos = {(role, info.name): info for role, side in _sides(graph) for info in side}
        rows = [row for row in self.plan.of(shard, graph.name) if (row.role, row.tensor) in infos]
        if missing := names - {row.tensor for row in rows}:
            raise RunFailed(
                f"the plan has no place for {', '.join(f'`{name}`' for name in sorted(missing))} of graph "
                f"`{graph.name}` (shard {shard})",
                hint="make the plan from the graphs of this context",
            )
        with registrations(graph.context).all_or_none():
            made = {row.tensor: self._part(row).attach(graph, infos[row.role, row.tensor], row.role) for row in rows}
        graph.bind({name: _Ready(each) for name, each in made.items()})

    def close(self) -> None:
        """Unbind, deregister, give back, all of it, then raise the first error; a second time does nothing."""
        errors: list[Exception] = []
        for buffer in reversed(self.buffers.values()):
            try:
                buffer.close()
            except Exception as problem:
                errors.append(problem)
        if errors:
            raise errors[0]

    def _part(self, row: PlannedTensor) -> Part:
        largest = self._largest[row.shard, row.buffer, row.offset]
        known = None if row.bound == RAW else (largest.dtype, largest.shape)
        return Part(self.buffers[row.buffer], row.offset, row.nbytes, row.bound, known)


def _sides(graph: Graph) -> tuple[tuple[str, tuple[TensorInfo, ...]], ...]:
    return ("APP_WRITE", graph.inputs), ("APP_READ", graph.outputs)
