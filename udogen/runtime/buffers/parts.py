"""A place in a buffer as what a tensor is bound to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from udogen.errors import RunFailed
from udogen.qnn.tensors import APP_READ, byte_size
from udogen.runtime.buffers.attachment import Attachment
from udogen.runtime.buffers.buffer import Buffer
from udogen.runtime.buffers.plan import ION, RAW, SHARED_BUFFER
from udogen.runtime.buffers.registered import registrations

if TYPE_CHECKING:
    from udogen.qnn.system import TensorInfo


@dataclass(frozen=True)
class Part:
    """Bytes of a buffer.  `how` is RAW (as client memory), ION or SHARED_BUFFER (registered, bound by handle).

    `largest` is the tensor that the place is registered for, where another one of the context needs more of it.
    """

    buffer: Buffer
    offset: int
    nbytes: int
    how: str
    largest: tuple[str, tuple[int, ...]] | None = None

    def attach(self, graph: Any, info: TensorInfo, role: str) -> Attachment:
        """Let a tensor of a graph lie here."""
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
                f"output `{info.name}` cannot lie in buffer `{self.buffer.name}`, which is for reading alone",
                hint="open its file for writing",
            )
        if self.how == RAW:
            return self.buffer.attached(Attachment(data=view))
        dtype, shape = self.largest or (info.dtype, tuple(info.shape))
        known = registrations(graph.context)
        place = known.register(self.buffer, how=self.how, dtype=dtype, shape=shape, offset=self.offset)
        return self.buffer.attached(place.attach(view))


def part_of(buffer: Buffer, offset: int = 0, nbytes: int | None = None) -> Part:
    """Bytes of a buffer; of memory with a descriptor they become a part of a shared buffer."""
    length = buffer.size - offset if nbytes is None else nbytes
    if offset < 0 or length <= 0 or offset + length > buffer.size:
        raise RunFailed(
            f"bytes {offset} to {offset + length} are not in buffer `{buffer.name}`, which has {buffer.size}",
            hint="give an offset and a length inside it",
        )
    return Part(buffer, offset, length, RAW if buffer.fd is None else SHARED_BUFFER)


def whole_of(buffer: Buffer) -> Part:
    """All of a buffer, for one tensor."""
    alone = ION if buffer.fd_offset == 0 else SHARED_BUFFER
    return Part(buffer, 0, buffer.size, RAW if buffer.fd is None else alone)
