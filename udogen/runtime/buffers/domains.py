"""Memory domains, as in NNAPI: buffers of the driver, allocated for the tensors they will be used as.

They hold what passes from one execution to the next: the state of a sequence model, its KV cache, activations between
shards.  The rules are those of NNAPI's page on memory pools:

* a buffer is used only in the roles it was allocated for, by the session and in the process it was allocated in
* its type and shape follow from its description and all its roles; an open dimension is set by what is written
* any number of executions may read it at a time; a writer needs exclusive access, and is refused, not made to wait
* it cannot be read before it is written
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed, UsageError
from udogen.findings import suggestion
from udogen.opdef import datatypes
from udogen.opdef.datatypes import Named
from udogen.qnn.handles import ION, Closing, run_all
from udogen.qnn.interface import QnnError
from udogen.qnn.tensors import APP_READ, APP_WRITE, QnnTensor, byte_size
from udogen.runtime.buffers.buffer import Attachment, Buffer, BufferPart, NoSharedMemory, RegisteredPart

if TYPE_CHECKING:
    import numpy as np

    from udogen.runtime.contexts.binding import TensorBinding
    from udogen.runtime.contexts.context import Context
    from udogen.runtime.contexts.graph import Graph
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

    dimensions: tuple[int, ...] | None = None  # 0: unknown size; None, and () as in NNAPI: unknown rank
    dtype: Named = ""

    def __post_init__(self) -> None:
        datatypes.name_of(self.dtype)  # raises if it cannot be one


@dataclass(frozen=True)
class Role:
    """One tensor that a managed buffer is used as, an input or an output: `Role(graph, "key", "output")`."""

    graph: Graph  # of an open context
    tensor: str
    usage: str

    def __str__(self) -> str:
        return f"{self.usage} `{self.tensor}` of graph `{self.graph.name}` in {self.graph.context.name}"

    @property
    def side(self) -> dict[str, QnnTensor]:
        """The tensors of its graph that have this usage, by name."""
        tensors = self.graph.inputs if self.usage == INPUT else self.graph.outputs
        return {tensor.name: tensor for tensor in tensors}


# --- type and shape -----------------------------------------------------------------------------------------------

_ONE_KIND = "a buffer has one type, one quantization and one shape for all its roles; use two buffers and copy"


def resolve_type(name: str, desc: BufferDesc, roles: Sequence[Role]) -> QnnTensor:
    """The tensor that fits a description and all roles; raises for the first contradiction.

    Without a name it has that of the first role's tensor.  Dimensions that stay open until it is written are dynamic.
    """
    if not roles:
        raise _contradiction("it has no role: name the inputs and outputs it will be used as", "give at least one Role")
    for index, role in enumerate(roles):
        _check_role(role, roles[:index])
    tensors = [(str(role), role.side[role.tensor]) for role in roles]
    for fault in _differences(desc, tensors):
        raise _contradiction(fault, _ONE_KIND)
    model = tensors[0][1]
    dims = tuple(_size(axis, desc, tensors) for axis in range(len(model.shape)))
    largest = tuple(size or max(info.shape[axis] for _, info in tensors) for axis, size in enumerate(dims))
    dynamic = tuple(size is None for size in dims)
    return QnnTensor(name or roles[0].tensor, model.dtype, largest, model.quant, dynamic=dynamic)


def _contradiction(fault: str, hint: str) -> UsageError:
    return UsageError(f"the buffer cannot be allocated: {fault}", hint=hint)


def _check_role(role: Role, before: Sequence[Role]) -> None:
    hint = "a role is a tensor of a graph and its usage: input or output"
    if role.usage not in (INPUT, OUTPUT):
        fault = f"`{role.usage}` is not a usage: {INPUT} or {OUTPUT}"
        raise _contradiction(fault, suggestion(role.usage, (INPUT, OUTPUT), hint))
    if role in before:
        raise _contradiction(f"{role} is named twice", hint)
    if role.tensor not in role.side:
        listed = ", ".join(f"`{name}`" for name in role.side) or "none"
        fault = f"there is no {role}: its {role.usage}s are {listed}"
        raise _contradiction(fault, suggestion(role.tensor, role.side, hint))


def _differences(desc: BufferDesc, tensors: Sequence[tuple[str, QnnTensor]]) -> Iterator[str]:
    """Contradictions in type and number of dimensions between the tensors of the roles and the description."""
    first, model = tensors[0]
    for name, info in tensors[1:]:
        if info.dtype != model.dtype:
            yield f"{first} is {model.dtype}, {name} is {info.dtype}"
        if info.quant != model.quant:
            yield f"{first} and {name} have different quantizations: a copy would be needed"
        if len(info.shape) != len(model.shape):
            yield f"{first} has {len(model.shape)} dimensions, {name} has {len(info.shape)}"
    wanted = datatypes.name_of(desc.dtype, quantized=model.quant is not None)
    if wanted and wanted != model.dtype:
        yield f"the description has {wanted}, {first} is {model.dtype}"
    if desc.dimensions and len(desc.dimensions) != len(model.shape):
        yield f"the description has {len(desc.dimensions)} dimensions, {first} has {len(model.shape)}"


def _size(axis: int, desc: BufferDesc, tensors: Sequence[tuple[str, QnnTensor]]) -> int | None:
    """The size of an axis, None if open."""
    sizes = [(name, info.dims[axis], info.shape[axis]) for name, info in tensors]
    if desc.dimensions and (wanted := desc.dimensions[axis]):
        sizes.insert(0, ("the description", wanted, wanted))
    first, size = next(((name, size) for name, size, _ in sizes if size is not None), ("", None))
    if size is None:
        return None
    for name, other, most in sizes:
        if other not in (None, size):
            raise _contradiction(f"dimension {axis} is {size} in {first}, {other} in {name}", _ONE_KIND)
        if size > most:
            raise _contradiction(f"dimension {axis} is {size} in {first}, at most {most} in {name}", _ONE_KIND)
    return size


# --- one buffer ---------------------------------------------------------------------------------------------------


class ManagedBuffer(Buffer):
    """A driver-managed buffer; bind it to the tensors of its roles with `Graph.bind`.

    Made by `MemoryDomain.allocate`.  Its memory is registered with each context that registers memory; other contexts
    use it as client memory.  Its contents are accessed by `copy_from` and `copy_to` only.
    """

    def __init__(self, domain: MemoryDomain, info: QnnTensor, roles: Sequence[Role]) -> None:
        super().__init__("shared", max(info.nbytes, 1), alignment=128, name=info.name)
        self.domain, self.info, self.roles = domain, info, tuple(roles)
        self.dtype, self.dims = info.dtype, info.dims
        self.shape: tuple[int, ...] | None = None if None in self.dims else info.shape  # None: still open
        self.written = False  # whether it has contents
        self.access_lock = threading.Lock()  # held while `shape`, `written` and the next two are changed
        self.readers: list[str] = []
        self.writer = ""
        self._attachments: dict[Role, Attachment] = {}

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.size} bytes" + ("" if self.written else ", nothing written")
        return f"<ManagedBuffer {self.name} ({self.dtype} {self.info.sizes}) of {self.domain.name}: {state}>"

    @property
    def nbytes(self) -> int:
        """Bytes of its current contents."""
        return 0 if self.shape is None else byte_size(self.dtype, self.shape)

    @property
    def view(self) -> memoryview:
        """Refused: its contents are accessed by `copy_from` and `copy_to`, which check who uses it."""
        raise UsageError(f"buffer `{self.name}` belongs to the driver", hint="use its copy_from and copy_to")

    # --- used by graphs ---------------------------------------------------------------------------------------------

    def attach(self, graph: Any, info: QnnTensor, role: str) -> Attachment:
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
        part = self._register(graph.context) if self.domain.registers else None
        access = Access(self, str(wanted), writes=wanted.usage == OUTPUT, info=info)
        attachment = self.attached(Attachment(self._bytes() if part is None else None, part, access))
        return self._attachments.setdefault(wanted, attachment)

    def _register(self, context: Context) -> RegisteredPart | None:
        """Its memory, registered with a context; None if the backend registers no memory."""
        try:
            return context.registrations.register(self, how=ION, dtype=self.dtype, shape=self.info.shape, offset=0)
        except NoSharedMemory:
            pass
        except QnnError as finding:
            if finding.code != _REFUSED:
                raise
        self.domain.registers = False  # tried once: libQnnHtp of a PC prints a line each time
        return None

    # --- copied in and out ------------------------------------------------------------------------------------------

    def copy_from(self, source: Any) -> None:
        """Fill it with an array of its type, or with the bytes of a buffer."""
        with self._used("copy_from", writes=True) as access, self._bytes_of(source) as data:
            shape = self._shape_of(source)
            self._check_length(data, byte_size(self.dtype, shape))
            self._bytes()[: len(data)] = data
            self.domain.copied += len(data)
            access.announce(shape)

    def copy_to(self, target: Any = None) -> Any:
        """Its contents, in a new array or in an array or buffer of the same size."""
        with self._used("copy_to", writes=False):
            assert self.shape is not None  # it was written
            if target is None:
                import numpy as np

                target = np.empty(*self._layout(self.shape))
            with self._bytes_of(target, write=True) as data:
                self._check_length(data, self.nbytes)
                data[:] = self._bytes()[: self.nbytes]
                self.domain.copied += self.nbytes
        return target

    @contextmanager
    def _used(self, who: str, *, writes: bool) -> Iterator[Access]:
        """The use of a copy; an error leaves the contents as they were."""
        access, codes = Access(self, who, writes=writes), list[int]()
        access.begin()
        try:
            yield access
            codes.append(0)
        finally:
            access.end(codes)

    def _check_length(self, data: memoryview, need: int) -> None:
        if len(data) != need:
            raise UsageError(
                f"buffer `{self.name}` has {need} bytes, the memory to copy from or to has {len(data)}",
                hint="give memory of exactly the size of the tensor",
            )

    def _layout(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], np.dtype[Any]]:
        from udogen.runtime.contexts.arrays import layout  # loads numpy, which programs that copy nothing do not need

        return layout(replace(self.info, shape=shape))

    @contextmanager
    def _bytes_of(self, place: Any, *, write: bool = False) -> Iterator[memoryview]:
        """The bytes of an array of its type, a buffer or a part of one, to copy from or to."""
        if hasattr(place, "dtype") and place.dtype != (wanted := self._layout(self.info.shape)[1]):
            message = f"buffer `{self.name}` is {self.dtype}, the array is {place.dtype}"
            raise UsageError(message, hint=f"give an array of {wanted}")
        buffer = place.buffer if isinstance(place, BufferPart) else place
        if isinstance(buffer, Buffer) and buffer.kind == "hardware_buffer":
            raise UsageError(
                f"buffer `{self.name}` is not copied from or to a hardware_buffer: its layout is the graphics driver's",
                hint="use ashmem, file or hardware_buffer_blob",
            )
        try:
            view = memoryview(place.view if isinstance(place, (Buffer, BufferPart)) else place)
        except TypeError as finding:
            raise UsageError(
                f"a {type(place).__name__} cannot be copied from or to buffer `{self.name}`",
                hint="give an array, a buffer or a part of one",
            ) from finding
        with view:
            if write and (view.readonly or not view.c_contiguous):
                why = "it is read-only" if view.readonly else "it is not contiguous"
                hint = "give an array made by numpy.empty"
                raise UsageError(f"buffer `{self.name}` cannot be copied there: {why}", hint=hint)
            with view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes()) as data:
                yield data

    def _shape_of(self, source: Any) -> tuple[int, ...]:
        """The shape of what is copied into it; raises unless it fits."""
        is_array = hasattr(source, "dtype") and byte_size(self.dtype, (8,)) >= 8  # packed bytes have no tensor shape
        if not is_array and None not in self.dims:
            return self.info.shape
        if not is_array or not self.info.takes(source.shape):
            shape = f"has the shape {list(source.shape)}" if is_array else "is bytes, which have no shape"
            raise UsageError(
                f"the source {shape}; buffer `{self.name}` has {self.info.sizes}",
                hint="give an array with the shape of its roles and its description",
            )
        return tuple(source.shape)

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

    def __init__(self, buffer: ManagedBuffer, who: str, *, writes: bool, info: QnnTensor | None = None) -> None:
        self._buffer, self._who, self._writes = buffer, who, writes
        self._info = info or buffer.info  # of the tensor
        self._before = (buffer.shape, buffer.written)  # before it is written
        self._is_plain = None not in buffer.dims and self._info.takes(buffer.info.shape)  # the shape never changes

    def begin(self) -> None:
        """Start; raises while a writer uses the buffer or, for a writer, anybody does, and if it cannot be read."""
        buffer = self._buffer
        with buffer.access_lock:
            buffer.check_usable()
            # The first is the usual case, and asked around each execution.
            is_free = self._is_plain and not buffer.writer and (not buffer.readers if self._writes else buffer.written)
            if not is_free and (reason := self._refusal()):
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
            hint = "wait for that execution, or give each its own buffer" if self._writes else _PAIR
            return f"{buffer.writer} is writing it", hint
        if self._writes:
            return (f"{buffer.readers[0]} is reading it", _PAIR) if buffer.readers else None
        if not buffer.written or buffer.shape is None:
            return "it was never written", "write it with `copy_from`, or execute a graph that writes it"
        if not self._info.takes(buffer.shape):
            shapes = f"it holds {list(buffer.shape)}, the tensor is {self._info.sizes}"
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
            elif codes[0] == 0:
                if buffer.shape is None:  # open axes that were not announced have their maximum
                    known = zip(self._info.dims, buffer.info.dims, buffer.info.shape, strict=True)
                    buffer.shape = tuple(size or fixed or most for size, fixed, most in known)
                buffer.written = True

    def shape(self) -> tuple[int, ...] | None:
        """The shape of an input with dynamic dimensions."""
        return None if self._writes else self._buffer.shape

    def announce(self, shape: tuple[int, ...]) -> None:
        """Set the shape of what is written, before `end`."""
        self._buffer.shape = shape


# --- all buffers of an owner --------------------------------------------------------------------------------------


class MemoryDomain(Closing):
    """The driver-managed buffers of a runtime: `with MemoryDomain(runtime) as domain:`.

    Close it before its owner.

    `domain = MemoryDomain(runtime)`
    """

    def __init__(self, owner: Runtime | Session | Sessions, *, name: str = "") -> None:
        self.owner, self.name = owner, name or str(getattr(owner, "name", "domain"))
        self.closed, self.copied = False, 0  # bytes copied into and out of its buffers
        self.registers = True  # until the backend refuses to register memory
        self._process = os.getpid()
        self._buffers: dict[ManagedBuffer, None] = {}

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self.buffers)} buffers, {self.size} bytes"
        return f"<MemoryDomain {self.name}: {state}>"

    @property
    def buffers(self) -> tuple[ManagedBuffer, ...]:
        """The allocated buffers."""
        return tuple(self._buffers)

    @property
    def size(self) -> int:
        """Bytes of the allocated buffers."""
        return sum(buffer.size for buffer in self.buffers)

    def allocate(self, roles: Sequence[Role], desc: BufferDesc | None = None, *, name: str = "") -> ManagedBuffer:
        """Allocate a buffer for these roles: `domain.allocate([Role(one, "y", "output"), Role(two, "x", "input")])`.

        Raises if they contradict each other or the description.
        """
        self.check_open()
        info = resolve_type(name, desc or BufferDesc(), roles)
        for context in (role.graph.context for role in roles):
            if context not in self.owner.contexts:
                raise UsageError(
                    f"context {context.name} does not belong to memory domain `{self.name}` of buffer `{info.name}`",
                    hint="allocate it in the domain of the session that runs this context",
                )
        buffer = ManagedBuffer(self, info, roles)
        self._buffers[buffer] = None
        return buffer

    def pair(self, roles: Sequence[Role], *, name: str = "") -> BufferPair:
        """Two buffers for a state: `pair = domain.pair([Role(g, "past", "input"), Role(g, "next", "output")])`.

        `pair.bind(g, reads="past", writes="next")` binds them, `pair.swap()` makes what was written the state.
        """
        name = name or "state"
        return BufferPair(name, *(self.allocate(roles, name=f"{name}.{index}") for index in range(2)))

    def forget(self, buffer: ManagedBuffer) -> None:
        """Remove a closed buffer."""
        self._buffers.pop(buffer, None)

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
        self._bound: list[tuple[Graph, str, str]] = []
        self._bindings: list[Sequence[TensorBinding]] = []  # of each graph

    def __repr__(self) -> str:
        return f"<Pair {self.name}: reading {self.reading!r}, writing {self.writing!r}>"

    def bind(self, graph: Graph, *, reads: str = "", writes: str = "") -> None:
        """Bind an input of a graph to the state, and an output to the next one; either may be left out."""
        self._bindings.append(self._place(graph, reads, writes))
        self._bound.append((graph, reads, writes))

    def swap(self) -> None:
        """Make what was written the current state; nothing is copied."""
        self.reading, self.writing = self.writing, self.reading
        for number, (graph, reads, writes) in enumerate(self._bound):
            if not graph.flip(self._bindings[number]):
                self._bindings[number] = self._place(graph, reads, writes)

    def _place(self, graph: Graph, reads: str, writes: str) -> Sequence[TensorBinding]:
        now = {reads: (self.reading, self.writing), writes: (self.writing, self.reading)}
        return graph.bind_both({tensor: pair for tensor, pair in now.items() if tensor})

    def copy_from(self, source: Any) -> None:
        """Write the state."""
        self.reading.copy_from(source)

    def copy_to(self, target: Any = None) -> Any:
        """Read the state."""
        return self.reading.copy_to(target)

    def close(self) -> None:
        """Free both."""
        run_all((self.reading.close, self.writing.close))
