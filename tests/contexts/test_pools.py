"""Memory pools and constants as in NNAPI.  Android's memory is tested with stand-ins for its libraries."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.contexts.conftest import lines_of, refused, stand_in
from tests.contexts.stepping import array, binary, open_runtime
from tests.making import need_runtime
from udogen import RunFailed, ToolMissing, UsageError
from udogen.qnn.tensors import APP_READ, APP_WRITE, QnnTensor
from udogen.runtime import Buffer, Constants, OpConfig
from udogen.runtime.buffers import memory
from udogen.runtime.buffers.constants import ConstantPlacement
from udogen.runtime.buffers.memory import KINDS

PAGE = 4096


@contextmanager
def file(size: int, flags: int = os.O_RDWR) -> Iterator[int]:
    fd = os.memfd_create("given")
    os.ftruncate(fd, size)
    again = os.open(f"/proc/self/fd/{fd}", flags)
    os.close(fd)
    try:
        yield again
    finally:
        os.close(again)


# --- kinds of pools -----------------------------------------------------------------------------------------------


def test_the_kinds() -> None:
    names = ["client", "memfd", "rpcmem", "ashmem", "file", "hardware_buffer_blob", "hardware_buffer"]
    assert list(KINDS) == names
    assert [name for name, row in KINDS.items() if not row.holds_constants] == ["hardware_buffer"]


def test_ashmem_is_a_memfd_where_there_is_none(tidy: None) -> None:
    with Buffer("ashmem", 5000, name="kv") as pool:
        assert (pool.kind, pool.size) == ("ashmem", 5000)
        pool.view[4999] = 1
        assert os.pread(pool.descriptor(), 1, 4999) == b"\1"


def test_a_file_is_mapped_from_any_offset(tidy: None) -> None:
    with file(3 * PAGE) as fd:
        os.pwrite(fd, b"before|inside|after", PAGE + 93)
        with Buffer("file", 6, fd=fd, offset=PAGE + 100) as pool:
            assert bytes(pool.view) == b"inside"
            assert pool.fd_offset == PAGE + 100 and pool.descriptor() != fd
            pool.view[:] = b"INSIDE"
            assert np.frombuffer(pool.view, np.uint8).__array_interface__["data"][0] == pool.address
        assert os.pread(fd, 19, PAGE + 93) == b"before|INSIDE|after"


def test_a_descriptor_without_a_size_is_mapped_to_its_end(tidy: None) -> None:
    """As of a DMA buffer that another program made; this machine has memfd in its place."""
    with file(3 * PAGE) as fd, Buffer("file", fd=fd, offset=PAGE) as buffer:
        assert buffer.size == 2 * PAGE
        buffer.view[-1] = 7
        assert os.pread(fd, 1, 3 * PAGE - 1) == b"\7"


def test_a_file_may_be_for_reading_alone(tidy: None) -> None:
    with file(PAGE, os.O_RDONLY) as fd, Buffer("file", PAGE, fd=fd) as pool:
        assert pool.view.readonly
    with file(PAGE, os.O_WRONLY) as fd, refused(f"buffer `w`: the file of descriptor {fd} is not open for reading"):
        Buffer("file", PAGE, fd=fd, name="w")


def test_the_file_may_be_closed_when_the_pool_is_open(tidy: None) -> None:
    with file(PAGE) as fd:
        os.pwrite(fd, b"x", 0)
        pool = Buffer("file", PAGE, fd=fd)
    with pool:
        assert pool.view[0] == ord("x") and os.pread(pool.descriptor(), 1, 0) == b"x"


@pytest.mark.parametrize(
    ("offset", "size", "message"),
    [
        (0, PAGE + 1, "bytes 0 to 4097 are not in the file"),
        (PAGE, 1, "bytes 4096 to 4097 are not in the file"),
        (-1, 1, "bytes -1 to 0 are not in the file"),
        (2**62, 2**62, f"bytes {2**62} to {2**63} are not in the file"),
    ],
)
def test_parts_that_are_not_in_the_file(tidy: None, offset: int, size: int, message: str) -> None:
    with file(PAGE) as fd, refused(f"buffer `p`: {message} of descriptor {fd}, which has 4096"):
        Buffer("file", size, fd=fd, offset=offset, name="p")


def test_descriptors_that_lead_nowhere_or_cannot_be_mapped(tidy: None) -> None:
    with refused("buffer `p`: 987 is not an open file descriptor"):
        Buffer("file", 1, fd=987, name="p")
    here, there = os.pipe()
    with refused(f"buffer `p`: descriptor {here} cannot be mapped"):
        Buffer("file", 1, fd=here, name="p")
    os.close(here)
    os.close(there)


def test_a_file_that_was_made_shorter(tidy: None) -> None:
    with file(2 * PAGE) as fd, Buffer("file", PAGE, fd=fd, offset=PAGE, name="p") as pool:
        os.ftruncate(fd, PAGE)
        with pytest.raises(RunFailed) as caught:
            pool.descriptor()
    assert caught.value.message == (
        "the file of buffer `p` has 4096 bytes now, less than the buffer, which ends at 8192"
    )


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("ion", {}, "there is no memory of kind `ion`"),
        ("ashmem", {}, "buffer `buffer` cannot have 0 bytes"),
        ("ashmem", {"size": -5}, "buffer `buffer` cannot have -5 bytes"),
        ("ashmem", {"size": 5, "fd": 0}, "memory of kind `ashmem` is made of its size"),
        ("client", {"size": 5, "offset": 8}, "memory of kind `client` is made of its size"),
        ("file", {"size": 5}, "memory of kind `file` is made of its fd (size offset may be given)"),
        ("hardware_buffer", {"size": 5}, "memory of kind `hardware_buffer` is made of its image"),
    ],
)
def test_pools_that_cannot_be(kind: str, given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Buffer(kind, **given)  # type: ignore[arg-type]
    assert caught.value.message == message
    if kind == "ion":
        assert caught.value.hint == f"one of: shared, {', '.join(KINDS)}"


@pytest.mark.parametrize("kind", ["hardware_buffer_blob", "hardware_buffer"])
def test_a_pc_has_no_hardware_buffers(kind: str) -> None:
    with pytest.raises(ToolMissing) as caught:
        Buffer(kind, **({"size": 64} if kind.endswith("blob") else {"image": (4, 4, 1, 4)}))  # type: ignore[arg-type]
    assert caught.value.message.startswith("libnativewindow.so cannot be used: ")
    assert caught.value.hint == ("it is part of Android 8 and later; elsewhere take memory of kind ashmem or file")


def test_a_pool_is_handed_out_until_it_is_full() -> None:
    with Buffer("ashmem", 256, name="p") as pool:
        assert [pool.take(10), pool.take(10, alignment=8), pool.take(64)] == [0, 16, 64]
        assert pool.free == 128
        with refused("buffer `p` is full: 129 bytes are wanted, 128 of 256 are left"):
            pool.take(129)
        assert pool.take(128) == 128


# --- Android, with stand-ins ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("android")
    return {
        "system": stand_in(folder, "android.c", "libsystem.so"),
        "app": stand_in(folder, "android.c", "libapp.so", "-DAPP"),
    }


@pytest.fixture(params=["system", "app"])
def device(
    request: pytest.FixtureRequest, libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[ctypes.CDLL]:
    """Android as seen by a system component, which has descriptors of hardware buffers, and as seen by an app."""
    path = str(libraries[request.param])
    monkeypatch.setattr(memory, "ASHMEM", path)
    monkeypatch.setattr(memory, "HARDWARE_BUFFERS", path)
    opened = ctypes.CDLL(path)
    opened.stand_in_log.restype = ctypes.c_char_p
    opened.stand_in_forget()
    yield opened
    opened.stand_in_refuse(0)
    opened.stand_in_lock(1)


def test_ashmem_of_android(tidy: None, device: ctypes.CDLL) -> None:
    with Buffer("ashmem", 5000, name="kv") as pool:
        assert pool.kind == "ashmem"
        pool.view[4999] = 7
        assert os.pread(pool.descriptor(), 1, 4999) == b"\7"
    assert lines_of(device) == ["ASharedMemory_create(kv, 5000)"]
    device.stand_in_refuse(1)
    with refused("ASharedMemory_create cannot allocate 5000 bytes (it returned -12)"):
        Buffer("ashmem", 5000)


def test_a_blob_is_locked_while_it_is_open(tidy: None, device: ctypes.CDLL) -> None:
    with Buffer("hardware_buffer_blob", 5000, name="b") as pool:
        pool.view[4999] = 7
        if hasattr(device, "AHardwareBuffer_getNativeHandle"):
            assert os.pread(pool.descriptor(), 1, 4999) == b"\7"
        else:
            assert pool.fd is None
    assert lines_of(device) == [
        "allocate(5000 x 1 x 1, format 0x21, usage 0x1000033)",
        "lock(0x33, -1, all)",
        "unlock",
        "release",
    ]


def test_a_buffer_of_pixels_has_rows_as_long_as_the_device_needs(tidy: None, device: ctypes.CDLL) -> None:
    with Buffer("hardware_buffer", image=(10, 3, 1, 4)) as pool:
        assert pool.size == 16 * 3 * 4


def test_a_hardware_buffer_of_another_library(tidy: None, device: ctypes.CDLL) -> None:
    """The frame of a camera, which its maker releases first."""
    frame = ctypes.c_void_p()
    wanted = (ctypes.c_uint32 * 10)(10, 3, 1, 1)
    assert device.AHardwareBuffer_allocate(wanted, ctypes.byref(frame)) == 0
    device.stand_in_forget()
    with Buffer("hardware_buffer", image=(frame.value or 0, 4)) as buffer:
        device.AHardwareBuffer_release(frame)
        assert buffer.size == 16 * 3 * 4
        buffer.view[buffer.size - 1] = 7
    assert lines_of(device) == ["acquire", "lock(0x33, -1, all)", "release", "unlock", "release"]


def test_hardware_buffers_that_there_are_not(tidy: None, device: ctypes.CDLL) -> None:
    with refused("no AHardwareBuffer is 4294967296 x 1: its sizes have 32 bits"):
        Buffer("hardware_buffer_blob", 2**32)
    device.stand_in_lock(0)
    with refused("AHardwareBuffer_lock failed (it returned -22)"):
        Buffer("hardware_buffer_blob", 64)
    assert lines_of(device)[-1] == "release"
    device.stand_in_refuse(1)
    with refused("AHardwareBuffer_allocate refuses 64 x 1 of format 0x21 (it returned -12)"):
        Buffer("hardware_buffer_blob", 64)


def test_constants_do_not_lie_in_buffers_of_pixels(tidy: None, device: ctypes.CDLL) -> None:
    with (
        Buffer("hardware_buffer", image=(16, 16, 1, 4)) as pool,
        refused(
            "constants cannot be in memory of kind `hardware_buffer`: it is for inputs and outputs of executions",
            error=UsageError,
            hint="one of: client, memfd, rpcmem, ashmem, file, hardware_buffer_blob",
        ),
    ):
        Constants(pool)
    with Buffer("hardware_buffer_blob", 4096) as pool, Constants(pool, threshold=0) as constants:
        constants.tensor("w", dtype="FLOAT_32", shape=(4,), data=np.ones(4, np.float32))
        assert constants.rows == [ConstantPlacement("w", "CONSTANT_REFERENCE", 16, 0)]


# --- constants ------------------------------------------------------------------------------------------------------


def test_small_values_are_copied_and_large_ones_referred_to(tidy: None) -> None:
    small, large = np.arange(32, dtype=np.float32), np.arange(33, dtype=np.float32)
    with Buffer("ashmem", PAGE) as pool, Constants(pool) as constants:
        copied = constants.tensor("s", dtype="FLOAT_32", shape=(32,), data=small)
        referred = constants.tensor("l", dtype="FLOAT_32", shape=(33,), data=large)
        assert constants.rows == [
            ConstantPlacement("s", "CONSTANT_COPY", 128, 0),
            ConstantPlacement("l", "CONSTANT_REFERENCE", 132, 0),
        ]
        small[0] = 9  # the copy is unaffected
        assert data_of(copied)[0] == 0 and data_of(referred)[32] == 32
        np.frombuffer(pool.view, np.float32)[0] = 5  # and the reference sees the change
        assert data_of(referred)[0] == 5 and large[0] == 0
        assert address_of(referred) == pool.address
        with refused("buffer `buffer` cannot be closed: it is in use by constant `l`"):
            pool.close()
        del copied, referred


def test_values_that_lie_in_the_pool_are_not_moved(tidy: None) -> None:
    with Buffer("ashmem", PAGE) as pool, Constants(pool, threshold=16) as constants:
        offset = pool.take(64)
        inside = np.frombuffer(pool.view, np.float32)[16 : 16 + 8]
        inside[:] = range(8)
        used = pool.free
        tensor = constants.refer("w", dtype="FLOAT_32", shape=(8,), offset=64)
        other = constants.refer("v", dtype="FLOAT_32", shape=(2, 8), offset=offset)
        assert pool.free == used
        assert [row.offset for row in constants.rows] == [64, 0]
        assert address_of(tensor) == pool.address + 64 and address_of(other) == pool.address
        del inside, tensor, other


def test_values_in_any_order_of_memory() -> None:
    given = np.arange(100, dtype=np.float32).reshape(10, 10)
    with Buffer("ashmem", PAGE) as pool, Constants(pool) as constants:
        tensor = constants.tensor("w", dtype="FLOAT_32", shape=(10, 10), data=given.T)
        np.testing.assert_array_equal(data_of(tensor), given.T.ravel())


def test_constants_that_cannot_be(tidy: None) -> None:
    given = np.ones(64, np.float32)
    with Buffer("ashmem", 300, name="p") as pool, Constants(pool) as constants, Constants() as alone:
        for call, message in (
            (
                lambda: constants.tensor("w", dtype="FLOAT_32", shape=(63,), data=given),
                "constant `w` (FLOAT_32 [63]) has 252 bytes, 256 were given",
            ),
            (
                lambda: alone.tensor("w", dtype="FLOAT_32", shape=(64,), data=given),
                "constant `w` has 256 bytes: more than 128 are not copied",
            ),
            (
                lambda: alone.refer("w", dtype="FLOAT_32", shape=(64,), offset=0),
                "constant `w` refers to a buffer, but none was given",
            ),
            (
                lambda: constants.refer("w", dtype="FLOAT_32", shape=(64,), offset=64),
                "constant `w` would be bytes 64 to 320 of buffer `p`, which has 300",
            ),
            (
                lambda: constants.refer("w", dtype="FLOAT_32", shape=(64,), offset=-4),
                "constant `w` would be bytes -4 to 252 of buffer `p`, which has 300",
            ),
            (
                lambda: constants.tensor("w", dtype="FLOAT_32", shape=(64,), data=[1.0] * 64),
                "the values of constant `w` are not a buffer: memoryview: a bytes-like object is required, not 'list'",
            ),
        ):
            with refused(message, error=(RunFailed, UsageError)):
                call()
        constants.tensor("fits", dtype="FLOAT_32", shape=(64,), data=given)
        with refused("buffer `p` is full: 256 bytes are wanted, 44 of 300 are left"):
            constants.tensor("more", dtype="FLOAT_32", shape=(64,), data=given)
        assert not alone.rows and [row.name for row in constants.rows] == ["fits"]


def test_the_real_cpu_library_reads_constants_where_they_lie() -> None:
    """Two Adds in libQnnCpu.so: one constant copied, one passed by reference."""
    need_runtime("cpu")
    shape, x = (16, 16), np.arange(256, dtype=np.float32).reshape(16, 16)
    row, large = np.linspace(0, 1, 16, dtype=np.float32), np.linspace(5, 6, 256, dtype=np.float32).reshape(shape)
    with (
        Buffer("ashmem", PAGE) as pool,
        Constants(pool) as constants,
        open_runtime("cpu", "real") as runtime,
        runtime.new_context() as context,
    ):
        graph = context.new_graph("constants")
        given, middle, made = (
            graph.add_tensor(QnnTensor(name, dtype="FLOAT_32", shape=shape, role=role))
            for name, role in (("x", APP_WRITE), ("m", "NATIVE"), ("y", APP_READ))
        )
        small = graph.add_tensor(constants.tensor("small", dtype="FLOAT_32", shape=(16,), data=row))
        big = graph.add_tensor(constants.tensor("big", dtype="FLOAT_32", shape=shape, data=large))
        for name, inputs, output in (("a", [given, small], middle), ("b", [middle, big], made)):
            node = OpConfig(name, package="qti.aisw", op_type="ElementWiseAdd", inputs=inputs, outputs=[output])
            graph.add_node(node)
        result = context.finalize_graph(graph)(x=x)["y"]
    np.testing.assert_allclose(result, x + row + large)
    assert [row.lifetime for row in constants.rows] == ["CONSTANT_COPY", "CONSTANT_REFERENCE"]


def data_of(tensor: QnnTensor) -> np.ndarray:
    buffer = tensor.struct.v1.clientBuf
    return np.frombuffer((ctypes.c_ubyte * buffer.dataSize).from_address(address_of(tensor)), np.float32)


def address_of(tensor: QnnTensor) -> int:
    from udogen.qnn import abi

    return int(abi.ffi().cast("uintptr_t", tensor.struct.v1.clientBuf.data))


def test_a_part_is_client_memory_where_the_runtime_registers_none() -> None:
    """As stated in docs/memory-domains.md."""
    need_runtime("cpu")
    with (
        open_runtime("cpu", "real") as runtime,
        runtime.restore(binary("cpu", "real")) as context,
        Buffer("ashmem", 4096) as pool,
    ):
        graph = context.graph("step")
        x = graph.binding("x").info
        with pytest.raises(RunFailed, match="registers no shared memory on this machine") as caught:
            graph.bind({"x": pool.part(0, x.nbytes)})
        assert "buffer.part(offset, size, how=" in caught.value.hint
        graph.bind({"x": pool.part(0, x.nbytes, how="RAW")})
        graph.array("x")[:] = 3
        assert (graph(state=array(1))["next"] == 4).all() and graph.copied == 0
        graph.unbind()
