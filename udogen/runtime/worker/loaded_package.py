"""An op package loaded in addition to the runtime, to call functions that the runtime does not expose.

And a tiny shared library that replaces the HTP runtime while a package registers its kernels.  It is written byte by
byte, so no compiler is needed: one function jumps to a function of the worker, all others return 0.  The layout is that
of the ELF gABI: headers, symbols and code in one segment, writable data in the other.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
        self.path, self.provider = library, provider
        try:
            self._library = ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_LOCAL)
            entry = ctypes.cast(getattr(self._library, provider), ctypes.c_void_p).value
        except (OSError, AttributeError) as problem:
            text = str(problem)
            if "undefined symbol: qhpi_" in text:
                what = "needs a function of the HTP backend that this runtime lacks"
                hint = "give --backend htp, or a runtime of a newer SDK"
            elif "_ieee" in text and "undefined symbol: __gnu_" in text:  # conversions of halves, of Clang 14
                what = "has an undefined symbol"
                hint = "install Clang's own library (Debian: libclang-rt-14-dev) and build again, or build with zig"
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
        return text_of(info.packageName), [text_of(name) for name in names if name]

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


STUB_SLOT = "udogen_stub_slot"  # holds the address to which the recorded function jumps
STUB_MACHINE = "x86_64"  # of the code below

_EM_X86_64 = 62
_JUMP = b"\xff\x25"  # jmp *offset(%rip)
_RETURN_0 = b"\x31\xc0\xc3"  # xor %eax,%eax; ret
_PAGE = 0x1000
_HEADER, _PROGRAM, _SYMBOL, _TAG = 64, 56, 24, 16
_FUNCTION, _OBJECT = 0x12, 0x11  # global
_HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME = 4, 5, 6, 10, 11, 14


def stub_library(recorded: str, returning_0: Sequence[str]) -> bytes:
    """A shared library that exports `recorded`, a jump to the address in STUB_SLOT, and functions that return 0."""
    names = [STUB_SLOT, recorded, *returning_0]
    strings = b"\0udogen-stub\0"
    starts = []
    for name in names:
        starts.append(len(strings))
        strings += name.encode() + b"\0"
    count = 1 + len(names)
    symbols = _HEADER + 4 * _PROGRAM
    hashes = symbols + count * _SYMBOL
    texts = hashes + 4 * (3 + count)
    code = _up(texts + len(strings), 16)
    end = code + 16 + len(_RETURN_0)
    written = _up(end, _PAGE)
    tags = ((_HASH, hashes), (_STRTAB, texts), (_SYMTAB, symbols), (_STRSZ, len(strings)), (_SYMENT, _SYMBOL))
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in (*tags, (_SONAME, 1), (0, 0)))
    slot = written + len(dynamic)
    total = slot + 8

    image = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, _EM_X86_64, 1, 0, _HEADER, 0, 0,
                        _HEADER, _PROGRAM, 4, 64, 0, 0)  # fmt: skip
    for kind, flags, start, size, align in (
        (1, 5, 0, end, _PAGE),
        (1, 6, written, total - written, _PAGE),
        (2, 6, written, len(dynamic), 8),
        (0x6474E551, 6, 0, 0, 16),  # PT_GNU_STACK: without it the loader makes the stack executable
    ):
        image += struct.pack("<IIQQQQQQ", kind, flags, start, start, start, size, size, align)
    image += bytes(_SYMBOL)
    for index, start in enumerate(starts):
        kind, address = (_OBJECT, slot) if index == 0 else (_FUNCTION, code if index == 1 else code + 16)
        image += struct.pack("<IBBHQQ", start, kind, 0, 1, address, 8)
    # One bucket, and a chain through all symbols: the loader compares names, so no hash is needed.
    image += struct.pack(f"<{3 + count}I", 1, count, 1, 0, *range(2, count), 0)
    image = (image + strings).ljust(code, b"\0")
    image += (_JUMP + struct.pack("<i", slot - (code + 6))).ljust(16, b"\0") + _RETURN_0
    return image.ljust(written, b"\0") + dynamic + bytes(8)


@contextmanager
def loaded_stub(recorded: str, returning_0: Sequence[str], callback: Any, *, mode: int) -> Iterator[Path]:
    """Load such a library inside the `with` block, and yield its path; `recorded` calls a callback of cffi."""
    file = os.memfd_create("udogen-stub")
    try:
        os.write(file, stub_library(recorded, returning_0))
        path = Path(f"/proc/self/fd/{file}")
        slot = ctypes.c_void_p.in_dll(ctypes.CDLL(str(path), mode=os.RTLD_NOW | mode), STUB_SLOT)
        slot.value = int(abi.ffi().cast("uintptr_t", callback))
        yield path
    finally:
        os.close(file)


def _up(value: int, to: int) -> int:
    return (value + to - 1) // to * to
