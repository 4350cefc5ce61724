"""Shared memory that a context knows: each place registered once, deregistered last to first, whatever happens."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed
from udogen.qnn.interface import QnnError
from udogen.qnn.memory import Memory
from udogen.qnn.tensors import byte_size
from udogen.runtime.buffers import ledger
from udogen.runtime.buffers.attachment import Attachment
from udogen.runtime.buffers.buffer import Buffer
from udogen.runtime.buffers.plan import ION

if TYPE_CHECKING:
    from udogen.runtime.contexts.context import Context

_NOT_SUPPORTED = 1000


@dataclass(eq=False)
class Registered:
    """One place, registered."""

    memory: Memory
    buffer: Buffer
    how: str
    offset: int
    dtype: str
    nbytes: int
    undo: Callable[[], None]
    unused: Callable[[Registered], None]
    attached: list[weakref.ref[Attachment]] = field(default_factory=list)

    @property
    def is_bound(self) -> bool:
        """Whether a tensor lies in it, or is about to."""
        return any(each is not None and not each.ended for each in (known() for known in self.attached))

    def attach(self, view: memoryview) -> Attachment:
        """What a tensor is bound to."""
        made = Attachment(handle=self.memory.handle, view=view, unused=self._end)
        self.attached = [each for each in self.attached if each() is not None]
        self.attached.append(weakref.ref(made))
        return made

    def _end(self) -> None:
        self.unused(self)


class Registrations:
    """What is registered with one context."""

    def __init__(self, context: Context) -> None:
        self._context: Any = weakref.proxy(context)
        self._owner = id(context)
        self._rows: list[Registered] = []
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._rows)

    def register(self, buffer: Buffer, *, how: str, dtype: str, shape: Sequence[int], offset: int) -> Registered:
        """The place as memory of this tensor; one that is registered already is taken again, if it fits."""
        nbytes = byte_size(dtype, shape)
        with self._lock:
            self._context.check_open()
            for row in self._rows:
                if row.buffer is buffer and row.offset == offset and row.how == how:
                    return self._again(row, dtype, shape, nbytes)
            made = self._new(buffer, how, dtype, shape, offset)
            self._rows.append(made)
            return made

    def _again(self, row: Registered, dtype: str, shape: Sequence[int], nbytes: int) -> Registered:
        if row.dtype == dtype and row.nbytes >= nbytes:
            return row
        raise RunFailed(
            f"byte {row.offset} of buffer `{row.buffer.name}` is registered with context {self._context.name} for "
            f"{row.nbytes} bytes of {row.dtype}: it cannot be {dtype} {list(shape)} too",
            hint="register the largest tensor of a place first, and tensors of another type at another place",
        )

    def _new(self, buffer: Buffer, how: str, dtype: str, shape: Sequence[int], offset: int) -> Registered:
        fd, context = buffer.descriptor(), self._context
        place = (0, 0) if how == ION else (buffer.fd_offset + offset, buffer.fd_offset + buffer.size)
        if how == ION and (offset or buffer.fd_offset):
            raise RunFailed(
                f"byte {buffer.fd_offset + offset} of buffer `{buffer.name}` cannot be registered as ION memory, which "
                "begins with its descriptor",
                hint="register it as SHARED_BUFFER",
            )
        entry = ledger.Entry(how, buffer, place[0], byte_size(dtype, shape), context.name, self._owner)
        undone: list[Callable[[], None]] = []

        def undo() -> None:
            with ExitStack() as stack:
                for each in undone:
                    stack.callback(each)

        try:
            undone.append(ledger.enter(entry))
            undone.append(buffer.hold(f"context {context.name}", until_closed=lambda: self.release(buffer)))
            if context.session is not None:
                undone.append(context.session.charge_buffer(buffer, buffer.size))
            memory = Memory(
                context.low, fd, dtype=dtype, shape=shape, offset=None if how == ION else place[0], size=place[1]
            )
        except BaseException as problem:
            undo()
            if isinstance(problem, QnnError) and problem.code == _NOT_SUPPORTED:
                raise _no_shared_memory(context) from problem
            raise
        undone.append(memory.close)
        return Registered(memory, buffer, how, offset, dtype, byte_size(dtype, shape), undo, self._sweep)

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """What is registered inside is deregistered again, last to first, if an error ends it."""
        with self._lock:
            before = len(self._rows)
            try:
                yield
            except BaseException:
                self._undo(self._rows[before:], quiet=True)
                raise

    def release(self, buffer: Buffer) -> None:
        """Deregister every place of a buffer; refused while a tensor lies in one."""
        with self._lock:
            rows = [row for row in self._rows if row.buffer is buffer]
            if any(row.is_bound for row in rows):
                raise RunFailed(
                    f"buffer `{buffer.name}` cannot be deregistered: tensors of context {self._context.name} lie in it",
                    hint="bind them to other memory first, or unbind them",
                )
            self._undo(rows)

    def _sweep(self, row: Registered) -> None:
        """Deregister a place that no tensor lies in any more."""
        with self._lock:
            if row in self._rows and not row.is_bound:
                self._undo([row])

    def close(self) -> None:
        """Deregister everything; the context calls this before it is freed."""
        with self._lock:
            self._undo(list(self._rows))

    def _undo(self, rows: Sequence[Registered], *, quiet: bool = False) -> None:
        errors: list[Exception] = []
        for row in reversed(rows):
            self._rows.remove(row)
            try:
                row.undo()
            except Exception as problem:
                errors.append(problem)
        if errors and not quiet:
            raise errors[0]


_of: weakref.WeakKeyDictionary[Context, Registrations] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def registrations(context: Context) -> Registrations:
    """What is registered with this context."""
    with _lock:
        found = _of.get(context)
        if found is None:
            found = Registrations(context)
            context.on_close(found.close)
            _of[context] = found
        return found


def _no_shared_memory(context: Any) -> RunFailed:
    runtime = context.runtime
    return RunFailed(
        f"{runtime.path.name} registers no shared memory on this machine: it answered {_NOT_SUPPORTED} (not supported)",
        hint="on a PC no library of Qualcomm does: use memory of this process (no --shared; allocate client memory), "
        'or udogen\'s emulator (--runtime emulator; kind="emulator")',
    )
