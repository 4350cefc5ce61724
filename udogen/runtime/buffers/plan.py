"""A buffer plan: buffers, and the place and lifetime of each tensor in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

VERSION = 1  # of the JSON form: schemas/bind_plan.schema.json


@dataclass(frozen=True)
class PlannedBuffer:
    """A buffer to allocate."""

    name: str
    size: int
    alignment: int
    allocator: str


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor of a graph and its place: `nbytes` at `offset` of `buffer`, in use from step `first` to step `last`.

    Tensors with the same `value` share their bytes on purpose: an output and the input that it becomes.
    """

    shard: int
    graph: str
    tensor: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    buffer: str
    offset: int
    nbytes: int
    first: int
    last: int
    value: int
    bound: str

    def as_json(self) -> Mapping[str, object]:
        """The tensor as `--bind-plan-out` writes it."""
        row = asdict(self)
        lifetime = [row.pop("first"), row.pop("last")]
        return {**row, "shape": list(self.shape), "lifetime": lifetime}


@dataclass(frozen=True)
class PlannedStep:
    """An execution; its index is the unit of lifetimes."""

    shard: int
    graph: str


@dataclass(frozen=True)
class BufferPlan:
    """The buffers of a plan, and the place and lifetime of each tensor: `print(plan.size, plan.tensor_bytes)`."""

    steps: tuple[PlannedStep, ...]
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

    def as_json(self) -> Mapping[str, object]:
        """The plan as `--bind-plan-out` writes it."""
        return {
            "version": VERSION,
            "allocator": {"name": self.buffers[0].allocator if self.buffers else "", "why": self.why},
            "bytes": {"buffers": self.size, "tensors": self.tensor_bytes},
            "steps": [{"step": index, **asdict(step)} for index, step in enumerate(self.steps)],
            "buffers": [asdict(row) for row in self.buffers],
            "tensors": [row.as_json() for row in self.tensors],
        }


def join_plans(plans: Sequence[BufferPlan]) -> BufferPlan:
    """Concatenate plans: buffers are named after their shards, steps and values are renumbered."""
    steps: list[PlannedStep] = []
    buffers: list[PlannedBuffer] = []
    tensors: list[PlannedTensor] = []
    values = 0
    for plan in plans:
        taken = {row.name for row in buffers}
        names = {row.name: _free(row.name, plan, taken) for row in plan.buffers}
        buffers += [replace(row, name=names[row.name]) for row in plan.buffers]
        tensors += [
            replace(
                row,
                buffer=names[row.buffer],
                value=row.value + values,
                first=row.first + len(steps),
                last=row.last + len(steps),
            )
            for row in plan.tensors
        ]
        values = max((row.value for row in tensors), default=-1) + 1
        steps += plan.steps
    return BufferPlan(tuple(steps), tuple(buffers), tuple(tensors), plans[0].why if plans else "")


def _free(name: str, plan: BufferPlan, taken: set[str]) -> str:
    shards = "+".join(str(shard) for shard in dict.fromkeys(step.shard for step in plan.steps))
    return name if name not in taken and name != "all" else f"{name} of shard {shards}"
