"""What a QNN backend makes and must free: each once, in the right order, at the end of its `with` block."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, TypeVar

from udogen.errors import RunFailed
from udogen.qnn import abi
from udogen.qnn.interface import Interface

_C = TypeVar("_C", bound="Closing")


class Closing:
    """A context manager whose end is `close()`; where two things go wrong, the first is the one to show."""

    def close(self) -> None:
        """Give back what it has."""
        raise NotImplementedError

    def __enter__(self: _C) -> _C:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except RunFailed:
            if error is None:
                raise


class Handle(Closing):
    """Something the backend made and must free; freed once, at the end of `with` or by `close`.

    A process that was forked from the one that made it never frees it: it is the parent's.
    """

    def __init__(self, interface: Interface, raw: Any, free: str, *free_args: Any) -> None:
        self.interface, self.raw = interface, raw
        self._free, self._free_args = free, free_args
        self._process = os.getpid()

    def close(self) -> None:
        """Free it now."""
        raw, self.raw = self.raw, None
        if raw is not None and self._process == os.getpid():
            self.interface.call(self._free, raw, *self._free_args)


def raw_of(handle: Handle | None) -> Any:
    """What the API calls it; NULL where there is none."""
    return abi.ffi().NULL if handle is None else handle.raw
