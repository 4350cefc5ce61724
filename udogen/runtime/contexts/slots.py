"""The place of one tensor among a graph's arguments: checked, then written to in a fraction of a microsecond."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from udogen.errors import RunFailed
from udogen.opdef import datatypes
from udogen.qnn import abi
from udogen.qnn.tensors import APP_WRITE, MOST_BYTES, Tensor, byte_size
from udogen.runtime.arguments import kind_of
from udogen.runtime.buffers.attachment import Attachment

if TYPE_CHECKING:
    from udogen.qnn.system import TensorInfo
    from udogen.runtime.contexts.graph import Graph
    from udogen.runtime.op.calls import Array


class Slot:
    """One tensor of a graph, and what it is bound to."""

    def __init__(self, info: TensorInfo, role: str, array: Any, index: int) -> None:
        ffi = abi.ffi()
        self.info, self.role = info, role
        self.nbytes = byte_size(info.dtype, info.shape)
        self._tensor = Tensor(info.name, dtype=info.dtype, shape=info.shape, role=role, quant=info.quant, id=info.id)
        self._struct = ffi.addressof(array, index)
        ffi.memmove(self._struct, self._tensor.struct, ffi.sizeof("Qnn_Tensor_t"))
        body = self._struct.v1
        self._body, self._memory = body, body.clientBuf
        self._raw = ffi.integer_const("QNN_TENSORMEMTYPE_RAW")
        self._registered = ffi.integer_const("QNN_TENSORMEMTYPE_MEMHANDLE")
        self._from_buffer, self._null = ffi.from_buffer, ffi.NULL
        row = datatypes.parse(info.dtype)
        # Elements of less than a byte have no type in numpy: bytes stand for them.
        whole = row is not None and row.numpy and row.bits % 8 == 0
        self._dtype = np.dtype(row.numpy) if row is not None and whole else np.dtype(np.uint8)
        self._shape = tuple(info.shape) if whole else (self.nbytes,)
        self._attachment: Attachment | None = None
        self._held: Any = None  # keeps the bound memory where it is
        self._lent: Any = None
        self._why = ""  # its memory was taken away

    @property
    def bound(self) -> bool:
        """Whether it has memory of its own."""
        return self._attachment is not None and not self._attachment.ended

    @property
    def why(self) -> str:
        """Why it has no memory any more; empty where it had none, or was unbound by its user."""
        return self._attachment.ended if self._attachment is not None else self._why

    @property
    def guarded(self) -> bool:
        """Whether its memory wants to know of each execution."""
        found = self._attachment
        return found is not None and (found.enter or found.leave or found.failed) is not None

    def bind(self, graph: Graph, place: Any) -> None:
        """Let the tensor lie there; refuses what is too small, of another type, or cannot be written to."""
        if hasattr(place, "attach") and not isinstance(place, type):
            found: Attachment = place.attach(graph, self.info, self.role)
        else:
            if isinstance(place, np.ndarray):
                self._check(place)
            found = Attachment(data=place)
        held = self._hold(found.data) if found.handle is None else None
        if self._attachment is not None:
            self._attachment.slot = None
        self._attachment, self._held, self._why = found, held, ""
        found.graph, found.slot = graph, self
        self._restore()

    def array(self) -> Array:
        """The bound memory as an array."""
        found = self._attachment
        view = None if found is None else (found.view if found.view is not None else found.data)
        if view is None:
            raise RunFailed(
                f"tensor `{self.info.name}` has no memory that can be looked into",
                hint="bind it to an array or a buffer first",
            )
        flat = np.frombuffer(view, np.uint8)[: self.nbytes]
        return flat.view(self._dtype).reshape(self._shape)

    def enter(self) -> Attachment:
        """Tell the memory that an execution begins; answers who is to be told of its end."""
        assert self._attachment is not None
        if self._attachment.enter:
            self._attachment.enter()
        return self._attachment

    def lend(self, array: Array, *, into: bool = False) -> int:
        """Let the tensor lie in this array for one execution; returns how many bytes had to be copied for that."""
        copied = 0
        if array.__class__ is not np.ndarray or array.dtype != self._dtype or array.shape != self._shape:
            self._check(array)
        try:
            lent = self._from_buffer(array, require_writable=into)
        except (BufferError, ValueError):
            if into:
                self._refuse_output(array)
            array = np.ascontiguousarray(array)
            lent, copied = self._from_buffer(array), self.nbytes
        body = self._body
        body.memType = self._raw
        self._memory.data, self._memory.dataSize = lent, self.nbytes
        self._lent = lent
        return copied

    def empty(self) -> Array:
        """A new array for an output."""
        return np.empty(self._shape, self._dtype)

    def zeros(self) -> Array:
        """An array for an input."""
        return np.zeros(self._shape, self._dtype)

    def take_back(self) -> None:
        """After an execution on a lent array: what is bound holds again."""
        self._lent = None
        self._restore()

    def forget(self) -> Callable[[], None] | None:
        """Let go of the memory; the answer is to be called when all that are to be forgotten are."""
        found, self._attachment = self._attachment, None
        self._held = self._lent = None
        self._restore()
        if found is None:
            return None
        found.slot, self._why = None, found.ended
        return found.unused

    def _restore(self) -> None:
        found = self._attachment
        if found is None:
            self._memory.data, self._memory.dataSize = self._null, 0
        elif found.data is None:
            self._body.memType, self._body.memHandle = self._registered, found.handle
        else:
            self._body.memType = self._raw
            self._memory.data, self._memory.dataSize = self._held, self.nbytes

    def _hold(self, data: Any) -> Any:
        """A writable buffer that holds the whole tensor, kept where it is."""
        if self.nbytes > MOST_BYTES:
            raise RunFailed(
                f"tensor `{self.info.name}` has {self.nbytes:,} bytes; client memory ends at 4 GiB",
                hint="bind it to registered memory, or split the tensor",
            )
        try:
            held = self._from_buffer(data, require_writable=self.role != APP_WRITE)
        except (BufferError, TypeError, ValueError) as problem:
            raise RunFailed(
                f"tensor `{self.info.name}` cannot lie in this {type(data).__name__}: {problem}",
                hint="give a contiguous array, a writable buffer, or memory of udogen (`udogen.runtime.allocate`)",
            ) from problem
        if len(held) < self.nbytes:
            raise RunFailed(
                f"tensor `{self.info.name}` ({self.info.dtype} {list(self.info.shape)}) needs {self.nbytes} bytes, "
                f"its memory has {len(held)}",
                hint="give it at least that many",
            )
        return held

    def _check(self, array: Any) -> None:
        if not isinstance(array, np.ndarray):
            raise RunFailed(
                f"`{self.info.name}` is given {kind_of(array)}", hint="give a numpy array, or bind a buffer"
            )
        if isinstance(array, np.ma.MaskedArray):
            raise RunFailed(
                f"`{self.info.name}` is given a masked array, and a runtime knows no masks",
                hint="say what stands for the masked elements: array.filled(value)",
            )
        if array.dtype != self._dtype or array.shape != self._shape:
            raise RunFailed(
                f"tensor `{self.info.name}` is {self.info.dtype} {list(self.info.shape)}, "
                f"its array is {array.dtype} {list(array.shape)}",
                hint=f"give an array of {self._dtype} with the shape {list(self._shape)}"
                + (", its packed bytes" if prod(self.info.shape) != prod(self._shape) else ""),
            )

    def _refuse_output(self, array: Array) -> None:
        why = "is read-only" if not array.flags.writeable else "is not contiguous"
        raise RunFailed(
            f"the array for output `{self.info.name}` {why}", hint="give one made by numpy.empty, or none at all"
        )
