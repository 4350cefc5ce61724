"""In the child: memory that holds a certain byte before it is written, the poison.

Memory from the heap is filled by the C library itself.  Outputs of the CPU backend need more: libQnnCpu clears them at
every execution, after the client has had its last chance to fill them.  So a library of ours stands between the two,
whose table is the package's, but for how ops are made, executed and freed.
"""

from __future__ import annotations

import ctypes
import os
from math import prod
from pathlib import Path
from typing import Any

from udogen.qnn import abi
from udogen.qnn.backend import Backend, Log
from udogen.qnn.interface import Interface
from udogen.runtime.worker import shim
from udogen.runtime.worker.op_package import LoadedPackage

_REPLACED = {
    "init": "QnnOpPackage_InitFn_t",
    "terminate": "QnnOpPackage_TerminateFn_t",
    "createOpImpl": "QnnOpPackage_CreateOpImplFn_t",
    "freeOpImpl": "QnnOpPackage_FreeOpImplFn_t",
    "logInitialize": "QnnOpPackage_LogInitializeFn_t",
    "logTerminate": "QnnOpPackage_LogTerminateFn_t",
}


_M_PERTURB = -6  # of mallopt: fills what is allocated with the complement of a byte, what is freed with the byte


def poison_heap(byte: int) -> None:
    """From now on memory of the heap holds this byte when it is allocated; 0 lets it be as it is.

    That reaches scratch memory, and the outputs of runtimes that copy them, such as libQnnHtp.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # another C library than glibc has none
        set_option(_M_PERTURB, byte ^ 0xFF if byte else 0)


class PoisonedPackage:
    """A package of the CPU interface, registered with a backend of its own beside the one it is registered with."""

    def __init__(self, package: LoadedPackage, interface: Interface, log: Log, provider: str) -> None:
        self.byte = 0
        self._package = package
        self._made: dict[int, tuple[Any, Any, Any]] = {}  # what the package made: function, its argument, the node
        ffi = abi.ffi()
        # The package is initialized, and logs: neither is to be done twice, nor undone by us.
        done = {"init": lambda _: 0, "terminate": lambda: 0, "logInitialize": lambda _callback, _level: 0}
        functions = {**done, "logTerminate": lambda: 0, "createOpImpl": self._create, "freeOpImpl": self._free}
        self._table = {name: ffi.callback(_REPLACED[name], function) for name, function in functions.items()}
        self._execute_callback = ffi.callback("QnnCpuOpPackage_OpImplFn_t", self._execute)
        self._provide_callback = ffi.callback("QnnOpPackage_InterfaceProvider_t", self._provide)
        self.backend = Backend(interface, log)
        try:
            self._register(provider)
        except BaseException:
            self.backend.close()
            raise

    def _register(self, provider: str) -> None:
        file = os.memfd_create("udogen-poison")
        try:
            os.write(file, shim.library(provider, []))
            path = Path(f"/proc/self/fd/{file}")
            self._shim = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
            address = int(abi.ffi().cast("uintptr_t", self._provide_callback))
            ctypes.c_void_p.in_dll(self._shim, shim.SLOT).value = address
            self.backend.register(path, provider)
        finally:
            os.close(file)

    def close(self) -> None:
        """Free its backend."""
        self.backend.close()

    def _provide(self, interface: Any) -> int:
        self._package.copy_interface(interface)
        for name, callback in self._table.items():
            setattr(interface.v1_4, name, callback)
        return 0

    def _create(self, infrastructure: Any, node: Any, impl: Any) -> int:
        code = int(self._package.v1_4("createOpImpl")(infrastructure, node, impl))
        if code:
            return code
        ffi = abi.ffi()
        real = ffi.cast("QnnCpuOpPackage_OpImpl_t *", impl[0])
        ours = ffi.new("QnnCpuOpPackage_OpImpl_t *", [self._execute_callback, ffi.NULL])
        number = int(ffi.cast("uintptr_t", ours))
        ours.userData = ours
        self._made[number] = (real.opImplFn, real.userData, (ffi.cast("QnnCpuOpPackage_Node_t *", node), ours))
        impl[0] = ffi.cast("QnnOpPackage_OpImpl_t", ours)
        return 0

    def _execute(self, made: Any) -> int:
        ffi = abi.ffi()
        function, argument, (node, _) = self._made[int(ffi.cast("uintptr_t", made))]
        for index in range(node.numOfOutputs):
            tensor = node.outputs[index]
            if tensor != ffi.NULL and tensor.data != ffi.NULL:
                size = prod(tensor.currentDimensions[axis] for axis in range(tensor.rank)) * _bytes_of(tensor.dataType)
                ffi.memmove(tensor.data, bytes([self.byte]) * size, size)
        return int(function(argument))

    def _free(self, impl: Any) -> int:
        ffi = abi.ffi()
        copy = ffi.cast("QnnCpuOpPackage_OpImpl_t *", impl)  # of ours, somewhere on the runtime's stack
        function, argument, _ = self._made.pop(int(ffi.cast("uintptr_t", copy.userData)))
        real = ffi.new("QnnCpuOpPackage_OpImpl_t *", [function, argument])
        return int(self._package.v1_4("freeOpImpl")(ffi.cast("QnnOpPackage_OpImpl_t", real)))


def _bytes_of(data_type: int) -> int:
    """Bytes of an element; the API writes their bits as decimal digits into the last byte of a type (0x0232)."""
    return int(f"{data_type & 0xFF:x}") // 8
