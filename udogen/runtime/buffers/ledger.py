"""What each piece of shared memory is registered for, in whichever context: the rules between registrations.

The rules are those of Qualcomm's shared-buffer tutorial; a runtime answers most breaches of them with a number.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from udogen.errors import RunFailed
from udogen.runtime.buffers.buffer import Buffer
from udogen.runtime.buffers.plan import ION, SHARED_BUFFER

WEIGHTS, SPILL = "WEIGHTS_BUFFER", "SHARED_SPILLFILL_BUFFER"
_NAMES = {
    ION: "the buffer of one tensor (ION)",
    SHARED_BUFFER: "a buffer of several tensors (SHARED_BUFFER)",
    WEIGHTS: "an external weights buffer",
    SPILL: "an external spill-fill buffer",
}
EXTERNAL = frozenset({WEIGHTS, SPILL})


@dataclass(eq=False)
class Entry:
    """One registration; `offset` counts from the begin of the file."""

    kind: str
    buffer: Buffer
    offset: int
    size: int
    context: str  # its name
    owner: int  # and its identity
    turn: threading.Lock = field(default_factory=threading.Lock)  # to use a spill-fill buffer

    @property
    def end(self) -> int:
        return self.offset + self.size


_entries: list[Entry] = []
_lock = threading.RLock()  # a context that is collected meanwhile, in this thread, leaves


def enter(new: Entry) -> Callable[[], None]:
    """Write a registration down, if it breaks no rule; call the answer when it has ended.

    A spill-fill buffer that another context uses is entered with the turn of that one.
    """
    with _lock:
        for other in _same_file(new.buffer):
            if fault := _fault(new, other):
                raise RunFailed(*fault[:1], hint=fault[1])
            if new.kind == other.kind == SPILL and new.offset == other.offset:
                new.turn = other.turn
        _entries.append(new)

    def leave() -> None:
        with _lock:
            if new in _entries:
                _entries.remove(new)

    return leave


def has(kind: str, owner: int) -> bool:
    """Whether a context has a registration of this kind."""
    with _lock:
        return any(entry.kind == kind and entry.owner == owner for entry in list(_entries))


def _same_file(buffer: Buffer) -> Iterator[Entry]:
    return (entry for entry in list(_entries) if entry.buffer.identity == buffer.identity)


def _fault(new: Entry, other: Entry) -> tuple[str, str] | None:
    """(what is wrong, what to do) where the two registrations cannot be together."""
    name, is_same = f"buffer `{new.buffer.name}`", new.owner == other.owner
    if new.kind != other.kind and ({new.kind, other.kind} & EXTERNAL or is_same):
        return (
            f"{name} is registered as {_NAMES[other.kind]} with context {other.context}: "
            f"it cannot be {_NAMES[new.kind]} too",
            "allocate another one: a file descriptor is registered for one purpose",
        )
    if is_same and new.kind not in EXTERNAL and new.offset == other.offset:
        return (
            f"byte {new.offset} of {name} is registered with context {other.context} already, "
            f"as buffer `{other.buffer.name}`",
            "bind to that one: a place has one handle in a context",
        )
    apart = new.offset >= other.end or other.offset >= new.end
    if new.kind == WEIGHTS and not is_same and not apart:
        return (
            f"{name} holds the external weights of context {other.context}: every context has a buffer of its own",
            "allocate one for each context",
        )
    if new.kind == SPILL and not apart and new.offset != other.offset:
        return (
            f"{name} is a spill-fill buffer from byte {other.offset} on for context {other.context}: "
            f"one from byte {new.offset} on would overlap it",
            "share it from the same byte on, or keep the two apart",
        )
    return None
