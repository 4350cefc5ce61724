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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed, UsageError, kind_of
from udogen.findings import suggestion
from udogen.qnn.handles import ION, Closing, run_all
from udogen.qnn.interface import QnnError
from udogen.qnn.system import TensorInfo
from udogen.qnn.tensors import APP_READ, APP_WRITE, byte_size
from udogen.runtime import arguments
from udogen.runtime.buffers.buffer import Attachment, Buffer, BufferPart, NoSharedMemory
from udogen.runtime.buffers.memory import shared_allocator, take_memory

if TYPE_CHECKING:
    import numpy as np

    from udogen.runtime.contexts.runtime import Runtime
    from udogen.runtime.sessions import Session, Sessions

INPUT, OUTPUT = "input", "output"
_USAGES = {APP_WRITE: INPUT, APP_READ: OUTPUT}
_REFUSED = 8000  # the error code of some backends that register no memory
_PAIR = "wait for that execution; a graph that reads and writes one state needs a BufferPair"


@dataclass(frozen=True)
class BufferDesc:
    """Type and shape of a managed buffer; what is left open follows from its roles.

    `domain.allocate([Role(graph, "key", "output")], BufferDesc((1, 64), "FLOAT_32"))`
    """

    dimensions: tuple[int, ...] | None = None  # 0: unknown size; None: unknown rank
    dtype: str = ""


@dataclass(frozen=True)
class Role:
    """One tensor that a managed buffer is used as, an input or an output: `Role(graph, "key", "output")`."""

    graph: Any  # a Graph of an open context
    tensor: str
    usage: str

    def __str__(self) -> str:
        return f"{self.usage} `{self.tensor}` of graph `{self.graph.name}` in {self.graph.context.name}"

    @property
    def side(self) -> dict[str, TensorInfo]:
        """The tensors of its graph that have this usage, by name."""
        tensors = self.graph.inputs if self.usage == INPUT else self.graph.outputs
        return {tensor.name: tensor for tensor in tensors}


# --- type and shape -----------------------------------------------------------------------------------------------


def resolve_type(name: str, desc: BufferDesc, roles: Sequence[Role]) -> TensorInfo:
    """The tensor that fits a description and all roles; all contradictions are reported.

    Without a name it has that of the first role's tensor.  Dimensions that stay open until it is written are dynamic.
    """
    _check_roles(roles)
    tensors = [(str(role), role.side[role.tensor]) for role in roles]
    model, axes = tensors[0][1], list[tuple[int | None, int]]()
    faults = _differences(desc, tensors)
    if not faults:
        axes = [_axis(axis, desc, tensors, faults) for axis in range(len(model.shape))]
    if faults:
        hint = "a buffer has one type, one quantization and one shape for all its roles; use two buffers and copy"
        raise _contradiction(faults, hint)
    largest = tuple(most for _, most in axes)
    dynamic = tuple(size is None for size, _ in axes)
    return TensorInfo(0, name or roles[0].tensor, model.dtype, largest, model.quant, dynamic=dynamic)


def _contradiction(faults: Sequence[str], hint: str) -> UsageError:
    before = "the buffer cannot be allocated: "
    return arguments.faulty(faults, "things contradict each other", before=before, hint=hint)


def _check_roles(roles: Any) -> None:
    hint = 'give roles in a list: [Role(graph, "tensor", "input")]'
    if isinstance(roles, str) or not isinstance(roles, Sequence):
        raise UsageError(f"the roles of a buffer are {kind_of(roles)}", hint=hint)
    for role in roles:
        arguments.expect(role, Role, "a role of a buffer", "a Role", hint=hint)
    hint = "a role is a tensor of a graph and its usage: input or output"
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
        elif role.tensor not in role.side:
            listed = ", ".join(f"`{name}`" for name in role.side) or "none"
            faults.append(f"there is no {role}: its {role.usage}s are {listed}")
            hint = suggestion(str(role.tensor), role.side, hint)
    if faults:
        raise _contradiction(faults, hint)


def _differences(desc: BufferDesc, tensors: Sequence[tuple[str, TensorInfo]]) -> list[str]:
    """The contradictions in type and number of dimensions between the tensors of the roles and the description."""
    faults: list[str] = []
    first, model = tensors[0]
    for name, info in tensors[1:]:
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
    axis: int, desc: BufferDesc, tensors: Sequence[tuple[str, TensorInfo]], faults: list[str]
) -> tuple[int | None, int]:
    """The size of an axis, None if open, and its maximum."""
    known = [("the description", desc.dimensions[axis])] if desc.dimensions and desc.dimensions[axis] else []
    known += [(name, size) for name, info in tensors if (size := info.dims[axis]) is not None]
    limits = [(name, info.shape[axis]) for name, info in tensors if info.dims[axis] is None]
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
        self.access_lock = threading.Lock()  # held while `shape`, `written` and the next two are changed
        self.readers: list[str] = []
        self.writer = ""
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
        access = Access(self, str(wanted), writes=wanted.usage == OUTPUT, dims=info.dims)
        attachment = self.attached(Attachment(data=data, handle=handle, access=access))
        return self._attachments.setdefault(wanted, attachment)

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

    # --- copied in and out ------------------------------------------------------------------------------------------

    def copy_from(self, source: Any, dimensions: Sequence[int] | None = None) -> None:
        """Fill it with an array of its type, or with the bytes of a pool or buffer of shape `dimensions`."""
        self._check_type(source)
        with bytes_of(source, self.name) as data:
            shape = self._shape_of(source, dimensions)
            need = byte_size(self.dtype, shape)
            if len(data) != need:
                raise UsageError(
                    f"{len(data)} bytes cannot be copied into buffer `{self.name}`: "
                    f"{self.dtype} {list(shape)} takes {need}",
                    hint="give memory of exactly the size of the tensor",
                )
            access, codes = Access(self, "copy_from", writes=True), [1]
            access.begin()
            try:
                self._bytes()[:need] = data
                self.copied += need
                access.announce(shape)
                codes = [0]
            finally:
                access.end(codes)

    def copy_to(self, target: Any = None) -> Any:
        """Its contents, in a new array or in an array, pool or buffer of the same size."""
        access = Access(self, "copy_to", writes=False)
        access.begin()
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
            access.end([0])

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

    def _shape_of(self, source: Any, dimensions: Sequence[int] | None) -> tuple[int, ...]:
        """The shape of what is copied into it; raises unless it fits."""
        if dimensions is not None:
            shape = arguments.wholes(dimensions, f"the dimensions of what is copied into buffer `{self.name}`")
        elif hasattr(source, "dtype") and byte_size(self.dtype, (8,)) >= 8:  # packed bytes have no tensor shape
            shape = tuple(source.shape)
        elif None in self.dims:
            raise UsageError(
                f"the shape of buffer `{self.name}` is {_text_of(self.dims)}: bytes have no shape",
                hint="give dimensions, or an array",
            )
        else:
            shape = self.info.shape
        if not self.info.takes(shape):
            most = f", at most {list(self.info.shape)}" if None in self.dims else ""
            raise UsageError(
                f"what is copied into it has the shape {list(shape)}, buffer `{self.name}` is "
                f"{_text_of(self.dims)}{most}",
                hint="its shape is that of its roles and its description",
            )
        return shape

    def check_usable(self) -> None:
        """Raise in another process, and after it or its domain was closed."""
        self.domain.check_process()
        self.check_open()

    def close(self) -> None:
        """Wait for running executions, unbind, deregister and free it; a second call does nothing."""
        super().close()
        self._attachments.clear()
        self.domain.forget(self)


class Access:
    """One use of a managed buffer: as a tensor, around each execution of its graph, or by a copy."""

    def __init__(self, buffer: ManagedBuffer, who: str, *, writes: bool, dims: Sequence[int | None] = ()) -> None:
        self._buffer, self._who, self._writes, self._dims = buffer, who, writes, dims
        self._before = (buffer.shape, buffer.written)  # before it is written

    def begin(self) -> None:
        """Start; raises while a writer uses the buffer or, for a writer, anybody does, and if it cannot be read."""
        buffer = self._buffer
        with buffer.access_lock:
            buffer.check_usable()
            if reason := self._refusal():
                doing = "written" if self._writes else "read"
                raise RunFailed(f"buffer `{buffer.name}` cannot be {doing} as {self._who}: {reason[0]}", hint=reason[1])
            if not self._writes:
                buffer.readers.append(self._who)
                return
            buffer.writer = self._who
            self._before, buffer.written = (buffer.shape, buffer.written), False
            if None in buffer.dims:
                buffer.shape = None

    def _refusal(self) -> tuple[str, str] | None:
        """The reason why it cannot be used now, and a hint."""
        buffer = self._buffer
        if buffer.writer:
            hint = "wait for that execution, or give each a buffer of its own" if self._writes else _PAIR
            return f"{buffer.writer} is writing it", hint
        if self._writes:
            return (f"{buffer.readers[0]} is reading it", _PAIR) if buffer.readers else None
        if not buffer.written or buffer.shape is None:
            return "it was never written", "write it with `copy_from`, or execute a graph that writes it"
        if self._dims and any(size not in (None, mine) for size, mine in zip(self._dims, buffer.shape, strict=True)):
            shapes = f"it holds {list(buffer.shape)}, the tensor is {_text_of(self._dims)}"
            return shapes, "write it by an output of that shape first"
        return None

    def end(self, codes: Sequence[int]) -> None:
        """End, after an execution that returned these codes: none if it did not start, 0 if it succeeded."""
        buffer = self._buffer
        with buffer.access_lock:
            if not self._writes:
                buffer.readers.remove(self._who)
                return
            buffer.writer = ""
            if not codes:
                buffer.shape, buffer.written = self._before
            elif list(codes) == [0]:  # open axes that were not announced have their maximum
                known = zip(self._dims, buffer.dims, buffer.info.shape, strict=False)
                buffer.shape = buffer.shape or tuple(size or fixed or most for size, fixed, most in known)
                buffer.written = True

    def shape(self) -> tuple[int, ...] | None:
        """The shape of an input with dynamic dimensions."""
        return None if self._writes else self._buffer.shape

    def announce(self, shape: tuple[int, ...]) -> None:
        """Set the shape of what is written, before `end`."""
        self._buffer.shape = shape


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
        """Allocate a buffer for these roles: `domain.allocate([Role(one, "y", "output"), Role(two, "x", "input")])`.

        Raises if they contradict each other or the description.
        """
        self.check_open()
        arguments.expect(name, str, "the name of a buffer", "a str")
        arguments.expect(desc, (BufferDesc, type(None)), "the description of a buffer", "a BufferDesc")
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
        """Two buffers for a state: `pair = domain.pair([Role(g, "past", "input"), Role(g, "next", "output")])`.

        `pair.bind(g, reads="past", writes="next")` binds them, `pair.swap()` makes what was written the state.
        """
        name = name or "state"
        return BufferPair(name, *(self.allocate(roles, desc, name=f"{name}.{index}") for index in range(2)))

    def use(self, token: int) -> ManagedBuffer:
        """The buffer of a token: `domain.use(buffer.token)`; raises unless this domain made it, in this process."""
        self.check_open()
        buffer = self._buffers.get(
            arguments.whole(token, "the token", most=2**128, hint="give the `token` of a buffer")
        )
        if buffer is None:
            raise RunFailed(
                f"memory domain `{self.name}` has no buffer with the token {token:#x}: it was closed, or it is one of "
                "another domain or process",
                hint="use it with the domain that allocated it, or copy the buffer",
            )
        return buffer

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
        self.check_process()

    def check_process(self) -> None:
        """Raise in another process."""
        if self._process != os.getpid():
            raise RunFailed(
                f"memory domain `{self.name}` was made in process {self._process}, this is {os.getpid()}",
                hint="open a runtime and a domain in the process that executes",
            )


class BufferPair:
    """Two managed buffers for a state: graphs read one and write the other, `swap` exchanges them.

    `pair = domain.pair([Role(graph, "past_key", "input"), Role(graph, "key", "output")])`
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
