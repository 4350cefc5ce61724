"""The steps of `udogen run op`: names are checked before a runtime starts, config and manifest are read once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import udogen
from tests.opdef.texts import collection, op, tensor

COUNTED = """
import atexit, collections, runpy, sys
opened = collections.Counter()
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        opened[arguments[0].rpartition("/")[2]] += 1
sys.addaudithook(hook)
atexit.register(lambda: print("opened", opened["manifest.json"], opened["Scale.xml"], file=sys.stderr))
runpy.run_module("udogen", run_name="__main__")
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a generated package with a library that cannot be loaded."""
    folder = tmp_path_factory.mktemp("walk")
    ends = tensor("Input", "x", rank="1D") + tensor("Output", "y", rank="1D")
    (folder / "Scale.xml").write_text(collection(op(ends), name="ScalePackage"))
    assert udogen("generate", folder / "Scale.xml", "-o", folder / "out").returncode == 0
    made = folder / "out" / "ScalePackage"
    library = made / "libs" / "x86_64-linux-clang" / "libScalePackage.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"no library")
    return made


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Skale"], "op package `ScalePackage` has no op `Skale`"),
        (["Scale", "--dtype", "z=FLOAT_32"], "has no"),
        (["Scale", "--param", "factor=2"], "op `Scale` has no parameter `factor`"),
        (["Scale"], "op `Scale` needs the input"),
        (["Scale", "--input", "x=1x16xabc"], "x=1x16xabc: this is not a shape"),
        (["Scale", "--input", "x=nothing.npy"], "nothing.npy cannot be read: No such file"),
    ],
)
def test_names_are_checked_before_a_runtime_starts(package: Path, arguments: list[str], message: str) -> None:
    argv = [sys.executable, "-c", COUNTED, "run", "op", str(package), *arguments]
    found = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 2 and message in found.stderr
    manifests, configs = map(int, found.stderr.rpartition("opened ")[2].split())
    assert manifests == 1 and configs <= 1
