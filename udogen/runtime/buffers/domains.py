"""Memory domains, as NNAPI has them: buffers that a session manages, allocated for the tensors they will be used as.

They hold what passes from one execution to the next without anybody looking at it: the state of a sequence model, its
KV cache, activations between shards.  The rules are those of NNAPI's page on memory pools:

* a buffer is used only as what it was allocated for (`Role`), by the session and the process it was allocated in
* its type and shape follow from its description and all its roles together; where dimensions stay open, an input finds
  them fixed by what was written, and an output sets them
* any number of executions may read it at a time; whoever writes it must be alone, and is refused, at once, if not
* what was never written is not read
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from udogen.errors import RunFailed, UsageError
from udogen.qnn.handle import Closing
from udogen.qnn.tensors import byte_size
from udogen.runtime import arguments
from udogen.runtime.buffers.managed import ManagedBuffer, Token
from udogen.runtime.buffers.roles import INPUT, OUTPUT, BufferDesc, Role, agree

__all__ = ["INPUT", "OUTPUT", "BufferDesc", "ManagedBuffer", "MemoryDomain", "Pair", "Role", "Token"]

_numbers = itertools.count(1)
_domains: weakref.WeakValueDictionary[int, MemoryDomain] = weakref.WeakValueDictionary()


class Owner(Protocol):
    """Whose contexts may use a domain: a `Runtime` or a `Session`."""

    @property
    def contexts(self) -> Sequence[Any]:
        """The contexts that are open."""
        ...


class MemoryDomain(Closing):
    """The driver-managed buffers of one runtime or session; closed by `with`, before that is."""

    def __init__(self, owner: Owner, *, name: str = "", largest: int | None = None) -> None:
        if not hasattr(owner, "contexts") or isinstance(owner, type):
            raise UsageError(
                f"the owner of a memory domain is {arguments.kind_of(owner)}", hint="give a Runtime or a Session"
            )
        arguments.expect(name, str, "the name of a memory domain", "a str")
        if largest is not None:
            arguments.whole(largest, "the largest size of a buffer")
        self.owner, self.name = owner, name or str(getattr(owner, "name", "domain"))
        self.largest = largest  # bytes of a buffer: what is larger is refused
        self.closed = False
        self.registers = True  # until the backend has refused to register memory: then it is handed over as it is
        self._process, self._number = os.getpid(), next(_numbers)
        self._buffers: dict[int, ManagedBuffer] = {}
        self._given = 0
        self._dropped: list[ManagedBuffer] = []  # by pipelines that were not closed
        self._lock = threading.Lock()
        _domains[self._number] = self

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self.buffers)} buffers, {self.size} bytes"
        return f"<MemoryDomain {self.name}: {state}>"

    @property
    def buffers(self) -> tuple[ManagedBuffer, ...]:
        """The buffers that are allocated."""
        return tuple(self._buffers.values())

    @property
    def copied(self) -> int:
        """Bytes that were copied into and out of the buffers that are allocated."""
        return sum(each.copied for each in self.buffers)

    @property
    def size(self) -> int:
        """Bytes of all buffers that are allocated."""
        return sum(each.capacity for each in self.buffers)

    def allocate(self, roles: Sequence[Role], desc: BufferDesc | None = None, *, name: str = "") -> ManagedBuffer:
        """A buffer for these roles; refused where they contradict each other or the description."""
        self._check_open()
        while self._dropped:
            self._dropped.pop().free()
        roles = _roles(roles)
        arguments.expect(name, str, "the name of a buffer", "a str")
        agreed = agree(_desc(desc), roles)
        name = name or roles[0].tensor
        for role in roles:
            self.check_owner(name, role.graph)
        size = byte_size(agreed.dtype, agreed.largest)
        if self.largest is not None and size > self.largest:
            raise RunFailed(
                f"buffer `{name}` would have {size} bytes: `{self.name}` allocates at most {self.largest}",
                hint="keep this tensor in a shared buffer of your own",
            )
        with self._lock:
            self._given += 1
            token = Token(self._process, self._number, self._given)
        # Every session that has a context of a role maps it, whoever the domain is of.
        sessions = dict.fromkeys(role.graph.context.session for role in roles)
        with ExitStack() as charged:
            for session in sessions:
                if session is not None:
                    charged.callback(session.charge(name, size))
            made = ManagedBuffer(self, name=name, token=token, agreed=agreed, roles=roles)
            made.on_free = charged.pop_all().close
        self._buffers[token.number] = made
        return made

    def pair(self, roles: Sequence[Role], desc: BufferDesc | None = None, *, name: str = "") -> Pair:
        """Two buffers with the same roles, for a state that a graph reads and writes in one execution."""
        roles = _roles(roles)
        name = name or (roles[0].tensor if roles else "state")
        first = self.allocate(roles, desc, name=f"{name}.0")
        try:
            return Pair(name, first, self.allocate(roles, desc, name=f"{name}.1"))
        except BaseException:
            first.free()
            raise

    def use(self, token: Token | int) -> ManagedBuffer:
        """The buffer that a token stands for; refused unless this domain gave it, in this process."""
        self._check_open()
        hint = "give the `token` of a buffer, or int(token)"
        known = (
            token if isinstance(token, Token) else Token.of(arguments.whole(token, "the token", most=2**128, hint=hint))
        )
        if known.process != os.getpid():
            raise RunFailed(
                f"token {known} was given in process {known.process}, this is {os.getpid()}",
                hint="a token is good in its own process alone: allocate a buffer here",
            )
        if known.domain != self._number:
            other = _domains.get(known.domain)
            whose = f"memory domain `{other.name}`" if other and not other.closed else "a memory domain that is closed"
            raise RunFailed(
                f"token {known} is of {whose}, not of `{self.name}`",
                hint="use it with the session that allocated it, or copy the buffer",
            )
        found = self._buffers.get(known.number)
        if found is None:
            was = "whose buffer was freed" if 0 < known.number <= self._given else "which it has never given"
            raise RunFailed(f"token {known} is one of memory domain `{self.name}` {was}", hint="allocate a new buffer")
        return found

    def check_owner(self, name: str, graph: Any) -> None:
        """Refuse a graph of a context that is not among the owner's."""
        if graph.context not in self.owner.contexts:
            raise UsageError(
                f"buffer `{name}` is of memory domain `{self.name}`, context {graph.context.name} is not",
                hint="allocate it in the domain of the session that runs this context",
            )

    def forget(self, buffer: ManagedBuffer) -> None:
        """A buffer tells that it is freed."""
        self._buffers.pop(buffer.token.number, None)

    def drop(self, buffers: Iterable[ManagedBuffer]) -> None:
        """Have buffers freed at the next opportunity: what is collected waits for nothing and locks nothing."""
        for each in buffers:
            each.give_up()
            self._dropped.append(each)

    def close(self) -> None:
        """Unbind and free every buffer; those that an execution is using when it has ended."""
        self.closed = True
        errors: list[Exception] = []
        for each in self.buffers:
            try:
                each.free()
            except Exception as problem:
                errors.append(problem)
        if errors:
            raise errors[0]

    def __enter__(self) -> MemoryDomain:
        self._check_open()
        return self

    def __del__(self) -> None:
        if hasattr(self, "_lock") and self._process == os.getpid():
            self.close()

    def _check_open(self) -> None:
        if self.closed:
            raise RunFailed(f"memory domain `{self.name}` is closed", hint="use it inside its `with` block")
        if self._process != os.getpid():
            raise RunFailed(
                f"memory domain `{self.name}` was made in process {self._process}, this is {os.getpid()}",
                hint="make a runtime and a domain in the process that executes",
            )


class Pair:
    """Two buffers that take turns: graphs read one and write the other, `swap` lets what was written be read next."""

    def __repr__(self) -> str:
        return f"<Pair {self.name}: reading {self.reading!r}, writing {self.writing!r}>"

    def __init__(self, name: str, first: ManagedBuffer, second: ManagedBuffer) -> None:
        self.name, self.reading, self.writing = name, first, second
        self._bound: list[tuple[Any, str, str]] = []

    def bind(self, graph: Any, *, reads: str = "", writes: str = "") -> None:
        """Let an input of a graph read the state, and an output write the next one; either may be left out."""
        if not hasattr(graph, "slot") or isinstance(graph, type):
            raise UsageError(f"state `{self.name}` is to be bound to {arguments.kind_of(graph)}", hint="give a Graph")
        for each in (reads, writes):
            arguments.expect(each, str, f"a tensor of graph `{graph.name}`", "its name")
        self._place(graph, reads, writes)
        self._bound.append((graph, reads, writes))

    def swap(self) -> None:
        """After an execution: what it wrote is the state now.  Nothing is copied."""
        self.reading, self.writing = self.writing, self.reading
        for bound in self._bound:
            self._place(*bound)

    def _place(self, graph: Any, reads: str, writes: str) -> None:
        places = {reads: self.reading, writes: self.writing}
        graph.bind({tensor: buffer for tensor, buffer in places.items() if tensor})

    def copy_from(self, source: Any, dimensions: Sequence[int] | None = None) -> None:
        """Set the state."""
        self.reading.copy_from(source, dimensions)

    def copy_to(self, target: Any = None) -> Any:
        """Look at the state."""
        return self.reading.copy_to(target)

    def free(self) -> None:
        """Free both."""
        self.reading.free()
        self.writing.free()


def _roles(roles: Any) -> tuple[Role, ...]:
    hint = 'give roles in a list: [Role(graph, "tensor", INPUT)]'
    if isinstance(roles, (Role, str, bytes)) or not isinstance(roles, Iterable):
        raise UsageError(f"the roles of a buffer are {arguments.kind_of(roles)}", hint=hint)
    found = tuple(roles)
    for each in found:
        arguments.expect(each, Role, "a role of a buffer", "a Role", hint=hint)
    return found


def _desc(desc: Any) -> BufferDesc:
    if desc is None:
        return BufferDesc()
    arguments.expect(desc, BufferDesc, "the description of a buffer", "a BufferDesc (udogen.runtime.buffers.domains)")
    found: BufferDesc = desc
    return found
