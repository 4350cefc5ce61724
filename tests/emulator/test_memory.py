"""Registered memory: bound by handle next to plain buffers, shared by several tensors, and every misuse of it."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from composing import register

from udogen.qnn import abi
from udogen.qnn.handles import DMA_BUF, BackendHandle, ContextHandle, GraphHandle, MemoryHandle, SharedRange
from udogen.qnn.tensors import APP_READ, APP_WRITE, QnnTensor
from udogen.runtime import OpConfig, QnnError
from udogen.runtime.built import Built

FFI = abi.ffi()
NULL = FFI.NULL
SHAPE = (2, 3)
X = np.arange(6, dtype=np.float32).reshape(SHAPE) - 3
RELU = np.maximum(X, 0)


class Buffer:
    """A memfd, mapped here like in a client."""

    def __init__(self, size: int = 4096) -> None:
        self.fd, self.size = os.memfd_create("udogen-test"), size
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)

    def put(self, array: np.ndarray, offset: int = 0) -> None:
        self.map[offset : offset + array.nbytes] = array.tobytes()

    def get(self, offset: int = 0) -> np.ndarray:
        return np.frombuffer(self.map[offset : offset + 24], np.float32).reshape(SHAPE)

    @property
    def address(self) -> int:
        return int(np.frombuffer(self.map, np.uint8).ctypes.data)

    def close(self) -> None:
        os.close(self.fd)


@pytest.fixture
def buffers() -> Iterator[Callable[..., Buffer]]:
    made: list[Buffer] = []

    def make(size: int = 4096) -> Buffer:
        made.append(Buffer(size))
        return made[-1]

    yield make
    for each in made:
        try:
            each.close()
        except OSError:
            pass  # the test has closed it


def relu(
    context: ContextHandle, name: str = "relu", dtype: str = "FLOAT_32", package: str = ""
) -> tuple[GraphHandle, QnnTensor, QnnTensor]:
    graph = context.graph(name)
    x = graph.add_tensor(QnnTensor("x", dtype=dtype, shape=SHAPE, role=APP_WRITE))
    y = graph.add_tensor(QnnTensor("y", dtype=dtype, shape=SHAPE, role=APP_READ))
    op = "LeakyRelu" if package else "Relu"
    graph.add_node(OpConfig("n", package=package or "qti.aisw", op_type=op, inputs=[x], outputs=[y]))
    graph.finalize()
    return graph, x, y


def code_of(call: Callable[[], Any]) -> int:
    with pytest.raises(QnnError) as refused:
        call()
    return refused.value.code


@pytest.mark.parametrize("kind", ["ION", "DMA_BUF", "SHARED"])
@pytest.mark.parametrize("own", [False, True], ids=["built-in", "custom"])
def test_tensors_lie_in_registered_memory(
    cpu: BackendHandle, cpu_leaky: Built, buffers: Callable[..., Buffer], kind: str, own: bool
) -> None:
    register(cpu, cpu_leaky)
    with cpu.context() as context:
        graph, x, y = relu(context, package=cpu_leaky.package if own else "")
        into, out = buffers(), buffers()
        if kind == "SHARED":
            out, places = into, [{"shared": SharedRange(0, 4096)}, {"shared": SharedRange(1024, 4096)}]
        else:
            places = [{"kind": kind, "address": each.address} for each in (into, out)]
        with (
            MemoryHandle(context, into.fd, dtype="FLOAT_32", shape=SHAPE, **places[0]) as first,
            MemoryHandle(context, out.fd, dtype="FLOAT_32", shape=SHAPE, **places[1]) as second,
        ):
            x.bind_memory(first.handle)
            y.bind_memory(second.handle)
            for factor in (1, -2):
                into.put(factor * X)
                graph.execute([x], [y])
                expected = np.where(factor * X > 0, factor * X, (0.01 if own else 0) * factor * X)
                assert np.allclose(out.get(1024 if kind == "SHARED" else 0), expected)
            room = bytearray(24)  # and a plain buffer next to it
            y.bind(room)
            graph.execute([x], [y])
            assert np.allclose(np.frombuffer(room, np.float32).reshape(SHAPE), expected)


def test_memory_of_a_closed_descriptor_stays(cpu: BackendHandle, buffers: Callable[..., Buffer]) -> None:
    with cpu.context() as context:
        graph, x, y = relu(context)
        buffer = buffers()
        with MemoryHandle(context, buffer.fd, dtype="FLOAT_32", shape=SHAPE) as memory:
            buffer.put(X)
            number = buffer.fd
            buffer.close()
            other = buffers()  # the kernel reuses the number: it is other memory
            assert other.fd == number
            with MemoryHandle(context, other.fd, dtype="FLOAT_32", shape=SHAPE) as second:
                x.bind_memory(memory.handle)
                y.bind_memory(second.handle)
                graph.execute([x], [y])
                assert np.array_equal(other.get(), RELU)


def test_the_capabilities_say_so(cpu: BackendHandle) -> None:
    ask = cpu.interface._table.propertyHasCapability
    for name in ("MEMORY_SUPPORT_MEM_TYPE_ION", "MEMORY_SUPPORT_MEM_TYPE_DMA_BUF", "MEMORY_SUPPORT_MEM_TYPE_CUSTOM",
                 "TENSOR_SUPPORT_MEMHANDLE_TYPE"):  # fmt: skip
        assert ask(FFI.integer_const(f"QNN_PROPERTY_{name}")) == 0


# --- misuse ---------------------------------------------------------------------------------------------------------

Ion = dict[str, Any]
WRONG: dict[str, tuple[Ion, int, str]] = {
    "a descriptor that is none": ({"fd": -1}, 8003, "file descriptor -1 is invalid"),
    "a descriptor that is closed": ({"fd": 9999}, 8003, "file descriptor 9999 is invalid"),
    "a descriptor of no memory": ({"fd": os.open("/dev/null", os.O_RDWR)}, 8003, "has 0 bytes, 24 were to be mapped"),
    "a shape beyond the memory": ({"shape": (1025,)}, 8003, "has 4096 bytes, 4100 were to be mapped"),
    "a shape beyond all memory": ({"shape": (0xFFFFFFFF, 0xFFFFFFFF)}, 8004, "memory cannot have this shape"),
    "a dimension of 0": ({"shape": (2, 0)}, 8004, "dimension 1 is 0"),
    "no shape": ({"shape": ()}, 8000, "the shape and the data type"),
    "a DMA buffer without an address": ({"kind": DMA_BUF}, 8000, "the address at which its client has mapped it"),
    "a shared buffer without a size": ({"shared": SharedRange(0, 0)}, 8000, "with its whole size"),
    "an offset beyond the end": ({"shared": SharedRange(4090, 4096)}, 8004, "24 bytes at offset 4090 does not fit"),
    "an offset that wraps around": ({"shared": SharedRange((1 << 64) - 8, 4096)}, 8004, "does not fit"),
    "a size beyond the memory": ({"shared": SharedRange(0, 8192)}, 8003, "has 4096 bytes, 8192 were to be mapped"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_registered_is_reported(
    cpu: BackendHandle, log_lines: list[str], buffers: Callable[..., Buffer], name: str
) -> None:
    wrong, code, sentence = WRONG[name]
    given: Ion = {"fd": buffers().fd, "dtype": "FLOAT_32", "shape": SHAPE, **wrong}
    with cpu.context() as context:
        assert code_of(lambda: MemoryHandle(context, given.pop("fd"), **given)) == code
        assert any(sentence in line for line in log_lines), log_lines


def test_double_registration(cpu: BackendHandle, buffers: Callable[..., Buffer]) -> None:
    a = buffers()
    ion: Ion = {"dtype": "FLOAT_32", "shape": SHAPE}
    with cpu.context() as context, cpu.context() as other:
        with MemoryHandle(context, a.fd, **ion):
            assert code_of(lambda: MemoryHandle(context, a.fd, **ion)) == 8002
            assert (
                code_of(lambda: MemoryHandle(context, a.fd, shared=SharedRange(64, 4096), **ion)) == 8002
            )  # of another kind
            with MemoryHandle(other, a.fd, **ion):  # each context has separate registrations
                pass
        with (
            MemoryHandle(context, a.fd, shared=SharedRange(0, 4096), **ion),
            MemoryHandle(context, a.fd, shared=SharedRange(64, 4096), **ion),
        ):
            assert code_of(lambda: MemoryHandle(context, a.fd, shared=SharedRange(64, 4096), **ion)) == 8002
        MemoryHandle(context, a.fd, **ion).close()  # registration is possible again


def test_wrong_binding_is_refused(cpu: BackendHandle, log_lines: list[str], buffers: Callable[..., Buffer]) -> None:
    with cpu.context() as context, cpu.context() as other:
        graph, x, y = relu(context)
        y.bind(bytearray(24))
        good: Ion = {"dtype": "FLOAT_32", "shape": SHAPE}
        freed = MemoryHandle(context, buffers().fd, **good)
        handle = freed.handle
        freed.close()
        rows = [
            (handle, "which is not registered"),
            (FFI.cast("void *", 0x4242), "which is not registered"),
            (NULL, "which is not registered"),
            (context.raw, "which is not registered"),
            (MemoryHandle(other, buffers().fd, **good).handle, "with another context"),
            (MemoryHandle(context, buffers().fd, dtype="INT_32", shape=SHAPE).handle, "with another data type"),
            (MemoryHandle(context, buffers().fd, dtype="FLOAT_32", shape=(5,)).handle, "with a smaller shape"),
        ]
        for raw, sentence in rows:
            log_lines.clear()
            x.bind_memory(raw)
            assert code_of(lambda: graph.execute([x], [y])) == 6004
            assert any(sentence in line for line in log_lines), log_lines
        x.struct.v1.memType = 2  # RETRIEVE_RAW
        assert code_of(lambda: graph.execute([x], [y])) == 6004
        x.bind_memory(MemoryHandle(context, buffers().fd, **good).handle)
        graph.execute([x], [y])


def test_deregistration(cpu: BackendHandle, buffers: Callable[..., Buffer]) -> None:
    table = cpu.interface._table
    with cpu.context() as context:
        made = [MemoryHandle(context, buffers().fd, dtype="FLOAT_32", shape=SHAPE) for _ in range(2)]
        array = FFI.new("Qnn_MemHandle_t[]", [made[0].handle, FFI.cast("void *", 77), made[1].handle])
        assert table.memDeRegister(NULL, 1) == 8000
        assert table.memDeRegister(array, 0) == 8000
        assert table.memDeRegister(array, 3) == 8001  # the two valid ones are released anyway
        assert [table.memDeRegister(array + at, 1) for at in (0, 2)] == [8001, 8001]


def test_all_of_a_call_or_nothing(cpu: BackendHandle, buffers: Callable[..., Buffer]) -> None:
    table, dims = cpu.interface._table, FFI.new("uint32_t[]", [2, 3])
    what = FFI.new("Qnn_MemDescriptor_t[2]")
    for row, fd in zip(what, (buffers().fd, -1), strict=True):
        row.memShape.numDim, row.memShape.dimSize, row.dataType, row.memType = 2, dims, 0x232, 1
        row.ionInfo.fd = fd
    handles = FFI.new("Qnn_MemHandle_t[2]", [FFI.cast("void *", 1)] * 2)
    with cpu.context() as context:
        assert table.memRegister(context.raw, what, 2, handles) == 8003
        assert list(handles) == [NULL, NULL]
        what[1].memType = 9
        assert table.memRegister(context.raw, what, 2, handles) == 8005
        what[1].memType, what[1].dataType = 1, 0x7FFFFFFF
        assert table.memRegister(context.raw, what, 2, handles) == 8000
        what[1].memType, what[1].dataType, what[1].customInfo = 2, 0x232, NULL
        assert table.memRegister(context.raw, what, 2, handles) == 8000
        custom = FFI.new("QnnMemHtp_Descriptor_t *", {"type": 2, "size": 64})  # a weights buffer: only HTP has it
        what[1].customInfo = custom
        assert table.memRegister(context.raw, what, 2, handles) == 8005
        what[1] = what[0]
        assert table.memRegister(context.raw, what, 2, handles) == 8002
        what[0].memShape.shapeConfig = config = FFI.new("char[]", b"DATA_FORMAT_UBWC_NV12")
        assert config and table.memRegister(context.raw, what, 1, handles) == 8004
        what[0].memShape.shapeConfig = NULL
        assert table.memRegister(context.raw, what, 1, handles) == 0  # the refused calls have registered nothing
        assert table.memRegister(FFI.cast("void *", 5), what, 1, handles) == 8001
        assert table.memRegister(context.raw, NULL, 1, handles) == 8000
        assert table.memRegister(context.raw, what, 1, NULL) == 8000


def test_a_freed_context_lets_go_of_its_memory(cpu: BackendHandle, buffers: Callable[..., Buffer]) -> None:
    table = cpu.interface._table
    context = cpu.context()
    memory = MemoryHandle(context, buffers().fd, dtype="FLOAT_32", shape=SHAPE)
    handle = FFI.new("Qnn_MemHandle_t[1]", [memory.handle])
    context.close()
    assert table.memDeRegister(handle, 1) == 8001


def test_gpu_takes_it_too(backend: BackendHandle, buffers: Callable[..., Buffer]) -> None:
    with backend.context() as context:
        graph, x, y = relu(context)
        buffer = buffers()
        with MemoryHandle(context, buffer.fd, dtype="FLOAT_32", shape=SHAPE) as memory:
            buffer.put(X)
            x.bind_memory(memory.handle)
            room = bytearray(24)
            y.bind(room)
            graph.execute([x], [y])
            assert np.array_equal(np.frombuffer(room, np.float32).reshape(SHAPE), RELU)
