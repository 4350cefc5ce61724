"""Memory with an owner, the tensors placed in it, and its registrations with contexts."""

from __future__ import annotations

import os
import stat
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from udogen.errors import RunFailed, UsageError
from udogen.qnn import abi
from udogen.qnn.handles import DMA_BUF, ION, Closing, MemoryHandle, SharedRange, run_all
from udogen.qnn.interface import QnnError
from udogen.qnn.tensors import APP_READ, QnnTensor, byte_size
from udogen.runtime import arguments
from udogen.runtime.buffers import memory
from udogen.runtime.buffers.memory import ANY, Image, Wanted, align_up, check_alignment

if TYPE_CHECKING:
    from udogen.runtime.buffers.domains import Access
    from udogen.runtime.contexts.binding import TensorBinding
    from udogen.runtime.contexts.graph import Graph
    from udogen.runtime.contexts.runtime import Runtime

# How a tensor is bound: as client memory, or registered as a buffer of its own (ION, DMA_BUF) or part of a shared one.
RAW, SHARED_BUFFER = "RAW", "SHARED_BUFFER"
TENSORS, WEIGHTS_SIZE, SPILL_SIZE = "tensors", "weights", "spill_fill"  # the kinds of memory that a session counts


@dataclass(eq=False)
class Attachment:
    """The memory of one tensor: the client's, or a part of a buffer that is registered with the context.

    The owner of the memory calls `end_binding` before it frees the memory.
    """

    data: Any = None  # its bytes, writable for an output; None if the client may not access them
    part: RegisteredPart | None = None
    access: Access | None = None  # if its memory takes part in the executions of its graph
    user: tuple[Graph, TensorBinding] | None = None  # while a tensor is bound to it
    held: Any = None  # as the tensor's struct has it then: the handle of the part, or the data, kept in place
    ended: str = ""  # why it can no longer be used

    def attach(self, _graph: Any, _info: QnnTensor, _role: str) -> Attachment:
        """Return itself: it is attached already (the protocol of `Graph.bind`)."""
        return self

    def end_binding(self, why: str) -> None:
        """Unbind the tensor before the memory is freed, after a running execution."""
        self.ended = why
        if self.user is not None:
            graph, binding = self.user
            graph.release(binding)


class Bindable(Protocol):
    """What `Graph.bind` accepts in addition to arrays."""

    def attach(self, graph: Any, info: QnnTensor, role: str) -> Attachment:
        """The memory for this tensor of this graph; `role` is APP_WRITE (an input) or APP_READ (an output)."""
        ...


class Buffer(Closing):
    """Memory for tensors: `Buffer("shared", 4096)`; a context manager.

    `kind` is client, shared (rpcmem where the machine has it, else memfd), memfd, rpcmem, ashmem, file,
    hardware_buffer_blob or hardware_buffer.  A file is given as `fd`, and may be a DMA buffer of another program:
    `Buffer("file", fd=fd, offset=4096)`, without a size to its end.  The caller may close the descriptor; memory of one
    that is open for reading alone is read-only.  A hardware_buffer is made of `image`: width, height, pixel format,
    bytes of a pixel; or the address of an AHardwareBuffer that another library made, and bytes of a pixel.

    `close` unbinds the tensors bound to it and deregisters it.  It raises while the buffer is held (`hold`: external
    weights of a context, a mapping to a Hexagon).  Arrays made of `view` may outlive the buffer: the memory is freed
    with the last of them.

    `graph.bind({"x": buffer})`
    """

    _taken = 0

    def __init__(
        self,
        kind: str,
        size: int = 0,
        *,
        alignment: int | None = None,
        name: str = "buffer",
        fd: int | None = None,
        offset: int = 0,
        image: Image | None = None,
    ) -> None:
        """Allocate memory, or map a given file; it is zeroed if the system zeroes it.

        `alignment` of its address: 64 unless it is given, and any for memory that others made.
        """
        ffi = abi.ffi()
        abi.text_bytes(name, "the name of a buffer")
        kind, row = memory.kind_named(kind)
        alignment = row.alignment if alignment is None else alignment
        check_alignment(alignment)
        backing = memory.take_memory(kind, Wanted(name, size, fd, offset, image))
        self.name, self.kind, self.alignment = name, kind, alignment
        exported = ffi.from_buffer(backing.memory)
        self.size = size or len(exported) - backing.begin
        self.address = int(ffi.cast("uintptr_t", exported)) + backing.begin
        self.fd_offset = backing.fd_offset
        self._memory: Any = backing.memory  # freed with its last reference
        self._begin = backing.begin
        self._fd = backing.fd
        self.identity = None if backing.fd is None else _identity(backing.fd)  # the file behind it: (device, inode)
        owned = backing.fd if backing.owns_fd else None
        self._close_fd = None if owned is None else weakref.finalize(self, _close, owned, _identity(owned))
        self._holders: dict[object, str] = {}
        self._registrations: dict[object, Callable[[], None]] = {}  # holds that end when it is closed
        self._attached: weakref.WeakSet[Attachment] = weakref.WeakSet()
        self._reserved: dict[object, str] = {}
        self.fastrpc = 0  # mappings to a Hexagon
        self._closes_when_free = False
        self._lock = threading.RLock()
        if self.address % alignment:
            self.close()
            raise RunFailed(
                f"{kind} memory of buffer `{name}` is at {self.address:#x}, which is not a multiple of {alignment}",
                hint="ask for a smaller alignment",
            )

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.size} bytes at {self.address:#x}"
        return f"<Buffer {self.name} ({self.kind}): {state}>"

    @property
    def closed(self) -> bool:
        """Whether it was freed."""
        return self._memory is None

    @property
    def view(self) -> memoryview:
        """Its bytes, writable if the memory is."""
        for purpose in self._reserved.values():
            raise RunFailed(
                f"buffer `{self.name}` belongs to QNN: it is the {purpose}",
                hint="close its context first: until then only QNN may read or write it",
            )
        return self._bytes()

    def _bytes(self) -> memoryview:
        return memoryview(self._open_memory()).cast("B")[self._begin : self._begin + self.size]

    @property
    def fd(self) -> int | None:
        """The file descriptor of the memory; None if it has none."""
        self._open_memory()
        return self._fd

    @property
    def exported(self) -> bool:
        """Whether an array or a view of its bytes exists."""
        return self._memory is not None and sys.getrefcount(self._memory) > 2  # `_memory` and the argument

    @property
    def is_reserved(self) -> bool:
        """Whether QNN owns its bytes."""
        return bool(self._reserved)

    @property
    def held_by(self) -> tuple[str, ...]:
        """The names of its holders, one for each hold."""
        with self._lock:
            return tuple(self._holders.values())

    def descriptor(self) -> int:
        """The descriptor, after checking that it still refers to this memory."""
        fd = self.fd
        if fd is None:
            raise RunFailed(
                f"buffer `{self.name}` is {self.kind} memory: it has no file descriptor to register",
                hint="allocate it as shared memory (rpcmem on a device, memfd on a PC)",
            )
        try:
            status = os.fstat(fd)
        except OSError as problem:
            raise RunFailed(
                f"file descriptor {fd} of buffer `{self.name}` was closed outside of udogen",
                hint="hand out os.dup(buffer.fd): only the buffer may close its descriptor",
            ) from problem
        if (status.st_dev, status.st_ino) != self.identity:
            raise RunFailed(
                f"file descriptor {fd} of buffer `{self.name}` refers to another file now: it was closed, "
                "and its number was reused",
                hint="hand out os.dup(buffer.fd): only the buffer may close its descriptor",
            )
        if stat.S_ISREG(status.st_mode) and status.st_size < self.fd_offset + self.size:
            raise RunFailed(
                f"the file of buffer `{self.name}` has {status.st_size} bytes now, less than the buffer, "
                f"which ends at {self.fd_offset + self.size}",
                hint="extend the file again: access to the missing bytes would end the process (SIGBUS)",
            )
        return fd

    def hold(self, holder: str, *, until_closed: Callable[[], None] | None = None) -> Callable[[], None]:
        """Keep the buffer from being closed; returns the function that ends this.

        With `until_closed` it may be closed: that function is called first, and has to end the hold.
        """
        token = object()
        with self._lock:
            self._open_memory()
            self._holders[token] = holder
            if until_closed is not None:
                self._registrations[token] = until_closed

        def end_hold() -> None:
            with self._lock:
                self._holders.pop(token, None)
                self._registrations.pop(token, None)
                if self._closes_when_free and not self._holders:
                    self._free()

        return end_hold

    def reserve(self, purpose: str) -> Callable[[], None]:
        """Deny access to the bytes, which serve as `purpose` from now on; returns the function that ends this."""
        with self._lock:
            self._open_memory()
            if self.exported:
                raise RunFailed(
                    f"buffer `{self.name}` cannot become the {purpose}: arrays or views of its bytes are alive",
                    hint="delete them first: only QNN may change its contents",
                )
            token = object()
            self._reserved[token] = purpose

        def end() -> None:
            self._reserved.pop(token, None)

        return end

    def attach(self, graph: Any, info: QnnTensor, role: str) -> Attachment:
        """Bind one tensor of a graph to the whole buffer (`Graph.bind`)."""
        alone = ION if self.fd_offset == 0 else SHARED_BUFFER
        whole = BufferPart(self, 0, self.size, RAW if self.fd is None else alone)
        return whole.attach(graph, info, role)

    def attached(self, attachment: Attachment) -> Attachment:
        """Record an attachment, so that it is unbound when the buffer is closed."""
        with self._lock:
            self._open_memory()
            self._attached.add(attachment)
        return attachment

    def part(self, offset: int = 0, nbytes: int | None = None, *, how: str = "") -> BufferPart:
        """A range of it, for one of several tensors: `graph.bind({"x": buffer.part(0, 256)})`.

        `how` is RAW (client memory), ION, DMA_BUF or SHARED_BUFFER (registered memory).  By default memory that has a
        descriptor is registered as part of a shared buffer.
        """
        arguments.expect(how, str, "how memory is bound", "RAW, ION, DMA_BUF or SHARED_BUFFER")
        begin = arguments.whole(offset, f"the offset in buffer `{self.name}`", least=-ANY, most=ANY)
        length = self.size - begin if nbytes is None else arguments.whole(nbytes, "the size of a part", least=1)
        return BufferPart(self, begin, length, how or (SHARED_BUFFER if self.fd is not None else RAW))

    @property
    def free(self) -> int:
        """Bytes that `take` has not given away yet."""
        return self.size - self._taken

    def take(self, nbytes: int, *, alignment: int = 64) -> int:
        """The offset of `nbytes` that follow what was taken before: `buffer.part(buffer.take(256), 256)`."""
        if nbytes < 1:
            raise UsageError(f"{nbytes} bytes cannot be taken from buffer `{self.name}`", hint="take at least one")
        check_alignment(alignment)
        self.check_open()
        offset = align_up(self._taken, alignment)
        if offset + nbytes > self.size:
            raise RunFailed(
                f"buffer `{self.name}` is full: {nbytes} bytes are wanted, {max(self.size - offset, 0)} of "
                f"{self.size} are left",
                hint="allocate a larger one",
            )
        self._taken = offset + nbytes
        return offset

    @contextmanager
    def mapped_to_hexagon(self, *, domain: int = memory.CDSP) -> Iterator[None]:
        """Map it for code of your own on a Hexagon; QNN maps registered buffers itself.

        `with buffer.mapped_to_hexagon(): call_my_skel()`
        """
        fd, library = self.descriptor(), memory.open_rpcmem()
        end_hold = self.hold("fastrpc_mmap")
        try:
            if self.is_reserved:
                raise RunFailed(
                    f"buffer `{self.name}` cannot be mapped by fastrpc_mmap: it belongs to QNN",
                    hint="allocate another one",
                )
            library.map(fd, self.address, self.size, domain=domain)
            self.fastrpc += 1
            try:
                yield
            finally:
                self.fastrpc -= 1
                library.unmap(fd, self.address, self.size, domain=domain)
        finally:
            end_hold()

    def close(self) -> None:
        """Wait for running executions, unbind, deregister and free it; a second call does nothing."""
        with self._lock:
            self._check_unheld()
        # Without the lock: a graph that is being bound waits for it.
        for attachment in list(self._attached):
            attachment.end_binding(f"buffer `{self.name}` was closed")
        errors: list[Exception] = []
        for end in reversed(list(self._registrations.values())):
            try:
                end()
            except Exception as problem:
                errors.append(problem)
        with self._lock:
            self._check_unheld()
            if not self._holders:
                self._free()
            elif not errors:
                raise RunFailed(
                    f"buffer `{self.name}` cannot be closed: it was bound again meanwhile", hint="close it again"
                )
        if errors:
            raise errors[0]

    def _check_unheld(self) -> None:
        held = dict.fromkeys(name for token, name in self._holders.items() if token not in self._registrations)
        if held and not self.closed:
            raise RunFailed(
                f"buffer `{self.name}` cannot be closed: it is in use by {', '.join(held)}", hint="close that first"
            )

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._closes_when_free = error is not None  # if it is held then: the first error is raised
        super().__exit__(kind, error, trace)

    def check_open(self) -> None:
        """Raise after it was closed."""
        self._open_memory()

    def _open_memory(self) -> Any:
        if self._memory is None:
            raise RunFailed(f"buffer `{self.name}` is closed", hint="use it inside its `with` block")
        return self._memory

    def _free(self) -> None:
        self._memory = None
        if self._close_fd is not None:
            self._close_fd()


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _close(fd: int, identity: tuple[int, int]) -> None:
    """Close the descriptor, unless it refers to another file now."""
    try:
        if _identity(fd) == identity:
            os.close(fd)
    except OSError:
        pass


@dataclass(frozen=True)
class BufferPart:
    """A range of a buffer; `how` is RAW (client memory), ION, DMA_BUF or SHARED_BUFFER (registered memory).

    `graph.bind({"x": buffer.part(0, 256)})`
    """

    buffer: Buffer
    offset: int
    nbytes: int
    how: str

    def __post_init__(self) -> None:
        if self.how not in (RAW, ION, DMA_BUF, SHARED_BUFFER):
            raise UsageError(f"memory is not bound as {self.how!r}", hint="RAW, ION, DMA_BUF or SHARED_BUFFER")
        end = self.offset + self.nbytes
        if self.offset < 0 or self.nbytes <= 0 or end > self.buffer.size:
            raise UsageError(
                f"bytes {self.offset} to {end} are not in buffer `{self.buffer.name}`, which has {self.buffer.size}",
                hint="give an offset and a length inside it",
            )

    @property
    def view(self) -> memoryview:
        """Its bytes, writable if the memory is."""
        return self.buffer.view[self.offset : self.offset + self.nbytes]

    def attach(self, graph: Any, info: QnnTensor, role: str) -> Attachment:
        """Bind a tensor of a graph to this range."""
        needs = byte_size(info.dtype, info.shape)
        if needs > self.nbytes:
            raise RunFailed(
                f"tensor `{info.name}` ({info.dtype} {list(info.shape)}) needs {needs} bytes, byte {self.offset} of "
                f"buffer `{self.buffer.name}` is followed by {self.nbytes}",
                hint="allocate a larger buffer, or choose a lower offset",
            )
        view = self.buffer.view[self.offset : self.offset + needs]
        if view.readonly and role == APP_READ:
            raise RunFailed(
                f"output `{info.name}` cannot be bound to buffer `{self.buffer.name}`, which is read-only",
                hint="open its file for writing",
            )
        part = None
        if self.how != RAW:
            part = graph.context.registrations.register(
                self.buffer, how=self.how, dtype=info.dtype, shape=tuple(info.shape), offset=self.offset
            )
        return self.buffer.attached(Attachment(view, part))


WEIGHTS, SPILL_FILL = "WEIGHTS_BUFFER", "SHARED_SPILLFILL_BUFFER"
_NAMES = {
    ION: "the buffer of one tensor (ION)",
    DMA_BUF: "the buffer of one tensor (DMA_BUF)",
    SHARED_BUFFER: "a buffer of several tensors (SHARED_BUFFER)",
    WEIGHTS: "an external weights buffer",
    SPILL_FILL: "an external spill-fill buffer",
}
EXTERNAL = frozenset({WEIGHTS, SPILL_FILL})


@dataclass(eq=False)
class RegisteredRange:
    """One registration; `offset` counts from the start of the file."""

    kind: str
    buffer: Buffer
    offset: int
    size: int
    context: str  # name of the context
    owner: int  # identity of the context
    turn: threading.Lock = field(default_factory=threading.Lock)  # held while a spill-fill buffer is in use

    @property
    def end(self) -> int:
        return self.offset + self.size


_entries: list[RegisteredRange] = []
_table_lock = threading.RLock()  # reentrant: the garbage collector may free a context in this thread


def record_registration(new: RegisteredRange) -> Callable[[], None]:
    """Record a registration; raises if another one excludes it; returns the function that removes it.

    A spill-fill buffer that another context also uses shares the lock of that registration.
    """
    with _table_lock:
        for other in [entry for entry in _entries if entry.buffer.identity == new.buffer.identity]:
            if fault := _fault(new, other):
                raise RunFailed(fault[0], hint=fault[1])
            if new.kind == other.kind == SPILL_FILL and new.offset == other.offset:
                new.turn = other.turn
        _entries.append(new)

    def remove() -> None:
        with _table_lock:
            if new in _entries:
                _entries.remove(new)

    return remove


def is_registered(kind: str, owner: int) -> bool:
    """Whether a context has a registration of this kind."""
    with _table_lock:
        return any(entry.kind == kind and entry.owner == owner for entry in list(_entries))


def _fault(new: RegisteredRange, other: RegisteredRange) -> tuple[str, str] | None:
    """(problem, hint) if the two registrations exclude each other."""
    name, is_same = f"buffer `{new.buffer.name}`", new.owner == other.owner
    if new.kind != other.kind and ({new.kind, other.kind} & EXTERNAL or is_same):
        return (
            f"{name} is registered as {_NAMES[other.kind]} with context {other.context}: "
            f"it cannot also be {_NAMES[new.kind]}",
            "allocate another one: a file descriptor is registered for one purpose only",
        )
    if is_same and new.kind not in EXTERNAL and new.offset == other.offset:
        return (
            f"byte {new.offset} of {name} is registered with context {other.context} already, "
            f"as buffer `{other.buffer.name}`",
            "bind to that one: a range has one handle in a context",
        )
    apart = new.offset >= other.end or other.offset >= new.end
    if new.kind == WEIGHTS and not is_same and not apart:
        return (
            f"{name} holds the external weights of context {other.context}: each context needs its own",
            "allocate one for each context",
        )
    if new.kind == SPILL_FILL and not apart and new.offset != other.offset:
        return (
            f"{name} is a spill-fill buffer from byte {other.offset} on for context {other.context}: "
            f"one from byte {new.offset} on would overlap it",
            "share it from the same byte on, or keep the two apart",
        )
    return None


_NOT_SUPPORTED = 1000


@dataclass(eq=False)
class RegisteredPart:
    """The part of a buffer that is registered as memory of a tensor."""

    entry: RegisteredRange
    memory: MemoryHandle
    undo: Callable[[], None]

    @property
    def is_bound(self) -> bool:
        """Whether a tensor is bound to it, or is being bound."""
        attached = list(self.entry.buffer._attached)
        return any(attachment.part is self and not attachment.ended for attachment in attached)


class Registrations:
    """Shared memory registered with one context: each range once, deregistered last to first."""

    def __init__(self, context: Any) -> None:
        self._context: Any = weakref.proxy(context)
        self._owner = id(context)
        self._rows: list[RegisteredPart] = []
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._rows)

    def register(self, buffer: Buffer, *, how: str, dtype: str, shape: Sequence[int], offset: int) -> RegisteredPart:
        """Register a range for this tensor; an existing registration is reused if it fits."""
        place = buffer.fd_offset + offset
        with self._lock:
            self._context.check_open()
            for row in self._rows:
                if row.entry.buffer is buffer and row.entry.offset == place and row.entry.kind == how:
                    if row.memory.dtype == dtype and row.entry.size >= byte_size(dtype, shape):
                        return row
                    raise RunFailed(
                        f"byte {offset} of buffer `{buffer.name}` is registered with context {self._context.name} for "
                        f"{row.entry.size} bytes of {row.memory.dtype}: it cannot also be {dtype} {list(shape)}",
                        hint="register the largest tensor of a range first, and tensors of another type in another "
                        "range",
                    )
            self._rows.append(self._new(buffer, how, dtype, shape, place))
            return self._rows[-1]

    def _new(self, buffer: Buffer, how: str, dtype: str, shape: Sequence[int], place: int) -> RegisteredPart:
        fd, context = buffer.descriptor(), self._context
        part = SharedRange(place, buffer.fd_offset + buffer.size)
        if how != SHARED_BUFFER and part.offset:
            raise RunFailed(
                f"byte {part.offset} of buffer `{buffer.name}` cannot be registered as {how} memory, which "
                "begins with its descriptor",
                hint="register it as SHARED_BUFFER",
            )
        entry = RegisteredRange(how, buffer, place, byte_size(dtype, shape), context.name, self._owner)
        with ExitStack() as stack:
            stack.callback(record_registration(entry))
            stack.callback(buffer.hold(f"context {context.name}", until_closed=lambda: self.release(buffer)))
            if context.session is not None:
                stack.callback(context.session.charge(buffer, buffer.size))
            try:
                given = {"shared": part} if how == SHARED_BUFFER else {"kind": how, "address": buffer.address}
                memory = MemoryHandle(context.handle, fd, dtype=dtype, shape=shape, **given)
            except QnnError as problem:
                if problem.code == _NOT_SUPPORTED:
                    raise NoSharedMemory(context.runtime) from problem
                raise
            stack.callback(memory.close)
            undo = stack.pop_all().close
        return RegisteredPart(entry, memory, undo)

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """Undo the registrations made inside, last to first, if an error is raised."""
        with self._lock:
            before = len(self._rows)
            try:
                yield
            except BaseException:
                with suppress(Exception):  # the first error is raised
                    self._undo(self._rows[before:])
                raise

    def release(self, buffer: Buffer) -> None:
        """Deregister all ranges of a buffer; raises while a tensor is bound to one."""
        with self._lock:
            rows = [row for row in self._rows if row.entry.buffer is buffer]
            if any(row.is_bound for row in rows):
                raise RunFailed(
                    f"buffer `{buffer.name}` cannot be deregistered: tensors of context {self._context.name} are "
                    "bound to it",
                    hint="bind them to other memory first, or unbind them",
                )
            self._undo(rows)

    def release_unused(self, parts: Sequence[RegisteredPart]) -> None:
        """Deregister those of these ranges that no tensor is bound to any more."""
        with self._lock:
            self._undo([row for row in self._rows if row in parts and not row.is_bound])

    def close(self) -> None:
        """Deregister everything, before the context is freed."""
        with self._lock:
            self._undo(list(self._rows))

    def _undo(self, rows: Sequence[RegisteredPart]) -> None:
        for row in rows:
            self._rows.remove(row)
        run_all(row.undo for row in reversed(rows))


class NoSharedMemory(RunFailed):
    """The backend of a context registers no memory."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(
            f"{runtime.path.name} registers no shared memory on this machine: it returned {_NOT_SUPPORTED} (not "
            "supported)",
            hint="on a PC no library of Qualcomm does: use memory of this process (no --shared; in Python arrays, or "
            'buffer.part(offset, size, how="RAW")), '
            'or udogen\'s emulator (--runtime emulator; runtime="emulator")',
        )
