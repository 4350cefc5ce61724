"""Memory domains, as in NNAPI: buffers that a session manages, allocated for the tensors they will be used as.

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
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from udogen.errors import RunFailed, UsageError
from udogen.opdef.problems import nearest
from udogen.qnn.handles import ION, Closing, run_all
from udogen.qnn.interface import QnnError
from udogen.qnn.system import TensorInfo
from udogen.qnn.tensors import APP_READ, APP_WRITE, byte_size
from udogen.runtime import arguments
from udogen.runtime.arguments import kind_of
from udogen.runtime.buffers.buffer import CACHE, Attachment, Buffer, BufferPart, NoSharedMemory
from udogen.runtime.buffers.memory import allocate, shared_allocator

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array
    from udogen.runtime.sessions.session import Session


_PAIR = "a graph that reads and writes one state needs a BufferPair"


@contextmanager
def bytes_of(place: Any, name: str, *, write: bool = False) -> Iterator[memoryview]:
    """The bytes of an array, a pool, a buffer or a part of one; `name` is the managed buffer to copy to or from."""
    buffer = place if isinstance(place, Buffer) else getattr(place, "buffer", None)  # of a pool or a part
    if isinstance(buffer, Buffer) and buffer.kind == "hardware_buffer":
        raise UsageError(
            f"buffer `{name}` is not copied from or to a hardware_buffer: its layout is the graphics driver's",
            hint="use ashmem, mmap_fd or hardware_buffer_blob",
        )
    owner = place if isinstance(place, BufferPart) else buffer
    try:
        view = memoryview(owner.view if isinstance(owner, (Buffer, BufferPart)) else place)
    except TypeError as problem:
        raise UsageError(
            f"a {type(place).__name__} cannot be copied from or to buffer `{name}`",
            hint="give an array, a pool, a buffer or a part of one",
        ) from problem
    with view:
        if write and (view.readonly or not view.c_contiguous):
            why = "it is read-only" if view.readonly else "it is not contiguous"
            raise UsageError(f"buffer `{name}` cannot be copied there: {why}", hint="give an array made by numpy.empty")
        with view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes()) as data:
            yield data


INPUT, OUTPUT = "input", "output"
USAGES = {APP_WRITE: INPUT, APP_READ: OUTPUT}

Dims = tuple[int | None, ...]


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

    def info(self) -> TensorInfo | None:
        """The tensor; None if the graph has no such input or output."""
        side = self.graph.inputs if self.usage == INPUT else self.graph.outputs
        return next((each for each in side if each.name == self.tensor), None)


def resolve_type(name: str, desc: BufferDesc, roles: Sequence[Role]) -> TensorInfo:
    """The tensor that fits a description and all roles; all contradictions are reported.

    Without a name it has that of the first role's tensor.  Dimensions that stay open until it is written are dynamic.
    """
    faults, hints = _faults(roles)
    if faults:
        raise _refused(faults, next(iter(hints), "a role is a tensor of a graph and its usage: INPUT or OUTPUT"))
    infos = [(str(role), info) for role in roles if (info := role.info()) is not None]
    model = infos[0][1]
    faults = _differences(desc, infos)
    if faults:
        raise _refused(faults)
    axes = [_axis(axis, desc, infos, faults) for axis in range(len(model.shape))]
    if faults:
        raise _refused(faults)
    name = name or roles[0].tensor
    largest = tuple(most for _, most in axes)
    return TensorInfo(0, name, model.dtype, largest, model.quant, dynamic=tuple(known is None for known, _ in axes))


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


def text_of(dims: Dims) -> str:
    """Dimensions as text, `?` for open ones."""
    return "[" + ", ".join("?" if size is None else str(size) for size in dims) + "]"


def _axis(
    axis: int, desc: BufferDesc, infos: Sequence[tuple[str, TensorInfo]], faults: list[str]
) -> tuple[int | None, int]:
    """The size of an axis, None if open, and its maximum."""
    sized = [(name, info.dims[axis]) for name, info in infos]
    given = desc.dimensions[axis] if desc.dimensions else 0
    known = [("the description", given)] if given else []
    known += [(name, size) for name, size in sized if size is not None]
    for name, size in known[1:]:
        if size != known[0][1]:
            faults.append(f"dimension {axis} is {known[0][1]} in {known[0][0]}, {size} in {name}")
    limits = [(name, info.shape[axis]) for name, info in infos if info.dims[axis] is None]
    if not known:
        return None, max(size for _, size in limits)
    for name, most in limits:
        if known[0][1] > most:
            faults.append(f"dimension {axis} is {known[0][1]} in {known[0][0]}, at most {most} in {name}")
    return known[0][1], known[0][1]


def _faults(roles: Sequence[Role]) -> tuple[list[str], list[str]]:
    """Problems of the roles themselves, and hints."""
    if not roles:
        return ["it has no role: name the inputs and outputs it will be used as"], []
    faults, hints = [], []
    for index, role in enumerate(roles):
        if not hasattr(role.graph, "inputs") or isinstance(role.graph, type):
            faults.append(f"the graph of a role is {kind_of(role.graph)}")
            hints.append("give a Graph: context.graph(name)")
        elif role.usage not in (INPUT, OUTPUT):
            faults.append(f"`{role.usage}` is not a usage: {INPUT} or {OUTPUT}")
            hints += _meant(role.usage, (INPUT, OUTPUT))
        elif role in roles[:index]:
            faults.append(f"{role} is named twice")
        elif role.info() is None:
            other = INPUT if role.usage == OUTPUT else OUTPUT
            names, others = _names(role.graph, role.usage), _names(role.graph, other)
            has = ", ".join(f"`{each}`" for each in names) or "none"
            faults.append(f"there is no {role}: its {role.usage}s are {has}")
            if role.tensor in others:
                hints.append(f"`{role.tensor}` is an {other}")
            hints += _meant(role.tensor, names)
    return faults, hints


def _names(graph: Any, usage: str) -> list[str]:
    return [each.name for each in (graph.inputs if usage == INPUT else graph.outputs)]


def _meant(name: object, names: Sequence[str]) -> list[str]:
    near = nearest(name, names) if isinstance(name, str) else None
    return [f"did you mean `{near}`?"] if near else []


def _refused(faults: Sequence[str], hint: str = "") -> UsageError:
    return arguments.faulty(
        faults,
        "things contradict each other",
        before="the buffer cannot be allocated: ",
        hint=hint
        or "a buffer has one type, one quantization and one shape for all its roles; use two buffers and copy",
    )


_REFUSED = 8000  # the error code of some backends that register no memory


@dataclass(frozen=True)
class Token:
    """Identifies a managed buffer within its process and domain."""

    process: int
    domain: int
    number: int

    def __int__(self) -> int:
        return self.process << 64 | self.domain << 32 | self.number

    @classmethod
    def of(cls, number: int) -> Token:
        """The token with a number."""
        return cls(number >> 64, number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF)

    def __str__(self) -> str:
        return f"{int(self):#x}"


class ManagedBuffer:
    """A driver-managed buffer; bind it to the tensors of its roles with `Graph.bind`.

    Made by `MemoryDomain.allocate`.  Its memory is registered with each context that registers memory; other contexts
    use it as client memory.  Its contents are accessed by `copy_from` and `copy_to` only.
    """

    def __init__(
        self,
        domain: MemoryDomain,
        *,
        token: Token,
        info: TensorInfo,
        roles: Sequence[Role],
    ) -> None:
        self.domain, self.token, self.info, self.roles = domain, token, info, tuple(roles)
        self.name, self.dtype, self.dims = info.name, info.dtype, info.dims
        self.shape: tuple[int, ...] | None = None if None in self.dims else info.shape  # None: still open
        self.capacity = info.nbytes
        self.copied = 0  # bytes copied by copy_from and copy_to
        self.written = False  # whether it has contents
        self._memory = allocate(shared_allocator().allocator, max(self.capacity, 1), alignment=128, name=info.name)
        self._charges = ExitStack()
        self._before = (self.shape, self.written)  # before the current write
        self._access = threading.Lock()  # held while the next two are read or changed
        self._readers: list[str] = []
        self._writer = ""
        self._attachments: dict[tuple[Any, str, str], Attachment] = {}
        self._attaching = threading.Lock()
        self._freed = False

    def __repr__(self) -> str:
        state = "freed" if self._freed else f"{self.capacity} bytes" + ("" if self.written else ", nothing written")
        return f"<ManagedBuffer {self.name} ({self.dtype} {text_of(self.dims)}) of {self.domain.name}: {state}>"

    @property
    def nbytes(self) -> int:
        """Bytes of its current contents."""
        return 0 if self.shape is None else byte_size(self.dtype, self.shape)

    @property
    def address(self) -> int:
        """The address of its memory in this process."""
        return self._memory.address

    @property
    def allocator(self) -> str:
        """What allocated its memory: memfd, rpcmem."""
        return self._memory.kind

    @property
    def registered(self) -> tuple[str, ...]:
        """The contexts that its memory is registered with."""
        return tuple(each.removeprefix("context ") for each in self._memory.held_by)

    def _charge(self, sessions: Iterable[Session]) -> None:
        """Count its memory in sessions until it is freed, only once even if it is registered several times."""
        for each in sessions:
            self._charges.callback(each.charge_buffer(self._memory, self.capacity, CACHE))

    # --- used by graphs ---------------------------------------------------------------------------------------------

    def attach(self, graph: Any, info: TensorInfo, role: str) -> Attachment:
        """Its memory for the tensor of one of its roles (the protocol of `Graph.bind`)."""
        self.check_usable()
        key = (graph, info.name, role)
        found = self._attachments.get(key)  # pairs are bound again after each execution
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
        who, dims = str(role), info.dims
        handle = self._register(role.graph.context)
        reads = role.usage == INPUT
        return Attachment(
            data=self._memory.view if handle is None else None,
            handle=handle,
            enter=(lambda: self._begin_reading(who, dims)) if reads else (lambda: self._begin_writing(who)),
            leave=(lambda: self._end_reading(who)) if reads else (lambda: self._end_writing(self._produced(dims))),
            failed=None if reads else self._fail_writing,
            shape=(lambda: self.shape) if reads else None,
            announce=None if reads else self.announce,
        )

    def _register(self, context: Any) -> Any:
        """The handle of its memory in a context; None if the backend registers no memory."""
        if not self.domain.registers:
            return None
        try:
            whole = {"how": ION, "dtype": self.dtype, "shape": self.info.shape, "offset": 0}
            return context.registrations.register(self._memory, **whole).memory.handle
        except NoSharedMemory:
            pass
        except QnnError as problem:
            if problem.code != _REFUSED:
                raise
        self.domain.registers = False  # tried once: libQnnHtp of a PC prints a line each time
        return None

    def announce(self, shape: Sequence[int]) -> None:
        """Set the shape that the running execution writes, if the model leaves it open."""
        with self._access:
            if not self._writer:
                raise RunFailed(
                    f"buffer `{self.name}` is not being written: its shape cannot be set",
                    hint="announce it during the execution that writes it",
                )
            self.shape = self._fitting(tuple(shape), "the output")

    # --- around executions and copies -------------------------------------------------------------------------------

    def _begin_reading(self, who: str, dims: Dims | None = None) -> None:
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
                    f"read as {who}: it holds {list(self.shape)}, the tensor is {text_of(dims)}",
                    "write it by an output of that shape first",
                )
            self._readers.append(who)

    def _begin_writing(self, who: str) -> None:
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

    def _refused(self, what: str, hint: str) -> RunFailed:
        return RunFailed(f"buffer `{self.name}` cannot be {what}", hint=hint)

    def _end_reading(self, who: str) -> None:
        with self._access:
            self._readers.remove(who)
            self._free()

    def _end_writing(self, shape: tuple[int, ...] | None) -> None:
        """End writing; without a shape the contents are undefined."""
        with self._access:
            self._writer = ""
            if shape is not None:
                self.shape, self.written = shape, True
            self._free()

    def _fail_writing(self, began: bool) -> None:
        """After a failed execution the contents are undefined; if it did not start they are unchanged."""
        if not began:
            with self._access:
                self.shape, self.written = self._before
        self._end_writing(None)

    def _produced(self, dims: Dims) -> tuple[int, ...]:
        """The shape after an execution: announced, or the tensor's, with open axes at their maximum."""
        if self.shape is not None:
            return self.shape
        known = zip(dims, self.dims, self.info.shape, strict=True)
        return tuple(its or fixed or most for its, fixed, most in known)

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
            self._begin_writing("copy_from")
            done = None
            try:
                self._memory.view[:need] = data
                self.copied += need
                done = shape
            finally:
                self._end_writing(done)

    def copy_to(self, target: Any = None) -> Any:
        """Its contents, in a new array or in an array, pool or buffer of the same size."""
        self._begin_reading("copy_to")
        try:
            assert self.shape is not None  # it was written
            made = self._empty(self.shape) if target is None else target
            self._check_type(made)
            with bytes_of(made, self.name, write=True) as data:
                if len(data) != self.nbytes:
                    raise UsageError(
                        f"buffer `{self.name}` has {self.nbytes} bytes, they cannot be copied into {len(data)}",
                        hint="give memory of exactly the size of the tensor",
                    )
                data[:] = self._memory.view[: self.nbytes]
                self.copied += self.nbytes
            return made
        finally:
            self._end_reading("copy_to")

    def _empty(self, shape: tuple[int, ...]) -> Array:
        import numpy as np  # not loaded by programs that copy nothing

        from udogen.runtime.contexts.arrays import layout

        return np.empty(*layout(replace(self.info, shape=shape)))

    def _check_type(self, place: Any) -> None:
        """Raise if an array has another type; bytes have none."""
        if hasattr(place, "dtype"):
            from udogen.runtime.contexts.arrays import layout

            wanted = layout(self.info)[1]
            if str(place.dtype) != str(wanted):
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
                f"the shape of buffer `{self.name}` is {text_of(self.dims)}: bytes have no shape",
                hint="give dimensions, or an array",
            )
        return self.info.shape

    def _fitting(self, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
        """Return a shape; raise unless it fits the buffer."""
        if not self.info.takes(shape):
            most = f", at most {list(self.info.shape)}" if None in self.dims else ""
            raise UsageError(
                f"{what} has the shape {list(shape)}, buffer `{self.name}` is {text_of(self.dims)}{most}",
                hint="its shape is that of its roles and its description",
            )
        return shape

    # --- freeing ----------------------------------------------------------------------------------------------------

    @property
    def in_use(self) -> bool:
        """Whether an execution or a copy uses it."""
        return bool(self._writer or self._readers)

    def free(self) -> None:
        """Unbind it and free its memory, now or when the executions that use it end."""
        self.retire()
        for each in list(self._attachments.values()):
            each.end_binding(each.ended, wait=False)  # a running graph checks it before its next execution
        with self._access:
            self._free()
        self.domain.forget(self)

    def retire(self) -> None:
        """Refuse further use; its memory is freed by `free`, at the latest by its domain."""
        self._freed = True
        for each in list(self._attachments.values()):
            each.ended = self._why()

    def _why(self) -> str:
        if self.domain.closed:
            return f"memory domain `{self.domain.name}` was closed"
        return f"buffer `{self.name}` was freed"

    def _free(self) -> None:
        if not self._freed or self.in_use or self._memory.closed:
            return
        self._attachments.clear()
        self._memory.close()
        self._charges.close()

    def check_usable(self) -> None:
        """Raise in another process, and after it was freed or its domain was closed."""
        if self.token.process != os.getpid():
            raise RunFailed(
                f"buffer `{self.name}` was allocated in process {self.token.process}, this is {os.getpid()}",
                hint="allocate it in the process that executes: managed buffers cannot be used after a fork",
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


_numbers = itertools.count(1)
_domains: weakref.WeakValueDictionary[int, MemoryDomain] = weakref.WeakValueDictionary()


class Owner(Protocol):
    """The owner of a domain, whose contexts may use it: a `Runtime`, `Session` or `Sessions`."""

    @property
    def contexts(self) -> Sequence[Any]:
        """The open contexts."""
        ...


class MemoryDomain(Closing):
    """The driver-managed buffers of a runtime or session: `with MemoryDomain(runtime) as domain:`.

    Close it before its owner.

    `domain = MemoryDomain(runtime)`
    """

    def __init__(self, owner: Owner, *, name: str = "", largest: int | None = None) -> None:
        if not hasattr(owner, "contexts") or isinstance(owner, type):
            raise UsageError(
                f"the owner of a memory domain is {arguments.kind_of(owner)}", hint="give a Runtime or a Session"
            )
        arguments.expect(name, str, "the name of a memory domain", "a str")
        if largest is not None:
            arguments.whole(largest, "the largest size of a buffer")
        self.owner, self.name = owner, name or str(getattr(owner, "name", "domain"))
        self.largest = largest  # maximum bytes of a buffer
        self.closed = False
        self.registers = True  # until the backend refuses to register memory
        self._process, self._number = os.getpid(), next(_numbers)
        self._buffers: dict[int, ManagedBuffer] = {}
        self._given = 0
        self._dropped: list[ManagedBuffer] = []  # left by pipelines that were not closed
        self._lock = threading.Lock()
        _domains[self._number] = self

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
        return sum(each.copied for each in self.buffers)

    @property
    def size(self) -> int:
        """Bytes of the allocated buffers."""
        return sum(each.capacity for each in self.buffers)

    def allocate(self, roles: Sequence[Role], desc: BufferDesc | None = None, *, name: str = "") -> ManagedBuffer:
        """Allocate a buffer for these roles: `domain.allocate([Role(one, "y", OUTPUT), Role(two, "x", INPUT)])`.

        Raises if they contradict each other or the description.
        """
        self.check_open()
        while self._dropped:
            self._dropped.pop().free()
        roles = _roles(roles)
        arguments.expect(name, str, "the name of a buffer", "a str")
        if desc is not None:
            arguments.expect(
                desc, BufferDesc, "the description of a buffer", "a BufferDesc (udogen.runtime.buffers.domains)"
            )
        info = resolve_type(name, desc or BufferDesc(), roles)
        name = info.name
        for role in roles:
            self.check_owner(name, role.graph)
        if self.largest is not None and info.nbytes > self.largest:
            raise RunFailed(
                f"buffer `{name}` would have {info.nbytes} bytes: `{self.name}` allocates at most {self.largest}",
                hint="keep this tensor in a shared buffer of your own",
            )
        with self._lock:
            self._given += 1
            token = Token(self._process, self._number, self._given)
        # Its memory counts in each session that has a context of a role, not only for the domain's owner.
        sessions = dict.fromkeys(role.graph.context.session for role in roles)
        made = ManagedBuffer(self, token=token, info=info, roles=roles)
        try:
            made._charge(each for each in sessions if each is not None)
        except BaseException:
            made.free()
            raise
        self._buffers[token.number] = made
        return made

    def pair(self, roles: Sequence[Role], desc: BufferDesc | None = None, *, name: str = "") -> BufferPair:
        """Two buffers for a state: `pair = domain.pair([Role(g, "past", INPUT), Role(g, "next", OUTPUT)])`.

        `pair.bind(g, reads="past", writes="next")` binds them, `pair.swap()` makes what was written the state.
        """
        roles = _roles(roles)
        name = name or (roles[0].tensor if roles else "state")
        first = self.allocate(roles, desc, name=f"{name}.0")
        try:
            return BufferPair(name, first, self.allocate(roles, desc, name=f"{name}.1"))
        except BaseException:
            first.free()
            raise

    def use(self, token: Token | int) -> ManagedBuffer:
        """The buffer of a token; raises unless this domain made it, in this process."""
        self.check_open()
        hint = "give the `token` of a buffer, or int(token)"
        known = (
            token if isinstance(token, Token) else Token.of(arguments.whole(token, "the token", most=2**128, hint=hint))
        )
        if known.process != os.getpid():
            raise RunFailed(
                f"token {known} was made in process {known.process}, this is {os.getpid()}",
                hint="allocate a buffer here: a token is valid in its own process only",
            )
        if known.domain != self._number:
            other = _domains.get(known.domain)
            if other is None or other.closed:
                whose = f"a memory domain that is closed, not of `{self.name}`"
            elif other.name == self.name:
                whose = f"another memory domain with the name `{self.name}`"
            else:
                whose = f"memory domain `{other.name}`, not of `{self.name}`"
            raise RunFailed(
                f"token {known} is of {whose}",
                hint="use it with the domain that allocated it, or copy the buffer",
            )
        found = self._buffers.get(known.number)
        if found is None:
            was = "whose buffer was freed" if 0 < known.number <= self._given else "which it never made"
            raise RunFailed(f"token {known} is one of memory domain `{self.name}` {was}", hint="allocate a new buffer")
        return found

    def check_owner(self, name: str, graph: Any) -> None:
        """Raise if the context of a graph is not one of the owner's."""
        if graph.context not in self.owner.contexts:
            raise UsageError(
                f"context {graph.context.name} does not belong to memory domain `{self.name}` of buffer `{name}`",
                hint="allocate it in the domain of the session that runs this context",
            )

    def forget(self, buffer: ManagedBuffer) -> None:
        """Remove a freed buffer."""
        self._buffers.pop(buffer.token.number, None)

    def drop(self, buffers: Iterable[ManagedBuffer]) -> None:
        """Free buffers at the next allocation; called by the garbage collector, so it takes no lock."""
        for each in buffers:
            each.retire()
            self._dropped.append(each)

    def close(self) -> None:
        """Unbind and free every buffer; those in use are freed when their executions end."""
        self.closed = True
        run_all(each.free for each in self.buffers)

    def __del__(self) -> None:
        if hasattr(self, "_lock") and self._process == os.getpid():
            self.close()

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

    def __repr__(self) -> str:
        return f"<Pair {self.name}: reading {self.reading!r}, writing {self.writing!r}>"

    def __init__(self, name: str, first: ManagedBuffer, second: ManagedBuffer) -> None:
        self.name, self.reading, self.writing = name, first, second
        self._bound: list[tuple[Any, str, str]] = []

    def bind(self, graph: Any, *, reads: str = "", writes: str = "") -> None:
        """Bind an input of a graph to the state, and an output to the next one; either may be left out."""
        if not hasattr(graph, "binding") or isinstance(graph, type):
            raise UsageError(f"state `{self.name}` is to be bound to {arguments.kind_of(graph)}", hint="give a Graph")
        for each in (reads, writes):
            arguments.expect(each, str, f"a tensor of graph `{graph.name}`", "its name")
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
