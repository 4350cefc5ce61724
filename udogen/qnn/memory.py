"""Memory that a context is told of once, instead of being handed a buffer at each execution: a file descriptor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from udogen.qnn import abi
from udogen.qnn.context import Context
from udogen.qnn.handle import Handle
from udogen.qnn.tensors import type_code

ION, DMA_BUF = "ION", "DMA_BUF"


class Memory(Handle):
    """Registered memory of one tensor; deregistered at the end of `with`, before its context is freed.

    With an `offset`, several tensors share one descriptor of `size` bytes (the shared buffers of HTP).
    """

    def __init__(
        self,
        context: Context,
        fd: int,
        *,
        dtype: str,
        shape: Sequence[int],
        kind: str = ION,
        address: int = 0,  # where the client has mapped it: DMA_BUF has to be told
        offset: int | None = None,
        size: int = 0,
    ) -> None:
        ffi = abi.ffi()
        described, self.dtype, self.shape = ffi.new("Qnn_MemDescriptor_t *"), dtype, tuple(shape)
        dims = ffi.new("uint32_t[]", [*self.shape, 0])
        described.memShape.numDim, described.memShape.dimSize = len(self.shape), dims
        described.dataType = type_code(dtype)
        described.memType = ffi.integer_const(f"QNN_MEM_TYPE_{'CUSTOM' if offset is not None else kind}")
        kept: list[Any] = [dims]
        if offset is not None:
            custom = ffi.new("QnnMemHtp_Descriptor_t *")
            custom.type, custom.size = ffi.integer_const("QNN_HTP_MEM_SHARED_BUFFER"), size
            custom.sharedBufferConfig.fd, custom.sharedBufferConfig.offset = fd, offset
            described.customInfo = custom
            kept.append(custom)
        elif kind == DMA_BUF:
            described.dmaBufInfo.fd, described.dmaBufInfo.data = fd, ffi.cast("void *", address)
        else:
            described.ionInfo.fd = fd
        handles = ffi.new("Qnn_MemHandle_t[1]")
        context.interface.call("memRegister", context.raw, described, 1, handles)
        super().__init__(context.interface, handles, "memDeRegister", 1)
        self.when_closed: Callable[[], None] | None = None  # told to whoever would close it otherwise

    def close(self) -> None:
        """Deregister it now."""
        super().close()
        if self.when_closed is not None:
            self.when_closed()

    @property
    def handle(self) -> Any:
        """What a tensor is bound to (`Tensor.bind_memory`)."""
        return self.raw[0]


def register_external(context: Context, kind: str, fd: int, *, offset: int, size: int) -> Any:
    """Give a deferred HTP context memory for weights (WEIGHTS_BUFFER) or spilling (SHARED_SPILLFILL_BUFFER).

    The runtime deregisters it itself, when the context is freed.
    """
    ffi = abi.ffi()
    row, custom = ffi.new("Qnn_MemDescriptor_t *"), ffi.new("QnnMemHtp_Descriptor_t *")
    custom.type, custom.size = ffi.integer_const(f"QNN_HTP_MEM_{kind}"), size
    custom.sharedBufferConfig.fd, custom.sharedBufferConfig.offset = fd, offset
    row.memType, row.customInfo = ffi.integer_const("QNN_MEM_TYPE_CUSTOM"), custom
    handles = ffi.new("Qnn_MemHandle_t[1]")
    context.interface.call("memRegister", context.raw, row, 1, handles)
    return handles
