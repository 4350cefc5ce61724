"""`udogen onnx schema` of a config, and paths to which it cannot be written."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.command_line import udogen
from tests.making import ROOT


def test_a_missing_place(tmp_path: Path) -> None:
    out = tmp_path / "nowhere" / "x.onnx"
    done = udogen("onnx", "schema", ROOT / "examples/leaky_relu/LeakyRelu.xml", "-o", out)
    assert done.returncode == 2
    assert done.stderr == f"error: cannot write {out}: No such file or directory\n  = choose another file\n"


def test_the_config_itself_is_not_overwritten(tmp_path: Path) -> None:
    config = Path(shutil.copy(ROOT / "examples/leaky_relu/LeakyRelu.xml", tmp_path))
    before = config.read_bytes()
    done = udogen("onnx", "schema", config, "-o", config)
    assert done.returncode == 2
    assert done.stderr == f"error: {config} is the config itself\n  = choose another name for the model\n"
    assert config.read_bytes() == before
