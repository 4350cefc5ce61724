"""A piece of memory with an owner: given back once, never while a context has it, and never under an array's feet."""

from __future__ import annotations

import os
import stat
import sys
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed
from udogen.qnn import abi
from udogen.runtime import arguments

if TYPE_CHECKING:
    from udogen.qnn.system import TensorInfo
    from udogen.runtime.buffers.attachment import Attachment
    from udogen.runtime.buffers.parts import Part

_Identity = tuple[int, int]


class Buffer:
    """Memory that tensors lie in; a context manager.

    `close` unbinds the graphs whose tensors lie in it, and deregisters it.  It is refused while somebody holds the
    buffer for longer (`hold`: external weights of a context, a mapping to a Hexagon).  Arrays made of `view` may
    outlive it: the bytes are given back with the last of them.
    """

    def __init__(
        self,
        memory: Any,
        *,
        name: str,
        kind: str,
        size: int,
        alignment: int,
        begin: int = 0,
        fd: int | None = None,
        fd_offset: int = 0,
        owns_fd: bool = True,
    ) -> None:
        ffi = abi.ffi()
        self.name, self.kind, self.size, self.alignment = name, kind, size, alignment
        self.address = int(ffi.cast("uintptr_t", ffi.from_buffer(memory))) + begin
        self.fd_offset = fd_offset  # where its first byte is in what the descriptor leads to
        self._memory: Any = memory  # whatever exports the bytes, and frees them when nobody refers to it any more
        self._begin = begin  # of ours in those of `memory`
        self._fd, self._identity = fd, None if fd is None else _identity(fd)
        self._close_fd = weakref.finalize(self, _close, fd, _identity(fd)) if fd is not None and owns_fd else None
        self._holders: dict[object, str] = {}
        self._registrations: dict[object, Callable[[], None]] = {}  # those of them that end when it is closed
        self._attached: weakref.WeakSet[Attachment] = weakref.WeakSet()
        self._reserved: dict[object, str] = {}
        self.fastrpc = 0  # how many mappings to a Hexagon it has (`rpcmem.mapped_to_hexagon`)
        self._closes_when_free = False
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.size} bytes at {self.address:#x}"
        return f"<Buffer {self.name} ({self.kind}): {state}>"

    @property
    def closed(self) -> bool:
        """Whether it was given back."""
        return self._memory is None

    @property
    def view(self) -> memoryview:
        """Its bytes, writable unless the memory is not."""
        for purpose in self._reserved.values():
            raise RunFailed(
                f"the contents of buffer `{self.name}` are QNN's: it is the {purpose}",
                hint="nobody but QNN reads or writes it before its context is closed",
            )
        return memoryview(self._open_memory()).cast("B")[self._begin : self._begin + self.size]

    @property
    def fd(self) -> int | None:
        """The descriptor that leads to the memory; None where it has none."""
        self._open_memory()
        return self._fd

    @property
    def identity(self) -> tuple[int, int] | None:
        """What its descriptor leads to, whatever its number: (device, inode)."""
        return self._identity

    @property
    def exported(self) -> bool:
        """Whether an array or a view of its bytes is alive."""
        return self._memory is not None and sys.getrefcount(self._memory) > 2  # ours, and the argument

    @property
    def is_reserved(self) -> bool:
        """Whether its bytes are QNN's."""
        return bool(self._reserved)

    @property
    def held_by(self) -> tuple[str, ...]:
        """Who has it, in words."""
        with self._lock:
            return tuple(dict.fromkeys(list(self._holders.values())))

    def descriptor(self) -> int:
        """The descriptor, looked at anew: it must still lead to this memory."""
        fd = self.fd
        if fd is None:
            raise RunFailed(
                f"buffer `{self.name}` is {self.kind} memory: it has no file descriptor to register",
                hint="allocate it as shared memory (rpcmem on a device, memfd on a PC)",
            )
        try:
            found = os.fstat(fd)
        except OSError as problem:
            raise RunFailed(
                f"file descriptor {fd} of buffer `{self.name}` was closed by somebody else",
                hint="let nobody but the buffer close it: hand out os.dup(buffer.fd)",
            ) from problem
        if (found.st_dev, found.st_ino) != self._identity:
            raise RunFailed(
                f"file descriptor {fd} of buffer `{self.name}` leads to another file now: it was closed, "
                "and its number given anew",
                hint="let nobody but the buffer close it: hand out os.dup(buffer.fd)",
            )
        if stat.S_ISREG(found.st_mode) and found.st_size < self.fd_offset + self.size:
            raise RunFailed(
                f"the file of buffer `{self.name}` has {found.st_size} bytes now: it was made shorter than the buffer, "
                f"which ends at {self.fd_offset + self.size}",
                hint="to touch the bytes that are gone would end the process (SIGBUS): make the file long enough again",
            )
        return fd

    def hold(self, holder: str, *, until_closed: Callable[[], None] | None = None) -> Callable[[], None]:
        """Keep the buffer from being closed; call the answer to let go of it.

        With `until_closed` it may be closed: that is called first, and has to let go.
        """
        token = object()
        with self._lock:
            self._open_memory()
            self._holders[token] = holder
            if until_closed is not None:
                self._registrations[token] = until_closed

        def let_go() -> None:
            with self._lock:
                self._holders.pop(token, None)
                self._registrations.pop(token, None)
                if self._closes_when_free and not self._holders:
                    self._give_back()

        return let_go

    def reserve(self, purpose: str) -> Callable[[], None]:
        """Let nobody see the bytes, which are `purpose` from now on; call the answer to end it."""
        with self._lock:
            self._open_memory()
            if self.exported:
                raise RunFailed(
                    f"buffer `{self.name}` cannot become the {purpose}: arrays or views of its bytes are alive",
                    hint="delete them first: nobody but QNN may change its contents",
                )
            token = object()
            self._reserved[token] = purpose

        def end() -> None:
            self._reserved.pop(token, None)

        return end

    def attach(self, graph: Any, info: TensorInfo, role: str) -> Attachment:
        """Let one tensor of a graph lie in it (`Graph.bind`)."""
        from udogen.runtime.buffers import parts

        return parts.whole_of(self).attach(graph, info, role)

    def attached(self, made: Attachment) -> Attachment:
        """Note what a tensor is bound to, so that it is unbound when the buffer is closed."""
        with self._lock:
            self._open_memory()
            self._attached.add(made)
        return made

    def part(self, offset: int = 0, nbytes: int | None = None) -> Part:
        """Bytes of it, for a tensor among others (`Graph.bind`)."""
        from udogen.runtime.buffers import parts

        begin = arguments.whole(offset, f"the offset in buffer `{self.name}`", least=-(2**80), most=2**80)
        length = None if nbytes is None else arguments.whole(nbytes, "the number of bytes")
        self._open_memory()
        return parts.part_of(self, begin, length)

    def close(self) -> None:
        """Unbind and deregister it, after executions that run, and give the memory back; twice does nothing."""
        with self._lock:
            self._check_unheld()
        # Without the lock: a graph waits for it while it is being bound.
        for each in list(self._attached):
            each.end_binding(f"buffer `{self.name}` was closed")
        errors: list[Exception] = []
        for end in reversed(list(self._registrations.values())):
            try:
                end()
            except Exception as problem:
                errors.append(problem)
        with self._lock:
            self._check_unheld()
            if not self._holders:
                self._give_back()
            elif not errors:
                raise RunFailed(
                    f"buffer `{self.name}` cannot be closed: it was bound anew meanwhile", hint="close it again"
                )
        if errors:
            raise errors[0]

    def _check_unheld(self) -> None:
        held = dict.fromkeys(name for token, name in self._holders.items() if token not in self._registrations)
        if held and not self.closed:
            raise RunFailed(
                f"buffer `{self.name}` cannot be closed: it is in use by {', '.join(held)}", hint="close that first"
            )

    def __enter__(self) -> Buffer:
        self._open_memory()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except RunFailed:
            if error is None:
                raise
            self._closes_when_free = True  # the first error is the one to show; it closes when they let go

    def _open_memory(self) -> Any:
        if self._memory is None:
            raise RunFailed(f"buffer `{self.name}` is closed", hint="use it inside its `with` block")
        return self._memory

    def _give_back(self) -> None:
        self._memory = None
        if self._close_fd is not None:
            self._close_fd()


def _identity(fd: int) -> _Identity:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _close(fd: int, identity: _Identity) -> None:
    """Close it, unless somebody has, and the number is another file's now."""
    try:
        if _identity(fd) == identity:
            os.close(fd)
    except OSError:
        pass
