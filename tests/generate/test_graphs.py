"""Generated ops in graphs of several nodes, several graphs, and context binaries: each node keeps its own arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.making import ONE_KERNEL, ONE_OP, cpu_package, need_runtime
from udogen import GraphBuilder
from udogen.runtime import Context, Runtime

X = np.array([-1, 1], np.float32)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_runtime("cpu")
    return cpu_package(ONE_OP, tmp_path_factory.mktemp("graphs"), ONE_KERNEL).library


@pytest.fixture
def builder(library: Path) -> Iterator[GraphBuilder]:
    with GraphBuilder("cpu", runtime="real", packages=[library.parents[2]]) as made:
        yield made


def chain(builder: GraphBuilder, name: str, *alphas: float | None) -> None:
    """Compose a chain of LeakyRelu; nodes have the same names in every graph."""
    with builder.graph(name, outputs=[f"t{len(alphas) - 1}"]) as graph:
        last = graph.input("x", "FLOAT_32", X.shape)
        for number, alpha in enumerate(alphas):
            params = {} if alpha is None else {"alpha": alpha}
            last = graph.op("LeakyRelu", [last], f"t{number}", like=last, params=params)


def negative(context: Context, name: str) -> float:
    """Return the result for -1."""
    [found] = context.graph(name)(x=X).values()
    assert found[1] == 1
    return float(found[0])


@pytest.mark.parametrize("alphas", [(0.5, None, 0.25), (None,), (0.25,)])
def test_nodes_of_one_op_keep_their_own_parameters(
    builder: GraphBuilder, library: Path, alphas: Sequence[float | None]
) -> None:
    """Also in a context that was stored."""
    chain(builder, "chain", *alphas)
    wanted = pytest.approx(-np.prod([alpha or 0.01 for alpha in alphas]))
    assert negative(builder.context, "chain") == wanted
    stored = builder.context.binary()
    with Runtime("cpu", runtime="real") as runtime:
        runtime.register(library)
        with runtime.restore(stored) as context:
            assert negative(context, "chain") == wanted


def test_many_graphs_with_nodes_of_the_same_names(builder: GraphBuilder) -> None:
    alphas = [None if number % 3 == 0 else number / 8 for number in range(40)]
    for number, alpha in enumerate(alphas):
        chain(builder, f"graph{number}", alpha)
    nodes = [negative(builder.context, f"graph{number}") for number in range(40)]
    assert nodes == pytest.approx([-(alpha or 0.01) for alpha in alphas])
