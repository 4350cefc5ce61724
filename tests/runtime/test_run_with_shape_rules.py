"""`udogen run op --rules`: outputs have the shape that shape rules return, in the real runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.command_line import udogen
from tests.making import ROOT, cpu_package, need_runtime

POOL = ROOT / "examples" / "max_pool"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the example, built for CPU, and an image."""
    need_runtime("cpu")
    out = tmp_path_factory.mktemp("pool")
    cpu_package(POOL / "MaxPool.xml", out, POOL / "kernels")
    np.save(out / "x.npy", np.arange(63, dtype=np.float32).reshape(1, 7, 9, 1))
    return out


def test_the_output_has_the_shape_of_the_rule(folder: Path) -> None:
    run = ["run", "op", folder, "MaxPool", "--input", f"image={folder / 'x.npy'}"]
    done = udogen(*run, "--rules", POOL / "rules.py", "--output", f"pooled={folder / 'y.npy'}")
    assert done.returncode == 0, done.stderr
    found = np.load(folder / "y.npy")
    assert found.shape == (1, 4, 5, 1) and found[0, -1, -1, 0] == 62
    done = udogen(*run, "--rules", POOL / "rules.py", "--shape", "pooled=1x2x2x1")
    assert "pooled: float32 1x2x2x1" in done.stdout, "what is given wins"


def test_faults_of_rules_are_reported(folder: Path, tmp_path: Path) -> None:
    run = ["run", "op", folder, "MaxPool", "--input", f"image={folder / 'x.npy'}", "--rules"]
    done = udogen(*run, POOL / "rules.py", "--param", "stride=0")
    assert done.returncode == 5
    assert done.stderr.startswith(f"error: {POOL / 'rules.py'}:7: size 2 and stride 0 must be at least 1\n")
    (tmp_path / "rules.py").write_text("def MaxPool(op):\n    return {'pooled': op.imag.shape}\n")
    done = udogen(*run, tmp_path / "rules.py")
    assert (
        done.returncode == 5 and "rules.py:2: AttributeError" in done.stderr and "did you mean `image`?" in done.stderr
    )
    (tmp_path / "rules.py").write_text("def MaxPool_dtypes(op):\n    return {'pooled': op.image.dtype}\n")
    done = udogen(*run, tmp_path / "rules.py")
    assert done.returncode == 2 and "has no rule for the shapes of op `MaxPool`" in done.stderr
