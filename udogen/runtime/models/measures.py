"""What a model needs: the memory of its sessions and of the host, and the seconds of its steps."""

from __future__ import annotations

from dataclasses import dataclass

from udogen.runtime.sessions import MIB
from udogen.tables import columns


@dataclass(frozen=True)
class MemoryRow:
    """The memory that one session maps or the host holds, in bytes; with a limit, `total` is that and `free` its rest.

    `print(row.name, row.used, row.free)`
    """

    name: str
    model: int  # weights
    context: int  # state
    compute: int  # activations between contexts, inputs and outputs, spill-fill
    total: int | None = None

    @property
    def used(self) -> int:
        """The sum of all kinds."""
        return self.model + self.context + self.compute

    @property
    def free(self) -> int | None:
        """The bytes that the session may still map; None without a limit."""
        return None if self.total is None else self.total - self.used


@dataclass(frozen=True)
class MemoryBreakdown:
    """The memory of a model, a row for each session and one for the host: `print(model.memory)`.

    Sizes of weights are those of the binaries, unless the runtime reports them.
    """

    rows: tuple[MemoryRow, ...]

    def __str__(self) -> str:
        head = ("memory [MiB]", "total", "free", "self", "model", "context", "compute", "")
        body = [
            (
                row.name,
                *(_mib(each) for each in (row.total, row.free, row.used, row.model, row.context, row.compute)),
                "",
            )
            for row in self.rows
        ]
        return "\n".join(columns([head, *body], right=range(1, 7)))

    def as_json(self) -> list[dict[str, object]]:
        """The rows, in bytes."""
        names = ("name", "total", "free", "used", "model", "context", "compute")
        return [{name: getattr(row, name) for name in names} for row in self.rows]


@dataclass
class Timing:
    """The steps of one graph so far, in seconds: `model.timings["kv_forward"].mean`."""

    steps: int = 0
    total: float = 0.0
    least: float = float("inf")
    last: float = 0.0
    contexts: tuple[float, ...] = ()  # seconds of each context in the last step

    @property
    def mean(self) -> float:
        """The mean seconds of a step."""
        return self.total / self.steps if self.steps else 0.0

    def add(self, seconds: float, contexts: tuple[float, ...]) -> None:
        """Add a step."""
        self.steps, self.total, self.last = self.steps + 1, self.total + seconds, seconds
        self.least, self.contexts = min(self.least, seconds), contexts


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / MIB:.2f}"
