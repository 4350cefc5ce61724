"""How a tensor of a graph comes to its memory, where that is more than an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from udogen.qnn.system import TensorInfo
    from udogen.runtime.contexts.graph import Graph
    from udogen.runtime.contexts.slots import Slot


@dataclass(eq=False)
class Attachment:
    """The memory of one tensor: the client's (`data`, a writable buffer), or registered with the context (`handle`).

    A graph sets `graph` and `slot` while the tensor lies there, and calls `unused` when it was unbound by its user.
    Whoever gives the memory back calls `end_binding`.

    `enter` and `leave` are called around each execution; `enter` may refuse.  Where there is `failed`, that is called
    instead of `leave` after an execution that failed (True), or did not begin, because another memory refused (False).
    """

    data: Any = None
    handle: Any = None
    view: memoryview | None = None  # where the client reads and writes it, if it may
    enter: Callable[[], None] | None = None
    leave: Callable[[], None] | None = None
    failed: Callable[[bool], None] | None = None
    unused: Callable[[], None] | None = None
    graph: Graph | None = None
    slot: Slot | None = None
    ended: str = ""  # why it cannot be used any more

    def end_binding(self, why: str, *, wait: bool = True) -> None:
        """The memory is to be given back: the graph is told, after an execution that runs (at once without `wait`)."""
        self.ended = why
        if self.graph is not None and self.slot is not None:
            self.graph.release(self, wait=wait)

    def end(self, codes: Sequence[int]) -> None:
        """After an execution that answered with these codes: none where it did not begin, 0 where it succeeded."""
        if self.failed and list(codes) != [0]:
            self.failed(bool(codes))
        elif self.leave:
            self.leave()


class Bindable(Protocol):
    """What `Graph.bind` takes besides arrays.  `graph` is a `udogen.runtime.contexts.graph.Graph`."""

    def attach(self, graph: Any, info: TensorInfo, role: str) -> Attachment:
        """The memory for this tensor of this graph; `role` is APP_WRITE (an input) or APP_READ (an output)."""
        ...
