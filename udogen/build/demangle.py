"""Demangled names of C++."""

from __future__ import annotations

import ctypes
from functools import cache


def demangled(name: str) -> str:
    """A demangled C++ name, by this machine's C++ library; the name itself if that fails."""
    library = _cxx_library() if name.startswith("_Z") else None
    if library is None:
        return name
    status = ctypes.c_int(-1)
    text = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value or not text:
        return name
    try:
        return ctypes.string_at(text).decode("utf-8", "replace")
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))


@cache
def _cxx_library() -> ctypes.CDLL | None:
    for name in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.__cxa_demangle.restype = ctypes.c_void_p
        return library
    return None
