"""A context of one gigabyte, restored by a client in C and by udogen; a model that is larger than one session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.contexts import c_client, large
from tests.contexts.large import GRAPH, MEGABYTES
from tests.making import LONG, ROOT, need_runtime, udogen
from udogen import GraphBuilder
from udogen.runtime import find_runtime
from udogen.runtime.sessions import DEFAULT_LIMIT


@pytest.fixture(scope="module")
def gigabyte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The context binary."""
    need_runtime("htp")
    return large.made(tmp_path_factory.mktemp("large") / "large.bin")


def test_restoring_a_gigabyte_takes_what_the_library_takes(gigabyte: Path, tmp_path: Path) -> None:
    runtime = find_runtime("htp", runtime="real").path
    client = c_client.build(tmp_path)
    theirs = c_client.run([client], gigabyte, runtime=runtime, graph=GRAPH, loops=0, room=tmp_path)
    ours = c_client.run(c_client.PYTHON, gigabyte, runtime=runtime, graph=GRAPH, loops=0, room=tmp_path)
    print(f"\npeak {ours.peak:.0f} MB, a client in C {theirs.peak:.0f} MB; start to first execution "
          f"{ours.start:.2f} s, in C {theirs.start:.2f} s")  # fmt: skip
    assert theirs.peak > 2 * MEGABYTES, "the library holds the binary and its own copy"
    assert ours.peak <= 1.1 * theirs.peak
    assert ours.peak - theirs.peak <= 50, "megabytes: the interpreter, numpy and all of ours"


SHARDS, SIDE = 14, 8192  # 256 MiB of weights in each shard
MODEL_NEEDS = 16000  # megabytes of memory (measured: 14.4 GB, with the mapped files)
PROGRAM = """
import json, sys
import numpy as np
from udogen import Model
report = {}
with Model.open(sys.argv[1]) as model:
    x = np.ones(model.inputs()["x"].shape, "f")
    y = model.step(x=x)["y"]
    report["found"] = [float(y[0, 0]), float(y[0, 1:].max()), float(y[0, 1:].min())]
    report["layers"] = [len(share.layers) for share in model.session_plan.shares]
    report["rows"] = [[row.name, row.used, row.total] for row in model.memory.rows[:2]]
print(json.dumps(report))
"""


def larger_than_a_session(folder: Path) -> Path:
    """A model of shards with 256 MiB of weights each, y = x + x @ w, whose files are sparse: w is 1 at (0, 0)."""
    folder.mkdir()
    with GraphBuilder("htp", runtime="emulator") as builder:
        with builder.graph("step", outputs=["y"]) as graph:
            weights = np.zeros((SIDE, SIDE), np.float32)
            weights[0, 0] = 1
            x = graph.input("x", "FLOAT_32", (1, SIDE))
            product = graph.op("MatMul", [x, graph.weight("w", weights)], "product", like=x)
            graph.op("ElementWiseAdd", [x, product], "y", like=x)
        stored = memoryview(builder.context.binary())
    block, nothing = 1 << 20, bytes(1 << 20)
    for shard in range(SHARDS):
        with (folder / f"forward_{shard}.bin").open("wb") as file:
            for start in range(0, len(stored), block):
                part = stored[start : start + block]
                file.seek(len(part), os.SEEK_CUR) if part == nothing else file.write(part)
            file.truncate(len(stored))
    (folder / "model.toml").write_text('contexts = ["."]\n\n[links]\nx = "y"\n')
    return folder


def test_a_model_larger_than_a_session_runs_in_two(tmp_path: Path) -> None:
    large.need_memory(tmp_path, MODEL_NEEDS, disk=1 << 10)
    folder = larger_than_a_session(tmp_path / "model")
    size = sum(file.stat().st_size for file in folder.glob("*.bin"))
    assert size > DEFAULT_LIMIT and sum(file.stat().st_blocks for file in folder.glob("*.bin")) * 512 < size / 50
    done = udogen("run", "steps", folder / "model.toml", "--dry-run")
    assert done.returncode == 2 and "2 sessions are enough" in done.stderr, done.stderr
    env = {**os.environ, "PYTHONPATH": str(ROOT), "UDOGEN_HTP_DEVICES": "SM8650,SM8650"}
    argv = [sys.executable, "-c", PROGRAM, str(folder)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert (report["found"], report["layers"]) == ([2.0**SHARDS, 1, 1], [13, 1])
    assert all(used <= total == DEFAULT_LIMIT for _, used, total in report["rows"])
    assert [name for name, *_ in report["rows"]] == ["HTP0", "HTP1"]
