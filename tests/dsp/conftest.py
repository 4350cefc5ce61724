"""Packages that several files of this folder build and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hexagon.running import need_tools
from tests.making import CONFIGS, make_packages
from udogen.runtime.built import Built, find_source

HERE = Path(__file__).parent
SEVERAL = CONFIGS / "several.xml"


def package(config: Path, kernels: str, out: Path) -> Built:
    """Build a DSP package of a config of this folder, with finished kernels."""
    need_tools()
    ready = out / "kernels" / "dsp"
    ready.mkdir(parents=True)
    for kernel in (HERE / kernels).glob("*.cpp"):
        (ready / kernel.name).write_bytes(kernel.read_bytes())
    [made] = make_packages([config], out / "made", chosen=["dsp"], kernels=ready.parent)
    return find_source(made.folder, backend="dsp")


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Three ops: parameters of every kind, an output of another size, threads and VTCM."""
    return package(SEVERAL, "kernels", tmp_path_factory.mktemp("several"))


@pytest.fixture(scope="session")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """An op that does everything that an op must not do."""
    return package(HERE / "Faults.xml", "faults", tmp_path_factory.mktemp("faults"))
