"""An op that accesses foreign memory, as its parameter `how` selects; one body for all backends."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.making import make, make_packages
from udogen.runtime.built import Built, find_built, find_source
from udogen.runtime.op.request import CallOptions, make_call
from udogen.runtime.ops import OpCall

SIZE = 129  # one more than a vector: the tail has 127 bytes

_BYTES = "<Datatype>UFIXED_POINT_8</Datatype><Shape><Rank>ND</Rank></Shape>"
CONFIG = f"""<OpDefCollection PackageName="StrayPackage" Domain="tests" Version="1.0">
  <OpDefList>
    <OpDef>
      <Name>Stray</Name>
      <Input><Name>x</Name><Mandatory>true</Mandatory>{_BYTES}</Input>
      <Input><Name>z</Name><Mandatory>true</Mandatory>{_BYTES}</Input>
      <Output><Name>y</Name><Mandatory>true</Mandatory>{_BYTES}</Output>
      <Output><Name>w</Name><Mandatory>true</Mandatory>{_BYTES}</Output>
      <Parameter><Name>how</Name><Mandatory>true</Mandatory><Datatype>UINT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape></Parameter>
      <Parameter><Name>table</Name><Mandatory>true</Mandatory><Datatype>INT_32</Datatype>
        <Shape><Rank>1D</Rank></Shape></Parameter>
      {{supported}}
    </OpDef>
  </OpDefList>
</OpDefCollection>
"""

# y = max(x, z), w = min(x, z), and then the access that `how` selects.
BODY = """
  const std::size_t size = args.y.size(), whole = (size + 127) / 128 * 128;
  const auto *x = args.x.data(), *z = args.z.data();
  auto *y = args.y.data(), *w = args.w.data();
  const auto add = [](int a, int b) { return a + b > 127 ? 127 : a + b < -128 ? -128 : a + b; };
  for (std::size_t i = 0; i < size; ++i) {
    y[i] = x[i] > z[i] ? x[i] : z[i];
    w[i] = x[i] > z[i] ? z[i] : x[i];
  }
  volatile std::uint32_t sum = 0;
  switch (args.how) {
    case HOW_BEHIND: y[size] = 7; break;
    case HOW_BEFORE: y[-2] = 7; break;
    case HOW_INPUT: const_cast<std::uint8_t*>(z)[3] ^= 1; break;
    case HOW_PARAM: const_cast<std::int32_t*>(args.table.data())[1] = -1; break;
    case HOW_BEHIND_PARAM: const_cast<std::int32_t*>(args.table.data())[4] = -1; break;
    case HOW_BEHIND_INPUT: const_cast<std::uint8_t*>(x)[size] = 7; break;
    case HOW_SECOND: w[size + 5] = 7; break;
    case HOW_MAX:
      for (std::size_t i = size; i < whole; ++i) y[i] = x[i] > z[i] ? x[i] : z[i];
      break;
    case HOW_MIN:
      for (std::size_t i = size; i < whole; ++i) y[i] = x[i] > z[i] ? z[i] : x[i];
      break;
    case HOW_COPY:
      for (std::size_t i = size; i < whole; ++i) y[i] = x[i];
      break;
    case HOW_COPY_OUTPUT:
      for (std::size_t i = size; i < whole; ++i) w[i] = y[i];
      break;
    case HOW_SATURATE:
      for (std::size_t i = size; i < whole; ++i) {
        y[i] = static_cast<std::uint8_t>(add(static_cast<std::int8_t>(x[i]), static_cast<std::int8_t>(z[i])));
      }
      break;
    case HOW_ACCUMULATE:
      for (std::size_t i = size; i < whole; ++i) {
        y[i] = static_cast<std::uint8_t>(add(static_cast<std::int8_t>(y[i]), static_cast<std::int8_t>(x[i])));
      }
      break;
    case HOW_ROW:
      for (std::size_t i = size; i < whole; ++i) y[i] = x[i - size];
      break;
    case HOW_VALUE: y[size] = static_cast<std::uint8_t>(args.table[0]); break;
    case HOW_READS:
      for (std::size_t i = size; i < size + 128; ++i) sum = sum + x[i] + z[i];
      break;
    default: break;
  }
  return udo::ok;
"""

Y = f"its output `y` ({SIZE} bytes)"
TAIL = f"op `Stray` wrote past the end of {Y}: at byte {SIZE}"
# The message that reports each access.
STRAYS = {
    "BEHIND": f"{TAIL}, 1 in all",
    "BEFORE": f"op `Stray` wrote before the beginning of {Y}: 2 bytes before it, 1 in all",
    "INPUT": f"op `Stray` wrote into its input `z`, which it must not: at byte 3 of {SIZE}, 1 in all",
    "PARAM": "op `Stray` wrote into its parameter `table`, which it must not: at byte 4 of 16, 4 in all",
    "BEHIND_PARAM": "op `Stray` wrote past the end of its parameter `table` (16 bytes): at byte 16, 4 in all",
    "BEHIND_INPUT": f"op `Stray` wrote past the end of its input `x` ({SIZE} bytes): at byte {SIZE}, 1 in all",
    "SECOND": f"op `Stray` wrote past the end of its output `w` ({SIZE} bytes): at byte {SIZE + 5}, 1 in all",
    "MAX": f"{TAIL}, 127 in all",
    "MIN": f"{TAIL}, 127 in all",
    "COPY": f"{TAIL}, 127 in all",
    "COPY_OUTPUT": f"op `Stray` wrote past the end of its output `w` ({SIZE} bytes): at byte {SIZE}, 127 in all",
    "SATURATE": f"{TAIL}, 127 in all",
    "ACCUMULATE": f"{TAIL}, 127 in all",
    "ROW": f"{TAIL}, 127 in all",
}
HOW = {name: number for number, name in enumerate([*STRAYS, "VALUE", "READS", "NOTHING"], 1)}

_DEFINES = "".join(f"#define HOW_{name} {number}\n" for name, number in HOW.items())
_HEAD = f'#include "ops/Stray.hpp"\n{_DEFINES}namespace ops::StrayPackage::Stray {{\n'
_SOURCE = _HEAD + "udo::Status execute(const Args& args) {" + BODY + "}\n}\n"


def package(backend: str, out: Path) -> Built:
    """Return the package for one backend: built for this machine, or its sources if it runs under qemu-hexagon."""
    (out / "kernels").mkdir(parents=True)
    (out / "kernels" / "Stray.cpp").write_text(_SOURCE)
    name = {"dsp": "DSP_V66"}.get(backend, backend.upper())
    supported = f"<SupportedBackend>{name}</SupportedBackend>"
    (out / "Stray.xml").write_text(CONFIG.replace("{supported}", supported))
    [made] = make_packages([out / "Stray.xml"], out / "made", chosen=[backend], kernels=out / "kernels", layout="qnn")
    if backend == "dsp":
        return find_source(made.folder, backend="dsp")
    done = make(made.folder, f"{backend}_x86")
    assert done.returncode == 0, done.stderr
    return find_built(made.folder, backend=backend)


def call_of(built: Built, backend: str, how: str, *, loops: int = 1, value: int = 1) -> OpCall:
    """Return a call in which the op makes this access; `value` is the byte that VALUE writes after the end of y."""
    x = (np.arange(SIZE) * 7 % 256).astype(np.uint8)
    quants = dict.fromkeys(("x", "z", "y", "w"), (1.0, 0))
    options = CallOptions(
        inputs={"x": x, "z": x[::-1].copy()},
        params={"how": HOW[how], "table": f"[{value}, 2, 3, 4]"},
        quants=quants,
        loops=loops,
    )
    return make_call(built.op("Stray", backend), built, "Stray", options)
