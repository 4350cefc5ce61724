"""Several threads in one backend: each has its own graphs, and they do not affect each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from composing import Maker, X, mixed, mixed_in_numpy, register

from udogen.qnn.handles import BackendHandle, ContextHandle, GraphHandle, ProfileHandle
from udogen.qnn.interface import Interface
from udogen.qnn.tensors import APP_READ, APP_WRITE, QnnTensor
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


class Place(NamedTuple):
    """A backend with a package, and how a graph of it is made."""

    backend: BackendHandle
    compose: Callable[[ContextHandle, str], tuple[GraphHandle, QnnTensor, QnnTensor]]
    x: np.ndarray
    expected: Callable[[np.ndarray], np.ndarray]

    def execute(self, made: tuple[GraphHandle, QnnTensor, QnnTensor], number: int, profile: Any = None) -> None:
        """Execute a graph many times, with numbers of its own."""
        (graph, x, y), given = made, self.x + number
        room = bytearray(y.nbytes)
        x.bind(bytearray(given.tobytes()))
        y.bind(room)
        execute = graph.executor([x], [y], profile)
        for _ in range(TIMES):
            execute()
            found = np.frombuffer(room, np.float32).reshape(y.shape)
            assert np.abs(found - self.expected(given)).max() <= 1e-6


@pytest.fixture(params=["cpu", "htp"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A graph of four nodes on the CPU; on HTP one op whose kernel works in slices, on several threads."""
    built: Built = request.getfixturevalue("cpu_leaky" if request.param == "cpu" else "hooks")

    def compose(context: ContextHandle, name: str) -> tuple[GraphHandle, QnnTensor, QnnTensor]:
        if request.param == "cpu":
            make, x, y = mixed(context, built.package, name)
        else:
            make = Maker(context, name)
            x, y = make.tensor(APP_WRITE, LINE.shape), make.tensor(APP_READ, LINE.shape)
            make.node("Sliced", [x], y, package=built.package)
        make.graph.finalize()
        return make.graph, x, y

    with BackendHandle(Interface.load(find_runtime(request.param, runtime="emulator").path)) as opened:
        register(opened, built)
        yield Place(opened, compose, *((X, mixed_in_numpy) if request.param == "cpu" else (LINE, lambda x: 2 * x)))


def test_graphs_of_one_context(place: Place) -> None:
    with place.backend.context() as context:
        made = [place.compose(context, f"graph{number}") for number in range(THREADS)]
        together(lambda number: place.execute(made[number], number))


def test_contexts_come_and_go_beside_executions(place: Place) -> None:
    def work(number: int) -> None:
        for _ in range(3):
            with place.backend.context() as context, ProfileHandle(place.backend, detailed=True) as profile:
                place.execute(place.compose(context, "graph"), number, profile)
                assert len(profile.events()) == 1
                place.backend.restore(context.binary()).close()
                place.backend.operations()

    together(work)
