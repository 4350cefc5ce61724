"""In the worker: poison in memory before it is written, and guards around tensors of an op.

The C library itself can fill memory of the heap.  The CPU backend needs more: libQnnCpu clears outputs at each
execution, and passes copies of inputs and parameters to ops.  Therefore a stub package is registered that replaces the
functions which make, execute and free ops; while an op executes, its tensors are in memory of udogen.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from udogen.qnn import abi
from udogen.qnn.tensors import QnnTensor
from udogen.runtime.contexts.runtime import Runtime
from udogen.runtime.failures import Stray
from udogen.runtime.op.calls import OpCall
from udogen.runtime.worker.loaded_package import LoadedPackage, loaded_stub
from udogen.runtime.worker.op_graph import GuardedBuffer, plain, same_bytes, shared

_REPLACED = {
    "init": "QnnOpPackage_InitFn_t",
    "terminate": "QnnOpPackage_TerminateFn_t",
    "createOpImpl": "QnnOpPackage_CreateOpImplFn_t",
    "freeOpImpl": "QnnOpPackage_FreeOpImplFn_t",
    "logInitialize": "QnnOpPackage_LogInitializeFn_t",
    "logTerminate": "QnnOpPackage_LogTerminateFn_t",
}


_TENSOR_PARAM = 1
_M_PERTURB = -6  # of mallopt: fills allocated memory with the complement of a byte, freed memory with the byte


def poison_heap(byte: int) -> None:
    """Fill new memory of the heap with this byte; 0 disables it.

    This includes scratch memory, and outputs of runtimes that copy them, such as libQnnHtp.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # only glibc has it
        set_option(_M_PERTURB, byte ^ 0xFF if byte else 0)


@dataclass
class _GuardedNode:
    """The package's implementation of a node, and the memory of the node's tensors while it executes."""

    function: Any
    argument: Any
    node: Any
    replacement: Any
    params: list[tuple[Any, GuardedBuffer]]  # tensors among the parameters
    buffers: dict[tuple[str, int], GuardedBuffer]
    executions: int = 0


class GuardedPackage:
    """A package of the CPU interface, registered a second time, in a separate runtime."""

    def __init__(self, package: LoadedPackage, runtime: Runtime, provider: str) -> None:
        self._byte = 0
        self._names: dict[str, list[str]] = {"input": [], "output": [], "parameter": []}
        self._buffers: list[GuardedBuffer] = []
        self._own: set[int] = set()  # addresses of outputs that already have guards
        self._blocks: list[Any] = []  # the data of inputs, as the client sent it
        self._package = package
        self._made: dict[int, _GuardedNode] = {}
        ffi = abi.ffi()
        # The package is already initialized and logging: this must not be repeated or undone.
        done = {"init": lambda _: 0, "terminate": lambda: 0, "logInitialize": lambda _callback, _level: 0}
        functions = {**done, "logTerminate": lambda: 0, "createOpImpl": self._create, "freeOpImpl": self._free}
        self._table = {name: ffi.callback(_REPLACED[name], function) for name, function in functions.items()}
        self._execute_callback = ffi.callback("QnnCpuOpPackage_OpImplFn_t", self._execute)
        self._provide_callback = ffi.callback("QnnOpPackage_InterfaceProvider_t", self._provide)
        self.runtime = runtime
        try:
            self._register(provider)
        except BaseException:
            runtime.close()
            raise

    def _register(self, provider: str) -> None:
        with loaded_stub(provider, [], self._provide_callback, mode=os.RTLD_LOCAL) as path:
            self.runtime.register_file(path, provider, loaded=self._package)

    def expect(self, call: OpCall) -> None:
        """Set the tensors of the next graph, and the byte that fills its outputs.

        libQnnCpu leaves the counts of a node unset if they are 0.  The inputs and parameters of a node of a restored
        context are unknown: only its outputs are checked.
        """
        self._byte, self._buffers, self._own = call.poison, [], set()
        self._blocks = [] if call.context is not None else [arg.data for arg in call.inputs]
        arrays = [param.name for param in call.params if isinstance(param, QnnTensor)]
        self._names = {
            "input": [] if call.context is not None else [arg.name for arg in call.inputs],
            "output": [arg.name for arg in call.outputs],
            "parameter": [] if call.context is not None else arrays,
        }
        self._params = len(call.params)

    def leave(self, buffers: Iterable[GuardedBuffer]) -> None:
        """Exclude outputs that have guards already; libQnnCpu passes them to ops unchanged."""
        self._own = {buffer.address for buffer in buffers}

    def strays(self) -> list[Stray]:
        """Accesses of ops to memory that is not theirs, since `expect`; releases the call's data."""
        strays = [stray for buffer in self._buffers for stray in buffer.strays()]
        self._buffers, self._blocks, self._own = [], [], set()
        return strays

    def _provide(self, interface: Any) -> int:
        self._package.copy_interface(interface)
        for name, callback in self._table.items():
            setattr(interface.v1_4, name, callback)
        return 0

    def _create(self, infrastructure: Any, node: Any, impl: Any) -> int:
        ffi = abi.ffi()
        given = ffi.cast("QnnCpuOpPackage_Node_t *", node)
        params = self._param_buffers(given)
        with _moved(params):  # an op may keep the address
            code = int(self._package.v1_4("createOpImpl")(infrastructure, node, impl))
        if code:
            return code
        real = ffi.cast("QnnCpuOpPackage_OpImpl_t *", impl[0])
        replacement = ffi.new("QnnCpuOpPackage_OpImpl_t *", [self._execute_callback, ffi.NULL])
        number = int(ffi.cast("uintptr_t", replacement))
        replacement.userData = replacement
        self._made[number] = _GuardedNode(real.opImplFn, real.userData, given, replacement, params, {})
        impl[0] = ffi.cast("QnnOpPackage_OpImpl_t", replacement)
        return 0

    def _param_buffers(self, node: Any) -> list[tuple[Any, GuardedBuffer]]:
        buffers: list[tuple[Any, GuardedBuffer]] = []
        names = self._names["parameter"]
        for index in range(min(node.numOfParams, self._params) if names else 0):
            param = node.params[index]
            if param.type == _TENSOR_PARAM and param.tensorParam.data != abi.ffi().NULL:
                number = len(buffers)
                buffer = self._buffer(param.tensorParam, "parameter", names[number], number)
                buffer.content = bytes(buffer.data)
                buffer.open(later=False)
                buffers.append((param.tensorParam, buffer))
        return buffers

    def _execute(self, argument: Any) -> int:
        ffi = abi.ffi()
        op = self._made[int(ffi.cast("uintptr_t", argument))]
        node, later = op.node, op.executions > 0
        tensors = list(op.params)
        for role, all_tensors, count in (
            ("input", node.inputs, node.numOfInputs),
            ("output", node.outputs, node.numOfOutputs),
        ):
            names = self._names[role]
            for index in range(min(count, len(names)) if names else 0):
                tensor = all_tensors[index]
                if tensor == ffi.NULL or tensor.data == ffi.NULL:
                    continue
                if int(ffi.cast("uintptr_t", tensor.data)) in self._own:  # guarded and checked elsewhere
                    if self._byte:
                        ctypes.memset(int(ffi.cast("uintptr_t", tensor.data)), self._byte, _size_of(tensor))
                    continue
                buffer = op.buffers.get((role, index))
                if buffer is None or buffer.data.nbytes != _size_of(tensor):
                    buffer = op.buffers[role, index] = self._buffer(tensor, role, names[index], index)
                self._fill(buffer, tensor)
                tensors.append((tensor, buffer))
        for _, buffer in tensors:
            buffer.open(later=later)
        with _moved(tensors):
            code = int(op.function(op.argument))
        op.executions += 1
        for tensor, buffer in tensors:
            buffer.compare()
            if buffer.role == "output":
                ffi.memmove(tensor.data, buffer.data, buffer.data.nbytes)
        return code

    def _buffer(self, tensor: Any, role: str, name: str, number: int) -> GuardedBuffer:
        content = abi.ffi().buffer(tensor.data, _size_of(tensor))
        block = self._blocks[number] if role == "input" and number < len(self._blocks) else None
        # If the runtime copied the client's data, the op can use the original: a large input is not copied again.
        # If the runtime did not copy it, a copy is needed for comparison.
        if block is not None and tensor.data == abi.ffi().from_buffer(block.data):
            block = None
        if block is not None and block.data.nbytes == len(content) and same_bytes(block.data, content):
            buffer = shared(name, role, block, number)
        else:
            buffer = plain(name, role, content, number)
        self._buffers.append(buffer)
        return buffer

    def _fill(self, buffer: GuardedBuffer, tensor: Any) -> None:
        content = abi.ffi().buffer(tensor.data, buffer.data.nbytes)
        if buffer.role == "output" and self._byte:
            buffer.data[:] = bytes([self._byte]) * buffer.data.nbytes
        elif buffer.changed or not buffer.block:
            buffer.data[:] = content
        buffer.content = (
            memoryview(content) if buffer.role == "input" else None
        )  # the runtime's copy, unknown to the op

    def _free(self, impl: Any) -> int:
        ffi = abi.ffi()
        copy = ffi.cast("QnnCpuOpPackage_OpImpl_t *", impl)  # of the replacement, on the runtime's stack
        op = self._made.pop(int(ffi.cast("uintptr_t", copy.userData)))
        real = ffi.new("QnnCpuOpPackage_OpImpl_t *", [op.function, op.argument])
        return int(self._package.v1_4("freeOpImpl")(ffi.cast("QnnOpPackage_OpImpl_t", real)))


@contextmanager
def _moved(tensors: list[tuple[Any, GuardedBuffer]]) -> Iterator[None]:
    """Point tensors to buffers while the package is called; then restore the runtime's memory."""
    kept = [tensor.data for tensor, _ in tensors]
    for tensor, buffer in tensors:
        tensor.data = abi.ffi().cast("void *", buffer.address)
    try:
        yield
    finally:
        for (tensor, _), data in zip(tensors, kept, strict=True):
            tensor.data = data


def _size_of(tensor: Any) -> int:
    # The API writes the bits of an element as decimal digits into the last byte of a type (0x0232).
    bits = int(f"{tensor.dataType & 0xFF:x}")
    return int(prod(tensor.currentDimensions[axis] for axis in range(tensor.rank))) * bits // 8
