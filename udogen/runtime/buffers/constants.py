"""The constants of a graph, copied or in a buffer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from udogen.errors import RunFailed, UsageError
from udogen.opdef.datatypes import Named
from udogen.qnn.handles import Closing
from udogen.qnn.quantization import Quantization
from udogen.qnn.tensors import STATIC, QnnTensor, byte_size
from udogen.runtime.buffers.buffer import Buffer
from udogen.runtime.buffers.memory import KINDS

COPY, REFERENCE = "CONSTANT_COPY", "CONSTANT_REFERENCE"
# ANEURALNETWORKS_MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES
THRESHOLD = 128


@dataclass(frozen=True)
class ConstantPlacement:
    """Where a constant is stored; `offset` is its place in the buffer, 0 for a copy."""

    name: str
    lifetime: str
    nbytes: int
    offset: int


class Constants(Closing):
    """The constants of a graph, copied or in a buffer: `with Constants(buffer) as constants:`.

    `constants.tensor("w", dtype="FLOAT_32", shape=(4,), data=array)` is a tensor for `GraphHandle.add_tensor`.
    """

    def __init__(self, buffer: Buffer | None = None, *, threshold: int = THRESHOLD) -> None:
        if buffer is not None and not KINDS[buffer.kind].holds_constants:
            fitting = ", ".join(name for name, row in KINDS.items() if row.holds_constants)
            raise UsageError(
                f"constants cannot be in memory of kind `{buffer.kind}`: it is for inputs and outputs of executions",
                hint=f"one of: {fitting}",
            )
        self.rows: list[ConstantPlacement] = []
        self._buffer, self._threshold = buffer, threshold
        self._end_hold: list[Callable[[], None]] = []

    def tensor(
        self, name: str, *, dtype: Named, shape: Sequence[int], data: Any, quant: Quantization = None
    ) -> QnnTensor:  # fmt: skip
        """A static tensor with these values, which are stored in the buffer if they exceed the threshold."""
        nbytes, given = byte_size(dtype, shape), _flat(name, data)
        if len(given) != nbytes:
            raise RunFailed(
                f"constant `{name}` ({dtype} {list(shape)}) has {nbytes} bytes, {len(given)} were given",
                hint="give the values the shape and type of the tensor",
            )
        if nbytes <= self._threshold:
            return self._made(name, dtype, shape, bytearray(given), quant, ConstantPlacement(name, COPY, nbytes, 0))
        if self._buffer is None:
            raise UsageError(
                f"constant `{name}` has {nbytes} bytes: more than {self._threshold} are not copied",
                hint="give a buffer for constants, or raise the threshold",
            )
        offset = self._buffer.take(nbytes)
        self._buffer.view[offset : offset + nbytes] = given
        return self.refer(name, dtype=dtype, shape=shape, offset=offset, quant=quant)

    def refer(
        self, name: str, *, dtype: Named, shape: Sequence[int], offset: int, quant: Quantization = None
    ) -> QnnTensor:  # fmt: skip
        """A static tensor whose values are at this offset of the buffer; nothing is copied."""
        nbytes, buffer = byte_size(dtype, shape), self._buffer
        if buffer is None:
            raise UsageError(
                f"constant `{name}` refers to a buffer, but none was given", hint="give one for the constants"
            )
        if offset < 0 or offset + nbytes > buffer.size:
            raise RunFailed(
                f"constant `{name}` would be bytes {offset} to {offset + nbytes} of buffer `{buffer.name}`, "
                f"which has {buffer.size}",
                hint="give an offset inside it",
            )
        view = buffer.view[offset : offset + nbytes]
        self._end_hold.append(buffer.hold(f"constant `{name}`"))
        return self._made(name, dtype, shape, view, quant, ConstantPlacement(name, REFERENCE, nbytes, offset))

    def close(self) -> None:
        """Release the buffer."""
        while self._end_hold:
            self._end_hold.pop()()

    def _made(
        self, name: str, dtype: Named, shape: Sequence[int], data: Any, quant: Quantization, row: ConstantPlacement
    ) -> QnnTensor:
        self.rows.append(row)
        return QnnTensor(name, dtype=dtype, shape=shape, role=STATIC, quant=quant, data=data)


def _flat(name: str, data: Any) -> memoryview:
    try:
        view = memoryview(data)
    except TypeError as problem:
        raise UsageError(
            f"the values of constant `{name}` are not a buffer: {problem}", hint="give a numpy array, or bytes"
        ) from problem
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
