"""A package of fifty ops: generated quickly, built with all cores; each op runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench.clock import python, ratio
from tests.generate.fifty import config, project
from tests.making import need_runtime, udogen
from udogen import TestOptions
from udogen.configs import resolve
from udogen.opdef.model import OpPackage
from udogen.runtime.built import find_built
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpSession
from udogen.verify.planning import plan
from udogen.verify.test_files.read import load_test_files

COUNT = 50


def test_fifty_ops_take_about_the_time_of_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    argv = []
    for count in (COUNT, 1):
        (tmp_path / f"{count}.xml").write_text(config(count), "utf-8")
        argv.append(python("-m", "udogen", "generate", str(tmp_path / f"{count}.xml"), "-o", str(out)))
    many, one, found = ratio(*argv, before=lambda: shutil.rmtree(out, ignore_errors=True), rounds=5)
    print(f"50 ops {many * 1e3:.0f} ms, one op {one * 1e3:.0f} ms, ratio {found:.2f} (aim 2)")
    assert found < 3, "loose, because tests share the machine; `make bench` measures"


def test_fifty_ops_build_and_each_of_them_runs(tmp_path: Path) -> None:
    need_runtime("cpu")
    project(tmp_path / "many", COUNT)
    done = udogen(
        "generate", tmp_path / "many" / "Many.xml", "-o", tmp_path, "--kernels", tmp_path / "many" / "kernels"
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "ManyOps"
    done = udogen("build", "-C", folder, env={"EXTRA_CXXFLAGS": "-O0 -Werror"})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("CXX ") == COUNT + 3
    assert f"({COUNT + 3} compiled)" in done.stdout
    built = find_built(folder)
    x = np.arange(4, dtype=np.float32)
    with OpSession(built.library, built.provider, timeout=60) as session:
        assert len(session.package.operations) == COUNT
        for number in range(COUNT):
            name = f"Op{number:02d}"
            result = session.run(make_call(built.op(name, "cpu"), built, name, CallOptions(inputs={"x": x})))
            np.testing.assert_array_equal(result.outputs["y"], x + number)
        assert session.restarts == 0


def test_the_plan_of_a_test_run_grows_with_the_ops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each op is resolved alone, a few times, instead of all ops for each one."""
    counts: list[int] = []

    def resolved(package: OpPackage, *arguments: Any, **options: Any) -> OpPackage:
        counts.append(len(package.ops))
        return for_backend(package, *arguments, **options)

    for_backend = resolve.for_backend
    monkeypatch.setattr(resolve, "for_backend", resolved)
    project(tmp_path / "many", COUNT)
    found = plan(load_test_files(tmp_path / "many"), TestOptions(backends=("cpu",)))
    assert found.total == COUNT
    assert sum(counts) <= 8 * COUNT
