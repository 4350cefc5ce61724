"""Graphs of several GPU nodes: tensors between them as buffers and images, in each precision; context binaries."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from composing import register

from udogen import RunFailed
from udogen.qnn.handles import BackendHandle, ContextHandle, GraphHandle
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, QnnTensor
from udogen.runtime import OpConfig, QnnError, Scalar
from udogen.runtime.built import Built
from udogen.runtime.quantization import ScaleOffset

SHAPE = (1, 4, 4, 8)
X = np.random.default_rng(3).normal(size=SHAPE).astype(np.float32)
ALPHAS = (0.5, 0.25, 0.125)


def chain(
    context: ContextHandle,
    package: str,
    op: str,
    *,
    dtype: str = "FLOAT_32",
    precision: str = "",
    quant: ScaleOffset | None = None,
    alphas: tuple[float | None, ...] = ALPHAS,
) -> tuple[GraphHandle, QnnTensor, QnnTensor]:
    """Compose a chain of one op, not finalized yet."""
    graph = context.graph("chain", precision=precision)
    last = first = graph.add_tensor(QnnTensor("x", dtype=dtype, shape=SHAPE, role=APP_WRITE, quant=quant))
    for number, alpha in enumerate(alphas):
        role = APP_READ if number == len(alphas) - 1 else NATIVE
        after = graph.add_tensor(QnnTensor(f"t{number}", dtype=dtype, shape=SHAPE, role=role, quant=quant))
        params = [] if alpha is None else [Scalar("alpha", "FLOAT_32", alpha)]
        graph.add_node(
            OpConfig(f"n{number}", package=package, op_type=op, inputs=[last], outputs=[after], params=params)
        )
        last = after
    return graph, first, last


def run(graph: GraphHandle, x: QnnTensor, y: QnnTensor, array: np.ndarray = X) -> np.ndarray:
    room = bytearray(y.nbytes)
    x.bind(bytearray(array.tobytes()))
    y.bind(room)
    graph.execute([x], [y])
    return np.frombuffer(room, array.dtype).reshape(SHAPE)


def leaky_thrice(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.prod(ALPHAS) * x)


@pytest.mark.parametrize("precision", ["", "FP32", "FP16", "HYBRID"])
def test_three_nodes_with_native_tensors_between(backend: BackendHandle, leaky: Built, precision: str) -> None:
    register(backend, leaky)
    with backend.context() as context:
        graph, x, y = chain(context, leaky.package, "LeakyRelu", precision=precision)
        graph.finalize()
        error = np.abs(run(graph, x, y) - leaky_thrice(X)).max()
        halves = precision in ("FP16", "HYBRID")
        assert error <= (2e-3 if halves else 1e-5)
        assert bool(error > 1e-5) is halves  # the rounding of stored halves is visible


def test_halves_all_the_way(backend: BackendHandle, leaky: Built) -> None:
    register(backend, leaky)
    with backend.context() as context:
        graph, x, y = chain(context, leaky.package, "LeakyRelu", dtype="FLOAT_16")
        graph.finalize()
        half = X.astype(np.float16)
        assert np.abs(run(graph, x, y, half) - leaky_thrice(half.astype(np.float64))).max() <= 2e-3


def test_bytes_between_nodes_are_buffers(backend: BackendHandle, leaky: Built) -> None:
    register(backend, leaky)
    stored = np.arange(128, dtype=np.uint8).reshape(SHAPE)
    with backend.context() as context:
        quant = ScaleOffset(0.05, -64)
        graph, x, y = chain(context, leaky.package, "LeakyRelu", dtype="UFIXED_POINT_8", quant=quant, alphas=(1.0, 1.0))
        graph.finalize()
        assert np.array_equal(run(graph, x, y, stored), stored)


@pytest.mark.parametrize("precision", ["", "FP16"])
def test_images_between_nodes(backend: BackendHandle, kinds: Built, precision: str) -> None:
    register(backend, kinds)
    with backend.context() as context:
        graph, x, y = chain(context, kinds.package, "Picture", precision=precision, alphas=(None,) * 3)
        graph.finalize()
        assert np.abs(run(graph, x, y) - (X + 3)).max() <= (4e-3 if precision else 1e-6)


def test_a_program_is_compiled_once_for_a_context(backend: BackendHandle, leaky: Built) -> None:
    register(backend, leaky)
    with backend.context() as context:
        spent = []
        for number in range(2):
            graph = context.graph(f"graph{number}")
            x = graph.add_tensor(QnnTensor("x", dtype="FLOAT_32", shape=SHAPE, role=APP_WRITE))
            y = graph.add_tensor(QnnTensor("y", dtype="FLOAT_32", shape=SHAPE, role=APP_READ))
            # The same source in both: parameters are arguments.
            params = [Scalar("alpha", "FLOAT_32", 0.5 + number)]
            graph.add_node(
                OpConfig("n", package=leaky.package, op_type="LeakyRelu", inputs=[x], outputs=[y], params=params)
            )
            started = time.process_time()
            graph.finalize()
            spent.append(time.process_time() - started)
            assert np.allclose(run(graph, x, y), np.where(X > 0, X, (0.5 + number) * X))
        assert spent[1] < 0.5 * spent[0]


def test_a_context_binary_is_restored(backend: BackendHandle, leaky: Built) -> None:
    register(backend, leaky)
    with backend.context() as context:
        graph, x, y = chain(context, leaky.package, "LeakyRelu", precision="FP16")
        with pytest.raises(QnnError, match="5003"):
            context.binary()
        graph.finalize()
        expected, binary = run(graph, x, y), context.binary()
    with backend.restore(binary) as context:
        assert np.array_equal(run(context.retrieve("chain"), x, y), expected)
    for spoilt in (binary[:-1], binary[:60] + b"?" + binary[61:], b"x" + binary[1:], binary[:10]):
        with pytest.raises(QnnError, match="5005"):
            backend.restore(spoilt)


def test_a_tensor_that_nobody_wrote(backend: BackendHandle, leaky: Built, log_lines: list[str]) -> None:
    register(backend, leaky)
    with backend.context() as context:
        graph = context.graph("graph")
        x = graph.add_tensor(QnnTensor("x", dtype="FLOAT_32", shape=SHAPE, role=NATIVE))
        y = graph.add_tensor(QnnTensor("y", dtype="FLOAT_32", shape=SHAPE, role=APP_READ))
        graph.add_node(OpConfig("n", package=leaky.package, op_type="LeakyRelu", inputs=[x], outputs=[y]))
        with pytest.raises(RunFailed, match="6007"):
            graph.finalize()
    assert any("which no node before it writes" in line for line in log_lines)


def test_graphs_in_threads_of_their_own(backend: BackendHandle, leaky: Built) -> None:
    register(backend, leaky)
    contexts = [backend.context() for _ in range(4)]
    graphs = []
    for number, context in enumerate(contexts):
        graph, x, y = chain(context, leaky.package, "LeakyRelu", alphas=(0.5 + number,))
        graph.finalize()
        graphs.append((number, graph, x, y))

    def many(number: int, graph: GraphHandle, x: QnnTensor, y: QnnTensor) -> bool:
        expected = np.where(X > 0, X, np.float32(0.5 + number) * X)
        return all(np.allclose(run(graph, x, y), expected) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda each: many(*each), graphs))
    for context in contexts:
        context.close()
