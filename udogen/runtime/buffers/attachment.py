"""How a tensor of a graph comes to its memory, where that is more than an array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from udogen.qnn.system import TensorInfo


@dataclass(frozen=True)
class Attachment:
    """The memory of one tensor: the client's (`data`, a writable buffer), or registered with the context (`handle`).

    `enter` and `leave` are called around each execution, `leave` also after a failed one; `enter` may refuse.
    """

    data: Any = None
    handle: Any = None
    view: memoryview | None = None  # where the client reads and writes it, if it may
    enter: Callable[[], None] | None = None
    leave: Callable[[], None] | None = None


class Bindable(Protocol):
    """What `Graph.bind` takes besides arrays.  `graph` is a `udogen.runtime.contexts.graph.Graph`."""

    def attach(self, graph: Any, info: TensorInfo, role: str) -> Attachment:
        """The memory for this tensor of this graph; `role` is APP_WRITE (an input) or APP_READ (an output)."""
        ...
