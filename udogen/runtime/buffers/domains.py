"""Memory domains, as in NNAPI: buffers of the driver, allocated for the tensors they will be used as.

They hold what passes from one execution to the next: the state of a sequence model, its KV cache, activations between
shards.  The rules are those of NNAPI's page on memory pools:

* a buffer is used only in the roles it was allocated for, by the session and in the process it was allocated in
* its type and shape follow from its description and all its roles; an open dimension is set by what is written
* any number of executions may read it at a time; a writer needs exclusive access, and is refused, not made to wait
* it cannot be read before it is written
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed, UsageError
from udogen.findings import suggestion
from udogen.qnn.handles import ION, Closing, run_all
from udogen.qnn.interface import QnnError
from udogen.qnn.system import TensorInfo
from udogen.qnn.tensors import APP_READ, APP_WRITE, byte_size
from udogen.runtime import arguments
from udogen.runtime.arguments import kind_of
from udogen.runtime.buffers.buffer import Attachment, Buffer, BufferPart, NoSharedMemory
from udogen.runtime.buffers.memory import shared_allocator, take_memory

if TYPE_CHECKING:
    import numpy as np

    from udogen.runtime.contexts.runtime import Runtime
    from udogen.runtime.sessions import Session, Sessions

INPUT, OUTPUT = "input", "output"
_USAGES = {APP_WRITE: INPUT, APP_READ: OUTPUT}
_REFUSED = 8000  # the error code of some backends that register no memory
_PAIR = "a graph that reads and writes one state needs a BufferPair"


@dataclass(frozen=True)
class BufferDesc:
    """Type and shape of a managed buffer; what is left open follows from its roles.

    `domain.allocate([Role(graph, "key", OUTPUT)], BufferDesc((1, 64), "FLOAT_32"))`
    """

    dimensions: tuple[int, ...] | None = None  # 0: unknown size; None: unknown rank
    dtype: str = ""


@dataclass(frozen=True)
class Role:
    """One tensor that a managed buffer is used as: `Role(graph, "key", OUTPUT)`."""

    graph: Any  # a Graph of an open context
    tensor: str
    usage: str

    def __str__(self) -> str:
        return f"{self.usage} `{self.tensor}` of graph `{self.graph.name}` in {self.graph.context.name}"

    @property
    def side(self) -> tuple[TensorInfo, ...]:
        """The tensors of its graph that have this usage."""
        side: tuple[TensorInfo, ...] = self.graph.inputs if self.usage == INPUT else self.graph.outputs
        return side

    def info(self) -> TensorInfo | None:
        """The tensor; None if the graph has no such input or output."""
        return next((tensor for tensor in self.side if tensor.name == self.tensor), None)


# --- type and shape -----------------------------------------------------------------------------------------------


def resolve_type(name: str, desc: BufferDesc, roles: Sequence[Role]) -> TensorInfo:
    """The tensor that fits a description and all roles; all contradictions are reported.

    Without a name it has that of the first role's tensor.  Dimensions that stay open until it is written are dynamic.
    """
    _check_roles(roles)
    infos = [(str(role), info) for role in roles if (info := role.info()) is not None]
    model, axes = infos[0][1], list[tuple[int | None, int]]()
    faults = _differences(desc, infos)
    if not faults:
        axes = [_axis(axis, desc, infos, faults) for axis in range(len(model.shape))]
    if faults:
        hint = "a buffer has one type, one quantization and one shape for all its roles; use two buffers and copy"
        raise _contradiction(faults, hint)
    largest = tuple(most for _, most in axes)
    dynamic = tuple(size is None for size, _ in axes)
    return TensorInfo(0, name or roles[0].tensor, model.dtype, largest, model.quant, dynamic=dynamic)


def _contradiction(faults: Sequence[str], hint: str) -> UsageError:
    before = "the buffer cannot be allocated: "
    return arguments.faulty(faults, "things contradict each other", before=before, hint=hint)


def _check_roles(roles: Sequence[Role]) -> None:
    hint = "a role is a tensor of a graph and its usage: INPUT or OUTPUT"
    faults = [] if roles else ["it has no role: name the inputs and outputs it will be used as"]
    for index, role in enumerate(roles):
        if not hasattr(role.graph, "inputs") or isinstance(role.graph, type):
            faults.append(f"the graph of a role is {kind_of(role.graph)}")
            hint = "give a Graph: context.graph(name)"
        elif role.usage not in (INPUT, OUTPUT):
            faults.append(f"`{role.usage}` is not a usage: {INPUT} or {OUTPUT}")
            hint = suggestion(str(role.usage), (INPUT, OUTPUT), hint)
        elif role in roles[:index]:
            faults.append(f"{role} is named twice")
        elif role.info() is None:
            names = [tensor.name for tensor in role.side]
            listed = ", ".join(f"`{name}`" for name in names) or "none"
            faults.append(f"there is no {role}: its {role.usage}s are {listed}")
            hint = suggestion(str(role.tensor), names, hint)
    if faults:
        raise _contradiction(faults, hint)


def _differences(desc: BufferDesc, infos: Sequence[tuple[str, TensorInfo]]) -> list[str]:
    """The contradictions in type and number of dimensions between the tensors of the roles and the description."""
    faults: list[str] = []
    first, model = infos[0]
    for name, info in infos[1:]:
        if info.dtype != model.dtype:
            faults.append(f"{first} is {model.dtype}, {name} is {info.dtype}")
        elif info.quant != model.quant:
            faults.append(f"{first} and {name} have different quantizations: a copy would be needed")
        if len(info.shape) != len(model.shape):
            faults.append(f"{first} has {len(model.shape)} dimensions, {name} has {len(info.shape)}")
    if desc.dtype and desc.dtype != model.dtype:
        faults.append(f"the description has {desc.dtype}, {first} is {model.dtype}")
    if desc.dimensions is not None and len(desc.dimensions) != len(model.shape):
        faults.append(f"the description has {len(desc.dimensions)} dimensions, {first} has {len(model.shape)}")
    return faults


def _axis(
    axis: int, desc: BufferDesc, infos: Sequence[tuple[str, TensorInfo]], faults: list[str]
) -> tuple[int | None, int]:
    """The size of an axis, None if open, and its maximum."""
    known = [("the description", desc.dimensions[axis])] if desc.dimensions and desc.dimensions[axis] else []
    known += [(name, size) for name, info in infos if (size := info.dims[axis]) is not None]
    limits = [(name, info.shape[axis]) for name, info in infos if info.dims[axis] is None]
    if not known:
        return None, max(most for _, most in limits)
    first, size = known[0]
    differing = [f"{other} in {name}" for name, other in known if other != size]
    differing += [f"at most {most} in {name}" for name, most in limits if size > most]
    faults += [f"dimension {axis} is {size} in {first}, {other}" for other in differing]
    return size, size


def _text_of(dims: Sequence[int | None]) -> str:
    """Dimensions as text, `?` for open ones."""
    return "[" + ", ".join("?" if size is None else str(size) for size in dims) + "]"


# --- one buffer ---------------------------------------------------------------------------------------------------


class ManagedBuffer(Buffer):
    """A driver-managed buffer; bind it to the tensors of its roles with `Graph.bind`.

    Made by `MemoryDomain.allocate`.  Its memory is registered with each context that registers memory; other contexts
    use it as client memory.  Its contents are accessed by `copy_from` and `copy_to` only.
    """

    def __init__(self, domain: MemoryDomain, info: TensorInfo, roles: Sequence[Role]) -> None:
        kind, size = shared_allocator().allocator, max(info.nbytes, 1)
        super().__init__(take_memory(kind, size, info.name), name=info.name, kind=kind, size=size, alignment=128)
        self.domain, self.info, self.roles = domain, info, tuple(roles)
        self.token = os.getpid() << 32 | next(_numbers)
        self.dtype, self.dims = info.dtype, info.dims
        self.shape: tuple[int, ...] | None = None if None in self.dims else info.shape  # None: still open
        self.copied = 0  # bytes copied by copy_from and copy_to
        self.written = False  # whether it has contents
        self._process = os.getpid()
        self._before = (self.shape, self.written)  # before the current write
        self._access = threading.Lock()  # held while the next two are read or changed
        self._readers: list[str] = []
        self._writer = ""
        self._attachments: dict[Role, Attachment] = {}

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.size} bytes" + ("" if self.written else ", nothing written")
        return f"<ManagedBuffer {self.name} ({self.dtype} {_text_of(self.dims)}) of {self.domain.name}: {state}>"

    @property
    def nbytes(self) -> int:
        """Bytes of its current contents."""
        return 0 if self.shape is None else byte_size(self.dtype, self.shape)

    @property
    def view(self) -> memoryview:
        """Refused: its contents are accessed by `copy_from` and `copy_to`, which check who uses it."""
        raise UsageError(f"buffer `{self.name}` is the driver's", hint="use its copy_from and copy_to")

    # --- used by graphs ---------------------------------------------------------------------------------------------

    def attach(self, graph: Any, info: TensorInfo, role: str) -> Attachment:
        """Its memory for the tensor of one of its roles (the protocol of `Graph.bind`)."""
        self.check_usable()
        wanted = Role(graph, info.name, _USAGES[role])
        known = self._attachments.get(wanted)  # pairs are bound again after each execution
        if known is not None and not graph.context.closed:
            return known
        if wanted not in self.roles:
            raise UsageError(
                f"buffer `{self.name}` may not be {wanted}",
                details=[f"it was allocated as {role}" for role in self.roles],
                hint="allocate it with this role too",
            )
        handle = self._register(graph.context)
        data = self._bytes() if handle is None else None
        made = Attachment(data=data, handle=handle, access=_Access(self, wanted, info.dims))
        return self._attachments.setdefault(wanted, self.attached(made))

    def _register(self, context: Any) -> Any:
        """The handle of its memory in a context; None if the backend registers no memory."""
        if not self.domain.registers:
            return None
        try:
            known = context.registrations.register(self, how=ION, dtype=self.dtype, shape=self.info.shape, offset=0)
            return known.memory.handle
        except NoSharedMemory:
            pass
        except QnnError as finding:
            if finding.code != _REFUSED:
                raise
        self.domain.registers = False  # tried once: libQnnHtp of a PC prints a line each time
        return None

    # --- around executions and copies -------------------------------------------------------------------------------

    def begin_reading(self, who: str, dims: Sequence[int | None] | None = None) -> None:
        """Start reading it as a tensor of these dimensions; raises while it is written, or if it does not fit."""
        with self._access:
            self.check_usable()
            if self._writer:
                raise self._refused(f"read as {who}: {self._writer} is writing it", f"wait for that execution; {_PAIR}")
            if not self.written or self.shape is None:
                raise self._refused(
                    f"read as {who}: it was never written",
                    "write it with `copy_from`, or execute a graph that writes it",
                )
            if dims is not None and any(size not in (None, mine) for size, mine in zip(dims, self.shape, strict=True)):
                raise self._refused(
                    f"read as {who}: it holds {list(self.shape)}, the tensor is {_text_of(dims)}",
                    "write it by an output of that shape first",
                )
            self._readers.append(who)

    def end_reading(self, who: str) -> None:
        """End reading."""
        with self._access:
            self._readers.remove(who)

    def begin_writing(self, who: str) -> None:
        """Start writing it; raises while it is read or written."""
        with self._access:
            self.check_usable()
            if self._writer:
                raise self._refused(
                    f"written as {who}: {self._writer} is writing it",
                    "wait for that execution, or give each a buffer of its own",
                )
            if self._readers:
                raise self._refused(
                    f"written as {who}: {self._readers[0]} is reading it", f"wait for that execution; {_PAIR}"
                )
            self._writer = who
            self._before, self.written = (self.shape, self.written), False
            if None in self.dims:
                self.shape = None

    def end_writing(self, *, began: bool = True, shape: tuple[int, ...] | None = None) -> None:
        """End writing: its contents have this shape, are undefined (None), or as before if writing never began."""
        with self._access:
            self._writer = ""
            if not began:
                self.shape, self.written = self._before
            elif shape is not None:
                self.shape, self.written = shape, True

    def _refused(self, what: str, hint: str) -> RunFailed:
        return RunFailed(f"buffer `{self.name}` cannot be {what}", hint=hint)

    # --- copied in and out ------------------------------------------------------------------------------------------

    def copy_from(self, source: Any, dimensions: Sequence[int] | None = None) -> None:
        """Fill it with an array of its type, or with the bytes of a pool or buffer of shape `dimensions`."""
        self._check_type(source)
        with bytes_of(source, self.name) as data:
            shape = self._fitting(self._shape_given(source, dimensions), "what is copied into it")
            need = byte_size(self.dtype, shape)
            if len(data) != need:
                raise UsageError(
                    f"{len(data)} bytes cannot be copied into buffer `{self.name}`: "
                    f"{self.dtype} {list(shape)} takes {need}",
                    hint="give memory of exactly the size of the tensor",
                )
            self.begin_writing("copy_from")
            done = None
            try:
                self._bytes()[:need] = data
                self.copied += need
                done = shape
            finally:
                self.end_writing(shape=done)

    def copy_to(self, target: Any = None) -> Any:
        """Its contents, in a new array or in an array, pool or buffer of the same size."""
        self.begin_reading("copy_to")
        try:
            assert self.shape is not None  # it was written
            if target is None:
                import numpy as np

                target = np.empty(*self._layout(self.shape))
            self._check_type(target)
            with bytes_of(target, self.name, write=True) as data:
                if len(data) != self.nbytes:
                    raise UsageError(
                        f"buffer `{self.name}` has {self.nbytes} bytes, they cannot be copied into {len(data)}",
                        hint="give memory of exactly the size of the tensor",
                    )
                data[:] = self._bytes()[: self.nbytes]
                self.copied += self.nbytes
            return target
        finally:
            self.end_reading("copy_to")

    def _layout(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], np.dtype[Any]]:
        from udogen.runtime.contexts.arrays import layout  # loads numpy, which programs that copy nothing do not need

        return layout(replace(self.info, shape=shape))

    def _check_type(self, place: Any) -> None:
        """Raise if an array has another type; bytes have none."""
        if hasattr(place, "dtype") and place.dtype != (wanted := self._layout(self.info.shape)[1]):
            raise UsageError(
                f"buffer `{self.name}` is {self.dtype}, the array is {place.dtype}",
                hint=f"give an array of {wanted}",
            )

    def _shape_given(self, source: Any, dimensions: Sequence[int] | None) -> tuple[int, ...]:
        if dimensions is not None:
            return arguments.wholes(dimensions, f"the dimensions of what is copied into buffer `{self.name}`")
        if hasattr(source, "dtype") and byte_size(self.dtype, (8,)) >= 8:  # packed bytes have no tensor shape
            return tuple(source.shape)
        if None in self.dims:
            raise UsageError(
                f"the shape of buffer `{self.name}` is {_text_of(self.dims)}: bytes have no shape",
                hint="give dimensions, or an array",
            )
        return self.info.shape

    def _fitting(self, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
        """Return a shape; raise unless it fits the buffer."""
        if not self.info.takes(shape):
            most = f", at most {list(self.info.shape)}" if None in self.dims else ""
            raise UsageError(
                f"{what} has the shape {list(shape)}, buffer `{self.name}` is {_text_of(self.dims)}{most}",
                hint="its shape is that of its roles and its description",
            )
        return shape

    def check_usable(self) -> None:
        """Raise in another process, and after it or its domain was closed."""
        if self._process != os.getpid():
            raise RunFailed(
                f"buffer `{self.name}` was allocated in process {self._process}, this is {os.getpid()}",
                hint="allocate it in the process that executes: managed buffers cannot be used after a fork",
            )
        self.check_open()

    def close(self) -> None:
        """Wait for running executions, unbind, deregister and free it; a second call does nothing."""
        super().close()
        self._attachments.clear()
        self.domain.forget(self)


class _Access:
    """The use of a managed buffer as one tensor, around each execution of its graph."""

    def __init__(self, buffer: ManagedBuffer, role: Role, dims: Sequence[int | None]) -> None:
        self._buffer, self._role, self._dims, self._reads = buffer, str(role), dims, role.usage == INPUT

    def begin(self) -> None:
        if self._reads:
            self._buffer.begin_reading(self._role, self._dims)
        else:
            self._buffer.begin_writing(self._role)

    def end(self, codes: Sequence[int]) -> None:
        if self._reads:
            self._buffer.end_reading(self._role)
        else:
            self._buffer.end_writing(began=bool(codes), shape=self._written() if list(codes) == [0] else None)

    def shape(self) -> tuple[int, ...] | None:
        return self._buffer.shape if self._reads else None

    def announce(self, shape: tuple[int, ...]) -> None:
        self._buffer.shape = shape

    def _written(self) -> tuple[int, ...]:
        """The shape after an execution: announced, or the tensor's, with open axes at their maximum."""
        known = zip(self._dims, self._buffer.dims, self._buffer.info.shape, strict=True)
        return self._buffer.shape or tuple(size or fixed or most for size, fixed, most in known)


@contextmanager
def bytes_of(place: Any, name: str, *, write: bool = False) -> Iterator[memoryview]:
    """The bytes of an array, a pool, a buffer or a part of one; `name` is the managed buffer to copy to or from."""
    buffer = place.buffer if isinstance(place, BufferPart) else place
    if isinstance(buffer, Buffer) and buffer.kind == "hardware_buffer":
        raise UsageError(
            f"buffer `{name}` is not copied from or to a hardware_buffer: its layout is the graphics driver's",
            hint="use ashmem, mmap_fd or hardware_buffer_blob",
        )
    try:
        view = memoryview(place.view if isinstance(place, (Buffer, BufferPart)) else place)
    except TypeError as finding:
        raise UsageError(
            f"a {type(place).__name__} cannot be copied from or to buffer `{name}`",
            hint="give an array, a pool, a buffer or a part of one",
        ) from finding
    with view:
        if write and (view.readonly or not view.c_contiguous):
            why = "it is read-only" if view.readonly else "it is not contiguous"
            raise UsageError(f"buffer `{name}` cannot be copied there: {why}", hint="give an array made by numpy.empty")
        with view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes()) as data:
            yield data


# --- all buffers of an owner --------------------------------------------------------------------------------------

_numbers = itertools.count(1)


class MemoryDomain(Closing):
    """The driver-managed buffers of a runtime: `with MemoryDomain(runtime) as domain:`.

    Close it before its owner.

    `domain = MemoryDomain(runtime)`
    """

    def __init__(self, owner: Runtime | Session | Sessions, *, name: str = "", largest: int | None = None) -> None:
        if not hasattr(owner, "contexts") or isinstance(owner, type):
            raise UsageError(f"the owner of a memory domain is {kind_of(owner)}", hint="give a Runtime")
        arguments.expect(name, str, "the name of a memory domain", "a str")
        if largest is not None:
            arguments.whole(largest, "the largest size of a buffer")
        self.owner, self.name = owner, name or str(getattr(owner, "name", "domain"))
        self.largest = largest  # maximum bytes of a buffer
        self.closed = False
        self.registers = True  # until the backend refuses to register memory
        self._process = os.getpid()
        self._buffers: dict[int, ManagedBuffer] = {}

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self.buffers)} buffers, {self.size} bytes"
        return f"<MemoryDomain {self.name}: {state}>"

    @property
    def buffers(self) -> tuple[ManagedBuffer, ...]:
        """The allocated buffers."""
        return tuple(self._buffers.values())

    @property
    def copied(self) -> int:
        """Bytes copied into and out of the allocated buffers."""
        return sum(buffer.copied for buffer in self.buffers)

    @property
    def size(self) -> int:
        """Bytes of the allocated buffers."""
        return sum(buffer.size for buffer in self.buffers)

    def allocate(self, roles: Sequence[Role], desc: BufferDesc | None = None, *, name: str = "") -> ManagedBuffer:
        """Allocate a buffer for these roles: `domain.allocate([Role(one, "y", OUTPUT), Role(two, "x", INPUT)])`.

        Raises if they contradict each other or the description.
        """
        self.check_open()
        arguments.expect(name, str, "the name of a buffer", "a str")
        arguments.expect(desc, (BufferDesc, type(None)), "the description of a buffer", "a BufferDesc")
        roles = _roles(roles)
        info = resolve_type(name, desc or BufferDesc(), roles)
        for context in (role.graph.context for role in roles):
            if context not in self.owner.contexts:
                raise UsageError(
                    f"context {context.name} does not belong to memory domain `{self.name}` of buffer `{info.name}`",
                    hint="allocate it in the domain of the session that runs this context",
                )
        if self.largest is not None and info.nbytes > self.largest:
            raise RunFailed(
                f"buffer `{info.name}` would have {info.nbytes} bytes: `{self.name}` allocates at most {self.largest}",
                hint="keep this tensor in a shared buffer of your own",
            )
        buffer = ManagedBuffer(self, info, roles)
        self._buffers[buffer.token] = buffer
        return buffer

    def pair(self, roles: Sequence[Role], desc: BufferDesc | None = None, *, name: str = "") -> BufferPair:
        """Two buffers for a state: `pair = domain.pair([Role(g, "past", INPUT), Role(g, "next", OUTPUT)])`.

        `pair.bind(g, reads="past", writes="next")` binds them, `pair.swap()` makes what was written the state.
        """
        name = name or "state"
        return BufferPair(name, *(self.allocate(roles, desc, name=f"{name}.{index}") for index in range(2)))

    def use(self, token: int) -> ManagedBuffer:
        """The buffer of a token: `domain.use(buffer.token)`; raises unless this domain made it, in this process."""
        self.check_open()
        found = self._buffers.get(arguments.whole(token, "the token", most=2**128, hint="give the `token` of a buffer"))
        if found is None:
            raise RunFailed(
                f"memory domain `{self.name}` has no buffer with the token {token:#x}: it was closed, or it is one of "
                "another domain or process",
                hint="use it with the domain that allocated it, or copy the buffer",
            )
        return found

    def forget(self, buffer: ManagedBuffer) -> None:
        """Remove a closed buffer."""
        self._buffers.pop(buffer.token, None)

    def close(self) -> None:
        """Wait for running executions, then unbind and free every buffer."""
        self.closed = True
        run_all(buffer.close for buffer in self.buffers)

    def check_open(self) -> None:
        """Raise after it was closed, and in another process."""
        if self.closed:
            raise RunFailed(f"memory domain `{self.name}` is closed", hint="use it inside its `with` block")
        if self._process != os.getpid():
            raise RunFailed(
                f"memory domain `{self.name}` was made in process {self._process}, this is {os.getpid()}",
                hint="open a runtime and a domain in the process that executes",
            )


class BufferPair:
    """Two managed buffers for a state: graphs read one and write the other, `swap` exchanges them.

    `pair = domain.pair([Role(graph, "past_key", INPUT), Role(graph, "key", OUTPUT)])`
    """

    def __init__(self, name: str, first: ManagedBuffer, second: ManagedBuffer) -> None:
        self.name, self.reading, self.writing = name, first, second
        self._bound: list[tuple[Any, str, str]] = []

    def __repr__(self) -> str:
        return f"<Pair {self.name}: reading {self.reading!r}, writing {self.writing!r}>"

    def bind(self, graph: Any, *, reads: str = "", writes: str = "") -> None:
        """Bind an input of a graph to the state, and an output to the next one; either may be left out."""
        if not hasattr(graph, "binding") or isinstance(graph, type):
            raise UsageError(f"state `{self.name}` is to be bound to {kind_of(graph)}", hint="give a Graph")
        for tensor in (reads, writes):
            arguments.expect(tensor, str, f"a tensor of graph `{graph.name}`", "its name")
        self._place(graph, reads, writes)
        self._bound.append((graph, reads, writes))

    def swap(self) -> None:
        """Make what was written the current state; nothing is copied."""
        self.reading, self.writing = self.writing, self.reading
        for bound in self._bound:
            self._place(*bound)

    def _place(self, graph: Any, reads: str, writes: str) -> None:
        places = {reads: self.reading, writes: self.writing}
        graph.bind({tensor: buffer for tensor, buffer in places.items() if tensor})

    def copy_from(self, source: Any, dimensions: Sequence[int] | None = None) -> None:
        """Write the state."""
        self.reading.copy_from(source, dimensions)

    def copy_to(self, target: Any = None) -> Any:
        """Read the state."""
        return self.reading.copy_to(target)

    def close(self) -> None:
        """Free both."""
        run_all((self.reading.close, self.writing.close))


def _roles(roles: Any) -> tuple[Role, ...]:
    hint = 'give roles in a list: [Role(graph, "tensor", INPUT)]'
    if isinstance(roles, (Role, str, bytes)) or not isinstance(roles, Iterable):
        raise UsageError(f"the roles of a buffer are {kind_of(roles)}", hint=hint)
    found = tuple(roles)
    for role in found:
        arguments.expect(role, Role, "a role of a buffer", "a Role", hint=hint)
    return found
