"""An op package loaded in addition to the runtime, to call functions that the runtime does not expose."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from udogen.errors import RunFailed
from udogen.qnn import abi
from udogen.qnn.interface import LogSink, QnnError, log_callback, text_of


class LoadedPackage:
    """An op package whose functions are called directly; the runtime uses the same loaded library."""

    def __init__(self, library: str, provider: str) -> None:
        ffi = abi.ffi()
        try:
            self._library = ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_LOCAL)
            entry = ctypes.cast(getattr(self._library, provider), ctypes.c_void_p).value
        except (OSError, AttributeError) as problem:
            text = str(problem)
            if "undefined symbol: qhpi_" in text:
                what = "is built for the HTP backend, and this runtime is of another"
                hint = "give --backend htp, or the library of this backend"
            elif "undefined symbol" in text:
                what = "has an undefined symbol"
                hint = "link the library that has it, or define it; `nm -DC --undefined-only` lists them"
            else:
                what, hint = "cannot be loaded", "check that the libraries it is linked with are found, too"
            raise RunFailed(f"the op package {what}: {text}", hint=hint) from problem
        self._callbacks: list[Any] = []
        self._interface = ffi.new("QnnOpPackage_Interface_t *")
        code = ffi.cast("QnnOpPackage_InterfaceProvider_t", entry)(self._interface)
        if code:
            raise QnnError(provider, code)

    def log_to(self, sink: Callable[[int, str], None], level: int) -> None:
        """Pass a log callback to the package, which may refuse it."""
        self._callbacks.append(log_callback(sink))  # keep earlier ones: one may be running
        function = self.v1_4("logInitialize")
        if function:
            function(self._callbacks[-1], level)

    def info(self) -> tuple[str, list[str]]:
        """The package's name and ops; both are empty if it does not report them."""
        ffi = abi.ffi()
        result = ffi.new("QnnOpPackage_Info_t const **")
        function = self.v1_4("getInfo")
        if not function or function(result) or not result[0]:
            return "", []
        info = result[0]
        count = info.numOperations if info.operationNames else 0
        names = [info.operationNames[index] for index in range(count)]
        return text_of(info.packageName), [text_of(each) for each in names if each]

    def copy_interface(self, into: Any) -> None:
        """Copy the table of functions that its provider returns."""
        into[0] = self._interface[0]

    def exported(self, name: str, result: Any) -> Any:
        """An exported function without parameters, or None."""
        function = getattr(self._library, name, None)
        if function is not None:
            function.restype = result
        return function

    def v1_4(self, name: str) -> Any:
        """A function of its table; None for another version of the table."""
        # Version 2.0 has another table; runtimes refuse it with a better message.
        if self._interface.interfaceVersion.major != 1:
            return None
        return getattr(self._interface.v1_4, name)


# By file: the package, the sinks for its log (of which each receives it), and the levels that were set.
_logged: dict[tuple[Any, ...], tuple[LoadedPackage, list[LogSink], list[int]]] = {}


def listen(library: Path, provider: str, sink: LogSink, *, level: int) -> tuple[LoadedPackage, Callable[[], None]]:
    """Send the log of a package to `sink`, if its runtime does not forward it; also returns the function to stop it."""
    about = library.stat()
    key = (library, provider, about.st_dev, about.st_ino, about.st_mtime_ns)
    if key not in _logged:
        _logged[key] = LoadedPackage(str(library), provider), [], []
    package, sinks, levels = _logged[key]
    sinks.append(sink)
    if level > max(levels, default=0):
        levels.append(level)
        package.log_to(partial(_to_all, sinks), level)
    return package, partial(sinks.remove, sink)


def _to_all(sinks: Sequence[LogSink], level: int, text: str) -> None:
    """Hand a line to every sink: a package has one log in a process, for all clients."""
    for sink in tuple(sinks) or (_to_stderr,):
        sink(level, text)


def _to_stderr(_level: int, text: str) -> None:
    print(text, file=sys.stderr)
