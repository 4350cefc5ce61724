"""In the child: let a package register its kernels with us instead of the runtime, and write down what it says."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from udogen.errors import RunFailed
from udogen.qnn import abi, qhpi
from udogen.runtime.failures import OlderRecords
from udogen.runtime.op.commands import ReadRecords, RecordsRead
from udogen.runtime.worker import shim

REGISTER, INIT = "qhpi_register_ops_v1", "qhpi_init"


def record(command: ReadRecords, on_phase: Callable[[str], None]) -> RecordsRead:
    """What `qhpi_init` of a package registers."""
    ffi = abi.ffi()
    packages, ops = list[str](), list[Any]()
    problems: list[Exception] = []

    def register(count: int, rows: Any, package: Any) -> int:
        try:
            name = ffi.string(package).decode("utf-8", "replace") if package else ""
            if qhpi.is_older(count, rows):
                raise OlderRecords(
                    "the kernel records of the op package are those of an SDK before 2.47: they have no reserved "
                    "pointers at their ends, and runtimes from 2.47 on read beyond them, and may crash",
                    hint="build the package again with the QHPI headers of SDK 2.47 or later, or with udogen's own",
                )
            ops.extend(qhpi.ops_of(count, rows))
            packages.append(name)
        except (ValueError, RuntimeError, MemoryError, OlderRecords) as problem:
            problems.append(problem)
        return 0

    callback = ffi.callback("QHPI_StatusCode(uint32_t, QHPI_OpInfo_v1 *, char const *)", register)
    stand_in = _load_shim(shim.library(REGISTER, [name for name in command.answered if name != REGISTER]))
    ctypes.c_void_p.in_dll(stand_in, shim.SLOT).value = int(ffi.cast("uintptr_t", callback))
    on_phase("load the op package")
    try:
        package = ctypes.CDLL(str(command.library), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as problem:
        raise RunFailed(f"the op package cannot be loaded: {problem}") from problem
    on_phase(f"register its kernels ({INIT})")
    init = getattr(package, INIT)
    init.restype = ctypes.c_char_p
    returned = init() or b""
    for each in problems:
        if isinstance(each, OlderRecords):
            raise each
    if problems:
        raise RunFailed(
            f"the kernel records of the op package cannot be read: {problems[0]}",
            hint="records are laid out as in SDK 2.47 and later; build the package with newer headers",
        )
    return RecordsRead(returned.decode("utf-8", "replace"), next(iter(packages), ""), tuple(ops))


def _load_shim(image: bytes) -> ctypes.CDLL:
    """Load a library that is in memory, so that what is loaded later finds its symbols."""
    file = os.memfd_create("udogen-shim")
    try:
        os.write(file, image)
        return ctypes.CDLL(f"/proc/self/fd/{file}", mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    finally:
        os.close(file)
