"""Constant operands as NNAPI has them: small values are copied, large ones lie in a pool and are referred to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from udogen.errors import RunFailed, UsageError
from udogen.qnn import abi
from udogen.qnn.handle import Closing
from udogen.qnn.tensors import STATIC, Quantization, Tensor, byte_size
from udogen.runtime.buffers.pools import POOLS, Pool

COPY, REFERENCE = "CONSTANT_COPY", "CONSTANT_REFERENCE"
# ANEURALNETWORKS_MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES
THRESHOLD = 128


@dataclass(frozen=True)
class Constant:
    """How a constant is held; `offset` is that in the pool, 0 for a copy."""

    name: str
    lifetime: str
    nbytes: int
    offset: int


class Constants(Closing):
    """The constants of a graph; a context manager that holds the pool until all graphs made of it are closed."""

    def __init__(self, pool: Pool | None = None, *, threshold: int = THRESHOLD) -> None:
        if pool is not None and not pool.kind.holds_constants:
            fitting = ", ".join(row.name for row in POOLS.values() if row.holds_constants)
            raise UsageError(
                f"constants cannot lie in a pool `{pool.kind.name}`: it is for inputs and outputs of executions",
                hint=f"one of: {fitting}",
            )
        self.rows: list[Constant] = []
        self._pool, self._threshold = pool, threshold
        self._let_go: list[Callable[[], None]] = []

    def tensor(
        self, name: str, *, dtype: str, shape: Sequence[int], data: Any, quant: Quantization = None
    ) -> Tensor:  # fmt: skip
        """A static tensor of these values; above the threshold they are moved into the pool, unless they lie there."""
        nbytes, given = byte_size(dtype, shape), _flat(name, data)
        if len(given) != nbytes:
            raise RunFailed(
                f"constant `{name}` ({dtype} {list(shape)}) has {nbytes} bytes, {len(given)} were given",
                hint="give the values the shape and type of the tensor",
            )
        if nbytes <= self._threshold:
            return self._made(name, dtype, shape, bytearray(given), quant, Constant(name, COPY, nbytes, 0))
        if self._pool is None:
            raise UsageError(
                f"constant `{name}` has {nbytes} bytes: more than {self._threshold} are not copied",
                hint="open a pool for constants, or raise the threshold",
            )
        offset = self._offset_of(given)
        if offset is None:
            offset = self._pool.take(nbytes)
            self._pool.buffer.view[offset : offset + nbytes] = given
        return self._referring(name, dtype, shape, offset, quant)

    def refer(
        self, name: str, *, dtype: str, shape: Sequence[int], offset: int, quant: Quantization = None
    ) -> Tensor:  # fmt: skip
        """A static tensor of what lies at this offset of the pool; nothing is copied."""
        nbytes = byte_size(dtype, shape)
        if self._pool is None:
            raise UsageError(
                f"constant `{name}` refers to a pool, and there is none", hint="open one for the constants"
            )
        if offset < 0 or offset + nbytes > self._pool.buffer.size:
            raise RunFailed(
                f"constant `{name}` would be bytes {offset} to {offset + nbytes} of pool `{self._pool.name}`, "
                f"which has {self._pool.buffer.size}",
                hint="give an offset inside the pool",
            )
        return self._referring(name, dtype, shape, offset, quant)

    def close(self) -> None:
        """Let go of the pool."""
        while self._let_go:
            self._let_go.pop()()

    def _referring(self, name: str, dtype: str, shape: Sequence[int], offset: int, quant: Quantization) -> Tensor:
        assert self._pool is not None  # both callers have looked
        nbytes, buffer = byte_size(dtype, shape), self._pool.buffer
        view = buffer.view[offset : offset + nbytes]
        self._let_go.append(buffer.hold(f"constant `{name}`"))
        return self._made(name, dtype, shape, view, quant, Constant(name, REFERENCE, nbytes, offset))

    def _made(
        self, name: str, dtype: str, shape: Sequence[int], data: Any, quant: Quantization, row: Constant
    ) -> Tensor:
        self.rows.append(row)
        return Tensor(name, dtype=dtype, shape=shape, role=STATIC, quant=quant, data=data)

    def _offset_of(self, given: memoryview) -> int | None:
        """Where in the pool these bytes lie; None where they do not."""
        ffi = abi.ffi()
        buffer = self._pool.buffer if self._pool else None
        offset = int(ffi.cast("uintptr_t", ffi.from_buffer(given))) - buffer.address if buffer else -1
        return offset if buffer and 0 <= offset <= buffer.size - len(given) else None


def _flat(name: str, data: Any) -> memoryview:
    try:
        view = memoryview(data)
    except TypeError as problem:
        raise UsageError(
            f"the values of constant `{name}` are no buffer: {problem}", hint="give a numpy array, or bytes"
        ) from problem
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
