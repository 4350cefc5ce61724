"""Arrays, pools and buffers as plain bytes, for copying into memory that nobody looks into, and out of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from udogen.errors import UsageError
from udogen.opdef import datatypes

if TYPE_CHECKING:
    from udogen.runtime.op.calls import Array


@contextmanager
def bytes_of(place: Any, name: str, *, write: bool = False) -> Iterator[memoryview]:
    """The bytes of an array, a pool or a buffer, let go of at the end; `name` is the buffer they go to or come from."""
    if getattr(getattr(place, "kind", None), "name", "") == "hardware_buffer":
        raise UsageError(
            f"buffer `{name}` is not copied from or to a hardware_buffer: its layout is the graphics driver's",
            hint="use ashmem, mmap_fd or hardware_buffer_blob",
        )
    memory = getattr(getattr(place, "buffer", None), "view", None)  # of a pool
    if memory is None and not hasattr(place, "dtype"):
        memory = getattr(place, "view", None)  # of a buffer
    try:
        view = memoryview(place if memory is None else memory)
    except TypeError as problem:
        raise UsageError(
            f"a {type(place).__name__} cannot be copied from or to buffer `{name}`",
            hint="give an array, a pool or a buffer",
        ) from problem
    with view:
        if write and (view.readonly or not view.c_contiguous):
            why = "it is read-only" if view.readonly else "it is not contiguous"
            raise UsageError(f"buffer `{name}` cannot be copied there: {why}", hint="give an array made by numpy.empty")
        with view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes()) as data:
            yield data


def check_type(place: Any, dtype: str, name: str) -> None:
    """Refuse an array of another type; bytes have none."""
    given, wanted = getattr(place, "dtype", None), _numpy(dtype)
    if given is not None and str(given) != wanted:
        raise UsageError(f"buffer `{name}` is {dtype}, the array is {given}", hint=f"give an array of {wanted}")


def empty(dtype: str, shape: Sequence[int], nbytes: int) -> Array:
    """A new array for a tensor; for elements of less than a byte, of its packed bytes."""
    import numpy as np

    row = datatypes.parse(dtype)
    packed = row is None or row.bits % 8 != 0
    return np.empty((nbytes,) if packed else tuple(shape), np.dtype(_numpy(dtype)))


def _numpy(dtype: str) -> str:
    row = datatypes.parse(dtype)
    return str(row.numpy) if row is not None and row.numpy and row.bits % 8 == 0 else "uint8"
