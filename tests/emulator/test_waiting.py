"""Asynchronous executions, and several threads."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
from composing import SHAPE, Maker, X

from udogen.qnn import abi
from udogen.qnn.handles import BackendHandle, ContextHandle, GraphHandle, MemoryHandle, ProfileHandle
from udogen.qnn.tensors import (
    APP_READ,
    APP_WRITE,
    NATIVE,
    QnnTensor,
    tensor_array,
)

FFI = abi.ffi()
NULL = FFI.NULL


def slow(context: ContextHandle, nodes: int = 40, side: int = 160) -> tuple[GraphHandle, QnnTensor, QnnTensor]:
    """Compose a chain of products that takes some tenths of a second."""
    make = Maker(context)
    x, last = make.tensor(APP_WRITE, (side, side)), None
    for number in range(nodes):
        role = APP_READ if number == nodes - 1 else NATIVE
        last = make.node("MatMul", [last or x, x], make.tensor(role, (side, side)))
    assert last is not None
    make.graph.finalize()
    x.bind(bytearray(np.zeros((side, side), np.float32).tobytes()))
    last.bind(bytearray(last.nbytes))
    return make.graph, x, last


class Waiting:
    """Asynchronous executions, and the notifications that their client has received."""

    def __init__(self, graph: GraphHandle) -> None:
        self.graph, self.heard, self._done = graph, [], threading.Condition()
        self._notify = FFI.callback("void(void *, Qnn_NotifyStatus_t)", self._hear)

    def _hear(self, param: Any, status: Any) -> None:
        with self._done:
            self.heard.append((int(FFI.cast("uintptr_t", param)), status.error))
            self._done.notify_all()

    def start(self, number: int, x: QnnTensor, y: QnnTensor, profile: Any = NULL) -> int:
        self._arrays = inputs, outputs = tensor_array([x]), tensor_array([y])
        call = self.graph.interface._table.graphExecuteAsync
        param = FFI.cast("void *", number)
        return int(call(self.graph.raw, inputs, 1, outputs, 1, profile, NULL, self._notify, param))

    def wait(self, count: int) -> list[tuple[int, int]]:
        with self._done:
            assert self._done.wait_for(lambda: len(self.heard) >= count, timeout=60)
            return self.heard


def test_executions_wait_for_their_turn(cpu: BackendHandle) -> None:
    with cpu.context() as context, ProfileHandle(cpu) as profile:
        make = Maker(context)
        x, y = make.tensor(APP_WRITE), make.tensor(APP_READ)
        make.node("Relu", [x], y)
        make.graph.finalize()
        waiting, rooms = Waiting(make.graph), []
        kept = []
        for number in range(20):
            x.bind(kept_in := bytearray((X * (number + 1)).tobytes()))
            y.bind(room := bytearray(y.nbytes))
            rooms.append(room)
            kept += [kept_in, room]
            assert waiting.start(number, x, y, profile=profile.raw) == 0
        assert waiting.wait(20) == [(number, 0) for number in range(20)]
        for number, room in enumerate(rooms):
            assert np.array_equal(np.frombuffer(room, np.float32).reshape(SHAPE), np.maximum(X * (number + 1), 0))
        assert [event.name for event in profile.events()] == ["execute"]


def test_a_context_waits_for_its_executions(cpu: BackendHandle) -> None:
    context = cpu.context()
    graph, x, y = slow(context)
    waiting = Waiting(graph)
    assert [waiting.start(number, x, y) for number in range(2)] == [0, 0]
    context.close()
    assert waiting.heard == [(0, 0), (1, 0)]


def test_a_full_queue_makes_its_client_wait(cpu: BackendHandle) -> None:
    config = FFI.new("QnnContext_Config_t *", {"option": 4, "asyncExeQueueDepth": {"type": 0, "depth": 1}})
    made = FFI.new("void **")
    configs = FFI.new("QnnContext_Config_t const *[]", [config, NULL])
    assert cpu.interface._table.contextCreate(cpu.raw, NULL, configs, made) == 0
    with ContextHandle(cpu.interface, made[0]) as context:
        graph, x, y = slow(context)
        waiting = Waiting(graph)
        for number in range(3):  # one runs, one waits; the third is accepted when the first has ended
            assert waiting.start(number, x, y) == 0
        assert waiting.heard[:1] == [(0, 0)]
        assert waiting.wait(3) == [(0, 0), (1, 0), (2, 0)]


def test_memory_cannot_be_let_go_of_while_it_is_used(cpu: BackendHandle, log_lines: list[str]) -> None:
    with cpu.context() as context:
        graph, x, y = slow(context)
        fd = os.memfd_create("udogen-test")
        os.ftruncate(fd, x.nbytes)
        with MemoryHandle(context, fd, dtype="FLOAT_32", shape=x.shape) as memory:
            x.bind_memory(memory.handle)
            waiting = Waiting(graph)
            assert waiting.start(1, x, y) == 0
            assert cpu.interface._table.memDeRegister(memory.raw, 1) == 1005
            assert waiting.wait(1) == [(1, 0)]
        os.close(fd)
    assert any("is in use" in line for line in log_lines)
