"""ONNX models in different styles: the config needs no edit, is accepted, builds, and runs in the real CPU runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.init import models, smoking
from udogen.init import from_onnx, writing
from udogen.opdef.load import load

RUNS = {
    "torch_style": 1, "function_style": 1, "optional_inputs": 2, "repeated_inputs": 2, "attributes": 1,
    "quantized": 1, "subgraphs": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", models.ALL)
@pytest.mark.parametrize("suffix", [".xml", ".json"])
def test_the_config_is_accepted_and_says_what_the_draft_says(name: str, suffix: str, tmp_path: Path) -> None:
    draft = from_onnx.draft(models.save(name, tmp_path))
    config = tmp_path / f"config{suffix}"
    writing.write(draft, config, source=name)
    [package], _ = load([config])
    assert [op.name for op in package.ops] == [op.name for op in draft.package.ops]
    if suffix == ".xml":
        assert package == draft.package


@pytest.mark.slow
@pytest.mark.parametrize("name", models.ALL)
def test_it_runs_in_the_real_cpu_runtime_without_an_edit(name: str, tmp_path: Path) -> None:
    draft = from_onnx.draft(models.save(name, tmp_path))
    config = tmp_path / "config.xml"
    writing.write(draft, config, source=name)
    assert smoking.run(draft, config, tmp_path / "out", backend="cpu") == RUNS[name]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "runs"), [("torch_style", 1), ("optional_inputs", 1), ("quantized", 2)])
def test_it_runs_in_the_real_htp_runtime_without_an_edit(name: str, runs: int, tmp_path: Path) -> None:
    """Qualcomm's emulator of HTP; what HTP cannot take is not among these cases (an input that is left out)."""
    draft = from_onnx.draft(models.save(name, tmp_path))
    config = tmp_path / "config.xml"
    writing.write(draft, config, source=name)
    assert smoking.run(draft, config, tmp_path / "out", backend="htp") == runs
