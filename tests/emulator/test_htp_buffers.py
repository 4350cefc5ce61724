"""Shared buffers of HTP in the emulator: each rule of Qualcomm's tutorial is enforced."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from udogen.qnn import abi
from udogen.qnn.handles import BackendHandle, ContextHandle, LogHandle, MemoryHandle, SharedRange
from udogen.qnn.interface import Interface
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, STATIC, QnnTensor
from udogen.runtime import OpConfig, QnnError, Scalar, find_runtime
from udogen.runtime.built import Built

FFI = abi.ffi()
X = np.arange(48, dtype=np.float32).reshape(1, 2, 3, 8)
ROW = np.arange(8, dtype=np.float32).reshape(1, 1, 1, 8)
PAGE = 4096
NOT_SUPPORTED, NOT_PERMITTED = 1000, 1005
ALREADY, INVALID_HANDLE, MAPPING, INVALID_SHAPE = 8002, 8001, 8003, 8004
NO_GROUP = {"firstGroupHandle": FFI.NULL, "maxSpillFillBuffer": 0}
WEIGHTS, SPILL = "WEIGHTS_BUFFER", "SHARED_SPILLFILL_BUFFER"


@pytest.fixture(scope="module")
def interface() -> Interface:
    return Interface.load(find_runtime("htp", runtime="emulator").path)


@dataclass
class World:
    """The backend with a package, a context binary of two ops with weights, and the log."""

    backend: BackendHandle
    log_lines: list[str]
    binary: bytes
    kept: list[Any] = field(default_factory=list)

    def context(self, *options: tuple[str, str, Any], deferred: bool = True, binary: bytes = b"") -> ContextHandle:
        """Return a context of the binary, with these custom options: (name, field of the union, value)."""
        rows = []
        if deferred:
            rows.append(FFI.new("QnnContext_Config_t *"))
            rows[-1].option = FFI.integer_const("QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT")
            rows[-1].isGraphInitDeferred = 1
        for name, where, value in options:
            custom = FFI.new("QnnHtpContext_CustomConfig_t *")
            custom.option = FFI.integer_const(f"QNN_HTP_CONTEXT_CONFIG_OPTION_{name}")
            setattr(custom, where, value)
            rows.append(FFI.new("QnnContext_Config_t *"))
            rows[-1].option, rows[-1].customConfig = FFI.integer_const("QNN_CONTEXT_CONFIG_OPTION_CUSTOM"), custom
            self.kept.append(custom)
        return self.configured(rows, binary or self.binary)

    def configured(self, rows: list[Any], binary: bytes) -> ContextHandle:
        configs = FFI.new("QnnContext_Config_t const *[]", [*rows, FFI.NULL])
        held = FFI.from_buffer(binary)
        made = FFI.new("void **")
        self.kept += [rows, configs, held]
        interface = self.backend.interface
        arguments = (self.backend.raw, FFI.NULL, configs, held, len(binary), made, FFI.NULL)
        interface.call("contextCreateFromBinary", *arguments)
        return ContextHandle(interface, made[0])

    def property(self, context: ContextHandle, name: str, where: str) -> int:
        custom, row = FFI.new("QnnHtpContext_CustomProperty_t *"), FFI.new("QnnContext_Property_t *")
        custom.option = FFI.integer_const(f"QNN_HTP_CONTEXT_GET_PROP_{name}")
        row.option, row.customProperty = FFI.integer_const("QNN_CONTEXT_PROPERTY_OPTION_CUSTOM"), custom
        self.backend.interface.call(
            "contextGetProperty", context.raw, FFI.new("QnnContext_Property_t *[]", [row, FFI.NULL])
        )
        return int(getattr(custom, where))

    def sizes(self, context: ContextHandle) -> dict[str, int]:
        return {
            WEIGHTS: self.property(context, "WEIGHTS_BUFFER_SIZE", "weightsBufferSize"),
            SPILL: self.property(context, "MAX_SPILLFILL_BUFFER_SIZE", "spillfillBufferSize"),
        }

    def register(self, context: ContextHandle, kind: str, fd: int, *, offset: int = 0, size: int | None = None) -> Any:
        row, custom = FFI.new("Qnn_MemDescriptor_t *"), FFI.new("QnnMemHtp_Descriptor_t *")
        custom.type = FFI.integer_const(f"QNN_HTP_MEM_{kind}")
        custom.size = self.sizes(context)[kind] if size is None else size
        custom.sharedBufferConfig.fd, custom.sharedBufferConfig.offset = fd, offset
        row.memType, row.customInfo = FFI.integer_const("QNN_MEM_TYPE_CUSTOM"), custom
        handles = FFI.new("Qnn_MemHandle_t[1]")
        self.backend.interface.call("memRegister", context.raw, row, 1, handles)
        return handles

    def finalize(self, context: ContextHandle) -> None:
        self.backend.interface.call("contextFinalize", context.raw, FFI.NULL)

    def run(self, context: ContextHandle, name: str = "kept") -> np.ndarray:
        graph = context.retrieve(name)
        x = QnnTensor("x", dtype="FLOAT_32", shape=X.shape, role=APP_WRITE, data=bytearray(X.tobytes()))
        y = QnnTensor("y", dtype="FLOAT_32", shape=X.shape, role=APP_READ)
        x.struct.v1.id, y.struct.v1.id = self.ids
        room = bytearray(X.nbytes)
        y.bind(room)
        graph.execute([x], [y])
        return np.frombuffer(room, np.float32).reshape(X.shape)

    ids: tuple[int, int] = (0, 0)


def compose(world: World, context: ContextHandle, name: str) -> None:
    """Compose Tiled twice, with a native tensor between and a constant row: 2 * (2 * x + row) + row."""
    graph = context.graph(name)
    x = graph.add_tensor(QnnTensor("x", dtype="FLOAT_32", shape=X.shape, role=APP_WRITE))
    row = graph.add_tensor(
        QnnTensor("row", dtype="FLOAT_32", shape=ROW.shape, role=STATIC, data=bytearray(ROW.tobytes()))
    )
    middle = graph.add_tensor(QnnTensor("m", dtype="FLOAT_32", shape=X.shape, role=NATIVE))
    y = graph.add_tensor(QnnTensor("y", dtype="FLOAT_32", shape=X.shape, role=APP_READ))
    scale = [Scalar("scale", "FLOAT_32", 2.0)]
    for name, given, made in (("n0", x, middle), ("n1", middle, y)):
        pair = {"inputs": [given, row], "outputs": [made], "params": scale}
        graph.add_node(OpConfig(name, package="HookPackage", op_type="Tiled", **pair))
    graph.finalize()
    world.ids = (x.id, y.id)


EXPECTED = 2 * (2 * X + ROW) + ROW


@pytest.fixture
def world(interface: Interface, hooks: Built) -> Iterator[World]:
    log_lines: list[str] = []
    with (
        LogHandle(interface, lambda _level, text: log_lines.append(text)) as log,
        BackendHandle(interface, log) as backend,
    ):
        backend.register(Path(hooks.library), hooks.provider)
        made = World(backend, log_lines, b"")
        with backend.context() as context:
            compose(made, context, "kept")
            compose(made, context, "second")
            made.binary = context.binary()
        yield made


@contextmanager
def memory(size: int) -> Iterator[int]:
    fd = os.memfd_create("udogen")
    try:
        os.ftruncate(fd, size)
        yield fd
    finally:
        os.close(fd)


def refused(world: World, code: int, log_lines: str, call: Callable[[], object]) -> None:
    world.log_lines.clear()
    with pytest.raises(QnnError) as refused:
        call()
    assert refused.value.code == code
    assert any(log_lines in line for line in world.log_lines), world.log_lines


@pytest.mark.parametrize("kind", [WEIGHTS, SPILL])
def test_a_descriptor_is_of_one_type(world: World, kind: str) -> None:
    with world.context() as context, memory(8 * PAGE) as fd:
        world.register(context, kind, fd)
        name = "weights" if kind == WEIGHTS else "spill-fill"
        cannot = f"is registered as external {name} buffer: it cannot be used as"
        ion = lambda: MemoryHandle(context, fd, dtype="FLOAT_32", shape=X.shape)  # noqa: E731
        shared = lambda: MemoryHandle(context, fd, dtype="FLOAT_32", shape=X.shape, shared=SharedRange(PAGE, 8 * PAGE))  # noqa: E731
        other = lambda: world.register(context, SPILL if kind == WEIGHTS else WEIGHTS, fd, offset=4 * PAGE)  # noqa: E731
        for call in (ion, shared, other):
            refused(world, ALREADY, cannot, call)
        again = os.dup(fd)  # another descriptor of the same buffer
        refused(world, ALREADY, cannot, lambda: MemoryHandle(context, again, dtype="FLOAT_32", shape=X.shape))
        os.close(again)
    with world.context() as context, memory(8 * PAGE) as fd, world.backend.context() as plain:
        with MemoryHandle(plain, fd, dtype="FLOAT_32", shape=X.shape):
            refused(world, ALREADY, "is registered as buffer of a tensor", lambda: world.register(context, kind, fd))
        world.register(context, kind, fd)  # allowed after it was deregistered


def test_each_context_has_weights_of_its_own(world: World) -> None:
    with world.context() as first, world.context() as second, memory(4 * PAGE) as fd:
        world.register(first, WEIGHTS, fd)
        refused(world, ALREADY, "overlaps that of another context", lambda: world.register(second, WEIGHTS, fd))


@pytest.mark.parametrize("kind", [WEIGHTS, SPILL])
def test_a_context_has_one_buffer_of_a_type(world: World, kind: str) -> None:
    with world.context() as context, memory(4 * PAGE) as first, memory(4 * PAGE) as second:
        world.register(context, kind, first)
        refused(world, ALREADY, "in this context already", lambda: world.register(context, kind, second))


def test_spill_fill_buffers_do_not_overlap_by_halves(world: World) -> None:
    with world.context() as first, world.context() as second, memory(8 * PAGE) as fd:
        world.register(first, SPILL, fd, size=3 * PAGE)
        refused(world, ALREADY, "overlaps", lambda: world.register(second, SPILL, fd, offset=PAGE, size=3 * PAGE))


@pytest.mark.parametrize("kind", [WEIGHTS, SPILL])
def test_place_and_size_are_checked(world: World, kind: str) -> None:
    with world.context() as context, memory(4 * PAGE) as fd, memory(16) as small:
        call = world.register
        refused(world, INVALID_SHAPE, "BUFFER_START_ALIGNMENT", lambda: call(context, kind, fd, offset=64))
        needs = world.sizes(context)[kind]
        refused(world, INVALID_SHAPE, f"the context needs {needs}", lambda: call(context, kind, fd, size=needs - 1))
        refused(world, MAPPING, "were to be mapped", lambda: call(context, kind, small))
        refused(world, MAPPING, "is invalid", lambda: call(context, kind, -1))


@pytest.mark.parametrize("kind", [WEIGHTS, SPILL])
def test_nothing_is_registered_or_let_go_of_after_finalize(world: World, kind: str) -> None:
    with world.context() as context, memory(4 * PAGE) as fd, memory(4 * PAGE) as late:
        handle = world.register(context, kind, fd)
        world.finalize(context)
        other = SPILL if kind == WEIGHTS else WEIGHTS
        refused(world, NOT_PERMITTED, "before its context is finalized", lambda: world.register(context, other, late))
        free = lambda: world.backend.interface.call("memDeRegister", handle, 1)  # noqa: E731
        refused(world, NOT_PERMITTED, "is in use", free)
        np.testing.assert_array_equal(world.run(context), EXPECTED)


@pytest.mark.parametrize("kind", [WEIGHTS, SPILL])
def test_other_contexts_have_no_external_buffers(world: World, kind: str) -> None:
    with world.backend.context() as made, world.context(deferred=False) as restored, memory(4 * PAGE) as fd:
        for context in (made, restored):
            call = lambda context=context: world.register(context, kind, fd, size=PAGE)  # noqa: E731
            refused(world, NOT_SUPPORTED, "QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT", call)


@pytest.mark.parametrize(
    ("option", "where", "value"),
    [
        ("REGISTER_MULTI_CONTEXTS", "groupRegistration", NO_GROUP),
        ("REGISTER_CONCURRENT_RESOURCE_SHARING", "concurrentGroupRegistration", NO_GROUP),
        ("USE_EXTENDED_UDMA", "useExtendedUdma", 1),
    ],
)
def test_options_that_do_not_go_together_with_external_buffers(
    world: World, option: str, where: str, value: Any
) -> None:
    with world.context((option, where, value)) as context, memory(4 * PAGE) as fd:
        for kind in (WEIGHTS, SPILL):
            refused(world, NOT_SUPPORTED, option, lambda kind=kind: world.register(context, kind, fd))
        world.finalize(context)
        np.testing.assert_array_equal(world.run(context), EXPECTED)


def test_graph_switching_does_not_go_together_with_external_buffers(world: World) -> None:
    deferred, hint = FFI.new("QnnContext_Config_t *"), FFI.new("QnnContext_Config_t *")
    deferred.option = FFI.integer_const("QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT")
    deferred.isGraphInitDeferred = 1
    hint.option, hint.memoryLimitHint = FFI.integer_const("QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT"), 64
    with world.configured([deferred, hint], world.binary) as context, memory(4 * PAGE) as fd:
        refused(world, NOT_SUPPORTED, "graph switching", lambda: world.register(context, WEIGHTS, fd))


def test_a_deferred_context_has_no_graphs_before_it_is_finalized(world: World) -> None:
    with world.context() as context:
        with pytest.raises(QnnError) as absent:
            context.retrieve("kept")
        assert absent.value.code == 6002
        world.finalize(context)
        refused(world, 5000, "finalized already", lambda: world.finalize(context))
    with world.context(deferred=False) as context:
        refused(world, 5000, "DEFER_GRAPH_INIT is finalized", lambda: world.finalize(context))


def test_memory_of_a_context_is_not_for_tensors(world: World) -> None:
    with world.context() as context, memory(4 * PAGE) as fd:
        handle = world.register(context, SPILL, fd)
        world.finalize(context)
        graph = context.retrieve("kept")
        x = QnnTensor("x", dtype="FLOAT_32", shape=X.shape, role=APP_WRITE)
        y = QnnTensor("y", dtype="FLOAT_32", shape=X.shape, role=APP_READ, data=bytearray(X.nbytes))
        x.struct.v1.id, y.struct.v1.id = world.ids
        x.bind_memory(handle[0])
        refused(world, 6004, "which is not for tensors", lambda: graph.execute([x], [y]))


def test_graphs_that_share_a_spill_fill_buffer_do_not_run_in_parallel(world: World) -> None:
    """Two threads execute as fast as possible: each call succeeds, or is refused because of the rule."""
    with memory(4 * PAGE) as spill, world.context() as first, world.context() as second:
        for context in (first, second):
            world.register(context, SPILL, spill)
            world.finalize(context)
        codes: list[int] = []
        faults: list[str] = []

        def work(context: ContextHandle) -> None:
            for _ in range(1500):
                try:
                    if not np.array_equal(world.run(context), EXPECTED):
                        faults.append("wrong numbers")
                except QnnError as error:
                    codes.append(error.code)

        threads = [threading.Thread(target=work, args=(context,)) for context in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not faults
        assert set(codes) <= {NOT_PERMITTED}
        assert not codes or any("cannot be executed in parallel" in line for line in world.log_lines)
