"""A tiny shared library that replaces the HTP runtime while a package registers its kernels.

It is written byte by byte, so no compiler is needed: one function jumps to a function of the worker, all others return
0.  The layout is that of the ELF gABI: headers, symbols and code in one segment, writable data in the other.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from udogen.qnn import abi

SLOT = "udogen_stub_slot"  # holds the address to which the recorded function jumps
MACHINE = "x86_64"  # of the code below

_EM_X86_64 = 62
_JUMP = b"\xff\x25"  # jmp *offset(%rip)
_RETURN_0 = b"\x31\xc0\xc3"  # xor %eax,%eax; ret
_PAGE = 0x1000
_HEADER, _PROGRAM, _SYMBOL, _TAG = 64, 56, 24, 16
_FUNCTION, _OBJECT = 0x12, 0x11  # global
_HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME = 4, 5, 6, 10, 11, 14


def library(recorded: str, returning_0: Sequence[str]) -> bytes:
    """A shared library that exports `recorded`, which jumps to the address in SLOT, and functions that return 0."""
    names = [SLOT, recorded, *returning_0]
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
def loaded(recorded: str, returning_0: Sequence[str], callback: Any, *, mode: int) -> Iterator[Path]:
    """Load such a library inside the `with` block, and yield its path; `recorded` calls a callback of cffi."""
    file = os.memfd_create("udogen-stub")
    try:
        os.write(file, library(recorded, returning_0))
        path = Path(f"/proc/self/fd/{file}")
        slot = ctypes.c_void_p.in_dll(ctypes.CDLL(str(path), mode=os.RTLD_NOW | mode), SLOT)
        slot.value = int(abi.ffi().cast("uintptr_t", callback))
        yield path
    finally:
        os.close(file)


def _up(value: int, to: int) -> int:
    return (value + to - 1) // to * to
