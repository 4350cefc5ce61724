"""In the worker: the floating-point state of the thread, which an op must leave as it was.

A rounding mode, flush to zero or an exception mask that one op sets makes the results of later ops wrong.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from udogen.errors import RunFailed

# fenv_t of x86-64: the environment of the x87 with its control word first, then MXCSR; (offset, bits, what they are).
_CONTROLS = {
    "x86_64": (
        (28, 0x6000, "the rounding mode"),
        (28, 0x8000, "flush to zero"),
        (28, 0x0040, "denormals are zero"),
        (28, 0x1F80, "the exception masks"),
        (0, 0x0C00, "the rounding mode of the x87"),
        (0, 0x0300, "the precision of the x87"),
        (0, 0x003F, "the exception masks of the x87"),
    ),
    "aarch64": (
        (0, 0xC00000, "the rounding mode"),
        (0, 0x1000000, "flush to zero"),
        (0, 0x9F00, "the exception masks"),
    ),
}.get(platform.machine(), ())
_SIZE = 64  # bytes; more than any fenv_t

_libm = ctypes.CDLL("libm.so.6")


@contextmanager
def kept_by(subject: str) -> Iterator[None]:
    """Restore the state afterwards; raise if `subject`, which is executed meanwhile, changed it."""
    before, after = (ctypes.create_string_buffer(_SIZE) for _ in range(2))
    _libm.fegetenv(before)
    try:
        yield
    finally:
        _libm.fegetenv(after)
        _libm.fesetenv(before)
    changed = [
        name
        for at, bits, name in _CONTROLS
        if (struct.unpack_from("<I", before, at)[0] ^ struct.unpack_from("<I", after, at)[0]) & bits
    ]
    if changed:
        raise RunFailed(
            f"{subject} changed the floating-point state of its thread and left it so: {', '.join(changed)}",
            hint="restore what fesetround, _mm_setcsr and the like change before the kernel returns: other ops in this "
            "process would compute other results (udogen has restored it)",
        )
