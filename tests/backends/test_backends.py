"""A backend is one object: a new one, of another distribution, is listed, checked and generated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.making import ROOT
from tests.opdef.texts import collection, op, tensor
from udogen import backends
from udogen.backends import architectures
from udogen.backends.backend import Backend

MADE_UP = """
from dataclasses import replace
from udogen.backends import cpu
from udogen.backends.backend import Place, Target
from udogen.backends.common import QNN

TARGET = Target("npu_x86", "npu", ("x86_64-linux-clang",), "x86-64 Linux", "x86", "made up", native=True, usual=True)

def contents(package, source, place=QNN):
    made = cpu.BACKEND.contents(package, source, place)
    return made._replace(parts=tuple(replace(part, backend="npu", targets=("npu_x86",)) for part in made.parts))

NPU = replace(
    cpu.BACKEND, id="npu", title="NPU of a test", suffix="Npu", number=99, names=("NPU",), json_names=("NPU",),
    delivers=("FLOAT_32", "FLOAT_16"), can_repeat=False, contents=contents, targets=(TARGET,), udo_targets=(), udo=None,
    runtime=None, emulator=None, places=(Place("npu", "npu", "a test", "auto", (1,), "NPU"),), usual=False,
)
"""
ENDS = tensor("Input", "x", "FLOAT_32 INT_32", rank="1D") + tensor("Output", "y", rank="1D")
CONFIG = collection(op(ENDS, "Twice", "NPU"), name="P")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run udogen with a distribution that adds the backend."""
    info = folder / "site/npu-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (folder / "site/npu.py").write_text(MADE_UP)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: npu\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[udogen.backends]\nnpu = npu:NPU\n")
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder / 'site'}"}
    argv = [sys.executable, "-m", "udogen", *arguments]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


def test_a_new_backend_is_listed(tmp_path: Path) -> None:
    assert "build npu_x86" in run(tmp_path, "doctor").stdout


def test_a_package_for_a_new_backend_is_generated(tmp_path: Path) -> None:
    (tmp_path / "p.xml").write_text(CONFIG)
    made = run(tmp_path, "generate", "p.xml", "-o", "out")
    assert made.returncode == 0 and "npu package P" in made.stdout, made.stderr
    assert "INT_32, which the NPU runtime never passes to an op" in made.stderr
    assert (tmp_path / "out/P/src/ops/Twice.cpp").is_file()
    manifest = json.loads((tmp_path / "out/P/.udogen/manifest.json").read_text())
    assert (manifest["backend"], manifest["parts"][0]["targets"]) == ("npu", ["npu_x86"])


def test_packages_of_the_udo_documentation_need_no_core_of_a_new_backend(tmp_path: Path) -> None:
    (tmp_path / "p.xml").write_text(CONFIG.replace("NPU", "CPU"))
    made = run(tmp_path, "generate", "p.xml", "-o", "out", "--layout", "snpe")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "out/P/jni/src/CPU/Makefile").is_file()


def test_without_its_object_the_same_backend_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "p.xml").write_text(CONFIG)
    argv = [sys.executable, "-m", "udogen", "generate", "p.xml", "-o", "out"]
    found = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 2 and "names an unknown backend, `NPU`" in found.stderr


@pytest.mark.parametrize("backend", backends.ALL.values(), ids=lambda each: each.id)
def test_each_object_fits_together(backend: Backend) -> None:
    assert all(target.backend == backend.id for target in (*backend.targets, *backend.udo_targets))
    assert all(place.config == backend.id for place in backend.places)
    assert not backend.two_halves or {target.arch for target in backend.targets} > {""}
    assert all(int(name[1:]) in backend.hexagon for name in architectures.of_backend(backend.id))
    assert bool(backend.hexagon) == bool(backend.skels) == bool(backend.symbols) == (backend.harness is not None)


def test_numbers_and_names_are_of_one_backend_each() -> None:
    numbers = [each.number for each in backends.ALL.values()]
    names = [name for each in backends.ALL.values() for name in each.names]
    assert len(set(numbers)) == len(numbers) and len(set(names)) == len(names)
