"""Packages that several files of this folder run, built once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.hexagon.running import need_tools
from tests.making import CONFIGS, ROOT, make_packages, make_well
from udogen.runtime.built import Built, find_source

HERE = Path(__file__).parent
BOTH_KERNELS = ROOT / "tests" / "generate" / "kernels" / "both"


@pytest.fixture(scope="session")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A package with handwritten records, also built for x86."""
    need_tools()
    [made] = make_packages([HERE / "Raw.xml"], tmp_path_factory.mktemp("raw"))
    shutil.copy(HERE / "tables.cpp", made.folder / "src" / "RawInterface.cpp")
    for kernel in (made.folder / "src" / "ops").glob("*.cpp"):  # they need the interface that is replaced
        kernel.write_text("// the kernels are in RawInterface.cpp\n")
    make_well(made.folder, "htp_x86", strict=False)
    return find_source(made.folder, backend="htp")


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A generated package with parameters of every kind."""
    need_tools()
    [made] = make_packages(
        [CONFIGS / "both.xml"], tmp_path_factory.mktemp("both"), chosen=["htp"], kernels=BOTH_KERNELS
    )
    make_well(made.folder, "htp_x86")
    return find_source(made.folder, backend="htp")
