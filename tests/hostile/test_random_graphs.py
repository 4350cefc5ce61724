"""Some random graphs through ONNX Runtime; `python -m tests.hostile.random_graphs` runs more."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.hostile import random_graphs
from tests.making import need_runtime

NEEDED = ("onnx", "onnxruntime", "onnxruntime_qnn")
COUNT, SEED = 12, 7
# Few: each is a separate package, which is compiled.
OPS = ("Lerp", "Turn", "Poly", "Twice", "Softmax", "Steps", "Kind", "Weigh", "Bend")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not all(map(importlib.util.find_spec, NEEDED)):
        pytest.skip(f"without {', '.join(NEEDED)}")
    for backend in random_graphs.BACKENDS:
        need_runtime(backend)
    return random_graphs.packages(tmp_path_factory.mktemp("packages"), names=OPS)


@pytest.mark.parametrize("quantized", [False, True], ids=["floats", "8 bits"])
@pytest.mark.parametrize("backend", random_graphs.BACKENDS)
def test_random_graphs_are_right(folder: Path, backend: str, quantized: bool) -> None:
    found = random_graphs.run_apart(folder, backend, COUNT, SEED, OPS, quantized=quantized)
    assert not found["wrong"], "\n".join(found["wrong"])
    assert found["graphs"] == COUNT and found["nodes"] >= 2 * COUNT


def test_a_seed_always_draws_the_same_graphs() -> None:
    def drawn() -> list[tuple[random_graphs.Step, ...]]:
        random = np.random.default_rng(SEED)
        return [random_graphs.draw(random).steps for _ in range(50)]

    graphs = drawn()
    assert graphs == drawn()
    assert {len(steps) for steps in graphs} == {2, 3, 4, 5}
    assert {step.op for steps in graphs for step in steps} == {
        *(op.name for op in random_graphs.OPS),
        *random_graphs.EXAMPLES,
    }
