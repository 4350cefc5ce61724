"""A small op for tests of `udogen test`: y = x * factor, with switches for faults of the kernel."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

CONFIG = """<?xml version="1.0" encoding="UTF-8"?>
<OpDefCollection PackageName="ToyPackage" Domain="example" Version="1.0">
  <OpDefList>
    <OpDef>
      <Name>Scale</Name>
      <Input><Name>x</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype><Datatype>UFIXED_POINT_8</Datatype>
        <Shape><Rank>ND</Rank></Shape></Input>
      <Output><Name>y</Name><Mandatory>true</Mandatory><Datatype>FLOAT_32</Datatype><Datatype>UFIXED_POINT_8</Datatype>
        <Shape><Rank>ND</Rank></Shape></Output>
      <Parameter><Name>factor</Name><Mandatory>false</Mandatory><Datatype>FLOAT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape><Default>2.0</Default></Parameter>
      <SupportedBackend>CPU</SupportedBackend>
    </OpDef>
  </OpDefList>
</OpDefCollection>
"""

KERNEL = """#include "ops/Scale.hpp"

#include <cstdint>

namespace ops::ToyPackage::Scale {

struct State {};

udo::Status prepare(const Args& args, State&) {
  if (args.factor == 99.0f) return udo::error("the factor is 99");
  return udo::ok;
}

udo::Status execute(const Args& args) {
  const std::size_t size = args.x.size();
  if (args.factor == 13.0f && size > 9) __builtin_trap();
  if (args.factor == 14.0f) for (;;) __asm__ volatile("");
  for (std::size_t i = 0; i < size; ++i) {
    if (args.x.isFloat()) {
      const float off = args.factor == 7.0f && i >= 5 ? 0.5f : 0.0f;
      args.y.data<float>()[i] = args.x.data<float>()[i] * args.factor + off;
    } else {
      const float real = args.x.quantization().toReal(args.x.data<std::uint8_t>()[i]) * args.factor;
      args.y.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(args.y.quantization().toStored(real, 0, 255));
    }
  }
  return udo::ok;
}

}  // namespace ops::ToyPackage::Scale
"""

REFERENCE = """import numpy as np


def scale(x, factor):
    return x * factor


def scale_32(x, factor):
    return np.float32(x) * np.float32(factor)


def broken(x, factor):
    return x[99]
"""


def write(folder: Path, tests: str = "", *, kernel: str = KERNEL) -> Path:
    """Write the config, its kernel and a reference, with a test file of this text."""
    (folder / "kernels" / "cpu").mkdir(parents=True, exist_ok=True)
    (folder / "Toy.xml").write_text(CONFIG)
    (folder / "kernels" / "cpu" / "Scale.cpp").write_text(kernel)
    (folder / "reference.py").write_text(REFERENCE)
    if tests:
        (folder / "op_tests.toml").write_text(tests)
    return folder


HEAD = '[[op]]\nname = "Scale"\nreference = "reference.py:scale"\n'

RIGHT = (
    HEAD
    + """
[[op.case]]
shape = ["7", "3x5"]
params = { factor = ["default", 3] }

[[op.case]]
name = "edge"
shape = "64"
values = ["edge", "nonfinite"]
dtype = "FLOAT_32"
"""
)

WRONG = (
    HEAD
    + """
dtype = "FLOAT_32"

[[op.case]]
shape = ["4", "4x4", "8x8"]
params = { factor = 7 } # a number is off from the sixth element on

[[op.case]]
shape = ["3", "5x5"]
params = { factor = 13 } # crashes with more than nine

[[op.case]]
name = "refused"
shape = "4"
params = { factor = [99, 98] } # 99 is refused as it must be, 98 is not
expect = "refusal"
"""
)


GOLDEN = Path(__file__).parents[1] / "golden" / "testing"


def plain(text: str) -> str:
    """Replace times and versions, which change from run to run."""
    text = re.sub(r"in [\d.]+ s", "in 1.0 s", text)
    return re.sub(r"\(v[\d.]+\)", "(v2.47.0)", text)


def write_golden() -> None:
    """Write the terminal output of a run that passes and of one that does not; needs the CPU runtime."""
    from tests.command_line import udogen

    with tempfile.TemporaryDirectory() as scratch:
        for name, text in (("right", RIGHT), ("wrong", WRONG)):
            folder = write(Path(scratch) / "toy", text)
            done = udogen("test", folder, "--backend", "cpu", env={"XDG_CACHE_HOME": scratch})
            GOLDEN.mkdir(exist_ok=True)
            (GOLDEN / f"{name}.txt").write_text(plain(done.stdout), "utf-8")
