"""One tensor of a graph, and the memory it is bound to: for good, or borrowed for one execution.

numpy is imported with the first array: the worker of `udogen run op` binds only memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed, UsageError, WrongType
from udogen.qnn import abi
from udogen.qnn.tensors import APP_READ, APP_WRITE, MOST_BYTES, QnnTensor, byte_size
from udogen.runtime.buffers.buffer import Attachment, RegisteredPart

if TYPE_CHECKING:
    import numpy as np

    from udogen.runtime.buffers.domains import Access
    from udogen.runtime.contexts.graph import Graph
    from udogen.runtime.op.calls import Array


class TensorBinding:
    """One tensor of a graph and the memory it is bound to: `graph.binding("x").info.shape`."""

    def __init__(self, info: QnnTensor, role: str, array: Any, index: int) -> None:
        ffi = abi.ffi()
        self.info, self.role = info, role
        self.nbytes = byte_size(info.dtype, info.shape)
        self._tensor = replace(info, role=role, data=None)  # a graph writes shapes into its struct
        self.is_dynamic = any(info.dynamic)
        self._struct = ffi.addressof(array, index)
        ffi.memmove(self._struct, self._tensor.struct, ffi.sizeof("Qnn_Tensor_t"))
        body = self._struct.v1
        self._body, self._memory, self._dims = body, body.clientBuf, body.dimensions
        self._raw = ffi.integer_const("QNN_TENSORMEMTYPE_RAW")
        self._registered = ffi.integer_const("QNN_TENSORMEMTYPE_MEMHANDLE")
        self._from_buffer, self._null = ffi.from_buffer, ffi.NULL
        self._attachment: Attachment | None = None
        self._borrowed: Any = None
        self._spare: Attachment | None = None  # see `flip`
        self._why = ""  # why its memory was freed

    def __repr__(self) -> str:
        return f"<TensorBinding of {self.info!r}: {'bound' if self.bound else 'not bound'}>"

    @cached_property
    def _layout(self) -> tuple[type[Array], np.dtype[Any], tuple[int, ...]]:
        """The class, the type and the shape of its arrays."""
        import numpy as np

        from udogen.runtime.contexts.arrays import layout

        shape, dtype = layout(self.info)
        return np.ndarray, dtype, shape

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape in the last execution; its largest shape before the first one."""
        return tuple(self._dims[axis] for axis in range(len(self.info.shape))) if self.is_dynamic else self.info.shape

    def resize(self, shape: Sequence[int]) -> None:
        """Set the shape of the next execution; open dimensions may be smaller than their largest size."""
        if not self.info.takes(shape):
            raise UsageError(
                f"tensor `{self.info.name}` is {self.info.dtype} {self.info.sizes}, the shape is {list(shape)}",
                hint="dimensions that its graph leaves open may be smaller"
                if self.is_dynamic
                else "none of its dimensions is open: give that shape",
            )
        for axis, size in enumerate(shape):
            self._dims[axis] = size

    def written(self, array: Array) -> Array:
        """The part of an array that an execution wrote: elements of a smaller shape are at its beginning."""
        shape = self.shape
        return array if shape == array.shape else array.reshape(-1)[: prod(shape)].reshape(shape)

    @property
    def bound(self) -> bool:
        """Whether it is bound to memory."""
        return self._attachment is not None and not self._attachment.ended

    @property
    def why(self) -> str:
        """Why its memory was freed; empty if it had none, or the caller unbound it."""
        return self._attachment.ended if self._attachment is not None else self._why

    def bind_both(self, graph: Graph, place: Any, other: Any) -> None:
        """Bind the tensor to one place, and prepare the other for `flip`."""
        spare = self.bind(graph, other)
        spare.user = self.bind(graph, place).user
        self._spare = spare

    def flip(self) -> bool:
        """Exchange both places of `bind_both`; False if one of them was freed, or the tensor bound again or unbound."""
        now, spare = self._attachment, self._spare
        if now is None or spare is None or now.ended or spare.ended:
            return False
        self._attachment, self._spare = spare, now
        if spare.part is None:
            self._memory.data = spare.held
        else:
            self._body.memHandle = spare.held
        return True

    @property
    def guarded(self) -> bool:
        """Whether its memory takes part in executions (`Attachment.access`)."""
        return self._attachment is not None and self._attachment.access is not None

    def bind(self, graph: Graph, place: Any) -> Attachment:
        """Bind the tensor to memory; raises if that is too small, has another type, or is read-only for an output."""
        if hasattr(place, "attach") and not isinstance(place, type):
            attachment: Attachment = place.attach(graph, self.info, self.role)
        else:
            if hasattr(place, "__array_interface__"):
                self.check(place)
            attachment = Attachment(place)
        part = attachment.part
        attachment.held = self._hold(attachment.data) if part is None else part.memory.handle
        if self._attachment is not None:
            self._attachment.user = None
        self._attachment, self._spare, self._why = attachment, None, ""
        attachment.user = graph, self
        self._restore()
        return attachment

    def array(self) -> Array:
        """The bound memory as an array."""
        if self._attachment is None or self._attachment.data is None:
            raise RunFailed(
                f"tensor `{self.info.name}` has no memory that can be shown",
                hint="bind it to an array or a buffer first",
            )
        import numpy as np

        _, dtype, shape = self._layout
        array: Array = np.frombuffer(self._attachment.data, np.uint8)[: self.nbytes].view(dtype).reshape(shape)
        return self.written(array) if self.is_dynamic and self.role == APP_READ else array

    @property
    def access(self) -> Access:
        """The access to its memory, if that takes part in executions."""
        assert self._attachment is not None and self._attachment.access is not None
        return self._attachment.access

    def borrow(self, array: Array, *, into: bool = False) -> int:
        """Bind the tensor to an array for one execution; returns the number of bytes that were copied for it."""
        kind, dtype, shape = self._layout
        if self.is_dynamic and not into and hasattr(array, "shape"):
            self.resize(array.shape)
            shape = array.shape
        if array.__class__ is not kind or array.dtype != dtype or array.shape != shape:
            self.check(array, shape)
        if self.is_dynamic and shape != self.info.shape:  # a runtime that executes the full size reads all of it
            largest = self.zeros()
            largest.reshape(-1)[: array.size] = array.reshape(-1)
            self.lend(largest, into=into)
            return array.nbytes
        return self.lend(array, into=into)

    def lend(self, array: Array, *, into: bool = False) -> int:
        """`borrow` an array that is as the tensor stores it, without checks."""
        copied = 0
        try:
            held = self._from_buffer(array, require_writable=into)
        except (BufferError, ValueError):
            if into:
                self._refuse_output(array)
            import numpy as np

            array = np.ascontiguousarray(array)
            held, copied = self._from_buffer(array), array.nbytes
        self._body.memType = self._raw
        self._memory.data, self._memory.dataSize = held, self.nbytes
        self._borrowed = held
        return copied

    def empty(self) -> Array:
        """A new array for an output."""
        import numpy as np

        _, dtype, shape = self._layout
        return np.empty(shape, dtype)

    def zeros(self) -> Array:
        """A new array of zeros for an input."""
        import numpy as np

        _, dtype, shape = self._layout
        return np.zeros(shape, dtype)

    def end_borrowing(self) -> None:
        """Restore the bound memory after an execution on a borrowed array."""
        self._borrowed = None
        if self._attachment is not None:  # otherwise nothing executes it before it is bound
            self._restore()

    def clear(self) -> RegisteredPart | None:
        """Unbind the memory; returns it if it is registered."""
        attachment, self._attachment = self._attachment, None
        self._borrowed = self._spare = None
        self._restore()
        if attachment is None:
            return None
        attachment.user, self._why = None, attachment.ended
        return attachment.part

    def _restore(self) -> None:
        attachment = self._attachment
        if attachment is None:
            self._memory.data, self._memory.dataSize = self._null, 0
        elif attachment.part is not None:
            self._body.memType, self._body.memHandle = self._registered, attachment.held
        else:
            self._body.memType = self._raw
            self._memory.data, self._memory.dataSize = attachment.held, self.nbytes

    def _hold(self, data: Any) -> Any:
        """The memory as a cffi buffer; raises if it cannot hold the tensor."""
        if self.nbytes > MOST_BYTES:
            raise RunFailed(
                f"tensor `{self.info.name}` has {self.nbytes:,} bytes; client memory ends at 4 GiB",
                hint="bind it to registered memory, or split the tensor",
            )
        try:
            held = self._from_buffer(data, require_writable=self.role != APP_WRITE)
        except (BufferError, TypeError, ValueError) as problem:
            raise (WrongType if isinstance(problem, TypeError) else UsageError)(
                f"tensor `{self.info.name}` cannot be bound to this {type(data).__name__}: {problem}",
                hint="give a contiguous array, a writable buffer, or memory of udogen (`udogen.runtime.Buffer`)",
            ) from problem
        if len(held) < self.nbytes:
            raise UsageError(
                f"tensor `{self.info.name}` ({self.info.dtype} {list(self.info.shape)}) needs {self.nbytes} bytes, "
                f"its memory has {len(held)}",
                hint="give it at least that many",
            )
        return held

    def check(self, array: Any, shape: tuple[int, ...] | None = None) -> None:
        """Raise unless an array is as the tensor stores it."""
        from udogen.runtime.contexts.arrays import check_stored

        check_stored(array, self.info, shape)

    def _refuse_output(self, array: Array) -> None:
        why = "is read-only" if not array.flags.writeable else "is not contiguous"
        raise UsageError(
            f"the array for output `{self.info.name}` {why}", hint="give one made by numpy.empty, or none at all"
        )
