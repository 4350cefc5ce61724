"""What the planner decides: which buffers there are, and where in them each tensor lies, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

VERSION = 1  # of the JSON form: schemas/bind_plan.schema.json

# How a tensor is bound.
RAW, ION, SHARED_BUFFER = "RAW", "ION", "SHARED_BUFFER"


@dataclass(frozen=True)
class PlannedBuffer:
    """A buffer to allocate."""

    name: str
    size: int
    alignment: int
    allocator: str


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor of a graph, and its bytes: `nbytes` at `offset` of `buffer`, its own from step `first` to step `last`.

    Tensors with one `value` are the same bytes on purpose: an output and the input that it becomes.
    """

    value: int
    buffer: str
    shard: int
    graph: str
    tensor: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    first: int
    last: int
    bound: str


@dataclass(frozen=True)
class PlannedStep:
    """An execution; its index is the time that lifetimes are told in."""

    shard: int
    graph: str


@dataclass(frozen=True)
class BufferPlan:
    """All buffers and all tensors, in the order in which they are used."""

    steps: tuple[PlannedStep, ...]
    buffers: tuple[PlannedBuffer, ...]
    tensors: tuple[PlannedTensor, ...]
    why: str  # this allocator

    @property
    def size(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.size for buffer in self.buffers)

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors, each counted once for itself."""
        return sum(tensor.nbytes for tensor in self.tensors)

    def buffer(self, name: str) -> PlannedBuffer:
        """The buffer of this name."""
        return next(buffer for buffer in self.buffers if buffer.name == name)

    def of(self, shard: int, graph: str) -> tuple[PlannedTensor, ...]:
        """The tensors of a graph."""
        return tuple(row for row in self.tensors if (row.shard, row.graph) == (shard, graph))

    def as_json(self) -> Mapping[str, object]:
        """The plan as `--bind-plan-out` writes it."""
        return {
            "version": VERSION,
            "allocator": {"name": self.buffers[0].allocator if self.buffers else "", "why": self.why},
            "bytes": {"buffers": self.size, "tensors": self.tensor_bytes},
            "steps": [
                {"step": index, "shard": step.shard, "graph": step.graph} for index, step in enumerate(self.steps)
            ],
            "buffers": [
                {"name": row.name, "size": row.size, "alignment": row.alignment, "allocator": row.allocator}
                for row in self.buffers
            ],
            "tensors": [
                {
                    "shard": row.shard,
                    "graph": row.graph,
                    "tensor": row.tensor,
                    "role": row.role,
                    "dtype": row.dtype,
                    "shape": list(row.shape),
                    "buffer": row.buffer,
                    "offset": row.offset,
                    "nbytes": row.nbytes,
                    "lifetime": [row.first, row.last],
                    "value": row.value,
                    "bound": row.bound,
                }
                for row in self.tensors
            ],
        }
