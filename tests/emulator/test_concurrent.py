"""Several threads in one backend: each has its own graphs, and they do not affect each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from composing import X, mixed, mixed_in_numpy, register, run

from udogen.qnn.handles import BackendHandle, ContextHandle, GraphHandle, ProfileHandle
from udogen.qnn.interface import Interface
from udogen.qnn.tensors import APP_READ, APP_WRITE, OpConfig, QnnTensor
from udogen.runtime import find_runtime
from udogen.runtime.built import Built

THREADS, TIMES = 4, 30
LINE = np.arange(-100, 284, dtype=np.float32).reshape(1, 2, 3, 64)


def together(work: Callable[[int], None]) -> None:
    """Run the work in several threads that start at the same time; raise the first of their errors."""
    errors: list[BaseException] = []
    start = threading.Barrier(THREADS)

    def one(number: int) -> None:
        try:
            start.wait(60)
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


# --- CPU ------------------------------------------------------------------------------------------------------------


def executed(graph: GraphHandle, x: QnnTensor, y: QnnTensor, number: int, profile: ProfileHandle | None = None) -> None:
    given, room = X + number, bytearray(y.nbytes)
    x.bind(bytearray(given.tobytes()))
    y.bind(room)
    execute = graph.executor([x], [y], profile)
    for _ in range(TIMES):
        execute()
    assert np.abs(np.frombuffer(room, np.float32).reshape(y.shape) - mixed_in_numpy(given)).max() <= 1e-6


def test_graphs_of_one_context(cpu: BackendHandle, cpu_leaky: Built) -> None:
    register(cpu, cpu_leaky)
    with cpu.context() as context:
        rows = [mixed(context, cpu_leaky.package, f"graph{number}") for number in range(THREADS)]
        for make, _, _ in rows:
            make.graph.finalize()
        together(lambda number: executed(rows[number][0].graph, *rows[number][1:], number))


def test_contexts_come_and_go_beside_executions(cpu: BackendHandle, cpu_leaky: Built) -> None:
    register(cpu, cpu_leaky)

    def work(number: int) -> None:
        for _ in range(3):
            with cpu.context() as context, ProfileHandle(cpu, detailed=True) as profile:
                make, x, y = mixed(context, cpu_leaky.package)
                make.graph.finalize(profile)
                executed(make.graph, x, y, number, profile)
                assert len(profile.events()) == 1
                cpu.restore(context.binary()).close()
                cpu.operations()

    together(work)


# --- HTP ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def htp(hooks: Built) -> Iterator[BackendHandle]:
    with BackendHandle(Interface.load(find_runtime("htp", runtime="emulator").path)) as opened:
        opened.register(Path(hooks.library), hooks.provider)
        yield opened


def hooked(context: ContextHandle, package: str, name: str) -> tuple[GraphHandle, QnnTensor, QnnTensor]:
    """Compose one op whose kernel works in slices, on several threads."""
    graph = context.graph(name)
    x, y = (
        graph.add_tensor(QnnTensor(f"{name}{end}", dtype="FLOAT_32", shape=LINE.shape, role=role))
        for end, role in (("x", APP_WRITE), ("y", APP_READ))
    )
    graph.add_node(OpConfig(f"{name}n", package=package, op_type="Sliced", inputs=[x], outputs=[y], params=[]))
    graph.finalize()
    return graph, x, y


def test_htp_graphs_of_one_context(htp: BackendHandle, hooks: Built) -> None:
    with htp.context() as context:
        rows = [hooked(context, hooks.package, f"graph{number}") for number in range(THREADS)]
        expected = [run(graph, {x: LINE + number}, y) for number, (graph, x, y) in enumerate(rows)]
        assert not np.array_equal(expected[0], expected[1])

        def work(number: int) -> None:
            graph, x, y = rows[number]
            for _ in range(TIMES):
                assert np.array_equal(run(graph, {x: LINE + number}, y), expected[number])

        together(work)


def test_htp_contexts_come_and_go(htp: BackendHandle, hooks: Built) -> None:
    def work(number: int) -> None:
        for _ in range(3):
            with htp.context() as context:
                graph, x, y = hooked(context, hooks.package, "graph")
                first = run(graph, {x: LINE + number}, y)
                assert np.array_equal(run(graph, {x: LINE + number}, y), first)
                htp.restore(context.binary()).close()

    together(work)
