"""A step of a model compared with its graphs: what linking, state and the table of times add."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import thread_time

import numpy as np
import pytest

from udogen import GraphBuilder, Model

pytestmark = pytest.mark.bench
SHARDS, LOOPS, ROUNDS = 3, 2_000, 15


def made(folder: Path) -> Path:
    """A model of shards that pass on one tensor, each with a state."""
    for shard in range(SHARDS):
        with GraphBuilder("cpu", runtime="emulator") as builder:
            with builder.graph("step", outputs=[f"h{shard + 1}", "total"]) as graph:
                given, past = (graph.input(name, "FLOAT_32", (1, 8)) for name in (f"h{shard}", "past"))
                total = graph.op("ElementWiseAdd", [given, past], "total", like=given)
                graph.op("Relu", [total], f"h{shard + 1}", like=given)
            builder.save(folder / f"forward_{shard}.bin")
    (folder / "model.toml").write_text('contexts = ["."]\n\n[state]\npast = "total"\n')
    return folder


def seconds(call: Callable[[], object]) -> float:
    """Seconds of this thread for one call."""
    began = thread_time()
    for _ in range(LOOPS):
        call()
    return (thread_time() - began) / LOOPS


def test_a_step_of_a_model(tmp_path: Path) -> None:
    """The target: at most 8 us more than its graphs, called one after another on the same memory."""
    with Model.open(made(tmp_path)) as model:
        x = np.ones((1, 8), np.float32)
        model.step(h0=x)
        graphs = [context.graph("step") for context in model.sessions.contexts]
        given = [{"h0": x}, *({} for _ in graphs[1:])]

        def direct() -> None:
            for graph, arrays in zip(graphs, given, strict=True):
                graph(arrays)

        rounds = [(seconds(lambda: model.step(h0=x)), seconds(direct)) for _ in range(ROUNDS)]
    step, alone = (min(each) * 1e6 for each in zip(*rounds, strict=True))
    print(f"\na step of {SHARDS} graphs {step:.1f} us, its graphs {alone:.1f} us: +{step - alone:.1f} us (aim 8)")
