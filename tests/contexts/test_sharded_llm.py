"""examples/sharded_llm: 8 shards with two graphs each, on Qualcomm's HTP emulator and on udogen's, compared with numpy.

The allowed difference from numpy: libQnnHtp multiplies 16-bit activations by 8-bit weights less precisely than it
stores them (one MatMul alone is up to 14 of 65535 steps off the exact product), a block has nine such products, and
a number in the cache, which has 8 bits, may then be rounded to its neighbour.  So the limit for one shard is one 8-bit
step, also for its caches (measured: 0.8); for eight of them in sequence it is four (measured: 1.9).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.making import LONG, ROOT
from udogen.runtime.built import find_built

BYTE = 256  # 16-bit steps in one 8-bit step
KINDS = ("real", "emulator")
LIMITS = {"real": BYTE, "emulator": BYTE // 8}  # for hidden states and logits of one shard


@pytest.fixture(scope="module")
def report(sharded_llm: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Return the results of `llm_drive` in a separate process: a process registers a package in one runtime only."""
    answers: dict[str, Any] = {}

    def drive(kind: str) -> Any:
        if kind not in answers:
            out = tmp_path_factory.mktemp("report") / "report.json"
            argv = [sys.executable, "-m", "tests.contexts.llm_drive", str(sharded_llm(kind)), str(out)]
            done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=LONG)
            assert done.returncode == 0, done.stderr[-3000:]
            answers[kind] = json.loads(out.read_text("utf-8"))
        return answers[kind]

    return drive


@pytest.mark.parametrize("kind", KINDS)
def test_each_shard_alone_computes_what_numpy_does(report: Callable[[str], Any], kind: str) -> None:
    for steps in report(kind):
        assert len(steps) == 9 and len(steps[0]["hidden"]) == 1 and len(steps[0]["cache"]) == 2
        assert max(apart for step in steps for apart in step["hidden"] + step["logits"]) <= LIMITS[kind]
        assert max(apart for step in steps for apart in step["cache"]) <= 1


RUNS = {  # libQnnHtp registers no memory on a PC, and has one device there
    "real": ("real", "raw", 1),
    "emulator, raw": ("emulator", "raw", 1),
    "emulator, shared buffers": ("emulator", "shared", 1),
    "emulator, shared buffers, three sessions": ("emulator", "shared", 3),
}


@pytest.mark.parametrize("name", RUNS)
def test_nothing_inside_the_model_is_copied(sharded_llm: Callable[[str], Path], name: str) -> None:
    """examples/sharded_llm/run.py: caches in pairs of buffers, a hidden state in one buffer shared by two shards."""
    kind, memory, sessions = RUNS[name]
    script = ROOT / "examples/sharded_llm/run.py"
    wishes = ["--memory", memory, "--sessions", sessions, "--tokens", 9, "--json"]
    argv = [sys.executable, script, sharded_llm(kind), *wishes]
    done = subprocess.run(list(map(str, argv)), cwd=ROOT, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert ("EMULATOR" in report["runtime"]) == (kind == "emulator")
    assert report["tokens"] == report["numpy"] and len(report["tokens"]) == 9
    # Copied by the client: rows of the hidden state and of the mask, and a position; first for 16 tokens, then for one.
    given, returned = (16 + 8) * (2 * 64 + 2 * 32) + 9 * 4, (16 + 8) * 2 * 2 * 64
    assert report["copied"] == (given + returned if memory == "shared" else 0)
    used = report["plan"]["sessions"]
    assert [row["device"] for row in used] == list(range(sessions))
    assert [layer for row in used for layer in row["layers"]] == [f"forward_{shard}" for shard in range(8)]


def test_each_cache_has_two_buffers_and_keeps_its_numbers(sharded_llm: Callable[[str], Path]) -> None:
    """Their addresses never change, and CacheWrite leaves all other bytes as they were written."""
    program = """
import sys
import numpy as np
from udogen import Model
from model import mask, padded, rounded
with Model.open(sys.argv[1], memory="shared", sessions=3) as model:
    numpy_model = rounded()
    sizes = numpy_model.sizes
    places = [{pair.reading.address, pair.writing.address} for pair in model.state.values()]
    assert len(set.union(*places)) == 2 * 2 * sizes.shards
    before = None
    for position, tokens in ((0, padded(sizes, [3, 4])), (2, [5]), (3, [6])):
        hidden = numpy_model.embed(tokens, position)
        model.step(hidden=hidden, mask=mask(sizes, len(tokens), position), position=position)
        assert [{pair.reading.address, pair.writing.address} for pair in model.state.values()] == places
        after = [pair.copy_to() for pair in model.state.values()]
        other = np.arange(sizes.context) != position
        for old, new in zip(before or [], after):
            assert np.array_equal(old[:, :, other], new[:, :, other]) and not np.array_equal(old, new)
        before = after
"""
    env = {**os.environ, "UDOGEN_HTP_DEVICES": "SM8650,SM8650,SM8650"}
    env["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, ROOT / "examples/sharded_llm")))
    argv = [sys.executable, "-c", program, str(sharded_llm("emulator"))]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("kind", KINDS)
def test_one_backend_after_another_knows_the_op_package(sharded_llm: Callable[[str], Path], kind: str) -> None:
    """A backend forgets its ops when it is freed, yet libQnnHtp keeps pointers to their names: the library must stay
    loaded, and register its ops each time.  Otherwise the next backend stores contexts that cannot be restored, or
    restoring fails (5005).
    """
    program = """
import sys
from pathlib import Path
from udogen.runtime.contexts.runtime import Runtime
library, shard, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
for _ in range(4):
    with Runtime("htp", runtime=kind) as runtime:
        runtime.register(library)
        runtime.restore(shard).close()
    assert str(library) in Path("/proc/self/maps").read_text()
"""
    folder = sharded_llm(kind)
    library = find_built(folder / "package", backend="htp").library
    argv = [sys.executable, "-c", program, str(library), str(folder / "forward_0.bin"), kind]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr[-3000:]
