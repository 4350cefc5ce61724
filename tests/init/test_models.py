"""ONNX models in different styles: the config needs no edit, is accepted, builds, and runs in the real CPU runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import udogen
from tests.init import models, smoking
from tests.making import need_runtime
from udogen.configs.load import load
from udogen.init import from_onnx, write

RUNS = {
    "torch_style": 1, "function_style": 1, "optional_inputs": 2, "repeated_inputs": 2, "attributes": 1,
    "quantized": 1, "subgraphs": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", models.ALL)
@pytest.mark.parametrize("suffix", [".xml", ".json"])
def test_the_config_is_accepted_and_equals_the_draft(name: str, suffix: str, tmp_path: Path) -> None:
    draft = from_onnx.draft(models.save(name, tmp_path))
    config = tmp_path / f"config{suffix}"
    write.write(draft, config, source=name)
    [package], _ = load([config])
    assert [op.name for op in package.ops] == [op.name for op in draft.package.ops]
    if suffix == ".xml":
        assert package == draft.package


@pytest.mark.parametrize("name", models.ALL)
def test_it_runs_in_the_real_cpu_runtime_without_an_edit(name: str, tmp_path: Path) -> None:
    draft = from_onnx.draft(models.save(name, tmp_path))
    config = tmp_path / "config.xml"
    write.write(draft, config, source=name)
    assert smoking.run(draft, config, tmp_path / "out", backend="cpu") == RUNS[name]


@pytest.mark.parametrize(("name", "runs"), [("torch_style", 1), ("optional_inputs", 1), ("quantized", 2)])
def test_it_runs_in_the_real_htp_runtime_without_an_edit(name: str, runs: int, tmp_path: Path) -> None:
    """Qualcomm's emulator of HTP; what HTP cannot take is not among these cases (an input that is left out)."""
    draft = from_onnx.draft(models.save(name, tmp_path))
    config = tmp_path / "config.xml"
    write.write(draft, config, source=name)
    assert smoking.run(draft, config, tmp_path / "out", backend="htp") == runs


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


@pytest.mark.parametrize(
    ("kernel", "code", "shown"), [(_SWISH, 0, "1 passed"), (_SWISH.replace("1.0f +", "1.1f +"), 6, "WRONG")]
)
def test_a_kernel_is_compared_with_the_function_of_the_model(
    kernel: str, code: int, shown: str, tmp_path: Path
) -> None:
    """From a model with a function to `udogen test`: nothing but the kernel is written by hand."""
    need_runtime("cpu")
    folder = tmp_path / "project"
    made = udogen("new", folder, "--from-onnx", models.save("function_style", tmp_path))
    assert made.stderr.endswith(f"next: write kernels/Swish.cpp; then `cd {folder} && make test`\n"), made.stderr
    (folder / "kernels" / "Swish.cpp").write_text(kernel)
    done = udogen("test", folder, "--backend", "cpu")
    assert done.returncode == code, done.stdout + done.stderr
    assert shown in done.stdout + done.stderr
