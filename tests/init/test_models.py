"""ONNX models in different styles: the config needs no edit, is accepted, builds, and runs in the real CPU runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import udogen
from tests.init import models, smoking
from tests.making import need_runtime
from udogen.configs import json_write
from udogen.configs.load import load
from udogen.findings import Findings
from udogen.init import project
from udogen.init.draft import Draft
from udogen.onnx.draft import from_onnx

RUNS = {
    "torch_style": 1, "function_style": 1, "optional_inputs": 2, "repeated_inputs": 2, "attributes": 1,
    "quantized": 1, "subgraphs": 2,
}  # fmt: skip


def written(name: str, folder: Path) -> tuple[Draft, Path]:
    """Return the draft of a model, and its config."""
    [draft] = from_onnx.drafts(models.save(name, folder))
    [(config, data)] = project.of_drafts([draft]).configs.items()
    (folder / config).write_bytes(data)
    return draft, folder / config


@pytest.mark.parametrize("name", models.ALL)
def test_the_config_equals_the_draft_and_so_do_its_ops_in_json(name: str, tmp_path: Path) -> None:
    draft, config = written(name, tmp_path)
    [package], _ = load([config])
    assert package == draft.package
    (tmp_path / "c.json").write_text(json_write.write([package], Findings()))
    [package], _ = load([tmp_path / "c.json"])
    assert [op.name for op in package.ops] == [op.name for op in draft.package.ops]


@pytest.mark.parametrize("name", models.ALL)
def test_it_runs_in_the_real_cpu_runtime_without_an_edit(name: str, tmp_path: Path) -> None:
    assert smoking.run(*written(name, tmp_path), tmp_path / "out", backend="cpu") == RUNS[name]


@pytest.mark.parametrize(("name", "runs"), [("torch_style", 1), ("optional_inputs", 1), ("quantized", 2)])
def test_it_runs_in_the_real_htp_runtime_without_an_edit(name: str, runs: int, tmp_path: Path) -> None:
    """In Qualcomm's emulator of HTP; features that HTP does not have are not among these cases (an omitted input)."""
    assert smoking.run(*written(name, tmp_path), tmp_path / "out", backend="htp") == runs


_SWISH = """#include "ops/Swish.hpp"

#include <cmath>

namespace ops::SwishOpPackage::Swish {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.data.size(); ++i) {
    args.result[i] = args.data[i] / (1.0f + std::exp(-args.beta * args.data[i]));
  }
  return udo::ok;
}

}  // namespace ops::SwishOpPackage::Swish
"""


def test_a_kernel_is_compared_with_the_function_of_the_model(tmp_path: Path) -> None:
    """From a model with a function to `udogen test`: only the kernel is written by hand."""
    need_runtime("cpu")
    folder = tmp_path / "project"
    made = udogen("new", folder, "--from-onnx", models.save("function_style", tmp_path))
    assert made.stderr.endswith(f"next: write kernels/Swish.cpp; then `cd {folder} && make test`\n"), made.stderr
    (folder / "kernels" / "Swish.cpp").write_text(_SWISH)
    done = udogen("test", folder, "--backend", "cpu")
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
