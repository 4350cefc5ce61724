"""In the child: let a package register its kernels with us instead of the runtime, and write down what it says."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from udogen.errors import RunFailed
from udogen.qnn import abi, qhpi
from udogen.runtime.op.records import OlderRecords
from udogen.runtime.wire import Message
from udogen.runtime.worker import shim

REGISTER, INIT = "qhpi_register_ops_v1", "qhpi_init"


def record(order: Message, on_phase: Callable[[str], None]) -> dict[str, Any]:
    """What `qhpi_init` of a package registers."""
    ffi = abi.ffi()
    calls: list[dict[str, Any]] = []
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
            calls.append({"package": name, "ops": qhpi.ops_of(count, rows)})
        except (ValueError, RuntimeError, MemoryError, OlderRecords) as problem:
            problems.append(problem)
        return 0

    callback = ffi.callback("QHPI_StatusCode(uint32_t, QHPI_OpInfo_v1 *, char const *)", register)
    stand_in = _load_shim(shim.library(REGISTER, [name for name in order["answered"] if name != REGISTER]))
    ctypes.c_void_p.in_dll(stand_in, shim.SLOT).value = int(ffi.cast("uintptr_t", callback))
    on_phase("load the op package")
    try:
        package = ctypes.CDLL(order["library"], mode=os.RTLD_NOW | os.RTLD_LOCAL)
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
    return {"returned": returned.decode("utf-8", "replace"), "calls": calls}


def _load_shim(image: bytes) -> ctypes.CDLL:
    """Load a library that is in memory, so that what is loaded later finds its symbols."""
    file = os.memfd_create("udogen-shim")
    try:
        os.write(file, image)
        return ctypes.CDLL(f"/proc/self/fd/{file}", mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    finally:
        os.close(file)
