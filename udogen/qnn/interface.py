"""The function table of a QNN backend library: loading, calls, errors."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib.util
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from udogen.error_tables import describe
from udogen.errors import RunFailed
from udogen.qnn import abi
from udogen.qnn.tensors import OpConfig

_NAMES = ("stdout", "stderr")
_IOLBF = 1
_PIPE_SIZE = 1 << 20  # bytes; further output is dropped, as nothing reads the pipe during the call


@contextmanager
def captured_prints(sink: Callable[[str], None] | None) -> Iterator[None]:
    """Pass the lines that C code prints inside to `sink`, at the end."""
    printed = _printed(os.getpid()) if sink else None
    if sink is None or printed is None:
        yield
        return
    printed.begin()
    try:
        yield
    finally:
        for line in printed.end():
            sink(line)


@cache  # never freed: a C++ stream of the library may refer to it
def _printed(_process: int) -> _Printed | None:
    libc = ctypes.CDLL(None)
    return _Printed(libc) if hasattr(libc, "gnu_get_libc_version") else None


class _Printed:
    """A pipe with a C stream for writing; calls may overlap."""

    def __init__(self, libc: Any) -> None:
        self._read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        libc.fdopen.restype, libc.fdopen.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_char_p)
        self._stream = ctypes.c_void_p(libc.fdopen(write, b"w"))
        libc.setvbuf(self._stream, None, _IOLBF, ctypes.c_size_t(0))
        self._flush = libc.fflush
        self._variables = [ctypes.c_void_p.in_dll(libc, name) for name in _NAMES]
        self._before: list[int | None] = []
        self._inside, self._lock = 0, threading.Lock()

    def begin(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = [variable.value for variable in self._variables]
                for variable in self._variables:
                    variable.value = self._stream.value

    def end(self) -> list[str]:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                for variable, value in zip(self._variables, self._before, strict=True):
                    if variable.value == self._stream.value:  # otherwise it was changed meanwhile
                        variable.value = value
            self._flush(self._stream)
            return self._lines()

    def _lines(self) -> list[str]:
        content = bytearray()
        try:
            while chunk := os.read(self._read, 1 << 16):
                content += chunk
        except BlockingIOError:
            pass
        return [line for line in content.decode("utf-8", "replace").splitlines() if line.strip()]


ERROR, WARN, INFO, VERBOSE, DEBUG = 1, 2, 3, 4, 5  # QnnLog_Level_t
LogSink = Callable[[int, str], None]
_PRINT = ("graphFinalize", "contextFinalize")  # in libQnnHtp of a PC
_KEPT_LINES = 60


class QnnError(RunFailed):
    """A call of the QNN API returned an error code; `logged` has the lines logged meanwhile, worst first.

    `except QnnError as error: print(error.code, *error.logged)`
    """

    def __init__(self, function: str, code: int, logged: Sequence[str] = ()) -> None:
        self.function, self.row = function, describe(code)
        reason = logged[0] if logged else self.row.meaning
        super().__init__(
            f"{function} failed with {code} ({self.row.name}): {reason}", hint=self.row.remedy, details=logged[1:]
        )
        self.code, self.logged = code, tuple(logged)


def check(function: str, code: int) -> None:
    """Raise `QnnError` unless the call succeeded."""
    if code:
        raise QnnError(function, code)


class Interface:
    """The function table of one backend library; a loaded library stays loaded."""

    def __init__(self, path: Path, provider: Any) -> None:
        text = abi.ffi().string
        core, own = provider.apiVersion.coreApiVersion, provider.apiVersion.backendApiVersion
        self.path = path
        self.name: str = text(provider.providerName).decode()
        self.backend_id = int(provider.backendId)
        self.api_version = version_text(core)
        self.backend_version = version_text(own)
        self._table = provider.v2
        self.printed: Callable[[str], None] | None = None  # gets the lines that some calls print to stdout
        self._lines: deque[tuple[float, int, str]] = deque(maxlen=_KEPT_LINES)  # when, level, text

    @classmethod
    def load(cls, path: Path) -> Interface:
        """Open a backend library and take its provider of API version 2."""
        ffi = abi.ffi()
        providers = providers_of(path, "QnnInterface")
        for provider in providers:
            if provider.apiVersion.coreApiVersion.major == ffi.integer_const("QNN_API_VERSION_MAJOR"):
                return cls(path, provider)
        versions = ", ".join(version_text(provider.apiVersion.coreApiVersion) for provider in providers) or "none"
        raise RunFailed(
            f"{path.name} has no QNN interface of version 2 (it has: {versions})",
            hint="use a runtime of a QNN SDK from 2.0 on",
        )

    def call(self, function: str, *args: Any) -> None:
        """Call a function of the table, and raise `QnnError` if it returns an error."""
        found = getattr(self._table, function)
        began = time.monotonic()
        if self.printed is None or function not in _PRINT:
            code = found(*args)
        else:
            with captured_prints(self.printed):
                code = found(*args)
        if code:
            raise self.error(function, code, began)

    def record_line(self, level: int, text: str) -> None:
        """Record an error or a warning that was logged, for the error of a call that fails meanwhile."""
        self._lines.append((time.monotonic(), level, text))

    def error(self, function: str, code: int, began: float) -> QnnError:
        """The error of a call that began at a time (time.monotonic), with the lines logged since."""
        return QnnError(function, code, [text for _, text in self.lines(began)])

    def lines(self, began: float) -> list[tuple[int, str]]:
        """Errors, then warnings, logged since a time."""
        return sorted((level, text) for when, level, text in tuple(self._lines) if when >= began)

    def function(self, name: str) -> Callable[..., int]:
        """A function of the table, for timed calls."""
        found: Callable[..., int] = getattr(self._table, name)
        return found

    def call_with_op(self, function: str, handle: Any, op: OpConfig) -> None:
        """Call one of the two functions that take an op config by value."""
        entry = abi.ffi().cast("udogen_TakesOpConfig", getattr(self._table, function))
        began = time.monotonic()
        if code := entry(handle, op.by_value()):
            raise self.error(function, code, began)

    def make(self, function: str, *args: Any) -> Any:
        """Call a function whose last argument receives a new handle, and return the handle."""
        handle = abi.ffi().new("void **")
        self.call(function, *args, handle)
        return handle[0]

    def build_id(self) -> str:
        """The SDK release that the library was built from."""
        text = abi.ffi().new("char const **")
        self.call("backendGetBuildId", text)
        return str(abi.ffi().string(text[0]).decode())

    def supports(self, key: str) -> bool:
        """Whether the backend has a capability, by the name of its key (QNN_PROPERTY_...)."""
        return int(self._table.propertyHasCapability(abi.ffi().integer_const(key))) == 0


def providers_of(path: Path, interface: str) -> list[Any]:
    """The providers of a library, from its `<interface>_getProviders`."""
    ffi, library, name = abi.ffi(), open_library(path), f"{interface}_getProviders"
    providers, count = ffi.new(f"{interface}_t const ***"), ffi.new("uint32_t *")
    try:
        function = getattr(library, name)
    except (AttributeError, ffi.error) as problem:
        raise RunFailed(
            f"{path} is not a QNN runtime library: it has no {name}",
            hint="give the path of libQnnCpu.so or libQnnHtp.so, not that of an op package",
        ) from problem
    check(name, function(providers, count))
    return [providers[0][index] for index in range(count[0])]


opened: list[Path] = []  # loaded libraries, in the loader's search order


def loaded_before_onnxruntime() -> str:
    """A library of QNN that is in this process without ONNX Runtime's."""
    try:
        maps = Path("/proc/self/maps").read_text("utf-8", "replace")
    except OSError:
        return ""
    match = re.search(r"/(libQnn(?:Cpu|Gpu|Htp|System)\.so)$", maps, re.MULTILINE)
    return match[1] if match and "/onnxruntime_pybind11_state" not in maps else ""


def _load_onnxruntime() -> None:
    """Load ONNX Runtime's own library, if it is installed; importing it later finds it loaded.

    Loaded after Qualcomm's libraries it would find `__gxx_personality_v0` in their libc++abi, beside libstdc++'s
    `__cxa_throw`, and end the process with its first exception.
    """
    if opened or "onnxruntime" in sys.modules or loaded_before_onnxruntime():
        return
    spec = importlib.util.find_spec("onnxruntime")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for library in Path(folder).glob("capi/onnxruntime_pybind11_state*.so"):
            with contextlib.suppress(OSError):
                ctypes.PyDLL(str(library), mode=os.RTLD_NOW | os.RTLD_LOCAL)


@cache  # cffi closes a library, and its functions, with the last reference
def open_library(path: Path) -> Any:
    """Load a runtime library globally, so that op packages find its symbols."""
    ffi = abi.ffi()
    _load_onnxruntime()
    try:
        library = ffi.dlopen(str(path.resolve()), ffi.RTLD_NOW | ffi.RTLD_GLOBAL)
    except OSError as problem:
        raise RunFailed(
            f"the runtime library {path} cannot be loaded: {problem}",
            hint="give one that is built for this machine, with the libraries that it needs in the same folder",
        ) from problem
    opened.append(path.resolve())
    return library


def log_callback(sink: LogSink) -> Any:
    """A C function for QnnLog_create that formats a line and hands it to `sink(level, text)`."""
    ffi = abi.ffi()
    libc = ffi.dlopen(None)
    size = 4096

    def receive(fmt: Any, level: int, timestamp: int, args: Any) -> None:
        line = ffi.new("char[]", size)  # one for each line: they come from several threads
        libc.vsnprintf(line, size, fmt, args)
        sink(int(level), ffi.string(line).decode("utf-8", "replace").rstrip())

    return ffi.callback("void(char const *, QnnLog_Level_t, uint64_t, void *)", receive)


def version_text(version: Any) -> str:
    """A `Qnn_Version_t` as text."""
    return f"{version.major}.{version.minor}.{version.patch}"


def text_of(pointer: Any) -> str:
    """A C string; empty for NULL."""
    return abi.ffi().string(pointer).decode("utf-8", "replace") if pointer else ""
