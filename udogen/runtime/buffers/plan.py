"""Buffer plans: a buffer and an offset for each tensor of some graphs; and the allocated buffers of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from udogen.errors import RunFailed, UdogenError, UsageError
from udogen.qnn.handles import ION, Closing, run_all
from udogen.qnn.system import GraphInfo
from udogen.qnn.tensors import APP_READ, APP_WRITE, MOST_BYTES, QnnTensor, byte_size
from udogen.runtime.buffers.buffer import RAW, SHARED_BUFFER, Buffer, BufferPart
from udogen.runtime.buffers.memory import AllocatorChoice, align_up, check_alignment, shared_allocator

if TYPE_CHECKING:
    from udogen.runtime.contexts.graph import Graph

VERSION = 1  # of the JSON form: schemas/bind_plan.schema.json
LARGEST_BUFFER = 2**63 - 1


@dataclass(frozen=True)
class PlannedBuffer:
    """A buffer to allocate."""

    name: str
    size: int
    alignment: int
    allocator: str


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor of a graph and its place: `nbytes` at `offset` of `buffer`."""

    shard: int
    graph: str
    tensor: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    buffer: str
    offset: int
    nbytes: int
    bound: str


@dataclass(frozen=True)
class BufferPlan:
    """The buffers of a plan, and the place of each tensor: `print(plan.size, plan.tensor_bytes)`."""

    buffers: tuple[PlannedBuffer, ...]
    tensors: tuple[PlannedTensor, ...]
    why: str  # reason for the allocator

    @property
    def size(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.size for buffer in self.buffers)

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors, shared bytes counted for each."""
        return sum(tensor.nbytes for tensor in self.tensors)

    def of(self, shard: int, graph: str) -> tuple[PlannedTensor, ...]:
        """The tensors of a graph."""
        return tuple(row for row in self.tensors if (row.shard, row.graph) == (shard, graph))

    def allocate(self) -> PlannedBuffers:
        """Its buffers: `with plan.allocate() as buffers: buffers.bind(graph)`."""
        return PlannedBuffers(self)

    def as_json(self) -> Mapping[str, object]:
        """The plan as `--bind-plan-out` writes it."""
        return {
            "version": VERSION,
            "allocator": {"name": self.buffers[0].allocator if self.buffers else "", "why": self.why},
            "bytes": {"buffers": self.size, "tensors": self.tensor_bytes},
            "buffers": [asdict(row) for row in self.buffers],
            "tensors": [{**asdict(row), "shape": list(row.shape)} for row in self.tensors],
        }


def join_plans(plans: Sequence[BufferPlan]) -> BufferPlan:
    """The plans of several shards as one."""
    return BufferPlan(
        tuple(row for plan in plans for row in plan.buffers),
        tuple(row for plan in plans for row in plan.tensors),
        plans[0].why if plans else "",
    )


def plan_buffers(
    shard: int, graphs: Sequence[GraphInfo], *, alignment: int = 64, packed: bool = False, shared: bool = False
) -> BufferPlan:
    """Plan a buffer and an offset for each tensor of the graphs of a context: `plan_buffers(0, [graph.info])`.

    packed: one buffer for all tensors (SHARED_BUFFER if shared), instead of one for each (ION).
    shared: registered memory with a descriptor, instead of client memory of this process.
    """
    check_alignment(alignment)
    tensors = [
        (graph.name, role, info)
        for graph in graphs
        for role, side in ((APP_WRITE, graph.inputs), (APP_READ, graph.outputs))
        for info in side
    ]
    _check_sizes(shard, tensors, LARGEST_BUFFER if shared else MOST_BYTES)
    choice = shared_allocator() if shared else AllocatorChoice("client", "used by this process only")
    buffers: dict[str, int] = {}
    rows = []
    for graph, role, info in tensors:
        buffer = f"shard {shard}" if packed else f"{shard}.{graph}.{'in' if role == APP_WRITE else 'out'}.{info.name}"
        offset = buffers.get(buffer, 0)
        buffers[buffer] = offset + align_up(info.nbytes, alignment)
        bound = (SHARED_BUFFER if packed else ION) if shared else RAW
        rows.append(
            PlannedTensor(
                shard, graph, info.name, role, info.dtype, info.shape, buffer, offset, info.nbytes, bound
            )
        )  # fmt: skip
    if sum(buffers.values()) > LARGEST_BUFFER:
        raise UsageError(
            f"these tensors take {sum(buffers.values())} bytes, a process has at most {LARGEST_BUFFER}",
            hint="check the dimensions in the metadata",
        )
    planned = (PlannedBuffer(name, size, alignment, choice.allocator) for name, size in buffers.items())
    return BufferPlan(tuple(planned), tuple(rows), choice.why)


def _check_sizes(shard: int, tensors: Iterable[tuple[str, str, QnnTensor]], largest: int) -> None:
    """Raise for tensors without a size, or with more bytes than a buffer can have; all are reported."""
    faults = []
    for graph, _, info in tensors:
        name = f"`{info.name}` of graph `{graph}` (shard {shard})"
        if any(not isinstance(size, int) or size <= 0 for size in info.shape):
            faults.append(f"{name} has the shape {list(info.shape)}: every dimension is 1 or more")
            continue
        try:
            nbytes = byte_size(info.dtype, info.shape)
        except UdogenError as problem:
            faults.append(f"{name}: {problem.message}")
            continue
        if nbytes > largest:
            faults.append(f"{name} has {nbytes} bytes, its buffer at most {largest}")
    if faults:
        raise UsageError(
            "these tensors cannot be planned",
            details=faults,
            hint="correct the metadata of the graphs, split the tensors, or bind them to shared memory",
        )


class PlannedBuffers(Closing):
    """The allocated buffers of a plan; a context manager.

    `close` unbinds and deregisters the tensors, last to first, and frees the memory; contexts may be closed before or
    after it.

    `plan.allocate().bind(graph)`
    """

    def __init__(self, plan: BufferPlan) -> None:
        self.plan = plan
        self.buffers: dict[str, Buffer] = {}
        with ExitStack() as stack:
            for row in plan.buffers:
                buffer = Buffer(row.allocator, row.size, alignment=row.alignment, name=row.name)
                self.buffers[row.name] = stack.enter_context(buffer)
            stack.pop_all()

    def bind(self, graph: Graph, *, shard: int = 0) -> None:
        """Bind all tensors of a graph as planned; on an error none is bound."""
        rows = {(row.role, row.tensor): row for row in self.plan.of(shard, graph.name)}
        infos = [(APP_WRITE, info) for info in graph.inputs] + [(APP_READ, info) for info in graph.outputs]
        missing = [f"`{info.name}`" for role, info in infos if (role, info.name) not in rows]
        if missing:
            raise RunFailed(
                f"the plan has no buffer for {', '.join(missing)} of graph `{graph.name}` (shard {shard})",
                hint="plan the graphs of this context",
            )
        with graph.context.registrations.all_or_none():
            attachments = {
                info.name: self._part(rows[role, info.name]).attach(graph, info, role) for role, info in infos
            }
        graph.bind(attachments)

    def close(self) -> None:
        """Unbind, deregister and free everything, then raise the first error, if any; a second call does nothing."""
        run_all(buffer.close for buffer in reversed(self.buffers.values()))

    def _part(self, row: PlannedTensor) -> BufferPart:
        return BufferPart(self.buffers[row.buffer], row.offset, row.nbytes, row.bound)
