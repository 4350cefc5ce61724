"""Generated ops in graphs of several nodes, several graphs, and context binaries: each node keeps its own arguments."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.making import ONE_KERNEL, ONE_OP, make_packages, make_well, need_runtime
from udogen.qnn import system
from udogen.qnn.handles import BackendHandle, ContextHandle, GraphHandle
from udogen.qnn.interface import Interface
from udogen.qnn.tensors import APP_READ, APP_WRITE, NATIVE, OpConfig, QnnTensor, Scalar
from udogen.runtime import find_runtime

PACKAGE = "LeakyReluPackage"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_runtime("cpu")
    [made] = make_packages([ONE_OP], tmp_path_factory.mktemp("graphs"), kernels=ONE_KERNEL)
    make_well(made.folder)
    return made.folder / "libs" / "x86_64-linux-clang" / made.plan.parts[0].library


@pytest.fixture
def backend(library: Path) -> Iterator[BackendHandle]:
    with BackendHandle(Interface.load(find_runtime("cpu").path)) as opened:
        opened.register(library, f"{PACKAGE}InterfaceProvider")
        yield opened


def tensor(name: str, role: str) -> QnnTensor:
    return QnnTensor(name, dtype="FLOAT_32", shape=(2,), role=role)


def node(name: str, x: QnnTensor, y: QnnTensor, alpha: float | None) -> OpConfig:
    params = [] if alpha is None else [Scalar("alpha", "FLOAT_32", alpha)]
    return OpConfig(name, package=PACKAGE, op_type="LeakyRelu", inputs=[x], outputs=[y], params=params)


def chain(context: ContextHandle, name: str, *alphas: float | None) -> tuple[GraphHandle, QnnTensor, QnnTensor]:
    """Compose a chain of LeakyRelu, not finalized yet; nodes have the same names in every graph."""
    graph = context.graph(name)
    first = last = graph.add_tensor(tensor("x", APP_WRITE))
    for number, alpha in enumerate(alphas):
        end = number == len(alphas) - 1
        after = graph.add_tensor(tensor(f"t{number}", APP_READ if end else NATIVE))
        graph.add_node(node(f"node{number}", last, after, alpha))
        last = after
    return graph, first, last


def run(graph: GraphHandle, x: QnnTensor, y: QnnTensor) -> float:
    """Return the result for -1."""
    room = bytearray(y.nbytes)
    x.bind(bytearray(struct.pack("2f", -1.0, 1.0)))
    y.bind(room)
    graph.execute([x], [y])
    negative, positive = struct.unpack("2f", room)
    assert positive == 1.0
    return float(negative)


def test_nodes_of_one_op_keep_their_own_parameters(backend: BackendHandle) -> None:
    with backend.context() as context:
        graph, x, y = chain(context, "chain", 0.5, None, 0.25)
        graph.finalize()
        assert run(graph, x, y) == pytest.approx(-0.5 * 0.01 * 0.25)


def test_contexts_after_each_other(backend: BackendHandle) -> None:
    for alpha in (0.5, None, None, 0.25):
        with backend.context() as context:
            graph, x, y = chain(context, "graph", alpha)
            graph.finalize()
            assert run(graph, x, y) == pytest.approx(-(alpha or 0.01))


def test_many_graphs_with_nodes_of_the_same_names(backend: BackendHandle) -> None:
    with backend.context() as context:
        alphas = [None if number % 3 == 0 else number / 8 for number in range(40)]
        graphs = [chain(context, f"graph{number}", alpha) for number, alpha in enumerate(alphas)]
        for graph, _, _ in reversed(graphs):
            graph.finalize()
        assert [run(*each) for each in graphs] == pytest.approx([-(alpha or 0.01) for alpha in alphas])


@pytest.mark.parametrize("alpha", [0.5, None])
def test_a_context_binary_is_restored(library: Path, alpha: float | None) -> None:
    runtime = find_runtime("cpu")
    interface = Interface.load(runtime.path)
    with BackendHandle(interface) as backend:
        backend.register(library, f"{PACKAGE}InterfaceProvider")
        with backend.context() as context:
            graph, x, y = chain(context, "kept", alpha, 0.125)
            graph.finalize()
            binary = context.binary()
    [stored] = system.binary_info(runtime.system, binary).graphs
    x.struct.v1.id, y.struct.v1.id = stored.inputs[0].id, stored.outputs[0].id
    with BackendHandle(interface) as backend:
        backend.register(library, f"{PACKAGE}InterfaceProvider")
        with backend.restore(binary) as context:
            assert run(context.retrieve("kept"), x, y) == pytest.approx(-(alpha or 0.01) * 0.125)
