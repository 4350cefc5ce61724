"""A driver-managed buffer: a state tensor that passes from execution to execution; every use of it is checked."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed, UsageError
from udogen.qnn.interface import QnnError
from udogen.qnn.tensors import byte_size
from udogen.runtime import arguments
from udogen.runtime.buffers.access import Access
from udogen.runtime.buffers.allocators import allocate, shared_memory
from udogen.runtime.buffers.attachment import Attachment
from udogen.runtime.buffers.copying import bytes_of, check_type, empty
from udogen.runtime.buffers.roles import INPUT, USAGES, Agreed, Dims, Role, shape_of, text_of

if TYPE_CHECKING:
    from udogen.qnn.memory import Memory
    from udogen.qnn.system import TensorInfo
    from udogen.runtime.buffers.domains import MemoryDomain

_NOT_SUPPORTED = (1000, 8000)  # of all calls, and of memory: what a backend without registered memory answers


@dataclass(frozen=True)
class Token:
    """What stands for a buffer where the buffer itself cannot be handed over; good in its own process and domain."""

    process: int
    domain: int
    number: int

    def __int__(self) -> int:
        return self.process << 64 | self.domain << 32 | self.number

    @classmethod
    def of(cls, number: int) -> Token:
        """The token behind a number."""
        return cls(number >> 64, number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF)

    def __str__(self) -> str:
        return f"{int(self):#x}"


class ManagedBuffer:
    """Made by `MemoryDomain.allocate`; `Graph.bind` takes it for the tensors that it has roles for.

    Its memory is registered with each context that registers memory, and given to the others as it is.  What lies in it
    is the driver's own: `copy_from` and `copy_to` are the way in and out.
    """

    def __init__(
        self,
        domain: MemoryDomain,
        *,
        name: str,
        token: Token,
        agreed: Agreed,
        roles: Sequence[Role],
    ) -> None:
        self.domain, self.name, self.token, self.roles = domain, name, token, tuple(roles)
        self.dtype, self.dims, self._largest = agreed.dtype, agreed.dims, agreed.largest
        self.shape: tuple[int, ...] | None = None if None in agreed.dims else agreed.largest  # None: left open yet
        self.capacity = byte_size(agreed.dtype, agreed.largest)
        self.copied = 0  # bytes that copy_from and copy_to have moved
        self.written = False  # whether there is anything to read
        self._memory = allocate(shared_memory().allocator, max(self.capacity, 1), alignment=128, name=name)
        self.on_free: Callable[[], None] = lambda: None
        self._before = (self.shape, self.written)  # the last writing
        self._access = Access(name)
        self._registered: dict[Any, Memory | None] = {}  # by context and shape
        self._attachments: dict[tuple[Any, str, str], Attachment] = {}
        self._attaching = threading.Lock()
        self._freed = False

    def __repr__(self) -> str:
        state = "freed" if self._freed else f"{self.capacity} bytes" + ("" if self.written else ", nothing written")
        return f"<ManagedBuffer {self.name} ({self.dtype} {text_of(self.dims)}) of {self.domain.name}: {state}>"

    @property
    def nbytes(self) -> int:
        """How many bytes it holds now."""
        return 0 if self.shape is None else byte_size(self.dtype, self.shape)

    @property
    def address(self) -> int:
        """Where its memory begins in this process: the same for everybody who uses it."""
        return self._memory.address

    @property
    def registered(self) -> tuple[str, ...]:
        """The contexts that its memory is registered with, by name; others are given the memory as it is."""
        return tuple(context.name for (context, _), memory in self._registered.items() if memory is not None)

    # --- used by graphs ---------------------------------------------------------------------------------------------

    def attach(self, graph: Any, info: TensorInfo, role: str) -> Attachment:
        """Its memory for a tensor that it has a role for (the protocol of `Graph.bind`)."""
        self.check_usable()
        key = (graph, info.name, role)
        found = self._attachments.get(key)  # a pair is bound anew after each execution
        if found is not None and not graph.context.closed:
            return found
        self.domain.check_owner(self.name, graph)
        wanted = Role(graph, info.name, USAGES[role])
        if wanted not in self.roles:
            raise UsageError(
                f"buffer `{self.name}` may not be {wanted}",
                details=[f"it was allocated as {each}" for each in self.roles],
                hint="allocate it with this role too",
            )
        with self._attaching:
            if key not in self._attachments:
                self._attachments[key] = self._attached(wanted, info)
            return self._attachments[key]

    def _attached(self, role: Role, info: TensorInfo) -> Attachment:
        who, dims = str(role), shape_of(info)
        registered = self._register(role.graph.context, info)
        reads = role.usage == INPUT
        return Attachment(
            data=self._memory.view if registered is None else None,
            handle=None if registered is None else registered.handle,
            enter=(lambda: self._begin_reading(who, dims)) if reads else (lambda: self._begin_writing(who)),
            leave=(lambda: self._end_reading(who)) if reads else (lambda: self._end_writing(self._produced(dims))),
            failed=None if reads else self._fail_writing,
        )

    def _register(self, context: Any, info: TensorInfo) -> Memory | None:
        """Its registration with a context, made once; None where the backend registers no memory."""
        key = (context, tuple(info.shape))
        if key not in self._registered:
            self._registered[key] = None
            if self.domain.registers:
                self._registered[key] = self._try_to_register(context, info)
        return self._registered[key]

    def _try_to_register(self, context: Any, info: TensorInfo) -> Memory | None:
        try:
            made: Memory = context.register(self._memory.descriptor(), dtype=info.dtype, shape=info.shape, counted=True)
        except QnnError as problem:
            if problem.code not in _NOT_SUPPORTED:
                raise
            self.domain.registers = False  # libQnnHtp of a PC says so on stdout, each time it is asked
            return None
        return made

    def announce(self, shape: Sequence[int]) -> None:
        """Tell the shape of what the running execution writes, where the model leaves it open."""
        with self._access.lock:
            if not self._access.writer:
                raise RunFailed(
                    f"buffer `{self.name}` is not being written: nobody can tell its new shape",
                    hint="announce it during the execution that writes it",
                )
            self.shape = self._fitting(tuple(shape), "the output")

    # --- around executions and copies -------------------------------------------------------------------------------

    def _begin_reading(self, who: str, dims: Dims | None = None) -> None:
        with self._access.lock:
            self.check_usable()
            self._access.read(who)
            fault = self._unreadable(who, dims)
            if fault:
                self._access.end_reading(who)
                raise fault

    def _unreadable(self, who: str, dims: Dims | None) -> RunFailed | None:
        if not self.written or self.shape is None:
            return RunFailed(
                f"buffer `{self.name}` cannot be read as {who}: nothing was written to it",
                hint="initialize it with `copy_from`, or execute a graph that writes it",
            )
        if dims is not None and any(size not in (None, mine) for size, mine in zip(dims, self.shape, strict=True)):
            return RunFailed(
                f"buffer `{self.name}` cannot be read as {who}: it holds {list(self.shape)}, "
                f"the tensor is {text_of(dims)}",
                hint="write it by an output of that shape first",
            )
        return None

    def _begin_writing(self, who: str) -> None:
        with self._access.lock:
            self.check_usable()
            self._access.write(who)
            self._before, self.written = (self.shape, self.written), False
            if None in self.dims:
                self.shape = None

    def _end_reading(self, who: str) -> None:
        with self._access.lock:
            self._access.end_reading(who)
            self._give_back()

    def _end_writing(self, shape: tuple[int, ...] | None) -> None:
        """Without a shape nothing was written that anybody could rely on."""
        with self._access.lock:
            self._access.end_writing()
            if shape is not None:
                self.shape, self.written = shape, True
            self._give_back()

    def _fail_writing(self, began: bool) -> None:
        """After an execution that failed nobody knows what is in the buffer; one that did not begin left it alone."""
        if not began:
            with self._access.lock:
                self.shape, self.written = self._before
        self._end_writing(None)

    def _produced(self, dims: Dims) -> tuple[int, ...]:
        """The shape after an execution: announced, or that of the tensor, at its largest where that leaves it open."""
        if self.shape is not None:
            return self.shape
        known = zip(dims, self.dims, self._largest, strict=True)
        return tuple(its or fixed or most for its, fixed, most in known)

    # --- copied in and out ------------------------------------------------------------------------------------------

    def copy_from(self, source: Any, dimensions: Sequence[int] | None = None) -> None:
        """Fill it: with an array of its type, or the bytes of a pool or buffer, whose shape `dimensions` tells."""
        check_type(source, self.dtype, self.name)
        with bytes_of(source, self.name) as data:
            shape = self._fitting(self._shape_given(source, dimensions), "what is copied into it")
            need = byte_size(self.dtype, shape)
            if len(data) != need:
                raise UsageError(
                    f"{len(data)} bytes cannot be copied into buffer `{self.name}`: "
                    f"{self.dtype} {list(shape)} takes {need}",
                    hint="the memory must be as large as the tensor, no larger",
                )
            self._begin_writing("copy_from")
            done = None
            try:
                self._memory.view[:need] = data
                self.copied += need
                done = shape
            finally:
                self._end_writing(done)

    def copy_to(self, target: Any = None) -> Any:
        """What is in it: in a new array, or in the array, pool or buffer that is given, which must be as large."""
        self._begin_reading("copy_to")
        try:
            assert self.shape is not None  # it was written
            made = empty(self.dtype, self.shape, self.nbytes) if target is None else target
            check_type(made, self.dtype, self.name)
            with bytes_of(made, self.name, write=True) as data:
                if len(data) != self.nbytes:
                    raise UsageError(
                        f"buffer `{self.name}` has {self.nbytes} bytes, they cannot be copied into {len(data)}",
                        hint="the memory must be as large as the tensor, no larger",
                    )
                data[:] = self._memory.view[: self.nbytes]
                self.copied += self.nbytes
            return made
        finally:
            self._end_reading("copy_to")

    def _shape_given(self, source: Any, dimensions: Sequence[int] | None) -> tuple[int, ...]:
        if dimensions is not None:
            return arguments.wholes(dimensions, f"the dimensions of what is copied into buffer `{self.name}`")
        if hasattr(source, "dtype") and byte_size(self.dtype, (8,)) >= 8:  # packed bytes have no shape of their own
            return tuple(source.shape)
        if None in self.dims:
            raise UsageError(
                f"the shape of buffer `{self.name}` is {text_of(self.dims)}: bytes do not tell the rest",
                hint="give dimensions, or an array",
            )
        return self._largest

    def _fitting(self, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
        """A shape that the buffer can have."""
        fits = len(shape) == len(self.dims) and all(
            (size == fixed) if fixed is not None else 0 < size <= most
            for size, fixed, most in zip(shape, self.dims, self._largest, strict=True)
        )
        if not fits:
            most = f", at most {list(self._largest)}" if None in self.dims else ""
            raise UsageError(
                f"{what} has the shape {list(shape)}, buffer `{self.name}` is {text_of(self.dims)}{most}",
                hint="its shape is that of its roles and its description",
            )
        return shape

    # --- the end ----------------------------------------------------------------------------------------------------

    @property
    def in_use(self) -> bool:
        """Whether an execution or a copy is using it."""
        return self._access.in_use

    def free(self) -> None:
        """Unbind it, and give its memory back, at once or when the executions that use it have ended."""
        self.give_up()
        for each in list(self._attachments.values()):
            each.end_binding(each.ended, wait=False)  # a graph that is running looks at it before it runs again
        with self._access.lock:
            self._give_back()
        self.domain.forget(self)

    def give_up(self) -> None:
        """Refuse all further uses; its memory is given back by `free`, by its domain at the latest."""
        self._freed = True
        for each in list(self._attachments.values()):
            each.ended = self._why()

    def _why(self) -> str:
        if self.domain.closed:
            return f"memory domain `{self.domain.name}` was closed"
        return f"buffer `{self.name}` was freed"

    def _give_back(self) -> None:
        if not self._freed or self.in_use or self._memory.closed:
            return
        self._attachments.clear()
        for memory in self._registered.values():
            if memory is not None:
                memory.close()
        self._registered.clear()
        self._memory.close()
        self.on_free()

    def check_usable(self) -> None:
        """Refuse every use in another process, after the end of its domain, and after its own."""
        if self.token.process != os.getpid():
            raise RunFailed(
                f"buffer `{self.name}` was allocated in process {self.token.process}, this is {os.getpid()}",
                hint="driver-managed buffers do not survive a fork: allocate them in the process that executes",
            )
        if self.domain.closed:
            raise RunFailed(
                f"buffer `{self.name}` cannot be used: memory domain `{self.domain.name}` is closed",
                hint="use it inside the `with` block of the domain",
            )
        if self._freed:
            raise RunFailed(f"buffer `{self.name}` was freed", hint="allocate a new one")

    def __enter__(self) -> ManagedBuffer:
        self.check_usable()
        return self

    def __exit__(self, *how: object) -> None:
        self.free()
