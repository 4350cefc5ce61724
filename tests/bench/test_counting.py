"""The cost of counting: a trivial op in libQnnCpu, with and without its counter, alternately in one process."""

from __future__ import annotations

import shutil
import statistics
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bench.test_emulator import ROUNDS, executor, seconds
from tests.making import ROOT, cpu_package, make, need_runtime
from udogen.runtime.built import find_built

pytestmark = pytest.mark.bench
COUNT = "    ++*bound->entry->executions;\n"


def test_the_counter_costs_next_to_nothing(tmp_path: Path) -> None:
    need_runtime("cpu")
    example = ROOT / "examples" / "leaky_relu"
    counting = cpu_package(example / "LeakyRelu.xml", tmp_path / "counting", example / "kernels")
    assert counting.folder is not None
    plain = shutil.copytree(counting.folder.path, tmp_path / "plain", ignore=shutil.ignore_patterns("obj", "libs"))
    header = plain / "include/udogen.hpp"
    assert COUNT in header.read_text("utf-8")
    header.write_text(header.read_text("utf-8").replace(COUNT, ""), "utf-8")
    assert make(plain, "cpu_x86").returncode == 0
    with ExitStack() as stack:
        runs = []
        for package in (counting, find_built(plain)):
            (folder := tmp_path / f"run{len(runs)}").mkdir()
            runs.append(executor(stack, "real", package, folder))
        pairs = [[seconds(run) for run in runs] for _ in range(ROUNDS)]
    ratio = statistics.median(counted / without for counted, without in pairs)
    least = [min(column) for column in zip(*pairs, strict=True)]
    print(f"\none execution: {least[0] * 1e9:.0f} ns counted, {least[1] * 1e9:.0f} ns without; ratio {ratio:.3f}")
    assert ratio < 1.05
