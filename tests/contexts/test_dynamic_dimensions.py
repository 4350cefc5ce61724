"""Inputs whose size is given per call: bound once for the largest, executed smaller; runtimes that refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.making import need_runtime
from udogen import GraphBuilder, RunFailed
from udogen.runtime import MemoryDomain, Role
from udogen.runtime.buffers.domains import INPUT, OUTPUT
from udogen.runtime.contexts.runtime import Context, Runtime

LARGEST = (2, 8)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True), np.float32)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    """Softmax, restored from its binary; both axes are open."""
    need_runtime("cpu")
    file = tmp_path_factory.mktemp("dynamic") / "dynamic.bin"
    with GraphBuilder("cpu", runtime="real") as builder:
        with builder.graph("g", outputs=["y"]) as graph:
            x = graph.input("x", "FLOAT_32", LARGEST, dynamic=(True, True))
            graph.op("Softmax", [x], "y", like=x)
        builder.save(file)
    with Runtime("cpu", kind="real") as runtime, runtime.restore(file) as restored:
        yield restored


def test_a_call_has_the_size_of_its_arrays(context: Context) -> None:
    graph = context.graph("g")
    assert [each.dynamic for each in (*graph.inputs, *graph.outputs)] == [(True, True)] * 2
    for shape in ((2, 8), (1, 3), (2, 5), (1, 8), (2, 8)):
        x = numbers(*shape)
        found = graph(x=x)["y"]
        assert found.shape == shape == graph.shape("y") == graph.shape("x")
        np.testing.assert_allclose(found, softmax(x), rtol=1e-5)
    given = np.empty(LARGEST, np.float32)
    found = graph(x=numbers(1, 3), out={"y": given})["y"]
    assert found.shape == (1, 3) and np.shares_memory(found, given)


def test_it_is_bound_once_for_the_largest_and_executed_smaller(context: Context) -> None:
    graph = context.graph("g")
    x, y = np.zeros(LARGEST, np.float32), np.empty(LARGEST, np.float32)
    graph.bind({"x": x, "y": y})
    for shape in ((1, 4), (2, 8), (2, 3)):
        given = numbers(*shape)
        x.reshape(-1)[: given.size] = given.reshape(-1)
        graph.execute({"x": shape})
        np.testing.assert_allclose(graph.array("y"), softmax(given), rtol=1e-5)
    graph.execute()
    assert graph.shape("y") == LARGEST, "no shape: the largest"
    graph.unbind()


def test_a_managed_buffer_hands_its_shape_on(context: Context) -> None:
    graph = context.graph("g")
    with MemoryDomain(context.runtime) as domain:
        first, second = (domain.allocate([Role(graph, "x", INPUT)]), domain.allocate([Role(graph, "y", OUTPUT)]))
        graph.bind({"x": first, "y": second})
        for shape in ((1, 5), (2, 8)):
            first.copy_from(numbers(*shape))
            graph.execute()
            assert second.shape == shape
            np.testing.assert_allclose(second.copy_to(), softmax(numbers(*shape)), rtol=1e-5)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda graph: graph(x=numbers(3, 8)), r"`x` is FLOAT_32 \[1 to 2, 1 to 8\], the shape is \[3, 8\]"),
        (lambda graph: graph(x=numbers(8)), r"the shape is \[8\]"),
        (lambda graph: graph(x=numbers(0, 8)), r"the shape is \[0, 8\]"),
        (lambda graph: graph(x=numbers(1, 3), out={"y": np.empty((1, 3), np.float32)}), r"its array is .* \[1, 3\]"),
        (lambda graph: graph(x=numbers(1, 3).astype("f8")), "its array is float64"),
    ],
)
def test_sizes_that_do_not_fit(context: Context, use: Callable[..., object], text: str) -> None:
    with pytest.raises(RunFailed, match=text) as caught:
        use(context.graph("g"))
    assert caught.value.hint


def test_an_op_that_refuses_is_named() -> None:
    """And the process goes on: libQnnCpu would end it when the graph is freed."""
    need_runtime("cpu")
    with (
        GraphBuilder("cpu", runtime="real") as builder,
        pytest.raises(RunFailed, match="takes no dynamic dimensions of op `Relu`: tensor `x`, `y` of graph `g`"),
        builder.graph("g", outputs=["y"]) as graph,
    ):
        x = graph.input("x", "FLOAT_32", (1, 8), dynamic=(False, True))
        graph.op("Relu", [x], "y", like=x)


@pytest.mark.parametrize(
    ("backend", "kind", "reason"),
    [("htp", "real", "Dynamic Tensor is not supported"), ("cpu", "emulator", "has dynamic dimensions")],
)
def test_a_runtime_that_refuses_is_named(backend: str, kind: str, reason: str) -> None:
    if kind == "real":
        need_runtime(backend)
    with (
        GraphBuilder(backend, runtime=kind) as builder,
        pytest.raises(RunFailed) as caught,
        builder.graph("g", outputs=["y"]) as graph,
    ):
        graph.input("x", "FLOAT_32", (1, 8), dynamic=(False, True))
    assert "takes no dynamic dimensions at all: tensor `x` of graph `g`" in str(caught.value)
    assert backend.upper() in str(caught.value) and reason in "".join(caught.value.details)
